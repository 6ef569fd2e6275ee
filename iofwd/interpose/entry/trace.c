/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of caught calls; see trace.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see trace.h.
 */
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/wire/marshal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log_json.h"
#include "base/visible.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

#define LINE_BYTES 4096 /* a pipe takes this much in one piece */
#define PATH_SHOWN 1024

static bool shows_all(void)
{
    return amph_ip_state.trace & AMPH_IP_TRACE_ALL;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- where the lines go ---- */

static void complain(const char *what, const char *why, const char *then)
{
    char line[PATH_MAX + 256];

    if (__atomic_exchange_n(&amph_ip_state.trace_out.complained, 1, __ATOMIC_RELAXED))
        return;

    int n = snprintf(line, sizeof line, "amphora: IOFWD_TRACE: %s (%s); %s\n", what, why, then);

    (void)!libc_syscall(SYS_write, STDERR_FILENO, (long)line, n < (int)sizeof line ? n : 0, 0, 0,
                        0);
}

/* Writes a line.  Standard error may itself be a forwarded file. */
static void write_line(const char *line, size_t len)
{
    long n = amph_ip_state.trace_out.fd == STDERR_FILENO && amph_ip_fd(STDERR_FILENO)
                 ? amph_do_write(STDERR_FILENO, line, len)
                 : libc_syscall(SYS_write, amph_ip_state.trace_out.fd, (long)line, (long)len, 0, 0,
                                0);

    if (n < 0)
        complain("a line cannot be written", strerrordesc_np(errno), "the trace has gaps");
}

/* Writes a line without a signal for the program if the limit of file sizes refuses it. */
static void write_limited(const char *line, size_t len)
{
    const struct timespec none = { 0, 0 };
    sigset_t too_large, before, waiting;

    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    write_line(line, len);
    if (!sigismember(&waiting, SIGXFSZ))
        sigtimedwait(&too_large, NULL, &none);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void amph_ip_trace_start(const char *setting)
{
    struct amph_fwd_trace_target target = amph_fwd_trace_parse(setting);

    if (!target.on)
        return;

    if (target.file) {
        int fd = amph_ip_kernel_openat(AT_FDCWD, target.file,
                                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

        if (fd < 0)
            complain("the file cannot be opened on this host", strerrordesc_np(errno),
                     "the trace goes to standard error");
        else
            amph_ip_state.trace_out.fd = amph_ip_own(fd);
    }

    amph_ip_state.trace |= (uint8_t)(AMPH_IP_TRACE_LINES | (target.all ? AMPH_IP_TRACE_ALL : 0));
}

/* ---- frames ---- */

/* A frame below the stack of the caller was left behind by longjmp. */
bool amph_ip_trace_wanted(void)
{
    if (amph_ip_inside)
        return false;

    return !amph_ip_thread.trace ||
           (uintptr_t)amph_ip_thread.trace < (uintptr_t)__builtin_frame_address(0);
}

static inline void pass_sum_to_client(struct amph_fwd_trace_sum *sum)
{
    if (AMPH_UNLIKELY(!amph_ip_thread.client_sum)) {
        if (!__atomic_load_n(&amph_ip_client.loaded, __ATOMIC_ACQUIRE))
            return;

        amph_ip_thread.client_sum = amph_ip_client.direct->trace_place();
    }

    *amph_ip_thread.client_sum = sum;
}

void amph_ip_trace_client_loaded(void)
{
    if (amph_ip_thread.trace)
        pass_sum_to_client(&amph_ip_thread.trace->sum);
}

/* Finds the descriptor of an argument that is one, or is a stream with one.  false: it is
 * neither. */
static bool fd_of(unsigned word, uint64_t arg, int *fd_p)
{
    void *stream = (void *)(uintptr_t)arg;

    *fd_p = -1;
    if (!stream && (word == AMPH_FWD_SHOW_STREAM || word == AMPH_FWD_SHOW_DIR))
        return true;

    switch (word) {
    case AMPH_FWD_SHOW_FD:
    case AMPH_FWD_SHOW_DIRFD:
        *fd_p = (int)arg;
        return true;
    case AMPH_FWD_SHOW_STREAM:
        *fd_p = amph_ip_file(stream) ? amph_do_fileno(stream) : libc_fileno(stream);
        return true;
    case AMPH_FWD_SHOW_DIR:
        *fd_p = amph_ip_dir(stream) ? amph_do_dirfd(stream) : libc_dirfd(stream);
        return true;
    default:
        return false;
    }
}

/* Returns the kind of an argument.  Those of syscall() follow from its number. */
static unsigned word_at(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    bool by_number = i > 0 && shape->arg[0] == AMPH_FWD_SHOW_CALL;

    return by_number ? amph_ip_number_word((long)arg[0], i - 1) : shape->arg[i];
}

/* Returns the directory to which a path argument is relative. */
static int dir_before(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    return i > 0 && word_at(shape, arg, i - 1) == AMPH_FWD_SHOW_DIRFD ? (int)arg[i - 1] : AT_FDCWD;
}

static bool is_forwarded(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    switch (word_at(shape, arg, i)) {
    case AMPH_FWD_SHOW_FD:
        return amph_ip_fd((int)arg[i]);
    case AMPH_FWD_SHOW_DIRFD:
        return (int)arg[i] != AT_FDCWD && amph_ip_fd((int)arg[i]);
    case AMPH_FWD_SHOW_PATH:
        return amph_ip_at(dir_before(shape, arg, i), (const char *)(uintptr_t)arg[i]);
    case AMPH_FWD_SHOW_STREAM:
        return amph_ip_file((FILE *)(uintptr_t)arg[i]);
    case AMPH_FWD_SHOW_DIR:
        return amph_ip_dir((const void *)(uintptr_t)arg[i]);
    default:
        return false;
    }
}

/* Writes the path of a descriptor, or "". */
static void name_of(int fd, char *name, size_t cap)
{
    char local[PATH_MAX];

    name[0] = 0;
    if (amph_ip_fd(fd)) {
        struct amph_fd_file *of = amph_fdtab_get(fd);

        if (of) {
            snprintf(name, cap, "%s", of->path);
            amph_fdtab_put(of);
        }
        return;
    }

    if (shows_all() && fd >= 0 && amph_ip_name_of_local(fd, local))
        snprintf(name, cap, "%.*s", (int)cap - 1, local);
}

/* Returns whether Amphora has decided the call, or will decide it. */
static bool is_ours(const struct amph_ip_trace_frame *frame)
{
    return frame->sum.calls || frame->causes.calls || frame->leads_in ||
           (frame->concerned && !frame->leads_out);
}

static bool is_shown(const struct amph_ip_trace_frame *frame)
{
    return shows_all() || is_ours(frame);
}

void amph_ip_trace_resolved(bool forwarded)
{
    if (!amph_ip_thread.trace)
        return;

    if (forwarded)
        amph_ip_thread.trace->leads_in = true;
    else
        amph_ip_thread.trace->leads_out = true;
}

static void print(const struct amph_ip_trace_frame *frame, bool returned, int64_t result, int err,
                  uint64_t ns);

/* Records what the line needs from before the call. */
static void look_before(struct amph_ip_trace_frame *frame, const uint64_t *arg)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    unsigned named = 0;

    char path[PATH_MAX];

    frame->fd_name[0][0] = frame->fd_name[1][0] = 0;
    frame->concerned = amph_ip_trace_on_map(frame, path);
    for (unsigned i = 0; i < shape->nargs; i++) {
        frame->concerned = frame->concerned || is_forwarded(shape, arg, i);
        if (named < 2 && fd_of(word_at(shape, arg, i), arg[i], &frame->fd[named])) {
            name_of(frame->fd[named], frame->fd_name[named], AMPH_IP_TRACE_NAME);
            named++;
        }
    }

    if (shape->kind == AMPH_IP_SHAPE_LEAVES && is_shown(frame))
        print(frame, false, 0, 0, 0);
}

bool amph_ip_trace_on_map(const struct amph_ip_trace_frame *frame, char path[PATH_MAX])
{
    static const uint16_t on_memory[] = { AMPH_IP_NAME_munmap, AMPH_IP_NAME_msync,
                                          AMPH_IP_NAME_mprotect, AMPH_IP_NAME_mremap };

    for (size_t i = 0; i < AMPH_COUNTOF(on_memory); i++)
        if (frame->function == on_memory[i])
            return amph_ip_map_path((const void *)(uintptr_t)frame->function_arg[0],
                                    (size_t)frame->function_arg[1], path);

    return false;
}

static void look_at_number(struct amph_ip_trace_frame *frame)
{
    unsigned args;
    int function = amph_ip_number_function((long)frame->arg[0], &args);

    if (function != AMPH_IP_NAME_syscall) {
        frame->function = function;
        frame->function_args = args;
        frame->function_arg = frame->arg + 1;
    }
}

void amph_ip_trace_begin(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg)
{
    frame->outer = NULL;
    frame->caused = false;
    amph_ip_trace_begin_frame(frame, name, arg);
}

void amph_ip_trace_begin_frame(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg)
{
    frame->name = frame->function = name;
    frame->arg = frame->function_arg = arg;
    frame->function_args = amph_ip_shapes[name].nargs;
    if (name == AMPH_IP_NAME_syscall)
        look_at_number(frame);

    frame->sum = frame->causes = (struct amph_fwd_trace_sum){ 0 };
    frame->saved_errno = errno;
    frame->has_caused = false;
    frame->concerned = frame->leads_in = frame->leads_out = false;
    frame->recorded = amph_ip_state.trace & AMPH_IP_TRACE_RECORD;
    amph_ip_thread.trace = frame;

    if (amph_ip_state.trace & AMPH_IP_TRACE_LINES)
        look_before(frame, arg);

    frame->start_ns = frame->recorded ? amph_ip_record_begin(frame) : now_ns();
    errno = 0; /* if it stays 0, a result of NULL is not an error */
    pass_sum_to_client(&frame->sum);
}

static void add_sum(struct amph_fwd_trace_sum *to, const struct amph_fwd_trace_sum *sum)
{
    to->calls += sum->calls;
    to->passed += sum->passed;
    if (!sum->requests)
        return;

    to->requests += sum->requests;
    to->unawaited += sum->unawaited;
    to->file_ns += sum->file_ns;
    to->queue_ns += sum->queue_ns;
    to->server = sum->server;
    to->client = sum->client;
    to->seq = sum->seq;
}

static AMPH_NOINLINE void print_end(const struct amph_ip_trace_frame *frame, int64_t result,
                                    int err, uint64_t ns)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];

    if (is_shown(frame) && !amph_ip_stdio_is_small(frame, result, err) &&
        !(shape->kind == AMPH_IP_SHAPE_FORKS && result == 0))
        print(frame, true, result, err, ns);
}

