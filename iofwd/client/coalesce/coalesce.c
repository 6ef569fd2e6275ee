/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `coalesce`: coalesces small consecutive reads or writes of one file into few large
 * requests (write-behind and read-ahead).  This file decides which calls are coalesced and when a
 * file is flushed; coalesce/blocks.c transfers the data.
 *
 * Layer: iofwd.
 *
 * Coalescing applies to sequences that iofwd_write_prep or iofwd_read_prep announced and, with
 * IOFWD_CONSISTENCY=session, to every sequence of consecutive calls.  Any other call on the file,
 * or by path, first flushes: blocks are written, data that was read ahead is discarded, and the
 * server's file offset is set to the offset that the program sees.
 *
 * Several open files of one file stay consistent inside the process: a call on one of them flushes
 * the coalescers of the others whose bytes it reads or overwrites.
 *
 * An open file that other processes share (after a fork, an exec, or a descriptor in a message)
 * has a shared offset.  Its calls at the offset are coalesced only if they were announced, because
 * the other processes would not see the offset move.  A file that only this process has open keeps
 * that property over exec, because the new image is informed (a shell's `prog > file` opens the
 * file in the child that becomes prog).
 *
 * Thread rule: any thread; a coalescer is used by one thread at a time.  If a signal handler
 * interrupts its own thread inside a coalescer, the handler's calls go directly to the server.
 */
#include "iofwd/client/coalesce/coalesce.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"
#include "iofwd/client/coalesce/blocks.h"
#include "iofwd/client/versions.h"

#define SMALL ((size_t)64 << 10) /* larger calls gain nothing from coalescing */
#define SEQUENTIAL_MIN 2u        /* consecutive small reads before data is read ahead by versions */

struct amph_client_coalesce_state amph_client_coalesce;
static struct amph_client_coalesce_state *const state = &amph_client_coalesce;

/* ---- ownership ---- */

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

/* Makes this thread the owner.  Returns false if it already is: a signal handler interrupted it
 * inside. */
bool amph_client_coalesce_enter(struct coalescer *c)
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

void amph_client_coalesce_leave(struct coalescer *c)
{
    atomic_store_explicit(&c->owner, 0, memory_order_release);
}

struct coalescer *_Atomic *amph_client_coalesce_active_set(const struct coalescer *c)
{
    return state->active[atomic_load_explicit(&c->identity, memory_order_relaxed) %
                         AMPH_CLIENT_ACTIVE_SETS];
}

/* Replaces one entry `from` of the set by `to`.  Returns false if the set has no such entry. */
static bool active_set_replace(struct coalescer *_Atomic *set, struct coalescer *from,
                               struct coalescer *to)
{
    for (unsigned i = 0; i < AMPH_CLIENT_ACTIVE_SLOTS; i++) {
        struct coalescer *expected = from;

        if (atomic_load_explicit(&set[i], memory_order_relaxed) == from &&
            atomic_compare_exchange_strong(&set[i], &expected, to))
            return true;
    }

    return false;
}

/* Adds c to the active set of its file, where calls on other open files of that file find it.  If
 * the set is full, c is counted instead, and such calls scan all coalescers. */
static void active_set_add(struct coalescer *c)
{
    c->overflowed = !active_set_replace(amph_client_coalesce_active_set(c), NULL, c);
    if (c->overflowed)
        atomic_fetch_add(&state->overflowed, 1);
}

static void active_set_remove(struct coalescer *c)
{
    active_set_replace(amph_client_coalesce_active_set(c), c, NULL);
    if (c->overflowed)
        atomic_fetch_sub(&state->overflowed, 1);
}

static void set_mode(struct coalescer *c, enum mode mode)
{
    enum mode old = atomic_exchange(&c->mode, mode);

    if ((old == IDLE) == (mode == IDLE))
        return;

    if (c->versioned) {
        atomic_fetch_add(&state->versioned, mode == IDLE ? UINT32_MAX : 1);
        return;
    }

    if (mode == IDLE) {
        active_set_remove(c);
        atomic_fetch_sub(&state->dirty, 1);
    } else {
        active_set_add(c);
        atomic_fetch_add(&state->dirty, 1);
    }
}

