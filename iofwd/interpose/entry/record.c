/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder; see record.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 */
#include "iofwd/interpose/entry/record.h"

#include <sys/resource.h>
#include <time.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"

enum {
    FDS = 1 << 16, /* descriptors whose file is remembered */
    FIRST_BYTES = 1 << 16,
    GROWTH_MAX_BYTES = 1 << 22, /* that a file grows by at once */
    NUMBERS = 1024              /* of system calls */
};

/* The file of each descriptor, by its text's number; 0: not known.  Apart from amph_ip_state, because
 * most processes never touch its half a megabyte. */
static uint64_t file_of_fd[FDS];

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void complain(const char *what, int err)
{
    char line[PATH_MAX + 256];

    if (__atomic_exchange_n(&amph_ip_state.recorder.complained, 1, __ATOMIC_RELAXED))
        return;

    int n = snprintf(line, sizeof line,
                     "amphora: IOFWD_TRACE_DIR=%s: %s (%s); the trace is not complete\n",
                     amph_ip_state.recorder.dir, what, strerrordesc_np(err));

    (void)!libc_syscall(SYS_write, STDERR_FILENO, (long)line, n < (int)sizeof line ? n : 0, 0, 0,
                        0);
}

/* ---- files ---- */

static bool fill(int fd, uint64_t from, uint64_t to)
{
    static const char zeros[4096];

    if (libc_syscall(SYS_fallocate, fd, 0, (long)from, (long)(to - from), 0, 0) == 0)
        return true;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return false;

    for (; from < to; from += sizeof zeros)
        if (amph_ip_kernel_pwrite(fd, zeros, sizeof zeros, (off_t)from) != sizeof zeros)
            return false;

    return true;
}

/* A limit of file sizes would send the program a signal. */
static bool is_below_limit(uint64_t bytes)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    amph_ip_kernel_prlimit(RLIMIT_FSIZE, NULL, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
        return true;

    errno = EFBIG;
    return false;
}

bool amph_ip_record_grow(struct amph_ip_recording *t, uint64_t end)
{
    int fd = is_below_limit(end) ? amph_ip_kernel_openat(AT_FDCWD, t->path, O_RDWR | O_CLOEXEC, 0)
                                 : -1;
    bool ok = fd >= 0 && fill(fd, t->ready, end);

    if (!ok)
        complain("a file cannot grow", errno);
    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return ok;
}

static union amph_trace_slot *take_slow(struct amph_ip_recording *t, uint64_t at)
{
    if (at + AMPH_TRACE_SLOT > t->limit)
        return NULL;

    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (at + AMPH_TRACE_SLOT > t->ready && at + AMPH_TRACE_SLOT <= t->limit) {
        uint64_t end = t->ready +
                       (t->ready < GROWTH_MAX_BYTES ? t->ready : (uint64_t)GROWTH_MAX_BYTES);

        if (end > t->limit)
            end = t->limit;

        if (amph_ip_record_grow(t, end))
            t->ready = end;
        else
            t->limit = t->ready;
    }

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return at + AMPH_TRACE_SLOT <= t->ready ? (void *)(t->base + at) : NULL;
}

static inline union amph_trace_slot *take(struct amph_ip_recording *t)
{
    uint64_t at = __atomic_fetch_add(&t->next, AMPH_TRACE_SLOT, __ATOMIC_RELAXED);

    return AMPH_LIKELY(at + AMPH_TRACE_SLOT <= t->ready) ? (void *)(t->base + at)
                                                         : take_slow(t, at);
}

static inline void commit(uint32_t *word, uint32_t kind, uint32_t state, uint32_t value)
{
    __atomic_store_n(word, AMPH_TRACE_COMMIT(kind, state, value), __ATOMIC_RELEASE);
}

static bool spares_lock(void)
{
    return !__atomic_test_and_set(&amph_ip_state.recorder.spares_busy, __ATOMIC_ACQUIRE);
}

static void spares_unlock(void)
{
    __atomic_clear(&amph_ip_state.recorder.spares_busy, __ATOMIC_RELEASE);
}

