/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder; see record.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "iofwd/interpose/entry/record.h"
#include "iofwd/trace/writer.h"
#include "iofwd/wire/marshal.h"
#include "iofwd/wire/show.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/record_event.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/process/bypass.h"

enum {
    FDS = 1 << 16, /* descriptors whose file is remembered */
    NUMBERS = 1024 /* of system calls */
};

/* The file of each descriptor, by its text's number; 0: not known.  Apart from amph_ip_state, because
 * most processes never touch its half a megabyte. */
static uint64_t file_of_fd[FDS];

static inline struct amph_ip_recording *recording(void)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;

    return AMPH_LIKELY(t && t->base) ? t : amph_ip_record_begin_file();
}

/* ---- texts ---- */

static AMPH_COLD void write_text(struct amph_ip_recording *t, uint64_t file, uint64_t base,
                                 const char *text, size_t len)
{
    char whole[AMPH_TRACE_TEXT_MAX];
    size_t total = amph_trace_text_whole(whole, base, text, len);

    for (uint32_t part = 0; part < amph_trace_text_parts(total); part++) {
        uint64_t number;
        union amph_trace_slot *slot = amph_ip_record_take(t, &number);

        if (!slot) {
            ((struct amph_trace_header *)(void *)t->base)->dropped_texts++;
            return;
        }

        amph_trace_text_fill(&slot->text, file, whole, total, part);
        amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_TEXT, AMPH_TRACE_DONE, part);
    }
}

/* The number of a text, which the file has afterwards.  base: of the folder that it starts at. */
static uint64_t number_of(struct amph_ip_recording *t, uint64_t base, const char *text)
{
    size_t len = strnlen(text, PATH_MAX);
    uint64_t file = amph_trace_text_number(base, text, len);
    uint64_t *seen = &t->seen[file % AMPH_COUNTOF(t->seen)];

    if (AMPH_UNLIKELY(*seen != file)) {
        *seen = file;
        write_text(t, file, base, text, len);
    }

    return file;
}

static AMPH_COLD void write_name(struct amph_ip_recording *t, unsigned call, const char *text)
{
    uint64_t number;
    union amph_trace_slot *slot = amph_ip_record_take(t, &number);

    if (slot && text) {
        strncpy(slot->name.name, text, sizeof slot->name.name - 1);
        amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_NAME, AMPH_TRACE_DONE, call);
    }
}

static inline void name_call(struct amph_ip_recording *t, unsigned call)
{
    unsigned bit = call & AMPH_TRACE_BY_NUMBER
                       ? NUMBERS + (call & ~(unsigned)AMPH_TRACE_BY_NUMBER) % NUMBERS
                       : call % NUMBERS;

    if (AMPH_UNLIKELY(!(t->named[bit / 8] & 1 << bit % 8))) {
        bool by_number = call & AMPH_TRACE_BY_NUMBER;
        long number = (long)(call & ~(unsigned)AMPH_TRACE_BY_NUMBER);

        t->named[bit / 8] |= (uint8_t)(1 << bit % 8);
        write_name(t, call, by_number ? amph_ip_number_name(number) : amph_ip_name_texts[call]);
    }
}

/* The same for a function, not a system call's number. */
static inline void name_function(struct amph_ip_recording *t, unsigned name)
{
    if (AMPH_UNLIKELY(!(t->named[name / 8] & 1 << name % 8))) {
        t->named[name / 8] |= (uint8_t)(1 << name % 8);
        write_name(t, name, amph_ip_name_texts[name]);
    }
}

_Static_assert((int)AMPH_IP_NAME_COUNT <= (int)NUMBERS, "each function has a bit of its own");

void amph_ip_record_name(struct amph_ip_recording *t, unsigned number, const char *name)
{
    unsigned bit = 2 * NUMBERS + number % AMPH_IP_EVENTS;

    if (AMPH_UNLIKELY(!(t->named[bit / 8] & 1 << bit % 8))) {
        t->named[bit / 8] |= (uint8_t)(1 << bit % 8);
        write_name(t, number, name);
    }
}

struct amph_ip_recording *amph_ip_record_this(void)
{
    return recording();
}

/* ---- descriptors ---- */