/* Like enter, but returns false also if c no longer belongs to `file`: after a close, a coalescer
 * is reused for another file. */
bool amph_client_coalesce_enter_for(struct coalescer *c, const struct amph_fwd_file *file)
{
    if (!amph_client_coalesce_enter(c))
        return false;
    if (atomic_load_explicit(&c->handle, memory_order_relaxed) == file->part[0].handle &&
        c->server == file->part[0].server)
        return true;

    amph_client_coalesce_leave(c);
    return false;
}

static struct coalescer *find(const struct amph_fwd_file *file)
{
    uint64_t handle = file->part[0].handle;
    struct coalescer *c = atomic_load_explicit(&state->bucket[handle % AMPH_CLIENT_BUCKETS],
                                               memory_order_acquire);

    while (c && (atomic_load_explicit(&c->handle, memory_order_relaxed) != handle ||
                 c->server != file->part[0].server))
        c = c->next;

    return c;
}

/* Returns the coalescer of `file`; makes one, or reuses one whose file was closed.  NULL: no
 * memory, another thread is making one, or the file's calls may block (FIFO, terminal). */
static struct coalescer *find_or_make(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct coalescer *c = find(file);
    struct coalescer *_Atomic *bucket = &state->bucket[file->part[0].handle % AMPH_CLIENT_BUCKETS];

    if (c || amph_fwd_file_waits(file))
        return c;
    if (atomic_exchange(&state->making, true))
        return NULL; /* this call is not coalesced */

    for (c = atomic_load(bucket); c && atomic_load(&c->handle) != 0; c = c->next)
        ;

    bool fresh = !c;

    if (fresh && (c = amph_client_file_memory()))
        c->next = atomic_load(bucket);

    if (c) {
        c->file = *file;
        c->cl = cl;
        c->server = file->part[0].server;
        c->last = c->announced = IDLE;
        c->checked = c->able = c->append = c->alone = c->flags_known = c->versioned = false;
        atomic_store(&c->broke, false);
        c->nsequential = 0;
        atomic_store(&c->identity, 0);
        c->late = 0;
        c->n = c->head = 0;
        atomic_store_explicit(&c->handle, file->part[0].handle, memory_order_release);
        if (fresh)
            atomic_store_explicit(bucket, c, memory_order_release);
    }

    atomic_store(&state->making, false);
    return c;
}

/* ---- flushing ---- */

/* Completes the sequence: transfers all blocks, sets the server's offset, and makes c idle. */
void amph_client_coalesce_flush(struct coalescer *c)
{
    if (c->mode == IDLE)
        return;

    amph_client_blocks_flush(c);

    /* an appending write has moved the offset at the server */
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
    c->versioned = false;
}

/* Ends a sequence of a file that is being closed: only this process has the offset. */
static void drop_versioned(struct coalescer *c)
{
    if (c->versioned) {
        set_mode(c, IDLE);
        c->versioned = false;
    }

    amph_client_ahead_free(c);
}

void amph_client_coalesce_flush_all(void)
{
    for (unsigned i = 0;
         i < AMPH_CLIENT_BUCKETS && (atomic_load(&state->dirty) || atomic_load(&state->versioned));
         i++)
        for (struct coalescer *c = atomic_load_explicit(&state->bucket[i], memory_order_acquire); c;
             c = c->next)
            /* skips idle ones, whose owner may block for long in a call */
            if (atomic_load(&c->handle) && atomic_load(&c->mode) != IDLE &&
                amph_client_coalesce_enter(c)) {
                amph_client_coalesce_flush(c);
                amph_client_coalesce_leave(c);
            }
}

/* ---- sequences ---- */

/* Starts a versioned sequence.  A thread that shares the offset with other processes, or reads or
 * writes at it, announces that (c->alone, c->passing) and then reads the mode.  This function sets
 * the mode and then reads the announcements, so that one of the two sees the other. */