void amph_ip_trace_end(struct amph_ip_trace_frame *frame, int64_t result)
{
    uint64_t end_ns = frame->recorded ? amph_ip_record_now() : now_ns();
    int err = errno;

    pass_sum_to_client(frame->outer ? &frame->outer->sum : NULL);
    if (frame->outer) {
        add_sum(&frame->outer->causes, &frame->sum);
        frame->outer->has_caused = true;
    }

    if (frame->recorded)
        amph_ip_record_end(frame, result, err, end_ns);

    if (amph_ip_state.trace & AMPH_IP_TRACE_LINES)
        print_end(frame, result, err, end_ns - frame->start_ns);

    amph_ip_thread.trace = frame->outer;
    errno = err ? err : frame->saved_errno;
}

/* ---- lines ---- */

static void show_text(struct amph_fwd_text *t, const char *text)
{
    if (!text || !amph_ip_can_read_text(text)) {
        amph_fwd_show_value(t, AMPH_FWD_SHOW_POINTER, (uintptr_t)text);
        return;
    }

    size_t len = strnlen(text, PATH_MAX);

    amph_fwd_show_bytes(t, text, len < PATH_SHOWN ? len : PATH_SHOWN, true);
    if (len > PATH_SHOWN)
        amph_fwd_text_put(t, "...");
}