static void set_file(int64_t fd, uint64_t file)
{
    if (fd < 0 || fd >= FDS)
        return;

    int end = __atomic_load_n(&amph_ip_state.recorder.files_end, __ATOMIC_RELAXED);

    while (file && fd >= end &&
           !__atomic_compare_exchange_n(&amph_ip_state.recorder.files_end, &end, (int)fd + 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }

    __atomic_store_n(&file_of_fd[fd], file, __ATOMIC_RELAXED);
}

static void forget_files(void)
{
    int end = __atomic_exchange_n(&amph_ip_state.recorder.files_end, 0, __ATOMIC_RELAXED);

    for (int fd = 0; fd < end; fd++)
        set_file(fd, 0);
}

/* Is it the name of the memory file below a descriptor that another program has opened? */
static bool is_placeholder(const char *name)
{
    static const char start[] = "/memfd:" AMPH_FWD_PLACEHOLDER_MARK;

    return strncmp(name, start, sizeof start - 1) == 0;
}

/* Writes the path of a forwarded file.  Only the server knows that of one which another program has
 * opened. */
static void name_forwarded(struct amph_fd_file *of, char name[PATH_MAX])
{
    size_t len = 0;

    if (of->path[0])
        snprintf(name, PATH_MAX, "%s", of->path);
    else if (__atomic_load_n(&of->ready, __ATOMIC_ACQUIRE) &&
             amph_ip_client.fwd.nameof(amph_ip_client.client, &of->file, name, PATH_MAX - 1,
                                       &len) == 0)
        name[len] = 0;
}

static AMPH_COLD uint64_t ask_file(struct amph_ip_recording *t, int fd)
{
    char link[32], name[PATH_MAX] = "";
    int saved = errno;
    struct amph_fd_file *of = amph_ip_fd(fd) ? amph_fdtab_get(fd) : NULL;
    uint64_t file = 0;

    if (of) {
        name_forwarded(of, name);
        amph_fdtab_put(of);
    } else {
        snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);

        ssize_t n = amph_ip_kernel_readlink(link, name, sizeof name - 1);

        name[n > 0 ? n : 0] = 0;
    }

    /* what a forwarded descriptor leads to is known from the first forwarded call on */
    if (name[0] && !is_placeholder(name))
        set_file(fd, file = number_of(t, 0, name));

    errno = saved;
    return file;
}

static void ask_cwd(struct amph_ip_recording *t)
{
    char name[PATH_MAX];
    int saved = errno;

    if (amph_ip_cwd()->name)
        amph_ip_cwd()->recorded = number_of(t, 0, amph_ip_cwd()->name);
    else if (amph_ip_kernel_getcwd(name, sizeof name) && name[0] == '/')
        amph_ip_cwd()->recorded = number_of(t, 0, name);

    errno = saved;
}

/* The number of the working directory.  In the constructor a forwarded one is not known yet. */
static inline uint64_t cwd_of(struct amph_ip_recording *t)
{
    if (AMPH_UNLIKELY(!amph_ip_cwd()->recorded))
        ask_cwd(t);

    return amph_ip_cwd()->recorded;
}

static inline uint64_t file_of(struct amph_ip_recording *t, int fd)
{
    if ((unsigned)fd >= FDS)
        return fd == AT_FDCWD ? cwd_of(t) : 0;

    uint64_t file = __atomic_load_n(&file_of_fd[fd], __ATOMIC_RELAXED);

    return AMPH_LIKELY(file != 0) ? file : ask_file(t, fd);
}

uint64_t amph_ip_record_file(struct amph_ip_recording *t, int fd)
{
    return file_of(t, fd);
}

uint64_t amph_ip_record_path(struct amph_ip_recording *t, const char *path)
{
    return number_of(t, path[0] == '/' ? 0 : cwd_of(t), path);
}

uint64_t amph_ip_record_path_at(struct amph_ip_recording *t, int dirfd, const char *path)
{
    return number_of(t, path[0] == '/' ? 0 : file_of(t, dirfd), path);
}

void amph_ip_record_set_file(int fd, uint64_t file)
{
    set_file(fd, file);
}