/* A thread has ended: the next one goes on in its file. */
static void give_back(void *arg)
{
    struct amph_ip_recording *t = arg;

    amph_ip_thread.recording = NULL;
    if (!t->base || !spares_lock())
        return;

    t->spare = amph_ip_state.recorder.spares;
    amph_ip_state.recorder.spares = t;
    spares_unlock();
}

static struct amph_ip_recording *take_spare(void)
{
    if (!amph_ip_state.recorder.spares || !spares_lock())
        return NULL;

    struct amph_ip_recording *t = amph_ip_state.recorder.spares;

    /* those of the process that has forked are wiped */
    amph_ip_state.recorder.spares = t && t->base ? t->spare : NULL;
    spares_unlock();
    if (!t || !t->base)
        return NULL;

    union amph_trace_slot *slot = take(t);

    if (slot) {
        slot->thread.tid = (int32_t)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
        slot->thread.start_ns = now_ns(CLOCK_MONOTONIC);
        commit(&slot->commit, AMPH_TRACE_THREAD, AMPH_TRACE_DONE, 0);
    }

    return t;
}

/* The pair that was read within the shortest time, so that a pause in between does not count. */
static void read_clocks(struct amph_trace_header *h)
{
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = now_ns(CLOCK_MONOTONIC);
        uint64_t real = now_ns(CLOCK_REALTIME);
        uint64_t took = now_ns(CLOCK_MONOTONIC) - before;

        if (took < shortest) {
            shortest = took;
            h->monotonic_ns = before + took / 2;
            h->realtime_ns = real;
        }
    }
}

static void write_header(struct amph_ip_recording *t)
{
    struct amph_trace_header *h = (void *)t->base;

    memcpy(h->magic, AMPH_TRACE_MAGIC, sizeof h->magic);
    h->order = AMPH_TRACE_ORDER;
    h->version = AMPH_TRACE_VERSION;
    h->header_bytes = AMPH_TRACE_HEADER;
    h->slot_bytes = AMPH_TRACE_SLOT;
    read_clocks(h);
    h->clock_error_ns = UINT64_MAX;
    h->pid = (int32_t)libc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    h->tid = (int32_t)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    h->ppid = (int32_t)libc_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
    h->rank = amph_ip_state.recorder.rank;
    h->budget = t->limit;
    h->began_ns = amph_ip_state.recorder.began_ns;
    gethostname(h->host, sizeof h->host - 1);
    if (amph_ip_kernel_readlink("/proc/self/exe", h->exe, sizeof h->exe - 1) < 0)
        h->exe[0] = 0;
    if (!amph_ip_kernel_getcwd(h->cwd, sizeof h->cwd))
        h->cwd[0] = 0;
}

static bool open_file(struct amph_ip_recording *t)
{
    uint64_t room = amph_ip_state.recorder.budget + (1 << 18); /* with the tail */
    uint32_t serial = __atomic_add_fetch(&amph_ip_state.recorder.files, 1, __ATOMIC_RELAXED);
    char host[64] = "";

    gethostname(host, sizeof host - 1);
    int n = snprintf(t->path, sizeof t->path, "%s/%s.%d.%llx.%u" AMPH_TRACE_SUFFIX,
                     amph_ip_state.recorder.dir, host,
                     (int)libc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
                     (unsigned long long)amph_ip_state.recorder.began_ns, serial);

    int fd = n < (int)sizeof t->path && is_below_limit(FIRST_BYTES)
                 ? amph_ip_kernel_openat(AT_FDCWD, t->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                         0666)
                 : -1;

    if (fd < 0 || !fill(fd, 0, FIRST_BYTES)) {
        complain("a file cannot be made", n < (int)sizeof t->path ? errno : ENAMETOOLONG);
        if (fd >= 0)
            amph_ip_kernel_close(fd);

        return false;
    }

    void *base = amph_ip_kernel_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    amph_ip_kernel_close(fd);
    if (base == MAP_FAILED) {
        complain("a file cannot be mapped; ulimit -v, or IOFWD_TRACE_BUDGET, may be the reason",
                 errno);
        return false;
    }

    madvise(base, room, MADV_DONTFORK);
    madvise(base, room, MADV_DONTDUMP);
    t->ready = FIRST_BYTES;
    t->limit = amph_ip_state.recorder.budget;
    t->budget_end = room;
    t->next = AMPH_TRACE_HEADER;
    t->serial = serial;
    t->base = base;
    write_header(t);
    return true;
}

