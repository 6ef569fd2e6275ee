/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `cache`: many small consecutive reads or writes of one file travel as few large ones,
 * as blocks of a run (coalesce/blocks.c). Here: which calls are such a run, and when one has to
 * come to rest.  Layer: iofwd.
 *
 * It does so for runs that iofwd_write_prep or iofwd_read_prep announced, and, with
 * IOFWD_CONSISTENCY=session, unasked.  Whatever else happens to the file, or by path, first brings
 * everything to rest ("settles"): blocks are written, what was fetched too early is forgotten, and
 * the offset at the server is where the program believes it to be.
 *
 * Several open files of one file see each other inside the process: a call on one of them settles
 * those runs of others whose bytes it reads or overwrites.
 *
 * Who shares an open file with other processes (a fork, an exec, a descriptor in a message) shares
 * its offset, and reads and writes at it are gathered only where they were announced: nobody could
 * tell the others where the offset has gone.  A file that this process alone has stays so over
 * exec, since the new image is told (a shell's `prog > file` opens it in the child that becomes
 * prog).
 *
 * Thread rule: any thread; a collector is used by one thread at a time.  A signal handler that
 * interrupts its own thread in here, and calls by descriptor from it, go straight to the server.
 */
#include "iofwd/client/coalesce/coalesce.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "iofwd/client/coalesce/blocks.h"

#define SMALL ((size_t)64 << 10) /* calls beyond this gain nothing by being gathered */
#define BUCKETS 1024u
#define CROWDS 64u
#define CROWD 8u

static struct {
    struct collector *_Atomic bucket[BUCKETS];
    _Atomic uint32_t dirty; /* collectors that are not idle */
    /* these by the identity of their file */
    _Alignas(64) struct collector *_Atomic crowd[CROWDS][CROWD];
    _Atomic uint32_t uncrowded; /* but for so many */
    _Atomic bool in_use, over;  /* anything was ever announced, or session; the process is ending */
    bool session;
} all;

/* ---- whose turn it is ---- */

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