/* What a call does to the table of descriptors, or to the working directory. */
enum effect {
    NONE,
    CLOSES,
    CLOSES_MANY,
    GIVES_STREAM, /* the result is a stream; path and mode are the first arguments, if there are any */
    COPIES,       /* the result is the same file as the first descriptor */
    MAYBE_COPIES,
    MOVES
};

static const uint8_t effects[AMPH_IP_NAME_COUNT] = {
    [AMPH_IP_NAME_close] = CLOSES,
    [AMPH_IP_NAME___close] = CLOSES,
    [AMPH_IP_NAME_closedir] = CLOSES,
    [AMPH_IP_NAME_close_range] = CLOSES_MANY,
    [AMPH_IP_NAME_closefrom] = CLOSES_MANY,
    [AMPH_IP_NAME_dup] = COPIES,
    [AMPH_IP_NAME_dup2] = COPIES,
    [AMPH_IP_NAME___dup2] = COPIES,
    [AMPH_IP_NAME_dup3] = COPIES,
    [AMPH_IP_NAME_fcntl] = MAYBE_COPIES,
    [AMPH_IP_NAME_fcntl64] = MAYBE_COPIES,
    [AMPH_IP_NAME___fcntl] = MAYBE_COPIES,
    [AMPH_IP_NAME_chdir] = MOVES,
    [AMPH_IP_NAME_fchdir] = MOVES,
    [AMPH_IP_NAME_pipe] = CLOSES_MANY,
    [AMPH_IP_NAME___pipe] = CLOSES_MANY,
    [AMPH_IP_NAME_pipe2] = CLOSES_MANY,
    [AMPH_IP_NAME_socketpair] = CLOSES_MANY,
    [AMPH_IP_NAME_syscall] = CLOSES_MANY,
    [AMPH_IP_NAME_fclose] = CLOSES,
    [AMPH_IP_NAME__IO_fclose] = CLOSES,
    [AMPH_IP_NAME_fopen] = GIVES_STREAM,
    [AMPH_IP_NAME_fopen64] = GIVES_STREAM,
    [AMPH_IP_NAME__IO_fopen] = GIVES_STREAM,
    [AMPH_IP_NAME_freopen] = GIVES_STREAM,
    [AMPH_IP_NAME_freopen64] = GIVES_STREAM,
    [AMPH_IP_NAME_tmpfile] = GIVES_STREAM,
    [AMPH_IP_NAME_tmpfile64] = GIVES_STREAM,
    [AMPH_IP_NAME_setmntent] = GIVES_STREAM,
    [AMPH_IP_NAME___setmntent] = GIVES_STREAM,
};

static int stream_fd(unsigned word, void *stream)
{
    if (!stream)
        return -1;
    if (word == AMPH_FWD_SHOW_STREAM)
        return amph_ip_file(stream) ? amph_do_fileno(stream) : libc_fileno(stream);

    return amph_ip_dir(stream) ? amph_do_dirfd(stream) : libc_dirfd(stream);
}

/* A stream has been opened: the record gets its descriptor, and open's flags for its mode. */
static void take_stream(const struct amph_ip_trace_frame *frame, struct amph_trace_call *call,
                        void *stream)
{
    bool has_mode = amph_ip_shapes[frame->function].nargs > 1;
    int flags = has_mode ? amph_ip_mode_flags((const char *)(uintptr_t)frame->function_arg[1]) : -1;
    int fd = stream_fd(AMPH_FWD_SHOW_STREAM, stream);

    if (call->has & AMPH_TRACE_HAS_PATH || !has_mode)
        set_file(fd, call->file);

    if (fd >= 0) {
        call->fd = fd;
        call->has |= AMPH_TRACE_HAS_FD;
    }

    if (flags >= 0) {
        call->flags = (uint32_t)flags;
        call->has |= AMPH_TRACE_HAS_FLAGS;
    }
}

