/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a piece of a large cached read with several threads.  The client waits and does not need
 * its core, and one core copies from the page cache at only half the rate that the client can take.
 *
 * The progress thread cuts the piece into slices, and each thread takes the next free one.  The
 * reader threads have no other work.  If they get no core, the progress thread reads all slices.
 *
 * Layer: iofwd.
 * Thread rule: progress thread, except what reader_main runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/platform.h"
#include "base/os/thread.h"
#include "iofwd/server/internal.h"

#define SLICE_MIN ((size_t)32 << 10)
#define SLICE ((size_t)64 << 10)
#define SLICES_MAX 64u
#define SLICES_WANTED 4u /* slices of a read: enough to balance the threads' ends */
#define GAP_NS \
    (200 * AMPH_NS_PER_US) /* maximum gap between large reads for which waking the readers pays */
#define SPIN_NS (100 * AMPH_NS_PER_US) /* how long an idle reader spins before it sleeps */
#define RELAX_ROUNDS 16u               /* before a yield */

struct reader {
    struct amph_server_readers *all;
    pthread_t thread;
    sem_t wake;
    atomic_bool asleep;
};

struct amph_server_readers {
    unsigned n, max; /* reader threads, without the progress thread */
    unsigned cores;
    cpu_set_t cpus; /* the process may use */
    /* core of the progress thread, which the readers avoid; -1: unknown */
    int cpu;
    uint64_t last_ns; /* end of the last read */
    /* The read in progress: set before its first slice is offered, and unchanged until its last
     * slice is done. */
    int fd;
    size_t len, slice;
    off_t off;
    char *buf;
    ssize_t got[SLICES_MAX]; /* results of the slices; minus an errno value after an error */
    uint64_t number;
    /* Number of the read, number of its slices, and the next slice that is free. */
    _Alignas(64) _Atomic uint64_t offer;
    _Alignas(64) _Atomic unsigned done;
    _Atomic uint64_t by_readers; /* slices */
    atomic_bool stop;
    struct reader reader[];
};

static uint64_t offer_of(uint64_t number, unsigned slices, unsigned next)
{
    return number << 16 | slices << 8 | next;
}

/* Takes and reads the next free slice.  false: all are taken. */
static bool read_slice(struct amph_server_readers *r, bool other)
{
    uint64_t offer = atomic_load_explicit(&r->offer, memory_order_acquire);
    unsigned i;

    do {
        i = (unsigned)(offer & 255);
        if (i >= (offer >> 8 & 255))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&r->offer, &offer, offer + 1,
                                                    memory_order_acquire, memory_order_acquire));

    size_t at = i * r->slice;
    size_t len = r->len - at < r->slice ? r->len - at : r->slice;
    ssize_t n = pread(r->fd, r->buf + at, len, r->off + (off_t)at);

    r->got[i] = n < 0 ? -errno : n;
    if (other)
        atomic_fetch_add_explicit(&r->by_readers, 1, memory_order_relaxed);

    atomic_fetch_add_explicit(&r->done, 1, memory_order_release);
    return true;
}

static void relax(unsigned *rounds)
{
    if (++*rounds % RELAX_ROUNDS)
        amph_cpu_relax();
    else
        sched_yield();
}

static bool has_work(const struct amph_server_readers *r)
{
    uint64_t offer = atomic_load(&r->offer);
    return (offer & 255) < (offer >> 8 & 255) || atomic_load(&r->stop);
}

static void sleep_until_work(struct reader *me)
{
    atomic_store(&me->asleep, true);
    if (has_work(me->all) && atomic_exchange(&me->asleep, false))
        return;

    while (sem_wait(&me->wake) != 0)
        ;
}

static void wake(struct reader *it)
{
    if (atomic_load(&it->asleep) && atomic_exchange(&it->asleep, false))
        sem_post(&it->wake);
}

static void *reader_main(void *arg)
{
    struct reader *me = arg;
    uint64_t since = 0;
    unsigned rounds = 0;

    while (!atomic_load_explicit(&me->all->stop, memory_order_relaxed)) {
        if (read_slice(me->all, true)) {
            since = 0;
            continue;
        }

        relax(&rounds);
        if (rounds % RELAX_ROUNDS)
            continue;

        uint64_t now = amph_now_ns();

        since = since ? since : now;
        if (now - since > SPIN_NS) {
            sleep_until_work(me);
            since = 0;
        }
    }

    return NULL;
}

/* ---- how many, and where ---- */

static struct amph_server_readers *make(void)
{
    unsigned max = (unsigned)amph_env_int(AMPH_ENV_IOFWD_READERS) - 1;
    struct amph_server_readers *r = aligned_alloc(
        64, (sizeof *r + max * sizeof(struct reader) + 63) / 64 * 64);

    if (!r)
        return NULL;

    *r = (struct amph_server_readers){ .max = max, .cores = amph_am_cores(), .cpu = -1 };
    if (sched_getaffinity(0, sizeof r->cpus, &r->cpus) != 0 || CPU_COUNT(&r->cpus) < 2)
        r->max = 0;

    return r;
}

/* Returns how many cores the busy processes of this host leave for readers; the client of the read
 * does not count. */
static unsigned spare_cores(const struct amph_server *s, const struct amph_server_readers *r)
{
    unsigned busy = s->progress.npeers + 1;
    if (amph_am_oversubscribed() || busy > r->cores)
        return 0;

    return r->cores - busy + 1 < r->max ? r->cores - busy + 1 : r->max;
}