/* false: this very thread is inside already, below a signal handler. */
static bool enter(struct collector *c)
{
    for (unsigned spins = 0;; spins++) {
        uintptr_t nobody = 0;

        if (atomic_compare_exchange_weak_explicit(&c->owner, &nobody, self(), memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
        if (nobody == self())
            return false;

        if (spins > 100)
            sched_yield();
        else
            amph_cpu_relax();
    }
}

static void leave(struct collector *c)
{
    atomic_store_explicit(&c->owner, 0, memory_order_release);
}

static void stand_in_crowd(struct collector *c, bool in)
{
    struct collector *_Atomic *crowd =
        all.crowd[atomic_load_explicit(&c->identity, memory_order_relaxed) % CROWDS];

    unsigned i = 0;

    for (struct collector *was = in ? NULL : c; i < CROWD; i++, was = in ? NULL : c)
        if (atomic_load_explicit(&crowd[i], memory_order_relaxed) == was &&
            atomic_compare_exchange_strong(&crowd[i], &was, in ? c : NULL))
            break;

    if (in)
        c->uncrowded = i == CROWD;

    if (c->uncrowded)
        atomic_fetch_add(&all.uncrowded, in ? 1 : UINT32_MAX);
}

static void set_mode(struct collector *c, enum mode mode)
{
    enum mode old = atomic_exchange(&c->mode, mode);

    if ((old == IDLE) == (mode == IDLE))
        return;

    stand_in_crowd(c, mode != IDLE);
    atomic_fetch_add(&all.dirty, mode == IDLE ? UINT32_MAX : 1);
}

/* The same for one file: a collector whose file was closed meanwhile may have another's by now. */
static bool enter_for(struct collector *c, const struct amph_fwd_file *file)
{
    if (!enter(c))
        return false;
    if (atomic_load_explicit(&c->handle, memory_order_relaxed) == file->part[0].handle &&
        c->server == file->part[0].server)
        return true;

    leave(c);
    return false;
}

static struct collector *find(const struct amph_fwd_file *file)
{
    uint64_t handle = file->part[0].handle;
    struct collector *c = atomic_load_explicit(&all.bucket[handle % BUCKETS], memory_order_acquire);

    while (c && (atomic_load_explicit(&c->handle, memory_order_relaxed) != handle ||
                 c->server != file->part[0].server))
        c = c->next;

    return c;
}

static _Atomic bool making; /* somebody is in find_or_make */

/* A collector for file, new or one whose file was closed.  NULL: no memory, or a file at which a
 * call may wait for another thread's. */
static struct collector *find_or_make(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct collector *c = find(file);

    struct collector *_Atomic *bucket = &all.bucket[file->part[0].handle % BUCKETS];
    if (c || amph_fwd_file_waits(file))
        return c;
    if (atomic_exchange(&making, true))
        return NULL; /* somebody is at it: this call is not collected */

    for (c = atomic_load(bucket); c && atomic_load(&c->handle) != 0; c = c->next)
        ;

    bool fresh = !c;

    if (fresh && (c = calloc(1, sizeof *c)))
        c->next = atomic_load(bucket);

    if (c) {
        c->file = *file;
        c->cl = cl;
        c->server = file->part[0].server;
        c->last = c->announced = IDLE;
        c->checked = c->able = c->append = c->alone = false;
        atomic_store(&c->identity, 0);
        c->late = 0;
        c->n = c->head = 0;
        atomic_store_explicit(&c->handle, file->part[0].handle, memory_order_release);
        if (fresh)
            atomic_store_explicit(bucket, c, memory_order_release);
    }

    atomic_store(&making, false);
    return c;
}

/* ---- settling ---- */

static void settle(struct collector *c)
{
    if (c->mode == IDLE)
        return;

    amph_client_blocks_flush(c);

    /* what appends has moved the offset at the server itself */
    if (c->by_offset && !(c->mode == WRITING && c->append)) {
        off_t now;
        struct amph_fwd_args_lseek a = {
            .file = &c->file, .off = c->pos, .whence = SEEK_SET, .pos = &now
        };
        int err = amph_client_call(c->cl, AMPH_FWD_LSEEK, &a);

        if (c->mode == WRITING)
            amph_client_blocks_error(c, err);
    }

    set_mode(c, IDLE);
}

void amph_client_coalesce_flush_all(void)
{
    for (unsigned i = 0; i < BUCKETS && atomic_load(&all.dirty); i++)
        for (struct collector *c = atomic_load_explicit(&all.bucket[i], memory_order_acquire); c;
             c = c->next)
            /* in an idle one a thread may wait for long */
            if (atomic_load(&c->handle) && atomic_load(&c->mode) != IDLE && enter(c)) {
                settle(c);
                leave(c);
            }
}

/* ---- runs ---- */

/* Is this a file whose small calls may be gathered?  Asked once, and again when its flags have been
 * set. */
static bool is_able(struct collector *c, enum mode mode)
{
    struct stat st;
    int flags = 0;
    struct amph_fwd_args_fstat fstat_args = { .file = &c->file, .st = &st };
    struct amph_fwd_args_getflags flags_args = { .file = &c->file, .flags = &flags };

    if (!c->checked) {
        c->checked = true;

        bool regular = amph_client_call(c->cl, AMPH_FWD_FSTAT, &fstat_args) == 0 &&
                       S_ISREG(st.st_mode);

        if (!atomic_load(&c->identity))
            atomic_store(&c->identity, regular
                                           ? (st.st_ino * UINT64_C(0x9e3779b97f4a7c15) >> 16) | 1
                                           : UINT64_MAX);

        c->able = regular && amph_client_call(c->cl, AMPH_FWD_GETFLAGS, &flags_args) == 0 &&
                  !(flags & (O_DIRECT | O_SYNC | O_DSYNC | O_PATH));
        c->append = flags & O_APPEND;
        c->access = flags & O_ACCMODE;
    }

    return c->able && (c->access == O_RDWR || c->access == (mode == WRITING ? O_WRONLY : O_RDONLY));
}

static bool begin(struct collector *c, enum mode mode, bool by_offset, off_t off)
{
    if (!is_able(c, mode) || !amph_client_blocks_room(c))
        return false;

    bool appends = mode == WRITING && c->append;
    if (!by_offset && appends)
        return false; /* where pwrite goes then is the file system's business */
    if (by_offset && !appends && !c->alone && c->announced != mode)
        return false;

    c->pos = off;
    if (by_offset && !appends) {
        struct amph_fwd_args_lseek a = { .file = &c->file, .whence = SEEK_CUR, .pos = &c->pos };
        if (amph_client_call(c->cl, AMPH_FWD_LSEEK, &a))
            return false;
    }

    c->by_offset = by_offset;
    c->ended = false;
    set_mode(c, mode);

    return true;
}

/* Does the call go on where the last one ended, so that gathering is worth a try? */
static bool is_run(struct collector *c, enum mode mode, bool by_offset, off_t off, size_t len)
{
    bool run = c->last == mode && c->last_by_offset == by_offset &&
               (by_offset || c->last_end == off);

    c->last = len <= SMALL ? mode : IDLE;
    c->last_by_offset = by_offset;
    c->last_end = off + (off_t)len;

    return (all.session && run && len <= SMALL) || c->announced == mode;
}

/* Makes the collector ready for the call, if the call is to be collected. */
static bool prepare(struct collector *c, enum mode mode, bool by_offset, off_t off, size_t len)
{
    bool run = is_run(c, mode, by_offset, off, len);
    bool dead = c->mode == WRITING && !c->on_heap &&
                atomic_load_explicit(&c->link->state, memory_order_acquire) !=
                    AMPH_CLIENT_LINK_READY;

    if (c->mode != IDLE && (dead || c->mode != mode || c->by_offset != by_offset ||
                            (!by_offset && off != c->pos) || len > SMALL))
        settle(c);

    if (c->mode == mode)
        return true;

    return run && len && !c->late && begin(c, mode, by_offset, off);
}

/* One announced call has been done. */
static void count_announced(struct collector *c, size_t len)
{
    if (c->announced == IDLE)
        return;

    c->bytes_left -= len < c->bytes_left ? len : c->bytes_left;
    c->calls_left -= c->calls_left > 0;
    if (c->bytes_left && c->calls_left)
        return;

    c->announced = IDLE;
    settle(c); /* all is there: it is executed before the last call returns */
}

/* ---- other open files of the same file ---- */

static bool is_other(const struct collector *c, const struct collector *o, enum mode mode)
{
    enum mode theirs = o && o != c ? atomic_load(&o->mode) : IDLE;
    return theirs != IDLE && (mode == WRITING || theirs == WRITING) &&
           atomic_load(&o->identity) == atomic_load(&c->identity);
}

/* Calls visit for each other run on c's file that matters to reads, or writes; says whether one of
 * them gave true. */
static bool each_other(const struct collector *c, enum mode mode,
                       bool (*visit)(struct collector *o, off_t from, off_t to), off_t from,
                       off_t to)
{
    struct collector *_Atomic *crowd = all.crowd[atomic_load(&c->identity) % CROWDS];

    bool any = false;

    for (unsigned i = 0; i < CROWD; i++) {
        struct collector *o = atomic_load_explicit(&crowd[i], memory_order_acquire);
        any |= is_other(c, o, mode) && visit(o, from, to);
    }

    for (unsigned i = 0; i < BUCKETS && atomic_load_explicit(&all.uncrowded, memory_order_relaxed);
         i++)
        for (struct collector *o = atomic_load_explicit(&all.bucket[i], memory_order_acquire); o;
             o = o->next)
            any |= is_other(c, o, mode) && visit(o, from, to);

    return any;
}

static bool is_there(struct collector *o, off_t from, off_t to)
{
    (void)o, (void)from, (void)to;
    return true;
}

static bool has_others(const struct collector *c, enum mode mode)
{
    return each_other(c, mode, is_there, 0, 0);
}

static bool settle_between(struct collector *o, off_t from, off_t to)
{
    if (!enter(o))
        return false;

    bool touches = amph_client_blocks_touch(o, from, to);

    if (touches)
        settle(o);

    leave(o);
    return touches;
}

/* Settles the runs of others in the way of a call that reads or writes [from, to). */
static bool settle_others(const struct collector *c, enum mode mode, off_t from, off_t to)
{
    return each_other(c, mode, settle_between, from, to);
}

static off_t end_of(off_t from, size_t len)
{
    return len > (size_t)(INT64_MAX - from) ? INT64_MAX : from + (off_t)len;
}

/* Others have gathered for the file that d reads.  What is fetched ahead must not lie where they
 * will write: with them there, either it is there already, and they have nothing to do with it, or
 * they come to rest. */
static void read_beside(struct collector *c, const struct amph_client_data *d)
{
    if (!enter_for(c, d->file))
        return;

    off_t from = c->pos;
    bool held = (d->placed ? !c->by_offset && d->off == c->pos : c->by_offset) &&
                amph_client_blocks_hold(c, d->len);

    leave(c);
    if (!held)
        settle_others(c, READING, 0, INT64_MAX);
    else if (settle_others(c, READING, from, end_of(from, d->len)) && enter_for(c, d->file)) {
        settle(c);
        leave(c);
    }
}

/* Others have gathered for the file that d writes, or fetched ahead. */
static void write_beside(struct collector *c, struct amph_fwd_client *cl,
                         const struct amph_client_data *d)
{
    off_t from = d->placed ? d->off : c->pos;
    bool known = !c->append && (d->placed || (atomic_load(&c->mode) != IDLE && c->by_offset));
    struct amph_fwd_args_lseek a = { .file = d->file, .whence = SEEK_CUR, .pos = &from };

    if (!known && !c->append && c->alone)
        known = amph_client_call(cl, AMPH_FWD_LSEEK, &a) == 0;

    if (known)
        settle_others(c, WRITING, from, end_of(from, d->len));
    else
        settle_others(c, WRITING, 0, INT64_MAX);
}

/* Before a call on c's file; this thread is inside of no collector. */
static void meet_others(struct collector *c, struct amph_fwd_client *cl,
                        const struct amph_client_data *d, enum mode mode)
{
    if (atomic_load_explicit(&all.dirty, memory_order_relaxed) <=
        (atomic_load_explicit(&c->mode, memory_order_relaxed) != IDLE))
        return;

    if (!atomic_load(&c->identity) && enter_for(c, d->file)) {
        c->cl = cl;
        is_able(c, mode);
        leave(c);
    }

    if (has_others(c, mode) && mode == READING)
        read_beside(c, d);
    else if (has_others(c, mode))
        write_beside(c, cl, d);
}

/* A read has come to the end of the file, which may lie further: others have gathered what comes
 * later. */
static void read_on(struct collector *c, struct amph_fwd_client *cl,
                    const struct amph_client_data *d)
{
    union amph_fwd_args u;
    struct amph_client_data rest = *d;
    size_t more = 0;

    if (!atomic_load(&all.dirty) || !settle_others(c, READING, 0, INT64_MAX) ||
        !enter_for(c, d->file))
        return;

    settle(c);
    rest.data += *d->done_p;
    rest.off += (off_t)*d->done_p;
    rest.len -= *d->done_p;
    rest.done_p = &more;
    if (amph_client_call(cl, amph_client_data_record(&rest, &u), &u) == 0)
        *d->done_p += more;

    leave(c);
}

/* ---- the layer ---- */

static int take_late(struct collector *c)
{
    int err = c->late;

    c->late = 0;
    return err;
}

static int do_data(const struct amph_layer *self, struct amph_fwd_call *call,
                   const struct amph_client_data *d)
{
    enum mode mode = d->reads ? READING : WRITING;
    struct collector *c = find(d->file);

    if (!c && ((all.session && d->len <= SMALL) ||
               atomic_load_explicit(&all.dirty, memory_order_relaxed)))
        c = find_or_make(call->client, d->file);

    if (c)
        meet_others(c, call->client, d, mode);
    else if (atomic_load_explicit(&all.dirty, memory_order_relaxed))
        amph_client_coalesce_flush_all();

    if (!c || !enter_for(c, d->file))
        return amph_layer_pass(self->next, call);

    c->cl = call->client;

    bool collected = prepare(c, mode, !d->placed, d->off, d->len);
    int err = take_late(c);

    if (!err && collected)
        collected = mode == WRITING ? amph_client_blocks_append(c, d)
                                    : amph_client_blocks_serve(c, d);

    if (!err && collected) {
        bool announced = c->announced != IDLE;

        count_announced(c, *d->done_p);
        if (announced && c->announced == IDLE)
            /* else the next call reports what has become known: the data of this one is taken, so
             * it has not failed */
            err = take_late(c);
    } else if (!err) {
        settle(c);
        err = amph_layer_pass(self->next, call);
        count_announced(c, err ? 0 : *d->done_p);
    }

    leave(c);
    if (mode == READING && !err && *d->done_p < d->len)
        read_on(c, call->client, d);

    return err;
}

/* Another call on one file: it comes to rest first; a late error goes to the calls that may report
 * one. */
static int do_file(const struct amph_layer *self, struct amph_fwd_call *call, struct collector *c)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];

    if (!enter_for(c, amph_fwd_call_file(desc, &call->u)))
        return amph_layer_pass(self->next, call);

    settle(c);
    if (desc->coalesce_flags & FWD_COALESCE_RECHECK) {
        c->checked = false;
        atomic_store(&c->identity, 0);
    }

    if (desc->coalesce_flags &
        FWD_COALESCE_UNLOCK) { /* other threads go on with the file, and the process may fork */
        leave(c);
        return amph_layer_pass(self->next, call);
    }

    int late = desc->coalesce_flags & FWD_COALESCE_REPORT ? take_late(c) : 0;
    int err = amph_layer_pass(self->next, call);

    if (desc->coalesce_flags & FWD_COALESCE_DROP) {
        free(c->heap);
        c->heap = NULL;
        atomic_store(&c->handle, 0);
    }

    leave(c);
    return late ? late : err;
}