/* Of a call that has returned well. */
static void take_effect(struct amph_ip_recording *t, const struct amph_ip_trace_frame *frame,
                        struct amph_trace_call *call, int64_t result)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];
    void *object = (void *)(intptr_t)result;

    switch (effects[frame->function]) {
    case NONE:
        if (frame->function == AMPH_IP_NAME_opendir)
            set_file(stream_fd(AMPH_FWD_SHOW_DIR, object), call->file);
        else if (shape->outcome == AMPH_FWD_OUTCOME_FD)
            set_file(result, call->has & AMPH_TRACE_HAS_PATH ? call->file : 0);
        break;

    case GIVES_STREAM:
        take_stream(frame, call, object);
        break;

    case CLOSES:
        set_file(call->has & AMPH_TRACE_HAS_FD ? call->fd : -1, 0);
        break;

    case CLOSES_MANY: /* or other changes to descriptors that are not in the record */
        forget_files();
        break;

    case MAYBE_COPIES:
        if ((int)frame->function_arg[1] != F_DUPFD &&
            (int)frame->function_arg[1] != F_DUPFD_CLOEXEC)
            break;
        __attribute__((fallthrough));
    case COPIES:
        set_file(result, call->file);
        break;

    case MOVES:
        ask_cwd(t);
        break;
    }
}

/* ---- calls ---- */

/* Of a system call that is not known no argument is known to be flags. */
static unsigned word_at(const struct amph_ip_trace_frame *frame, unsigned i)
{
    if (frame->function != AMPH_IP_NAME_syscall || i == 0)
        return amph_ip_shapes[frame->function].arg[i];

    unsigned word = amph_ip_number_word((long)frame->arg[0], i - 1);

    return word == AMPH_FWD_SHOW_HEX ? (unsigned)AMPH_FWD_SHOW_POINTER : word;
}

static unsigned call_number(const struct amph_ip_trace_frame *frame)
{
    bool known = frame->name == AMPH_IP_NAME_syscall && frame->arg[0] < NUMBERS &&
                 amph_ip_number_name((long)frame->arg[0]);

    return known ? AMPH_TRACE_BY_NUMBER | (unsigned)frame->arg[0] : (unsigned)frame->name;
}

uint64_t amph_ip_record_now(void)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;

    return AMPH_LIKELY(t && t->base) ? amph_ip_clock_now(&t->clock) : amph_ip_clock_plain();
}

/* Will the calls of the program that is started be recorded? */
static void look_at_program(const char *file)
{
    if (file && amph_ip_can_read_text(file))
        amph_ip_bypass_record(file, amph_ip_state.recorder.dir);
}

/* The descriptor that is known before the call: the first argument, or that of a stream, which may be no
 * more after it. */
static int fd_before(const struct amph_ip_trace_frame *frame)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];

    if (shape->stdio)
        return stream_fd(AMPH_FWD_SHOW_STREAM, amph_ip_stdio_stream(frame));
    if (shape->arg[0] == AMPH_FWD_SHOW_DIR && effects[frame->function] == CLOSES)
        return stream_fd(AMPH_FWD_SHOW_DIR, (void *)(uintptr_t)frame->function_arg[0]);

    return shape->arg[0] == AMPH_FWD_SHOW_FD ? (int)frame->function_arg[0] : -1;
}

/* What is known of a call before it is made: enough to know it by if it never returns. */
static AMPH_NOINLINE void look_up(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];

    frame->file = 0;
    frame->has = 0;
    frame->is_forwarded_fd = frame->is_on_map = false;
    if (!shape->nargs)
        return;

    if (frame->function == AMPH_IP_NAME_posix_spawn || frame->function == AMPH_IP_NAME_posix_spawnp)
        look_at_program((const char *)(uintptr_t)frame->function_arg[1]);

    char path[PATH_MAX];
    int fd = fd_before(frame);

    frame->is_on_map = amph_ip_trace_on_map(frame, path);
    if (frame->is_on_map)
        frame->file = path[0] ? number_of(t, 0, path) : 0;
    else if (shape->arg[0] == AMPH_FWD_SHOW_FD || fd >= 0) {
        frame->has = AMPH_TRACE_HAS_FD;
        frame->known_fd = fd;
        frame->is_forwarded_fd = amph_fdtab_class(fd) == FDTAB_FORWARDED;
        frame->file = file_of(t, fd);
    } else if (shape->kind == AMPH_IP_SHAPE_LEAVES && shape->arg[0] == AMPH_FWD_SHOW_PATH) {
        const char *path = (const char *)(uintptr_t)frame->function_arg[0];

        if (!amph_ip_can_read_text(path))
            return;

        /* a program's name without a slash is searched for */
        bool is_whole = path[0] == '/' || !strchr(path, '/');

        frame->file = number_of(t, is_whole ? 0 : cwd_of(t), path);
        frame->has = AMPH_TRACE_HAS_PATH;
        look_at_program(path);
    }
}