/* This thread's file, made at its first call; NULL: there can be none. */
static AMPH_COLD struct amph_ip_recording *begin_file(void)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;
    sigset_t all, before;
    int saved = errno;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!t)
        t = take_spare();

    if (!t) {
        t = amph_ip_kernel_mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (t == MAP_FAILED)
            t = NULL;
        else
            madvise(t, sizeof *t, MADV_WIPEONFORK);
    }

    if (t && !t->base && !open_file(t)) {
        amph_ip_state.trace &= (uint8_t)~AMPH_IP_TRACE_RECORD;
        t = NULL;
    }

    amph_ip_thread.recording = t;
    if (t && amph_ip_state.recorder.has_key)
        pthread_setspecific(amph_ip_state.recorder.at_exit, t);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return t;
}

static inline struct amph_ip_recording *recording(void)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;

    return AMPH_LIKELY(t && t->base) ? t : begin_file();
}

/* ---- texts ---- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);

    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

static uint64_t hash_of(uint64_t base, const char *text, size_t len)
{
    uint64_t h = mix(base, len), word;

    for (; len >= 8; text += 8, len -= 8) {
        memcpy(&word, text, 8);
        h = mix(h, word);
    }

    word = 0;
    memcpy(&word, text, len);
    h = mix(h, word);
    return h ? h : 1;
}

static AMPH_COLD void write_text(struct amph_ip_recording *t, uint64_t file, uint64_t base,
                                 const char *text, size_t len)
{
    char whole[sizeof base + AMPH_TRACE_TEXT_MAX];
    size_t total = sizeof base + len;

    memcpy(whole, &base, sizeof base);
    memcpy(whole + sizeof base, text, len);
    for (size_t at = 0, part = 0; at < total; at += AMPH_TRACE_TEXT_PART, part++) {
        size_t n = total - at < AMPH_TRACE_TEXT_PART ? total - at : AMPH_TRACE_TEXT_PART;
        union amph_trace_slot *slot = take(t);

        if (!slot) {
            ((struct amph_trace_header *)(void *)t->base)->dropped_texts++;
            return;
        }

        slot->text.total = (uint16_t)total;
        slot->text.file = file;
        memcpy(slot->text.part, whole + at, n);
        commit(&slot->commit, AMPH_TRACE_TEXT, AMPH_TRACE_DONE, (uint32_t)part);
    }
}

/* The number of a text, which the file has afterwards.  base: of the folder that it starts at. */
static uint64_t number_of(struct amph_ip_recording *t, uint64_t base, const char *text)
{
    size_t len = strnlen(text, PATH_MAX);
    uint64_t file = hash_of(base, text, len);
    uint64_t *seen = &t->seen[file % AMPH_COUNTOF(t->seen)];

    if (AMPH_UNLIKELY(*seen != file)) {
        *seen = file;
        write_text(t, file, base, text, len);
    }

    return file;
}

static AMPH_COLD void write_name(struct amph_ip_recording *t, unsigned call)
{
    const char *text = call & AMPH_TRACE_BY_NUMBER
                           ? amph_ip_number_name((long)(call & ~(unsigned)AMPH_TRACE_BY_NUMBER))
                           : amph_ip_name_texts[call];
    union amph_trace_slot *slot = take(t);

    if (slot && text) {
        strncpy(slot->name.name, text, sizeof slot->name.name - 1);
        commit(&slot->commit, AMPH_TRACE_NAME, AMPH_TRACE_DONE, call);
    }
}

static inline void name_call(struct amph_ip_recording *t, unsigned call)
{
    unsigned bit = call & AMPH_TRACE_BY_NUMBER
                       ? NUMBERS + (call & ~(unsigned)AMPH_TRACE_BY_NUMBER) % NUMBERS
                       : call % NUMBERS;

    if (AMPH_UNLIKELY(!(t->named[bit / 8] & 1 << bit % 8))) {
        t->named[bit / 8] |= (uint8_t)(1 << bit % 8);
        write_name(t, call);
    }
}