/* A new open file is this process's alone. */
static int open_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    int err = amph_layer_pass(self->next, call);
    struct collector *c = err ? NULL : find_or_make(call->client, call->u.open.file);

    if (c)
        c->alone = true;

    return err;
}

void amph_client_coalesce_import_exclusive(struct amph_fwd_client *cl,
                                           const struct amph_fwd_file *file)
{
    struct collector *c = all.session ? find_or_make(cl, file) : NULL;
    if (c)
        c->alone = true;
}

size_t amph_client_coalesce_export_exclusive(char *buf, size_t len_bytes)
{
    size_t at = 0;

    for (unsigned i = 0; i < BUCKETS && all.session; i++)
        for (struct collector *c = atomic_load_explicit(&all.bucket[i], memory_order_acquire); c;
             c = c->next) {
            uint64_t handle = atomic_load(&c->handle);
            int n = handle && c->alone ? snprintf(buf + at, len_bytes - at,
                                                  AMPH_CLIENT_EXCLUSIVE_FORMAT, c->server, handle)
                                       : 0;

            if (n < 0 || (size_t)n >= len_bytes - at)
                break;

            at += (size_t)n;
        }

    if (len_bytes)
        buf[at] = 0; /* one that did not fit may have been begun */

    return at;
}

/* Other processes come to what this one has open. */
static void share_all(void)
{
    for (unsigned i = 0; i < BUCKETS && atomic_load(&all.in_use); i++)
        for (struct collector *c = atomic_load_explicit(&all.bucket[i], memory_order_acquire); c;
             c = c->next)
            c->alone = false;
}