static void show_data(struct amph_fwd_text *t, const void *data, int64_t len)
{
    if (len >= 0 && data && amph_ip_can_read(data, (size_t)len))
        amph_fwd_show_bytes(t, data, (size_t)len, false);
    else
        amph_fwd_show_value(t, AMPH_FWD_SHOW_POINTER, (uintptr_t)data);
}

static void show_fd(struct amph_fwd_text *t, int fd, const char *name)
{
    if (fd == AT_FDCWD)
        amph_fwd_text_put(t, "AT_FDCWD");
    else
        amph_fwd_text_put(t, "%d", fd);

    if (fd != AT_FDCWD && name[0])
        amph_fwd_show_name(t, name);
}

/* The length of the data that argument i points to; below 0: not known. */
static int64_t data_len(const struct amph_ip_trace_frame *frame, unsigned i)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];

    if (shape->stdio == AMPH_IP_STDIO_ITEMS)
        return (int64_t)(frame->arg[i + 1] * frame->arg[i + 2]);

    return i + 1 < shape->nargs ? (int64_t)frame->arg[i + 1] : -1;
}

struct showing {
    const struct amph_ip_trace_frame *frame;
    int64_t result; /* below 0: none */
    unsigned named; /* descriptors printed so far */
};

static void show_argument(struct amph_fwd_text *t, struct showing *s, unsigned i)
{
    const struct amph_ip_trace_frame *frame = s->frame;
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    const void *pointer = (const void *)(uintptr_t)frame->arg[i];
    unsigned word = word_at(shape, frame->arg, i);
    const char *call = word == AMPH_FWD_SHOW_CALL ? amph_ip_number_name((long)frame->arg[i]) : NULL;

    if (call) {
        amph_fwd_text_put(t, "%s", call);
        return;
    }

    switch (word) {
    case AMPH_FWD_SHOW_FD:
    case AMPH_FWD_SHOW_DIRFD:
    case AMPH_FWD_SHOW_STREAM:
    case AMPH_FWD_SHOW_DIR:
        if (s->named < 2)
            show_fd(t, frame->fd[s->named], frame->fd_name[s->named]);
        else
            amph_fwd_show_value(t, AMPH_FWD_SHOW_NUMBER, frame->arg[i]);

        s->named++;
        break;
    case AMPH_FWD_SHOW_PATH:
    case AMPH_FWD_SHOW_TEXT:
        show_text(t, pointer);
        break;
    case AMPH_FWD_SHOW_DATA_IN:
        show_data(t, pointer, data_len(frame, i));
        break;
    case AMPH_FWD_SHOW_DATA_OUT:
        show_data(t, pointer, s->result);
        break;
    case FWD_OUT_STATBUF:
        if (s->result == 0 && amph_ip_can_read(pointer, sizeof(struct stat)) && AMPH_IP_WIDE)
            amph_fwd_show_stat(t, pointer);
        else
            amph_fwd_show_value(t, AMPH_FWD_SHOW_POINTER, (uintptr_t)pointer);
        break;
    default:
        amph_fwd_show_value(t, word, frame->arg[i]);
    }
}