static bool begin_versioned(struct coalescer *c, bool by_offset, off_t off)
{
    struct amph_fwd_args_lseek a = { .file = &c->file, .whence = SEEK_CUR, .pos = &c->pos };

    if (!amph_client_versions(c->cl)) {
        state->ahead = false;
        return false;
    }

    if (!amph_client_file_allows(c, READING))
        return false;

    c->pos = off;
    c->by_offset = by_offset;
    c->versioned = true;
    amph_client_ahead_begin(c, c->line);
    set_mode(c, READING);

    if (!by_offset ||
        (c->alone && !atomic_load(&c->passing) && !amph_client_call(c->cl, AMPH_FWD_LSEEK, &a)))
        return true;

    set_mode(c, IDLE);
    c->versioned = false;
    return false;
}

/* Starts a sequence at off, or at the file's offset. */
static bool begin(struct coalescer *c, enum mode mode, bool by_offset, off_t off)
{
    if (!state->session && c->announced != mode)
        return begin_versioned(c, by_offset, off);

    if (!amph_client_file_allows(c, mode) || !amph_client_blocks_room(c))
        return false;

    bool appends = mode == WRITING && c->append;
    if (!by_offset && appends)
        return false; /* on an O_APPEND file, pwrite appends */
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

/* Returns whether the call continues where the last one ended, or was announced, and records it as
 * the last one. */
static bool is_sequential(struct coalescer *c, enum mode mode, bool by_offset, off_t off,
                          size_t len)
{
    bool sequential = c->last == mode && c->last_by_offset == by_offset &&
                      (by_offset || c->last_end == off);

    if (atomic_load_explicit(&c->broke, memory_order_relaxed)) {
        atomic_store_explicit(&c->broke, false, memory_order_relaxed);
        sequential = false;
    }

    c->nsequential = sequential ? c->nsequential + 1 : 0;
    c->last = len <= SMALL ? mode : IDLE;
    c->last_by_offset = by_offset;
    c->last_end = off + (off_t)len;

    if (c->announced == mode)
        return true;

    return sequential && len <= SMALL &&
           (state->session ||
            (state->ahead && mode == READING && c->nsequential >= SEQUENTIAL_MIN));
}

/* Returns whether the coalesced data cannot be sent any more, because its server has died. */
static bool is_lost(const struct coalescer *c)
{
    return c->mode == WRITING && !c->on_heap &&
           atomic_load_explicit(&c->link->state, memory_order_acquire) != AMPH_CLIENT_LINK_READY;
}

/* Returns whether the call does not continue the current sequence. */
static bool ends_sequence(const struct coalescer *c, enum mode mode, bool by_offset, off_t off,
                          size_t len)
{
    if (c->mode == IDLE)
        return false;

    if (c->mode != mode || c->by_offset != by_offset || len > SMALL)
        return true;

    return (!by_offset && off != c->pos) || is_lost(c);
}

/* Returns whether the call is to be coalesced, and makes the coalescer ready for it.  Flushes if
 * the call does not continue the current sequence. */
static bool prepare(struct coalescer *c, enum mode mode, bool by_offset, off_t off, size_t len)
{
    bool sequential = is_sequential(c, mode, by_offset, off, len);

    /* another offset in the same block */
    if (c->versioned && mode == READING && !c->by_offset && !by_offset && len <= SMALL)
        c->pos = off;

    if (ends_sequence(c, mode, by_offset, off, len))
        amph_client_coalesce_flush(c);

    if (c->mode == mode)
        return true;

    if (!sequential || len == 0 || c->late)
        return false;

    bool allowed = state->session || c->announced == mode || amph_client_ahead_may(c);

    return allowed && begin(c, mode, by_offset, off);
}

/* Counts one announced call as done, and flushes after the last one. */
static void count_announced(struct coalescer *c, size_t len)
{
    if (c->announced == IDLE)
        return;

    c->bytes_left -= len < c->bytes_left ? len : c->bytes_left;
    c->calls_left -= c->calls_left > 0;
    if (c->bytes_left && c->calls_left)
        return;

    c->announced = IDLE;
    amph_client_coalesce_flush(c); /* the last announced call returns after all data was written */
}

/* ---- the layer ---- */

static int take_late_error(struct coalescer *c)
{
    int err = c->late;

    c->late = 0;
    return err;
}

/* Passes on a read or write whose coalescer this thread does not own.  If the call uses the file's
 * offset, the offset at the server is set first, and no sequence begins meanwhile. */
static int pass_beside(const struct amph_layer *self, struct amph_fwd_call *call,
                       struct coalescer *c, const struct amph_client_data *d)
{
    if (!d->placed) {
        atomic_fetch_add(&c->passing, 1);
        while (atomic_load(&c->mode) != IDLE && amph_client_coalesce_enter_for(c, d->file)) {
            amph_client_coalesce_flush(c);
            amph_client_coalesce_leave(c);
        }
    }

    int err = amph_layer_pass(self->next, call);

    if (!d->placed)
        atomic_fetch_sub(&c->passing, 1);

    if (d->reads && !err && *d->done_p < d->len)
        atomic_store_explicit(&c->broke, true, memory_order_relaxed);

    return err;
}

/* Executes a read or write of a process that coalesces nothing and only reads ahead.  Its threads
 * do not wait for each other's calls. */
static int do_data_ahead(const struct amph_layer *self, struct amph_fwd_call *call,
                         const struct amph_client_data *d)
{
    bool small_read = d->reads && d->len <= SMALL;
    struct coalescer *c = small_read && state->ahead ? find_or_make(call->client, d->file)
                                                     : find(d->file);

    if (!c)
        return amph_layer_pass(self->next, call);

    if (small_read && amph_client_coalesce_enter_for(c, d->file)) {
        c->cl = call->client;

        bool served = prepare(c, READING, !d->placed, d->off, d->len) &&
                      amph_client_blocks_serve(c, d);

        if (!served)
            amph_client_coalesce_flush(c);

        amph_client_coalesce_leave(c);
        if (served)
            return 0;
    }

    return pass_beside(self, call, c, d);
}

/* The coalescer of a read or write; NULL: it passes by. */
static struct coalescer *coalescer_for(struct amph_fwd_call *call, const struct amph_client_data *d,
                                       enum mode mode)
{
    struct coalescer *c = find(d->file);
    bool dirty = atomic_load_explicit(&state->dirty, memory_order_relaxed);

    if (!c && ((state->session && d->len <= SMALL) || dirty))
        c = find_or_make(call->client, d->file);

    if (c)
        amph_client_others_prepare(c, call->client, d, mode);
    else if (dirty)
        amph_client_coalesce_flush_all();

    return c;
}

/* Executes a read or write, coalesced if possible. */
static int do_data(const struct amph_layer *self, struct amph_fwd_call *call,
                   const struct amph_client_data *d)
{
    enum mode mode = d->reads ? READING : WRITING;
    struct coalescer *c = coalescer_for(call, d, mode);

    if (!c || !amph_client_coalesce_enter_for(c, d->file))
        return amph_layer_pass(self->next, call);

    c->cl = call->client;

    bool coalesced = prepare(c, mode, !d->placed, d->off, d->len);
    int err = take_late_error(c);

    if (!err && coalesced)
        coalesced = mode == WRITING ? amph_client_blocks_append(c, d)
                                    : amph_client_blocks_serve(c, d);

    if (!err && coalesced) {
        bool announced = c->announced != IDLE;

        count_announced(c, *d->done_p);
        if (announced && c->announced == IDLE)
            /* otherwise the next call reports the error: this call's data was accepted */
            err = take_late_error(c);
    } else if (!err) {
        amph_client_coalesce_flush(c);
        err = amph_layer_pass(self->next, call);
        count_announced(c, err ? 0 : *d->done_p);
    }

    amph_client_coalesce_leave(c);
    if (mode == READING && !err && *d->done_p < d->len)
        amph_client_others_read_past_end(c, call->client, d);

    return err;
}

/* Executes another call on one file after flushing it.  Calls that may report a late error (column
 * "report" of calls.def) return it. */
static int do_file(const struct amph_layer *self, struct amph_fwd_call *call, struct coalescer *c)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];

    if (!amph_client_coalesce_enter_for(c, amph_fwd_call_file(desc, &call->u)))
        return amph_layer_pass(self->next, call);

    if ((desc->coalesce_flags & FWD_COALESCE_DROP) && c->alone)
        drop_versioned(c);

    amph_client_coalesce_flush(c);
    c->nsequential = 0;
    if (desc->coalesce_flags & FWD_COALESCE_RECHECK) {
        c->checked = c->flags_known = false;
        atomic_store(&c->identity, 0);
    }

    /* the call may block: other threads continue to use the file, and the process may fork */
    if (desc->coalesce_flags & FWD_COALESCE_UNLOCK) {
        amph_client_coalesce_leave(c);
        return amph_layer_pass(self->next, call);
    }

    int late = desc->coalesce_flags & FWD_COALESCE_REPORT ? take_late_error(c) : 0;
    int err = amph_layer_pass(self->next, call);

    if (desc->coalesce_flags & FWD_COALESCE_DROP) {
        free(c->heap);
        c->heap = NULL;
        amph_client_ahead_free(c);
        atomic_store(&c->handle, 0);
    }

    amph_client_coalesce_leave(c);
    return late ? late : err;
}