/* By path, or about the file as all its open files see it: everything is to be seen. */
static bool is_about_all(const struct amph_fwd_call *call)
{
    switch (amph_fwd_calls[call->id].coalesce) {
    case FWD_COALESCE_ALL:
        return true;
    case FWD_COALESCE_END: /* of the calls with whence */
        return call->u.lseek.whence > SEEK_CUR;
    default:
        return false;
    }
}

static int collect_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct amph_client_data d;

    if (!call->client || !atomic_load_explicit(&all.in_use, memory_order_relaxed) ||
        atomic_load_explicit(&all.over, memory_order_relaxed))
        return amph_layer_pass(self->next, call);

    if (amph_client_data_of(call->id, &call->u, &d) && !d.file->rwf)
        return amph_fwd_file_waits(d.file) ? amph_layer_pass(self->next, call)
                                           : do_data(self, call, &d);

    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    const struct amph_fwd_file *file = desc->nargs && desc->arg[0].word == FWD_IN_FILE
                                           ? amph_fwd_call_file(desc, &call->u)
                                           : NULL;
    struct collector *c = file ? find(file) : NULL;

    if (atomic_load(&all.dirty) && (!c || is_about_all(call)))
        amph_client_coalesce_flush_all();

    if (all.session && (desc->coalesce_flags & FWD_COALESCE_OPEN))
        return open_call(self, call);

    return c ? do_file(self, call, c) : amph_layer_pass(self->next, call);
}