/* Returns whether the argument is the mode of an open that creates no file. */
static bool is_unread_mode(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    return i > 0 && word_at(shape, arg, i) == FWD_IN_MODE &&
           word_at(shape, arg, i - 1) == FWD_IN_OFLAGS && !amph_ip_open_takes_mode((int)arg[i - 1]);
}

/* Returns whether this command of fcntl takes no argument. */
static bool is_unread_command(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    static const int alone[] = { F_GETFD,    F_GETFL,      F_GETOWN,   F_GETSIG,
                                 F_GETLEASE, F_GETPIPE_SZ, F_GET_SEALS };

    if (i == 0 || word_at(shape, arg, i - 1) != AMPH_FWD_SHOW_COMMAND)
        return false;

    for (size_t k = 0; k < AMPH_COUNTOF(alone); k++)
        if ((int)arg[i - 1] == alone[k])
            return true;

    return false;
}

static void show_result(struct amph_fwd_text *t, const struct amph_ip_shape *shape, int64_t result,
                        int err)
{
    char name[AMPH_IP_TRACE_NAME];

    if (amph_ip_shape_failed(shape, result, err)) {
        bool is_value = shape->outcome == AMPH_FWD_OUTCOME_ERRNO;

        amph_fwd_text_put(t,
                          shape->outcome == AMPH_FWD_OUTCOME_POINTER && !result ? "NULL " : "-1 ");
        amph_fwd_show_errno(t, is_value ? (int)result : err);
        return;
    }

    switch (shape->outcome) {
    case AMPH_FWD_OUTCOME_NONE:
        amph_fwd_text_put(t, "?");
        break;
    case AMPH_FWD_OUTCOME_FD:
        name_of((int)result, name, sizeof name);
        show_fd(t, (int)result, name);
        break;
    case AMPH_FWD_OUTCOME_MODE:
        amph_fwd_show_value(t, FWD_IN_MODE, (uint64_t)result);
        break;
    case AMPH_FWD_OUTCOME_POINTER:
        amph_fwd_show_value(t, AMPH_FWD_SHOW_POINTER, (uint64_t)result);
        break;
    default:
        amph_fwd_text_put(t, "%lld", (long long)result);
    }
}