/* Executes an open: only this process has the new open file. */
static int open_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    int err = amph_layer_pass(self->next, call);
    struct coalescer *c = err || (state->ahead && (call->u.open.flags & O_ACCMODE) == O_WRONLY)
                              ? NULL
                              : find_or_make(call->client, call->u.open.file);

    if (c) {
        amph_client_file_flags(c, call->u.open.flags);
        c->alone = true;
    }

    return err;
}

void amph_client_coalesce_import_exclusive(struct amph_fwd_client *cl,
                                           const struct amph_fwd_file *file)
{
    struct coalescer *c = state->session || state->ahead ? find_or_make(cl, file) : NULL;
    if (c)
        c->alone = true;
}

size_t amph_client_coalesce_export_exclusive(char *buf, size_t len_bytes)
{
    size_t at = 0;

    for (unsigned i = 0; i < AMPH_CLIENT_BUCKETS && (state->session || state->ahead); i++)
        for (struct coalescer *c = atomic_load_explicit(&state->bucket[i], memory_order_acquire); c;
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
        buf[at] = 0; /* cuts an entry that did not fit */

    return at;
}

/* Records that other processes share all open files of this one. */
static void share_all(void)
{
    for (unsigned i = 0; i < AMPH_CLIENT_BUCKETS && atomic_load(&state->in_use); i++)
        for (struct coalescer *c = atomic_load_explicit(&state->bucket[i], memory_order_acquire); c;
             c = c->next)
            c->alone = false;
}

/* Returns whether all files must be flushed before the call (column "coalescing" of calls.def). */
static bool concerns_all_files(const struct amph_fwd_call *call)
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

/* A call that reads or writes d. */
static int call_with_data(const struct amph_layer *self, struct amph_fwd_call *call,
                          struct amph_client_data *d, bool full)
{
    if (amph_fwd_file_waits(d->file))
        return amph_layer_pass(self->next, call);

    return full ? do_data(self, call, d) : do_data_ahead(self, call, d);
}

/* Of a call on two open files: sets the offset of the second one at the server. */
static void flush_second(const struct amph_fwd_call *call, const struct amph_fwd_call_desc *desc)
{
    if (desc->nargs < 2 || desc->arg[1].word != FWD_IN_FILE)
        return;

    const struct amph_fwd_file *file = *(
        const struct amph_fwd_file *const *)((const char *)&call->u + desc->arg[1].client_at);
    struct coalescer *c = find(file);

    if (c && atomic_load(&c->mode) != IDLE && amph_client_coalesce_enter_for(c, file)) {
        amph_client_coalesce_flush(c);
        amph_client_coalesce_leave(c);
    }
}

/* Any other call. */
static int call_without_data(const struct amph_layer *self, struct amph_fwd_call *call, bool full)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    bool of_file = desc->nargs && desc->arg[0].word == FWD_IN_FILE;
    struct coalescer *c = of_file ? find(amph_fwd_call_file(desc, &call->u)) : NULL;

    if (atomic_load(&state->dirty) && (!c || concerns_all_files(call)))
        amph_client_coalesce_flush_all();

    flush_second(call, desc);
    if ((state->session || state->ahead) && (desc->coalesce_flags & FWD_COALESCE_OPEN))
        return open_call(self, call);

    if (c && (full || !amph_client_file_is_beside(desc)))
        return do_file(self, call, c);

    return amph_layer_pass(self->next, call);
}