/* The same of a plain call. */
static inline void look_up_plain(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame)
{
    int fd = (int)frame->arg[0];

    frame->has = AMPH_TRACE_HAS_FD;
    frame->known_fd = fd;
    frame->is_on_map = false;
    frame->is_forwarded_fd = amph_fdtab_class(fd) == FDTAB_FORWARDED;
    frame->file = file_of(t, fd);
}

static inline const struct amph_ip_plan *plan_of(const struct amph_ip_trace_frame *frame)
{
    const struct amph_ip_plan *plan = &amph_ip_plans[frame->name];

    return plan->has ? plan : NULL;
}

static void put_known(struct amph_trace_call *call, const struct amph_ip_trace_frame *frame)
{
    call->has = (uint8_t)(frame->has | (frame->caused ? AMPH_TRACE_HAS_CAUSE : 0));
    call->file = frame->file;
    call->fd = frame->has & AMPH_TRACE_HAS_FD ? frame->known_fd : 0;
    call->start_ns = frame->start_ns;
}

uint64_t amph_ip_record_begin(struct amph_ip_trace_frame *frame)
{
    struct amph_ip_recording *t = recording();

    frame->plan = plan_of(frame);
    frame->slot = NULL;
    frame->has = 0;

    unsigned call = frame->plan ? (unsigned)frame->name : call_number(frame);

    if (!t)
        return amph_ip_clock_plain();

    if (AMPH_LIKELY(frame->plan != NULL)) {
        name_function(t, call);
        look_up_plain(t, frame);
    } else {
        name_call(t, call);
        look_up(t, frame);
    }

    /* most of them are too small for a record */
    bool waits = !frame->plan && amph_ip_stdio_moves(frame);
    union amph_trace_slot *slot = waits ? NULL : amph_ip_record_take(t, &frame->slot_number);

    frame->start_ns = amph_ip_clock_now(&t->clock);
    if (AMPH_UNLIKELY(!slot))
        return frame->start_ns;

    frame->slot = &slot->call;
    frame->serial = t->serial;
    put_known(&slot->call, frame);
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_STARTED, call);
    return frame->start_ns;
}

struct filling {
    struct amph_ip_recording *t;
    struct amph_trace_call *call;
    struct amph_trace_extra extra;
    int dirfd;
    bool has_file, readable;
};

static void put_file(struct filling *f, uint64_t file, int fd)
{
    if (!f->has_file)
        f->call->file = file;
    else {
        f->extra.file2 = file;
        f->extra.fd2 = fd;
        f->call->has |= AMPH_TRACE_HAS_EXTRA;
    }

    f->has_file = true;
}

static void put_fd(struct filling *f, int fd)
{
    if (!(f->call->has & AMPH_TRACE_HAS_FD) || !f->has_file) {
        f->call->fd = fd;
        f->call->has |= AMPH_TRACE_HAS_FD;
    }

    put_file(f, file_of(f->t, fd), fd);
}

static void put_path(struct filling *f, const struct amph_ip_trace_frame *frame, const char *path)
{
    if (!path || !(f->readable || amph_ip_can_read_text(path)))
        return;

    if (!path[0]) { /* AT_EMPTY_PATH */
        if (f->dirfd >= 0)
            put_fd(f, f->dirfd);

        return;
    }

    bool is_searched = frame->function == AMPH_IP_NAME_dlopen && !strchr(path, '/');
    uint64_t base = path[0] == '/' || is_searched ? 0 : file_of(f->t, f->dirfd);

    if (!f->has_file)
        f->call->has |= AMPH_TRACE_HAS_PATH;

    put_file(f, number_of(f->t, base, path), -1);
}

static void put_flags(struct amph_trace_call *call, uint64_t value)
{
    if (!(call->has & AMPH_TRACE_HAS_FLAGS)) {
        call->flags = (uint32_t)value;
        call->has |= AMPH_TRACE_HAS_FLAGS;
    }
}

