/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `trace` (IOFWD_TRACE): adds up what a traced call has cost at the servers, and prints
 * forwarded calls that no caught function of the C library has made: those of programs that call
 * iofwd.h, those from within a stream, and those of iofwd-trap and iofwd-mount, which it also records
 * (trace_record.h).
 *
 * Layer: iofwd.  Thread rule: any thread; a sum belongs to the thread that set it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "iofwd/calls/calls.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/show.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/trace_args.h"
#include "iofwd/client/trace_record.h"

#define LINE_BYTES 2048

struct amph_fwd_trace_sum **amph_fwd_trace_place(void)
{
    return &amph_client_thread.trace_sum;
}

void amph_client_trace_request(const struct amph_fwd_client *cl,
                               const struct amph_client_pending *p)
{
    struct amph_fwd_trace_sum *sum = amph_client_thread.trace_sum;

    sum->requests++;
    sum->unawaited += p->unawaited;
    sum->server = p->peer;
    sum->file_ns += p->file_ns;
    sum->queue_ns += p->queue_ns;
    sum->client = cl->number;
    sum->seq = p->seq;
}

/* ---- a line of the layer's own ---- */

/* An open file by its path, or by its handles if that is not known. */
static void show_file(struct amph_fwd_text *t, const struct amph_fwd_file *file)
{
    char name[AMPH_FWD_TEXT_BYTES], path[PATH_MAX];

    pthread_mutex_lock(&amph_client_recorder.lock);
    amph_client_recorder_name(file, path);
    pthread_mutex_unlock(&amph_client_recorder.lock);
    if (path[0])
        amph_fwd_show_name(t, path);
    else if (file && file->nparts && amph_fwd_file_print(file, name, sizeof name))
        amph_fwd_text_put(t, "<%s>", name);
    else
        amph_fwd_text_put(t, "<none>");
}

static void show_string(struct amph_fwd_text *t, const char *text)
{
    if (text)
        amph_fwd_show_bytes(t, text, strlen(text), true);
    else
        amph_fwd_text_put(t, "NULL");
}

/* A number of the record, by the width of its type. */
static uint64_t number_at(unsigned word, const void *at)
{
    switch (word) {
    case FWD_IN_OFF:
        return (uint64_t) * (const off_t *)at;
    case FWD_IN_LEN:
        return *(const size_t *)at;
    case FWD_IN_DEV:
        return *(const dev_t *)at;
    case FWD_IN_UID:
    case FWD_IN_GID:
        return (uint64_t)(int64_t)(int)*(const uid_t *)at;
    case FWD_IN_MODE:
        return *(const mode_t *)at & AMPH_FWD_MODE_BITS;
    default:
        return (uint64_t)(int64_t) * (const int *)at;
    }
}

/* An argument, from where the record has it. */
static void show_argument(struct amph_fwd_text *t, unsigned word, const void *at)
{
    const struct amph_client_path_arg *path = at;
    const struct amph_client_bytes_arg *bytes = at;

    switch (word) {
    case FWD_IN_PATH:
        if (path->dir) {
            show_file(t, path->dir);
            amph_fwd_text_put(t, ", ");
        }
        show_string(t, path->path);
        break;

    case FWD_IN_FILE:
        show_file(t, *(const struct amph_fwd_file *const *)at);
        break;

    case FWD_IN_TEXT:
        show_string(t, *(const char *const *)at);
        break;

    case FWD_IN_DATA:
    case FWD_IN_BLOB:
        amph_fwd_text_put(t, "%zu", bytes->len);
        break;

    case FWD_IN_TIMES:
    case FWD_IN_LOCK:
        amph_fwd_show_value(t, AMPH_FWD_SHOW_POINTER, (uintptr_t) * (const void *const *)at);
        break;

    default:
        amph_fwd_show_value(t, word, number_at(word, at));
    }
}