/* ---- descriptors ---- */

static AMPH_COLD uint64_t ask_file(struct amph_ip_recording *t, int fd)
{
    char link[32], name[PATH_MAX];
    int saved = errno;
    struct amph_fd_file *of = amph_ip_fd(fd) ? amph_fdtab_get(fd) : NULL;
    uint64_t file = 0;

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);
    if (of && of->path[0])
        snprintf(name, sizeof name, "%s", of->path);
    else {
        ssize_t n = amph_ip_kernel_readlink(link, name, sizeof name - 1);

        name[n > 0 ? n : 0] = 0;
    }

    if (of)
        amph_fdtab_put(of);
    if (name[0])
        file = file_of_fd[fd] = number_of(t, 0, name);

    errno = saved;
    return file;
}

static inline uint64_t file_of(struct amph_ip_recording *t, int fd)
{
    if ((unsigned)fd >= FDS)
        return fd == AT_FDCWD ? amph_ip_state.recorder.cwd : 0;

    uint64_t file = __atomic_load_n(&file_of_fd[fd], __ATOMIC_RELAXED);

    return AMPH_LIKELY(file != 0) ? file : ask_file(t, fd);
}

static void set_file(int64_t fd, uint64_t file)
{
    if (fd >= 0 && fd < FDS)
        __atomic_store_n(&file_of_fd[fd], file, __ATOMIC_RELAXED);
}

static void ask_cwd(struct amph_ip_recording *t)
{
    char name[PATH_MAX];
    int saved = errno;

    if (amph_ip_state.cwd)
        amph_ip_state.recorder.cwd = number_of(t, 0, amph_ip_state.cwd);
    else if (amph_ip_kernel_getcwd(name, sizeof name))
        amph_ip_state.recorder.cwd = number_of(t, 0, name);

    errno = saved;
}

/* What a call does to the table of descriptors, or to the working directory. */
enum effect {
    NONE,
    CLOSES,
    CLOSES_MANY,
    COPIES, /* the result is the same file as the first descriptor */
    MAYBE_COPIES,
    MOVES
};

static const uint8_t effects[AMPH_IP_NAME_COUNT] = {
    [AMPH_IP_NAME_close] = CLOSES,          [AMPH_IP_NAME___close] = CLOSES,
    [AMPH_IP_NAME_closedir] = CLOSES,       [AMPH_IP_NAME_close_range] = CLOSES_MANY,
    [AMPH_IP_NAME_closefrom] = CLOSES_MANY, [AMPH_IP_NAME_dup] = COPIES,
    [AMPH_IP_NAME_dup2] = COPIES,           [AMPH_IP_NAME___dup2] = COPIES,
    [AMPH_IP_NAME_dup3] = COPIES,           [AMPH_IP_NAME_fcntl] = MAYBE_COPIES,
    [AMPH_IP_NAME_fcntl64] = MAYBE_COPIES,  [AMPH_IP_NAME___fcntl] = MAYBE_COPIES,
    [AMPH_IP_NAME_chdir] = MOVES,           [AMPH_IP_NAME_fchdir] = MOVES,
    [AMPH_IP_NAME_pipe] = CLOSES_MANY,      [AMPH_IP_NAME___pipe] = CLOSES_MANY,
    [AMPH_IP_NAME_pipe2] = CLOSES_MANY,     [AMPH_IP_NAME_socketpair] = CLOSES_MANY,
    [AMPH_IP_NAME_syscall] = CLOSES_MANY,
};

