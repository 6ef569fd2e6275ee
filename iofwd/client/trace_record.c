/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a forwarded call to its record; see trace_record.h.
 *
 * Layer: iofwd.  Thread rule: see trace_record.h.
 */
#include "iofwd/client/trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/trace_args.h"

_Static_assert((unsigned)AMPH_FWD_NCALLS <= AMPH_TRACE_APPEND_CALLS, "each call has a number");

struct amph_client_recorder amph_client_recorder = { .lock = PTHREAD_MUTEX_INITIALIZER };

void amph_fwd_record_for_others(enum amph_fwd_way way)
{
    amph_client_recorder.wanted = way == AMPH_FWD_WAY_MOUNT ? AMPH_TRACE_BY_MOUNT
                                                            : AMPH_TRACE_BY_TRAP;
}

struct amph_fwd_caller amph_fwd_set_caller(struct amph_fwd_caller caller)
{
    struct amph_fwd_caller before = amph_client_thread.caller;

    amph_client_thread.caller = caller;
    return before;
}

void amph_fwd_record_descriptor(int fd)
{
    struct amph_client_recorded_process *p = amph_client_thread.opened.process;

    if (!p)
        return;

    pthread_mutex_lock(&amph_client_recorder.lock);
    if (fd >= 0)
        amph_trace_append_result(&p->file, amph_client_thread.opened.slot, fd);

    amph_client_thread.opened.process = NULL;
    amph_client_recorder_put(p);
    pthread_mutex_unlock(&amph_client_recorder.lock);
}

/* The call has succeeded.  Does the program get its descriptor later?  Then the reference to the process is
 * kept.  Only iofwd-trap knows descriptors. */
static bool keep_open(const struct amph_client_recording *r, const struct amph_fwd_call *call)
{
    bool opens = amph_fwd_calls[call->id].words & FWD_WORD(FWD_OUT_NEWFILE);

    if (!opens || amph_client_recorder.wanted != AMPH_TRACE_BY_TRAP ||
        amph_client_thread.caller.tid <= 0)
        return false;

    if (amph_client_thread.opened.process)
        amph_client_recorder_put(amph_client_thread.opened.process);

    amph_client_thread.opened.process = r->process;
    amph_client_thread.opened.slot = r->slot;
    return true;
}

static void end_at_exit(void)
{
    pthread_mutex_lock(&amph_client_recorder.lock);
    amph_client_recorder_close();
    pthread_mutex_unlock(&amph_client_recorder.lock);
}

bool amph_client_recorder_open(void)
{
    struct amph_client_recorder *c = &amph_client_recorder;
    const char *dir = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR);

    if (c->wanted == AMPH_TRACE_BY_PRELOAD || !dir[0])
        return false;

    /* the working directory changes */
    bool is_there = realpath(dir, c->dir);

    c->on = true;
    c->budget = amph_env_size(AMPH_ENV_IOFWD_TRACE_BUDGET);
    if (!is_there)
        amph_client_recorder_complain("there is no such folder", errno);
    else
        atexit(end_at_exit);

    return c->on;
}

/* ---- arguments ---- */

static void put_flags(struct amph_trace_call *to, uint32_t flags)
{
    if (to->has & AMPH_TRACE_HAS_FLAGS)
        return;

    to->flags = flags;
    to->has |= AMPH_TRACE_HAS_FLAGS;
}

static void put_length(struct amph_trace_call *to, uint64_t length)
{
    to->length = length;
    to->has |= AMPH_TRACE_HAS_LENGTH;
}

/* The second offset of a call is a length. */
static void put_offset(struct amph_trace_call *to, off_t offset)
{
    if (to->has & AMPH_TRACE_HAS_OFFSET) {
        put_length(to, (uint64_t)offset);
        return;
    }

    to->offset = offset;
    to->has |= AMPH_TRACE_HAS_OFFSET;
}

/* As fcntl would have it, and the recorder of the preload library. */
static void put_lock(struct amph_trace_call *to, const struct amph_fwd_call_desc *desc,
                     const struct flock *l)
{
    bool waits = desc->flags & FWD_CALL_BLOCKING;
    bool asks = desc->words & FWD_WORD(FWD_OUT_GOTLOCK);
    uint32_t command = F_SETLK;

    if (asks)
        command = F_GETLK;
    else if (waits)
        command = F_SETLKW;

    put_flags(to, command | (uint32_t)(l->l_type & 3) << 16);
    put_offset(to, l->l_start);
    put_length(to, (uint64_t)l->l_len);
}

