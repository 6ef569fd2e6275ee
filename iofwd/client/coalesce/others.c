/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several open files of one file, in one process: what a call on one of them reads or overwrites is
 * flushed by the coalescers of the others.
 *
 * Layer: iofwd.  Thread rule: any thread that owns no coalescer.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "iofwd/client/coalesce/blocks.h"

static struct amph_client_coalesce_state *const state = &amph_client_coalesce;

static bool is_other(const struct coalescer *c, const struct coalescer *o, enum mode mode)
{
    enum mode theirs = o && o != c ? atomic_load(&o->mode) : IDLE;
    return theirs != IDLE && (mode == WRITING || theirs == WRITING) &&
           atomic_load(&o->identity) == atomic_load(&c->identity);
}

/* Calls visit for each other active coalescer of c's file that conflicts with `mode`: any, if c
 * writes; those that write, if c reads.  Returns whether one of the calls returned true. */
static bool for_each_other(const struct coalescer *c, enum mode mode,
                           bool (*visit)(struct coalescer *o, off_t from, off_t to), off_t from,
                           off_t to)
{
    struct coalescer *_Atomic *set = amph_client_coalesce_active_set(c);
    bool any = false;

    for (unsigned i = 0; i < AMPH_CLIENT_ACTIVE_SLOTS; i++) {
        struct coalescer *o = atomic_load_explicit(&set[i], memory_order_acquire);

        any |= is_other(c, o, mode) && visit(o, from, to);
    }

    for (unsigned i = 0;
         i < AMPH_CLIENT_BUCKETS && atomic_load_explicit(&state->overflowed, memory_order_relaxed);
         i++)
        for (struct coalescer *o = atomic_load_explicit(&state->bucket[i], memory_order_acquire); o;
             o = o->next)
            any |= is_other(c, o, mode) && visit(o, from, to);

    return any;
}

static bool always_true(struct coalescer *o, off_t from, off_t to)
{
    (void)o, (void)from, (void)to;
    return true;
}

static bool others_active(const struct coalescer *c, enum mode mode)
{
    return for_each_other(c, mode, always_true, 0, 0);
}

static bool flush_overlapping(struct coalescer *o, off_t from, off_t to)
{
    if (!amph_client_coalesce_enter(o))
        return false;

    bool touches = amph_client_blocks_touch(o, from, to);

    if (touches)
        amph_client_coalesce_flush(o);

    amph_client_coalesce_leave(o);
    return touches;
}

/* Flushes other coalescers of the file that conflict with a call that reads or writes [from, to).
 * Returns whether there were any. */
static bool flush_others(const struct coalescer *c, enum mode mode, off_t from, off_t to)
{
    return for_each_other(c, mode, flush_overlapping, from, to);
}

static off_t end_of(off_t from, size_t len)
{
    return len > (size_t)(INT64_MAX - from) ? INT64_MAX : from + (off_t)len;
}

/* Prepares the read d while other open files of the file have coalesced writes.  Data read ahead
 * must not overlap bytes that they will write: if d's bytes are already held, only an overlap
 * flushes; otherwise all of them are flushed. */
static void prepare_read_with_others(struct coalescer *c, const struct amph_client_data *d)
{
    if (!amph_client_coalesce_enter_for(c, d->file))
        return;

    off_t from = c->pos;
    bool held = (d->placed ? !c->by_offset && d->off == c->pos : c->by_offset) &&
                amph_client_blocks_hold(c, d->len);

    amph_client_coalesce_leave(c);
    if (!held)
        flush_others(c, READING, 0, INT64_MAX);
    else if (flush_others(c, READING, from, end_of(from, d->len)) &&
             amph_client_coalesce_enter_for(c, d->file)) {
        amph_client_coalesce_flush(c);
        amph_client_coalesce_leave(c);
    }
}

/* Prepares the write d while other open files of the file have coalesced writes or data that was
 * read ahead: flushes those that overlap, or all of them if d's position is unknown. */
static void prepare_write_with_others(struct coalescer *c, struct amph_fwd_client *cl,
                                      const struct amph_client_data *d)
{
    off_t from = d->placed ? d->off : c->pos;
    bool known = !c->append && (d->placed || (atomic_load(&c->mode) != IDLE && c->by_offset));
    struct amph_fwd_args_lseek a = { .file = d->file, .whence = SEEK_CUR, .pos = &from };

    if (!known && !c->append && c->alone)
        known = amph_client_call(cl, AMPH_FWD_LSEEK, &a) == 0;

    if (known)
        flush_others(c, WRITING, from, end_of(from, d->len));
    else
        flush_others(c, WRITING, 0, INT64_MAX);
}

/* Flushes other open files of c's file where the call conflicts with them.  This thread must not
 * own a coalescer. */
void amph_client_others_prepare(struct coalescer *c, struct amph_fwd_client *cl,
                                const struct amph_client_data *d, enum mode mode)
{
    if (atomic_load_explicit(&state->dirty, memory_order_relaxed) <=
        (atomic_load_explicit(&c->mode, memory_order_relaxed) != IDLE && !c->versioned))
        return;

    if (!atomic_load(&c->identity) && amph_client_coalesce_enter_for(c, d->file)) {
        c->cl = cl;
        amph_client_file_allows(c, mode);
        amph_client_coalesce_leave(c);
    }

    if (others_active(c, mode) && mode == READING)
        prepare_read_with_others(c, d);
    else if (others_active(c, mode))
        prepare_write_with_others(c, cl, d);
}

/* Completes a short read.  The file may be longer than the server reported, because other open
 * files hold coalesced writes: flushes them and reads the rest. */
void amph_client_others_read_past_end(struct coalescer *c, struct amph_fwd_client *cl,
                                      const struct amph_client_data *d)
{
    union amph_fwd_args u;
    struct amph_client_data rest = *d;
    size_t more = 0;

    if (!atomic_load(&state->dirty) || !flush_others(c, READING, 0, INT64_MAX) ||
        !amph_client_coalesce_enter_for(c, d->file))
        return;

    amph_client_coalesce_flush(c);
    rest.data += *d->done_p;
    rest.off += (off_t)*d->done_p;
    rest.len -= *d->done_p;
    rest.done_p = &more;
    if (amph_client_call(cl, amph_client_data_record(&rest, &u), &u) == 0)
        *d->done_p += more;

    amph_client_coalesce_leave(c);
}
