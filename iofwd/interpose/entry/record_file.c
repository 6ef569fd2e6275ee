/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's files: a ring and a stream for each thread; see record.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/trace/writer.h"

enum {
    RING_BYTES = AMPH_TRACE_RING * AMPH_TRACE_SLOT,
    STREAM = AMPH_TRACE_HEADER + RING_BYTES, /* where the stream begins */
    FIRST_PLACES = 4096 / AMPH_TRACE_SLOT    /* of the ring, which doubles up to AMPH_TRACE_RING */
};

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

static int open_again(struct amph_ip_recording *t)
{
    return amph_ip_kernel_openat(AT_FDCWD, t->path, O_RDWR | O_CLOEXEC, 0);
}

static void *map_part(int fd, uint64_t from, uint64_t bytes)
{
    void *at = amph_ip_kernel_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                   (off_t)from);

    if (at == MAP_FAILED)
        return NULL;

    madvise(at, bytes, MADV_DONTFORK);
    madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

void *amph_ip_record_map(struct amph_ip_recording *t, uint64_t from, uint64_t to)
{
    int fd = is_below_limit(to) ? open_again(t) : -1;
    void *at = fd >= 0 && fill(fd, from, to) ? map_part(fd, from, to - from) : NULL;

    if (!at)
        complain("a file cannot grow", errno);
    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return at;
}

/* Writes a block of n bytes to the end of the stream.  false: there is no room. */
static bool write_block(struct amph_ip_recording *t, size_t n)
{
    int fd = is_below_limit(t->stream_end + n) ? open_again(t) : -1;
    bool ok = fd >= 0 && amph_ip_kernel_pwrite(fd, t->block, n, (off_t)t->stream_end) == (ssize_t)n;

    if (!ok)
        complain("a file cannot grow", errno ? errno : ENOSPC);
    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return ok;
}

/* Takes all slots out of the ring, which goes into its next lap.  The reader goes by the header's
 * number: a block before it counts, and the ring's slots of the same lap do not. */
static void flush(struct amph_ip_recording *t)
{
    struct amph_trace_header *h = (void *)t->base;
    struct amph_trace_block head = { .first = t->flushed };
    size_t n = amph_trace_encode(t->ring, AMPH_TRACE_RING, t->lap, t->block + sizeof head,
                                 &head.slots);
    int saved = errno;

    head.bytes = (uint32_t)n;
    memcpy(t->block, &head, sizeof head);
    n += sizeof head;
    errno = 0;
    if (t->stream_end + n > STREAM + amph_ip_state.recorder.budget || !write_block(t, n)) {
        t->is_full = true;
        errno = saved;
        return;
    }

    errno = saved;
    t->stream_end += n;
    t->flushed += AMPH_TRACE_RING;
    t->limit = t->flushed + AMPH_TRACE_RING;
    __atomic_store_n(&h->flushed, t->flushed, __ATOMIC_RELEASE);
    t->lap ^= AMPH_TRACE_LAP;
}

/* In the first lap.  Blocks are allocated before a slot is taken, because a full disk would end the
 * program at a store into the mapping. */
static void add_places(struct amph_ip_recording *t)
{
    int saved = errno;
    uint64_t from = AMPH_TRACE_HEADER + (uint64_t)t->places * AMPH_TRACE_SLOT;
    uint64_t to = AMPH_TRACE_HEADER + (uint64_t)t->places * 2 * AMPH_TRACE_SLOT;
    int fd = open_again(t);

    if (fd >= 0 && fill(fd, from, to)) {
        t->places *= 2;
        t->limit = t->places;
    } else {
        complain("a file cannot grow", errno);
        t->is_full = true;
    }

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    errno = saved;
}

bool amph_ip_record_make_room(struct amph_ip_recording *t, uint64_t number)
{
    sigset_t all, before;

    if (t->is_full)
        return false;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (number >= t->limit && !t->is_full)
        if (t->places < AMPH_TRACE_RING)
            add_places(t);
        else
            flush(t);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !t->is_full;
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
void amph_ip_record_give_back(void *arg)
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

    uint64_t number;
    union amph_trace_slot *slot = amph_ip_record_take(t, &number);

    if (slot) {
        slot->thread.tid = (int32_t)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
        slot->thread.start_ns = amph_ip_clock_plain();
        amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_THREAD, AMPH_TRACE_DONE, 0);
    }

    return t;
}

static void write_header(struct amph_ip_recording *t)
{
    struct amph_trace_header *h = (void *)t->base;

    amph_trace_header_begin(h);
    h->clock = amph_ip_state.recorder.clock;
    h->pid = (int32_t)libc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    h->tid = (int32_t)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    h->ppid = (int32_t)libc_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
    h->rank = amph_ip_state.recorder.rank;
    h->budget = amph_ip_state.recorder.budget;
    h->ring_slots = AMPH_TRACE_RING;
    h->began_ns = amph_ip_state.recorder.began_ns;
    if (amph_ip_kernel_readlink("/proc/self/exe", h->exe, sizeof h->exe - 1) < 0)
        h->exe[0] = 0;
    if (!amph_ip_kernel_getcwd(h->cwd, sizeof h->cwd))
        h->cwd[0] = 0;
}

/* Header and ring, of which only the first part gets blocks; a hole reads as empty slots. */
static bool make_sparse(int fd)
{
    return libc_syscall(SYS_ftruncate, fd, STREAM, 0, 0, 0, 0) == 0 &&
           fill(fd, 0, AMPH_TRACE_HEADER + FIRST_PLACES * AMPH_TRACE_SLOT);
}

static bool open_file(struct amph_ip_recording *t)
{
    uint32_t serial = __atomic_add_fetch(&amph_ip_state.recorder.files, 1, __ATOMIC_RELAXED);
    char host[64] = "";

    gethostname(host, sizeof host - 1);
    int n = snprintf(t->path, sizeof t->path, "%s/%s.%d.%llx.%u" AMPH_TRACE_SUFFIX,
                     amph_ip_state.recorder.dir, host,
                     (int)libc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
                     (unsigned long long)amph_ip_state.recorder.began_ns, serial);

    int fd = n < (int)sizeof t->path && is_below_limit(STREAM)
                 ? amph_ip_kernel_openat(AT_FDCWD, t->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                         0666)
                 : -1;

    if (fd < 0 || !make_sparse(fd)) {
        complain("a file cannot be made", n < (int)sizeof t->path ? errno : ENAMETOOLONG);
        if (fd >= 0)
            amph_ip_kernel_close(fd);

        return false;
    }

    char *base = map_part(fd, 0, STREAM);

    amph_ip_kernel_close(fd);
    if (!base) {
        complain("a file cannot be mapped; ulimit -v may be the reason", errno);
        return false;
    }

    t->ring = (void *)(base + AMPH_TRACE_HEADER);
    t->stream_end = STREAM;
    t->limit = t->places = FIRST_PLACES;
    t->serial = serial;
    t->base = base;
    write_header(t);
    return true;
}

/* This thread's file, made at its first call; NULL: there can be none. */
struct amph_ip_recording *amph_ip_record_begin_file(void)
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