static void put_file(struct amph_client_recording *r, const struct amph_fwd_file *file)
{
    amph_client_recorder_name(file, r->path);
    if (amph_client_thread.caller.fd >= 0 && r->tid) {
        r->call.fd = amph_client_thread.caller.fd;
        r->call.has |= AMPH_TRACE_HAS_FD;
    }
}

static void put_path(struct amph_client_recording *r, const struct amph_client_path_arg *arg)
{
    bool is_second = r->call.has & AMPH_TRACE_HAS_PATH;

    amph_client_recorder_path(arg->dir, arg->path, is_second ? r->path2 : r->path);
    r->call.has |= is_second ? AMPH_TRACE_HAS_EXTRA : AMPH_TRACE_HAS_PATH;
}

static const uint64_t words_of_flags = FWD_WORD(FWD_IN_OFLAGS) | FWD_WORD(FWD_IN_SFLAGS) |
                                       FWD_WORD(FWD_IN_ATFLAGS) | FWD_WORD(FWD_IN_AMODE) |
                                       FWD_WORD(FWD_IN_WHENCE) | FWD_WORD(FWD_IN_RFLAGS) |
                                       FWD_WORD(FWD_IN_XFLAGS) | FWD_WORD(FWD_IN_FALLOC) |
                                       FWD_WORD(FWD_IN_LOCKOP);

static void put_argument(struct amph_client_recording *r, const struct amph_fwd_call_desc *desc,
                         const struct amph_fwd_arg_desc *arg, const void *at)
{
    switch (arg->word) {
    case FWD_IN_PATH:
        put_path(r, at);
        break;

    case FWD_IN_FILE:
        put_file(r, *(const struct amph_fwd_file *const *)at);
        break;

    case FWD_IN_OFF:
        put_offset(&r->call, *(const off_t *)at);
        break;

    case FWD_IN_LEN:
        if (desc->words & FWD_WORD(FWD_IN_OFF)) /* else some other number */
            put_length(&r->call, *(const size_t *)at);
        break;

    case FWD_IN_DATA:
        put_length(&r->call, ((const struct amph_client_bytes_arg *)at)->len);
        break;

    case FWD_OUT_BUF:
    case FWD_OUT_STRING:
    case FWD_OUT_DIRENTS:
        put_length(&r->call, ((const struct amph_client_room_arg *)at)->cap);
        break;

    case FWD_IN_LOCK:
        put_lock(&r->call, desc, *(const struct flock *const *)at);
        break;

    default:
        if (FWD_WORD(arg->word) & words_of_flags)
            put_flags(&r->call, *(const uint32_t *)at);
        break;
    }
}

static void put_arguments(struct amph_client_recording *r, const struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];

    for (unsigned i = 0; i < desc->nargs; i++)
        put_argument(r, desc, &desc->arg[i], (const char *)&call->u + desc->arg[i].client_at);
}

/* ---- calls ---- */

uint64_t amph_client_recorder_begin(struct amph_client_recording *r,
                                    const struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];

    r->process = NULL;
    r->is_followed = amph_client_recorder.follows;
    r->call = (struct amph_trace_call){ .side = AMPH_TRACE_FORWARDED };
    r->extra = (struct amph_trace_extra){ .fd2 = -1 };
    r->path[0] = r->path2[0] = 0;
    r->tid = amph_client_thread.caller.tid;
    pthread_mutex_lock(&amph_client_recorder.lock);
    if (amph_client_recorder.on)
        r->process = amph_client_recorder_process(r->tid);

    if (r->process) {
        struct amph_trace_append *file = &r->process->file;

        if (r->process == amph_client_recorder.own)
            r->tid = 0;

        put_arguments(r, call);
        r->call.file = r->path[0] ? amph_trace_append_text(file, r->path) : 0;
        r->extra.file2 = r->path2[0] ? amph_trace_append_text(file, r->path2) : 0;
        r->tid = r->tid ? r->tid : r->process->pid;
        r->call.start_ns = amph_now_ns();
        r->slot = amph_trace_append_start(file, r->tid, call->id, desc->name, &r->call);
    } else if (r->is_followed)
        put_arguments(r, call);

    pthread_mutex_unlock(&amph_client_recorder.lock);
    return r->process ? r->call.start_ns : amph_now_ns();
}