/* In a forked child: what other threads of the parent were at is the parent's to finish, and to
 * tell. */
static void forget_parent(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct collector *c = atomic_load(&all.bucket[i]); c; c = c->next) {
            if (atomic_load(&c->owner) == self()) /* below a signal handler: goes on where it was */
                continue;

            set_mode(c, IDLE);
            c->announced = IDLE;
            c->alone = false;
            c->n = c->head = 0;
            c->taken = 0;
            c->late = 0;
            leave(c);
        }

    amph_client_blocks_forget();
    atomic_store(&making, false);
}

static void collect_event(const struct amph_layer *self, enum amph_layer_event event)
{
    bool shares = event == AMPH_LAYER_FORK_BEFORE || event == AMPH_LAYER_FORK_PARENT ||
                  event == AMPH_LAYER_EXEC || event == AMPH_LAYER_SHARE;

    if (shares)
        share_all();

    if (shares || event == AMPH_LAYER_EXIT)
        amph_client_coalesce_flush_all();

    if (event == AMPH_LAYER_FORK_CHILD)
        forget_parent();

    if (event == AMPH_LAYER_EXIT)
        atomic_store(&all.over, true);
}

static struct amph_layer layer = {
    .name = "cache", .rank = 30, .call = collect_call, .event = collect_event
};

void amph_client_coalesce_open(void)
{
    static bool added;

    all.session = amph_env_enum(AMPH_ENV_IOFWD_CONSISTENCY) == 1;
    if (all.session)
        atomic_store(&all.in_use, true);

    if (!added)
        amph_layer_add(&layer);

    added = true;
}

/* When the process ends, before the C library flushes streams: what those write then goes straight
 * to the server. */
__attribute__((destructor)) static void collect_end(void)
{
    if (atomic_load(&all.in_use))
        amph_layer_event(AMPH_LAYER_EXIT);
}

int amph_client_coalesce_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                                  bool write, uint64_t bytes, unsigned calls)
{
    atomic_store(&all.in_use, true);

    struct collector *c = find_or_make(cl, file);
    if (!c || !enter_for(c, file))
        return amph_fwd_file_waits(file) ? 0 : ENOMEM;

    c->cl = cl;
    settle(c);
    c->announced = bytes && calls ? (write ? WRITING : READING) : IDLE;
    c->bytes_left = bytes;
    c->calls_left = calls;

    int err = take_late(c);

    leave(c);
    return err;
}