/* Of a call that has returned well. */
static void take_effect(struct amph_ip_recording *t, const struct amph_ip_trace_frame *frame,
                        const struct amph_trace_call *call, int64_t result)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    bool is_stream;

    switch (effects[frame->name]) {
    case NONE:
        is_stream = frame->name == AMPH_IP_NAME_fopen || frame->name == AMPH_IP_NAME_fopen64;
        if (is_stream || frame->name == AMPH_IP_NAME_opendir) {
            void *object = (void *)(intptr_t)result;
            int fd = is_stream ? libc_fileno(object) : libc_dirfd(object);

            set_file(fd, call->file);
        } else if (shape->outcome == AMPH_FWD_OUTCOME_FD)
            set_file(result, call->has & AMPH_TRACE_HAS_PATH ? call->file : 0);
        break;
    case CLOSES:
        set_file(call->fd, 0);
        break;
    case CLOSES_MANY: /* or other changes to descriptors that are not in the record */
        for (size_t i = 0; i < FDS; i++)
            if (file_of_fd[i])
                set_file((int64_t)i, 0);
        break;
    case MAYBE_COPIES:
        if ((int)frame->arg[1] != F_DUPFD && (int)frame->arg[1] != F_DUPFD_CLOEXEC)
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

static unsigned word_at(const struct amph_ip_shape *shape, const uint64_t *arg, unsigned i)
{
    bool by_number = i > 0 && shape->arg[0] == AMPH_FWD_SHOW_CALL;

    return by_number ? amph_ip_number_word((long)arg[0], i - 1) : shape->arg[i];
}

static unsigned call_number(const struct amph_ip_trace_frame *frame)
{
    bool known = frame->name == AMPH_IP_NAME_syscall && frame->arg[0] < NUMBERS &&
                 amph_ip_number_name((long)frame->arg[0]);

    return known ? AMPH_TRACE_BY_NUMBER | (unsigned)frame->arg[0] : (unsigned)frame->name;
}

void amph_ip_record_begin(struct amph_ip_trace_frame *frame)
{
    struct amph_ip_recording *t = recording();
    unsigned call = call_number(frame);

    frame->slot = NULL;
    if (!t)
        return;

    name_call(t, call);

    union amph_trace_slot *slot = take(t);

    if (AMPH_UNLIKELY(!slot))
        return;

    frame->slot = &slot->call;
    frame->serial = t->serial;
    frame->is_forwarded_fd = false;
    slot->call.start_ns = frame->start_ns;

    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];

    if (shape->nargs && shape->arg[0] == AMPH_FWD_SHOW_FD) {
        int fd = (int)frame->arg[0];

        slot->call.fd = fd;
        slot->call.has = AMPH_TRACE_HAS_FD;
        frame->is_forwarded_fd = amph_fdtab_class(fd) == FDTAB_FORWARDED;
        slot->call.file = file_of(t, fd);
    } else if (shape->kind == AMPH_IP_SHAPE_LEAVES && shape->nargs &&
               shape->arg[0] == AMPH_FWD_SHOW_PATH) {
        const char *path = (const char *)(uintptr_t)frame->arg[0];

        if (amph_ip_can_read_text(path)) {
            /* a program's name without a slash is searched for */
            slot->call.file = number_of(
                t, path[0] == '/' || !strchr(path, '/') ? 0 : amph_ip_state.recorder.cwd, path);
            slot->call.has = AMPH_TRACE_HAS_PATH;
        }
    }

    commit(&slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_STARTED, call);
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

    bool is_searched = frame->name == AMPH_IP_NAME_dlopen && !strchr(path, '/');
    uint64_t base = path[0] == '/' || is_searched ? 0 : file_of(f->t, f->dirfd);

    if (!f->has_file)
        f->call->has |= AMPH_TRACE_HAS_PATH;

    put_file(f, number_of(f->t, base, path), -1);
}

static int stream_fd(unsigned word, void *stream)
{
    if (!stream)
        return -1;
    if (word == AMPH_FWD_SHOW_STREAM)
        return amph_ip_file(stream) ? amph_do_fileno(stream) : libc_fileno(stream);

    return amph_ip_dir(stream) ? amph_do_dirfd(stream) : libc_dirfd(stream);
}

static void put_flags(struct amph_trace_call *call, uint64_t value)
{
    if (!(call->has & AMPH_TRACE_HAS_FLAGS)) {
        call->flags = (uint32_t)value;
        call->has |= AMPH_TRACE_HAS_FLAGS;
    }
}