/* Without a record: the names of files, for lines. */
static void follow(struct amph_client_recording *r, const struct amph_fwd_call *call, int err)
{
    if (!r->is_followed)
        return;

    pthread_mutex_lock(&amph_client_recorder.lock);
    amph_client_recorder_effect(r, call, err != 0);
    pthread_mutex_unlock(&amph_client_recorder.lock);
}

void amph_client_recorder_end(struct amph_client_recording *r, const struct amph_fwd_call *call,
                              const struct amph_fwd_trace_sum *sum, int err, uint64_t end_ns)
{
    r->call.end_ns = end_ns;
    r->call.err = (uint16_t)err;
    r->call.has |= err ? AMPH_TRACE_HAS_FAILED : 0;
    r->call.result = err ? -1 : amph_client_result(&amph_fwd_calls[call->id], &call->u);
    if (!r->process) {
        follow(r, call, err);
        return;
    }

    struct amph_trace_append *file = &r->process->file;

    r->extra.start_ns = r->call.start_ns;
    if (sum->requests) {
        r->call.has |= AMPH_TRACE_HAS_EXTRA;
        r->extra.server = sum->server;
        r->extra.requests = sum->requests;
        r->extra.queue_ns = amph_fwd_trace_queue(sum, end_ns - r->call.start_ns);
        r->extra.server_ns = sum->file_ns + r->extra.queue_ns;
    }

    bool has_extra = r->call.has & AMPH_TRACE_HAS_EXTRA;

    pthread_mutex_lock(&amph_client_recorder.lock);
    amph_client_recorder_effect(r, call, err != 0);
    if (file->base)
        amph_trace_append_done(file, r->tid, r->slot, call->id, amph_fwd_calls[call->id].name,
                               &r->call, has_extra ? &r->extra : NULL);
    if (file->error)
        amph_client_recorder_complain("a file cannot grow", file->error);

    if (err || !keep_open(r, call))
        amph_client_recorder_put(r->process);
    pthread_mutex_unlock(&amph_client_recorder.lock);
}

/* ---- calls that were refused before ---- */

/* Numbers of names in a file: those of calls.def, and from here on those of refused calls. */
enum {
    REFUSED = AMPH_TRACE_APPEND_CALLS - AMPH_FWD_REFUSED_MAX - 1
};
_Static_assert((int)AMPH_FWD_NCALLS <= (int)REFUSED, "each call has a number");

void amph_client_recorder_refused(const struct amph_fwd_refused *refused, uint64_t end_ns)
{
    struct amph_client_recording r = { .tid = amph_client_thread.caller.tid };
    unsigned number = REFUSED + refused->number;

    pthread_mutex_lock(&amph_client_recorder.lock);
    if (amph_client_recorder.on)
        r.process = amph_client_recorder_process(r.tid);

    if (r.process) {
        struct amph_trace_append *file = &r.process->file;
        int32_t tid = r.process == amph_client_recorder.own || !r.tid ? r.process->pid : r.tid;

        r.call = (struct amph_trace_call){ .side = AMPH_TRACE_FORWARDED,
                                           .has = AMPH_TRACE_HAS_FAILED,
                                           .start_ns = refused->since,
                                           .end_ns = end_ns,
                                           .result = -1,
                                           .err = (uint16_t)refused->err };
        r.extra = (struct amph_trace_extra){ .fd2 = -1, .start_ns = refused->since };
        if (amph_client_thread.caller.fd >= 0) {
            r.call.fd = amph_client_thread.caller.fd;
            r.call.has |= AMPH_TRACE_HAS_FD;
        }

        if (refused->path[0]) {
            r.call.file = amph_trace_append_text(file, refused->path);
            r.call.has |= AMPH_TRACE_HAS_PATH;
        }

        if (refused->path2[0]) {
            r.extra.file2 = amph_trace_append_text(file, refused->path2);
            r.call.has |= AMPH_TRACE_HAS_EXTRA;
        }

        r.slot = amph_trace_append_start(file, tid, number, refused->name, &r.call);
        amph_trace_append_done(file, tid, r.slot, number, refused->name, &r.call,
                               r.call.has & AMPH_TRACE_HAS_EXTRA ? &r.extra : NULL);
        amph_client_recorder_put(r.process);
    }

    pthread_mutex_unlock(&amph_client_recorder.lock);
}