static int coalesce_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct amph_client_data d;

    if (!call->client || !atomic_load_explicit(&state->in_use, memory_order_relaxed) ||
        atomic_load_explicit(&state->over, memory_order_relaxed))
        return amph_layer_pass(self->next, call);

    /* else nothing is coalesced: data is only read ahead */
    bool full = state->session || atomic_load_explicit(&state->announced, memory_order_relaxed);

    if (amph_client_data_of(call->id, &call->u, &d) && !d.file->rwf)
        return call_with_data(self, call, &d, full);

    return call_without_data(self, call, full);
}

/* In a forked child: discards all sequences.  The parent completes them and reports their errors.
 */
static void forget_parent(void)
{
    for (unsigned i = 0; i < AMPH_CLIENT_BUCKETS; i++)
        for (struct coalescer *c = atomic_load(&state->bucket[i]); c; c = c->next) {
            if (atomic_load(&c->owner) == self()) /* a handler forked inside; it continues */
                continue;

            set_mode(c, IDLE);
            c->versioned = false;
            atomic_store(&c->passing, 0);
            c->announced = IDLE;
            c->alone = false;
            c->n = c->head = 0;
            c->taken = 0;
            c->late = 0;
            amph_client_coalesce_leave(c);
        }

    amph_client_blocks_forget();
    atomic_store(&state->making, false);
}