static void put_argument(struct filling *f, const struct amph_ip_trace_frame *frame, unsigned i)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    uint64_t value = frame->arg[i];

    switch (word_at(shape, frame->arg, i)) {
    case AMPH_FWD_SHOW_FD:
        put_fd(f, (int)value);
        break;
    case AMPH_FWD_SHOW_STREAM:
    case AMPH_FWD_SHOW_DIR:
        /* one that is being closed is no more */
        if (effects[frame->name] != CLOSES && frame->name != AMPH_IP_NAME_freopen)
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
    case FWD_IN_OFLAGS:
    case FWD_IN_ATFLAGS:
    case FWD_IN_WHENCE:
    case FWD_IN_AMODE:
    case FWD_IN_RFLAGS:
    case FWD_IN_LOCKOP:
    case AMPH_FWD_SHOW_COMMAND:
    case AMPH_FWD_SHOW_HEX:
        put_flags(f->call, value);
        break;
    default:
        break;
    }
}

static void write_extra(struct amph_ip_recording *t, const struct filling *f)
{
    union amph_trace_slot *slot = take(t);

    if (!slot)
        return;

    slot->extra = f->extra;
    commit(&slot->commit, AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
}

void amph_ip_record_end(struct amph_ip_trace_frame *frame, int64_t result, int err, uint64_t end_ns)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[frame->name];
    struct amph_ip_recording *t = amph_ip_thread.recording;
    struct amph_trace_call own = { 0 };

    if (!t || !t->base || (frame->slot && frame->serial != t->serial))
        return; /* in the child of a fork: the call is the parent's */
    if (shape->kind == AMPH_IP_SHAPE_FORKS && result == 0)
        return;

    struct amph_trace_call *call = frame->slot ? frame->slot : &own;
    bool failed = amph_ip_shape_failed(shape, result, err);
    struct filling f = { .t = t, .call = call, .dirfd = AT_FDCWD };

    f.readable = !failed || err == ENOENT;
    call->start_ns = frame->start_ns;
    call->end_ns = end_ns;
    call->result = result;

    /* the usual calls by descriptor have been looked up before */
    bool looked_up = call->has & AMPH_TRACE_HAS_FD;

    f.has_file = looked_up;
    for (unsigned i = looked_up; i < shape->nargs; i++)
        put_argument(&f, frame, i);

    if (failed) {
        call->err = (uint16_t)(shape->outcome == AMPH_FWD_OUTCOME_ERRNO ? result : err);
        call->has |= AMPH_TRACE_HAS_FAILED;
    } else
        take_effect(t, frame, call, result);

    call->forwarded = frame->sum.requests || frame->leads_in || frame->is_forwarded_fd;
    f.extra.start_ns = call->start_ns;
    if (frame->sum.requests) {
        call->has |= AMPH_TRACE_HAS_EXTRA;
        f.extra.server = frame->sum.server;
        f.extra.requests = frame->sum.requests;
        f.extra.server_ns = frame->sum.server_ns;
    }

    if (AMPH_UNLIKELY(!frame->slot)) {
        own.commit = call_number(frame);
        amph_ip_record_beyond(t, &own);
        return;
    }

    if (call->has & AMPH_TRACE_HAS_EXTRA)
        write_extra(t, &f);

    commit(&call->commit, AMPH_TRACE_CALL, AMPH_TRACE_DONE, call_number(frame));
}

void amph_ip_record_start(const char *dir, int64_t rank, uint64_t budget)
{
    if (!dir || !dir[0])
        return;

    snprintf(amph_ip_state.recorder.dir, sizeof amph_ip_state.recorder.dir, "%s", dir);
    amph_ip_state.recorder.rank = (int32_t)rank;
    amph_ip_state.recorder.budget = budget & ~(uint64_t)4095;
    amph_ip_state.recorder.began_ns = now_ns(CLOCK_MONOTONIC);
    amph_ip_state.recorder.has_key = pthread_key_create(&amph_ip_state.recorder.at_exit,
                                                        give_back) == 0;

    struct amph_ip_recording *t = begin_file();

    if (!t)
        return;

    ask_cwd(t);
    amph_ip_state.trace |= AMPH_IP_TRACE_RECORD;
}