/* Of a record lock: its kind, above the command, and its range. */
static void put_lock(struct filling *f, int any_command, const struct flock *l)
{
    const int command = amph_ip_kernel_command(any_command);
    bool is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK ||
                   command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;

    if (!AMPH_IP_WIDE || !is_lock || !amph_ip_can_read(l, sizeof *l))
        return;

    f->call->flags |= (uint32_t)(l->l_type & 3) << 16;
    f->call->offset = l->l_start;
    f->call->length = (uint64_t)l->l_len;
    f->call->has |= AMPH_TRACE_HAS_OFFSET | AMPH_TRACE_HAS_LENGTH;
}

static void put_argument(struct filling *f, const struct amph_ip_trace_frame *frame, unsigned i)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];
    uint64_t value = frame->function_arg[i];
    unsigned word = word_at(frame, i);

    switch (word) {
    case AMPH_FWD_SHOW_FD:
        put_fd(f, (int)value);
        break;

    case AMPH_FWD_SHOW_STREAM:
    case AMPH_FWD_SHOW_DIR:
        /* one that is being closed is no more */
        if (!shape->stdio && effects[frame->function] != CLOSES &&
            effects[frame->function] != GIVES_STREAM)
            put_fd(f, stream_fd(shape->arg[i], (void *)(uintptr_t)value));
        break;

    case AMPH_FWD_SHOW_DIRFD:
        f->dirfd = (int)value;
        break;

    case AMPH_FWD_SHOW_PATH:
        put_path(f, frame, (const char *)(uintptr_t)value);
        f->dirfd = AT_FDCWD;
        break;

    case FWD_IN_LEN:
        f->call->length = value;
        f->call->has |= AMPH_TRACE_HAS_LENGTH;
        break;

    case FWD_IN_OFF:
        f->call->offset = (int64_t)value;
        f->call->has |= AMPH_TRACE_HAS_OFFSET;
        break;

    case AMPH_FWD_SHOW_PROTECTION: /* of mmap, above its flags */
        f->call->flags = (uint32_t)value << 29;
        break;

    case AMPH_FWD_SHOW_MAP:
        put_flags(f->call, (value & 0x1fffffff) | f->call->flags);
        break;

    case AMPH_FWD_SHOW_COMMAND:
        put_flags(f->call, value);
        if (i + 1 < shape->nargs)
            put_lock(f, (int)value, (const struct flock *)(uintptr_t)frame->function_arg[i + 1]);
        break;

    default:
        if (amph_ip_record_is_flags(word))
            put_flags(f->call, value);
        break;
    }
}

static void write_extra(struct amph_ip_recording *t, const struct filling *f)
{
    uint64_t number;
    union amph_trace_slot *slot = amph_ip_record_take(t, &number);

    if (!slot)
        return;

    slot->extra = f->extra;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
}

/* The call's slot, or another one if its lap has ended meanwhile: then the call is in the stream as
 * one that has not returned, and the reader replaces it by this record. */
static union amph_trace_slot *slot_of(struct amph_ip_recording *t,
                                      struct amph_ip_trace_frame *frame)
{
    if (amph_ip_stdio_moves(frame))
        return amph_ip_record_take(t, &frame->slot_number);
    if (!frame->slot)
        return NULL;
    if (AMPH_UNLIKELY(frame->slot_number < t->flushed))
        return amph_ip_record_take(t, &frame->slot_number);

    return (void *)frame->slot;
}

static void write_call(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame,
                       struct filling *f)
{
    union amph_trace_slot *slot = slot_of(t, frame);
    unsigned number = call_number(frame);

    if (AMPH_UNLIKELY(!slot)) {
        f->call->commit = number;
        amph_ip_record_beyond(t, f->call);
        return;
    }

    f->call->commit = slot->commit; /* until all is there */
    slot->call = *f->call;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_DONE, number);
    if (f->call->has & AMPH_TRACE_HAS_EXTRA)
        write_extra(t, f);
}