/* The room of out-buffers, as the C library's functions have it. */
static void show_room(struct amph_fwd_text *t, unsigned word, const void *at)
{
    if (word == FWD_OUT_STRING || word == FWD_OUT_DIRENTS || word == FWD_OUT_BUF)
        amph_fwd_text_put(t, ", %zu", ((const struct amph_client_room_arg *)at)->cap);
}

/* path: that the call was given. */
static void show_result(struct amph_fwd_text *t, const struct amph_fwd_call_desc *desc,
                        const union amph_fwd_args *args, const char *path)
{
    const struct amph_fwd_arg_desc *last = desc->nargs ? &desc->arg[desc->nargs - 1] : NULL;
    int64_t result = amph_client_result(desc, args);

    if (last && last->word == FWD_OUT_NEWFILE && path[0])
        amph_fwd_show_name(t, path);
    else if (last && last->word == FWD_OUT_NEWFILE)
        show_file(t, *(struct amph_fwd_file *const *)((const char *)args + last->client_at));
    else if (last && last->word == FWD_OUT_SFLAGS)
        amph_fwd_show_value(t, FWD_OUT_SFLAGS, (uint64_t)result);
    else
        amph_fwd_text_put(t, "%lld", (long long)result);
}

/* Takes out a signal that is blocked and waiting. */
static void take_signal(int sig)
{
    const struct timespec none = { 0, 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, sig);
    sigtimedwait(&set, NULL, &none);
}

static void write_line(const char *line, size_t len)
{
    struct amph_client_sigguard g;

    /* Where the preload library is, this write is Amphora's own. */
    amph_client_sigguard_enter(&g);

    int err = syscall(SYS_write, amph_client_state.trace.fd, line, len) < 0 ? errno : 0;

    if (err == EFBIG) /* ulimit -f: the signal is not meant for the program */
        take_signal(SIGXFSZ);

    if (err && !atomic_exchange(&amph_client_state.trace.failed, true))
        amph_error("IOFWD_TRACE: a line of the trace cannot be written (%s), so the trace has gaps",
                   strerror(err));

    amph_client_sigguard_leave(&g);
}

/* Before the names of files change by the call; path: the first that it was given, if it is known. */
static void print_call(const struct amph_fwd_call *call, const struct amph_fwd_trace_sum *sum,
                       int err, uint64_t ns, const char *path)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    pid_t tid = amph_client_thread.caller.tid;
    char line[LINE_BYTES];
    struct amph_fwd_text t = { line, 0, sizeof line - 1 };

    amph_fwd_text_put(&t, "%d %s(", tid > 0 ? (int)tid : (int)syscall(SYS_gettid), desc->name);
    for (unsigned i = 0; i < desc->nargs; i++) {
        const struct amph_fwd_arg_desc *arg = &desc->arg[i];
        const void *at = (const char *)&call->u + arg->client_at;

        if (arg->word >= FWD_OUT_NEWFILE) {
            show_room(&t, arg->word, at);
            continue;
        }

        amph_fwd_text_put(&t, "%s", i ? ", " : "");
        show_argument(&t, arg->word, at);
    }

    amph_fwd_text_put(&t, ") = ");
    if (err) {
        amph_fwd_text_put(&t, "-1 ");
        amph_fwd_show_errno(&t, err);
    } else
        show_result(&t, desc, &call->u, path);

    amph_fwd_trace_side(&t, sum, AMPH_FWD_SIDE_FORWARDED, NULL, ns);
    line[t.len] = '\n';
    write_line(line, t.len + 1);
}