/* Returns why no server was asked. */
static const char *reason_of(const struct amph_ip_trace_frame *frame)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];

    if (frame->concerned)
        return "the path leads out of the prefixes";

    for (unsigned i = 0; i < shape->nargs; i++) {
        unsigned word = word_at(shape, frame->arg, i);

        if (word == AMPH_FWD_SHOW_PATH && frame->arg[i])
            return "the path is below no prefix";
        if (word == AMPH_FWD_SHOW_FD)
            return "a descriptor of this host";
        if (word == AMPH_FWD_SHOW_STREAM || word == AMPH_FWD_SHOW_DIR)
            return "a stream of this host";
    }

    return "no file";
}

static void print(const struct amph_ip_trace_frame *frame, bool returned, int64_t result, int err,
                  uint64_t ns)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    char line[LINE_BYTES];
    struct amph_fwd_text t = { line, 0, sizeof line - 1 };
    struct showing s = { frame, returned ? result : -1, 0 };

    amph_fwd_text_put(&t, "%d %s(", (int)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
                      amph_ip_name_texts[frame->name]);

    for (unsigned i = 0; i < shape->nargs; i++) {
        if (is_unread_mode(shape, frame->arg, i) || is_unread_command(shape, frame->arg, i) ||
            word_at(shape, frame->arg, i) == AMPH_FWD_SHOW_UNUSED)
            continue;

        amph_fwd_text_put(&t, "%s", i ? ", " : "");
        show_argument(&t, &s, i);
    }

    amph_fwd_text_put(&t, ") = ");
    if (returned) {
        show_result(&t, shape, result, err);

        struct amph_fwd_trace_sum sum = frame->sum;

        add_sum(&sum, &frame->causes);
        amph_fwd_trace_side(&t, &sum,
                            is_ours(frame) ? AMPH_FWD_SIDE_FORWARDED : AMPH_FWD_SIDE_LOCAL,
                            reason_of(frame), ns);
    } else
        amph_fwd_text_put(&t, "?");

    line[t.len] = '\n';
    if (AMPH_UNLIKELY(amph_ip_state.file_size_limit != UINT64_MAX))
        write_limited(line, t.len + 1);
    else
        write_line(line, t.len + 1);
}

/* ---- AMPHORA_LOG=debug ---- */

/* As base/log.c does with AMPHORA_LOG_FORMAT=json. */
static void put_object(struct amph_fwd_text *t, const char *message)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    amph_fwd_text_put(t, "{\"time\":%lld.%06ld,\"level\":\"debug\",\"process\":\"",
                      (long long)now.tv_sec, now.tv_nsec / 1000);
    t->len += amph_log_json_text(t->at + t->len, t->room - t->len, program_invocation_short_name);
    amph_fwd_text_put(t, "\",\"pid\":%d,\"message\":\"", (int)amph_ip_kernel_getpid());
    t->len += amph_log_json_text(t->at + t->len, t->room - t->len, message);
    memcpy(t->at + t->len, "\"}", 2);
    t->len += 2;
}

void amph_ip_debug_line(const char *format, ...)
{
    char line[LINE_BYTES], message[LINE_BYTES / 2];
    struct amph_fwd_text t = { line, 0, sizeof line - 4 };
    int saved = errno;
    va_list ap;

    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    if (!amph_ip_state.json)
        amph_fwd_text_put(&t, "amphora: process %d: ", (int)amph_ip_kernel_getpid());

    if (amph_ip_state.json)
        put_object(&t, message);
    else
        t.len += strlen(amph_visible(line + t.len, t.room - t.len, message));

    line[t.len] = '\n';
    if (!amph_ip_log_take(line, t.len + 1))
        (void)!libc_syscall(SYS_write, STDERR_FILENO, (long)line, (long)t.len + 1, 0, 0, 0);

    errno = saved;
}