/* Of a function of streams: bytes in place of items or a text. */
static void put_moved(struct amph_trace_call *call, const struct amph_ip_trace_frame *frame,
                      int64_t result)
{
    call->result = amph_ip_stdio_moved(frame, result);
    if (amph_ip_stdio_moves(frame)) {
        call->length = amph_ip_stdio_asked(frame, call->result);
        call->has |= AMPH_TRACE_HAS_LENGTH;
    }
}

static bool has_failed(const struct amph_ip_trace_frame *frame, int64_t result, int err)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];

    if (frame->name == AMPH_IP_NAME_syscall)
        return result == -1;

    return shape->stdio ? amph_ip_stdio_failed(frame, result, err)
                        : amph_ip_shape_failed(shape, result, err);
}

/* Of any call. */
static AMPH_NOINLINE void end_any(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame,
                                  int64_t result, int err, uint64_t end_ns)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->function];

    if (shape->kind == AMPH_IP_SHAPE_FORKS && result == 0)
        return;

    if (amph_ip_stdio_is_small(frame, result, err))
        return;

    struct amph_trace_call call = { .end_ns = end_ns, .result = result };
    bool failed = has_failed(frame, result, err);
    struct filling f = { .t = t, .call = &call, .dirfd = AT_FDCWD };

    put_known(&call, frame);
    f.readable = !failed || err == ENOENT;

    /* the usual calls by descriptor have been looked up before */
    bool looked_up = call.has & AMPH_TRACE_HAS_FD;

    f.has_file = looked_up;
    for (unsigned i = looked_up; i < frame->function_args; i++)
        put_argument(&f, frame, i);

    if (shape->stdio)
        put_moved(&call, frame, result);

    if (failed) {
        bool is_value = shape->outcome == AMPH_FWD_OUTCOME_ERRNO &&
                        frame->name != AMPH_IP_NAME_syscall;

        call.err = (uint16_t)(is_value ? result : err);
        call.has |= AMPH_TRACE_HAS_FAILED;
    } else
        take_effect(t, frame, &call, result);

    bool is_forwarded = frame->sum.requests || frame->causes.requests || frame->leads_in ||
                        frame->is_forwarded_fd || frame->is_on_map;

    call.side = is_forwarded ? AMPH_TRACE_FORWARDED : AMPH_TRACE_LOCAL;
    f.extra.start_ns = call.start_ns;
    if (frame->sum.requests) {
        call.has |= AMPH_TRACE_HAS_EXTRA;
        f.extra.server = frame->sum.server;
        f.extra.requests = frame->sum.requests;
        f.extra.queue_ns = amph_fwd_trace_queue(&frame->sum, end_ns - call.start_ns);
        f.extra.server_ns = frame->sum.file_ns + f.extra.queue_ns;
    }

    write_call(t, frame, &f);
    if (!failed)
        amph_ip_record_requests(frame, result);
}

void amph_ip_record_end(struct amph_ip_trace_frame *frame, int64_t result, int err, uint64_t end_ns)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;

    if (!t || !t->base || (frame->slot && frame->serial != t->serial))
        return; /* in the child of a fork: the call is the parent's */

    if (!frame->plan || !amph_ip_record_end_plain(t, frame, result, err, end_ns))
        end_any(t, frame, result, err, end_ns);
}

void amph_ip_record_start(const char *dir, int64_t rank, uint64_t budget)
{
    if (!dir || !dir[0])
        return;

    snprintf(amph_ip_state.recorder.dir, sizeof amph_ip_state.recorder.dir, "%s", dir);
    amph_ip_state.recorder.rank = (int32_t)rank;
    amph_ip_state.recorder.budget = budget & ~(uint64_t)4095;
    amph_ip_state.recorder.has_counter = amph_ip_clock_has_counter();
    amph_ip_state.recorder.began_ns = amph_ip_clock_plain();
    amph_ip_state.recorder.has_key = pthread_key_create(&amph_ip_state.recorder.at_exit,
                                                        amph_ip_record_give_back) == 0;

    struct amph_ip_recording *t = amph_ip_record_begin_file();

    if (!t)
        return;

    for (int name = 0; name < AMPH_IP_NAME_COUNT; name++)
        if (effects[name] == NONE)
            amph_ip_record_plan(name);

    ask_cwd(t);
    amph_ip_state.trace |= AMPH_IP_TRACE_RECORD;
}