static int trace_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct amph_fwd_trace_sum own = { 0 };

    if (amph_client_thread.trace_sum) {
        amph_client_thread.trace_sum->calls++;
        return amph_layer_pass(self->next, call);
    }

    struct amph_client_recording r;
    bool records = amph_client_state.trace.records || amph_client_recorder.follows;
    uint64_t start = records ? amph_client_recorder_begin(&r, call) : amph_now_ns();

    amph_client_thread.trace_sum = &own;
    amph_client_thread.traced_calls++;

    int err = amph_layer_pass(self->next, call);
    uint64_t end = amph_now_ns();

    amph_client_thread.trace_sum = NULL;
    own.calls = 1;
    if (amph_client_state.trace.target.on)
        print_call(call, &own, err, end - start, records ? r.path : "");
    if (records)
        amph_client_recorder_end(&r, call, &own, err, end);

    return err;
}

static void print_refused(const struct amph_fwd_refused *refused, uint64_t ns)
{
    const struct amph_fwd_trace_sum none = { 0 };
    char line[LINE_BYTES];
    struct amph_fwd_text t = { line, 0, sizeof line - 1 };

    amph_fwd_text_put(&t, "%d %s(", (int)amph_client_thread.caller.tid, refused->name);
    if (refused->path[0])
        show_string(&t, refused->path);
    if (refused->path2[0]) {
        amph_fwd_text_put(&t, ", ");
        show_string(&t, refused->path2);
    }

    amph_fwd_text_put(&t, ") = -1 ");
    amph_fwd_show_errno(&t, refused->err);
    amph_fwd_trace_side(&t, &none, AMPH_FWD_SIDE_FORWARDED, NULL, ns);
    line[t.len] = '\n';
    write_line(line, t.len + 1);
}

void amph_fwd_trace_refused(const struct amph_fwd_refused *refused)
{
    uint64_t end = amph_now_ns();

    if (amph_client_state.trace.target.on)
        print_refused(refused, end - refused->since);
    if (amph_client_state.trace.records)
        amph_client_recorder_refused(refused, end);
}

bool amph_fwd_traces(void)
{
    return amph_client_state.trace.target.on || amph_client_state.trace.records;
}

uint64_t amph_fwd_traced_calls(void)
{
    return amph_client_thread.traced_calls;
}

static const struct amph_layer layer = { .name = "trace", .rank = 10, .call = trace_call };

void amph_client_trace_open(void)
{
    if (amph_client_state.trace.opened)
        return;

    amph_client_state.trace.opened = true;
    amph_client_state.trace.records = amph_client_recorder_open();
    amph_client_state.trace.target = amph_fwd_trace_parse(amph_env_str(AMPH_ENV_IOFWD_TRACE));
    if (!amph_client_state.trace.target.on && !amph_client_state.trace.records)
        return;

    /* where the preload library is, files are opened and closed within its frames */
    amph_client_recorder.follows = amph_client_state.trace.target.on &&
                                   !amph_client_is_interposed();

    if (amph_client_state.trace.target.all && amph_client_recorder.wanted != AMPH_TRACE_BY_PRELOAD)
        amph_warn(
            "IOFWD_TRACE=all: calls that stay on this host do not pass through iofwd-%s and have "
            "no lines; iofwd-run -preload prints them, if the program is not static",
            amph_client_recorder.wanted == AMPH_TRACE_BY_MOUNT ? "mount" : "trap");

    if (amph_client_state.trace.target.file) {
        sigset_t before;

        amph_thread_wait_begin(&before); /* a FIFO without a reader blocks */

        int fd = open(amph_client_state.trace.target.file,
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

        amph_thread_wait_end(&before);

        if (fd >= 0)
            amph_client_state.trace.fd = fcntl(fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM);

        if (fd >= 0 && amph_client_state.trace.fd >= 0)
            close(fd);
        else if (!amph_client_is_interposed()) /* the preload library has said so */
            amph_error("IOFWD_TRACE: %s cannot be opened (%s); the trace goes to standard error",
                       amph_client_state.trace.target.file, strerror(errno));

        if (amph_client_state.trace.fd < 0 || fd < 0)
            amph_client_state.trace.fd = STDERR_FILENO;
    }

    amph_layer_add(&layer);
}