static void coalesce_event(const struct amph_layer *self, enum amph_layer_event event)
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
        atomic_store(&state->over, true);
}

static const struct amph_layer layer = {
    .name = "coalesce", .rank = 30, .call = coalesce_call, .event = coalesce_event
};

void amph_client_coalesce_open(void)
{
    state->session = amph_env_enum(AMPH_ENV_IOFWD_CONSISTENCY) == 1;
    state->ahead = !state->session && amph_client_versions_wanted();
    if (state->session || state->ahead)
        atomic_store(&state->in_use, true);

    amph_layer_add(&layer);
}

/* Flushes when the process ends, before the C library flushes its streams, whose writes then go
 * directly to the server. */
__attribute__((destructor)) static void coalesce_end(void)
{
    if (atomic_load(&state->in_use))
        amph_layer_event(AMPH_LAYER_EXIT);
}

int amph_client_coalesce_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                                  bool write, uint64_t bytes, unsigned calls)
{
    atomic_store(&state->in_use, true);
    atomic_store(&state->announced, true);
    amph_client_offsets_forget_all();

    struct coalescer *c = find_or_make(cl, file);
    if (!c || !amph_client_coalesce_enter_for(c, file))
        return amph_fwd_file_waits(file) ? 0 : ENOMEM;

    c->cl = cl;
    amph_client_coalesce_flush(c);
    c->announced = IDLE;
    if (bytes && calls)
        c->announced = write ? WRITING : READING;

    c->bytes_left = bytes;
    c->calls_left = calls;

    int err = take_late_error(c);

    amph_client_coalesce_leave(c);
    return err;
}