/* Binds a reader to other cores than the progress thread's.  If that fails, the scheduler places
 * it. */
static void bind_reader(const struct amph_server_readers *r, const struct reader *it)
{
    cpu_set_t others = r->cpus;

    if (r->cpu >= 0)
        CPU_CLR(r->cpu, &others);

    pthread_setaffinity_np(it->thread, sizeof others, &others);
}

static bool start(struct amph_server_readers *r)
{
    struct reader *it = &r->reader[r->n];

    *it = (struct reader){ .all = r };
    if (sem_init(&it->wake, 0, 0) != 0)
        return false;

    if (amph_thread_start(&it->thread, false, AMPH_SERVER_STACK_BYTES, reader_main, it) != 0) {
        sem_destroy(&it->wake);
        return false;
    }

    bind_reader(r, it);
    r->n++;
    return true;
}

static void wake_readers(struct amph_server_readers *r, unsigned n)
{
    int cpu = sched_getcpu();
    bool moved = cpu != r->cpu;

    r->cpu = cpu;
    while (r->n < n)
        if (!start(r))
            r->max = n = r->n;

    for (unsigned i = 0; i < n; i++) {
        if (moved)
            bind_reader(r, &r->reader[i]);

        wake(&r->reader[i]);
    }
}

/* ---- the read ---- */

/* Returns what pread would have returned for the whole: the data before the first short slice. */
static ssize_t sum(const struct amph_server_readers *r, unsigned slices)
{
    ssize_t all = 0;

    for (unsigned i = 0; i < slices; i++) {
        if (r->got[i] < 0)
            return all ? all : r->got[i];

        all += r->got[i];
        if ((size_t)all < r->len && (size_t)r->got[i] < r->slice)
            break;
    }

    return all;
}

/* Returns the size of a slice, in whole pages. */
static size_t slice_size(size_t len)
{
    size_t slice = len / SLICES_WANTED;

    if (slice < SLICE_MIN)
        slice = SLICE_MIN;
    else if (slice > SLICE)
        slice = SLICE;

    if (len / slice >= SLICES_MAX)
        slice = len / (SLICES_MAX - 1);

    return (slice + 4095) / 4096 * 4096;
}

static ssize_t read_sliced(struct amph_server_readers *r, unsigned n, int fd, char *buf, size_t len,
                           off_t off)
{
    size_t slice = slice_size(len);
    unsigned slices = (unsigned)((len + slice - 1) / slice);
    unsigned rounds = 0;

    r->fd = fd;
    r->buf = buf;
    r->len = len;
    r->off = off;
    r->slice = slice;
    atomic_store_explicit(&r->done, 0, memory_order_relaxed);
    atomic_store(&r->offer, offer_of(++r->number, slices, 0));
    if (amph_now_ns() - r->last_ns < GAP_NS)
        wake_readers(r, n);

    while (read_slice(r, false))
        ;

    while (atomic_load_explicit(&r->done, memory_order_acquire) < slices)
        relax(&rounds);

    r->last_ns = amph_now_ns();
    return sum(r, slices);
}

/* Does the read qualify?  It must be a piece of a larger call of one client of this host. */
static bool qualifies(const struct amph_server_request *rq, const struct amph_server_handle *h,
                      size_t len)
{
    return len >= 2 * SLICE_MIN && !rq->shared.in_worker && !rq->bulk.rwf &&
           !amph_server_is_whole(rq) && !(rq->bulk.flags & FWD_PIECE_SPREAD) && h->regular &&
           !h->exec.direct && rq->bulk.where != FWD_INLINE && amph_server_is_mapped(rq);
}

/* Is all the data inside the regular file?  Reads of other files may return any number of bytes. */
static bool is_inside_file(const struct amph_server_handle *h, size_t len, off_t off)
{
    struct stat st;
    return off >= 0 && fstat(h->fd, &st) == 0 && S_ISREG(st.st_mode) &&
           off <= st.st_size - (off_t)len;
}

bool amph_server_readers_read(const struct amph_server_request *rq, struct amph_server_handle *h,
                              void *buf, size_t len, off_t off, ssize_t *n_p)
{
    struct amph_server *s = rq->server;

    if (AMPH_LIKELY(!qualifies(rq, h, len)) ||
        (!s->progress.readers && !(s->progress.readers = make())))
        return false;

    amph_server_assert_owner(&s->progress.owner);

    unsigned n = spare_cores(s, s->progress.readers);
    bool at_offset = off < 0;

    if (n && at_offset)
        off = lseek(h->fd, 0, SEEK_CUR);

    if (!n || !is_inside_file(h, len, off))
        return false;

    *n_p = read_sliced(s->progress.readers, n, h->fd, buf, len, off);
    if (at_offset && *n_p > 0)
        lseek(h->fd, off + *n_p, SEEK_SET);

    return true;
}

uint64_t amph_server_readers_slices(const struct amph_server *s)
{
    return s->progress.readers ? atomic_load(&s->progress.readers->by_readers) : 0;
}

void amph_server_readers_stop(struct amph_server *s)
{
    struct amph_server_readers *r = s->progress.readers;

    if (!r)
        return;

    atomic_store(&r->stop, true);
    for (unsigned i = 0; i < r->n; i++) {
        wake(&r->reader[i]);
        pthread_join(r->reader[i].thread, NULL);
        sem_destroy(&r->reader[i].wake);
    }

    free(r);
    s->progress.readers = NULL;
}
