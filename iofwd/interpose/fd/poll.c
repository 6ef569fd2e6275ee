/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll, select and their relatives, where a forwarded FIFO or device is among the descriptors.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * Regular files need no request: the kernel reports their placeholders as ready, as it does for
 * files.  For FIFOs and devices the servers are asked.  If none is ready, the thread waits in the
 * kernel for the local descriptors and for a notification descriptor of each server, so that
 * timeout, signals and cancellation are the kernel's.  Then the servers are asked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/client/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/wire/file.h"

#define NS_PER_S INT64_C(1000000000)
#define NOTIFIERS_MAX 16 /* servers that one call can wait for */
#define SMALL 32         /* descriptors that need no memory of their own */

bool amph_ip_waits(int fd)
{
    struct amph_fd_file *of;

    if (!amph_ip_fd(fd) || amph_ip_file_get(fd, &of) != 0)
        return false;

    bool path_only = of->oflags >= 0 && (of->oflags & O_PATH);
    bool waits = amph_fwd_file_waits(&of->file) && !path_only;

    amph_fdtab_put(of);
    return waits;
}

/* ---- time ---- */

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t amph_ip_until(const struct timespec *limit)
{
    int64_t now = clock_ns();
    bool far = !limit || limit->tv_sec >= (INT64_MAX - now) / NS_PER_S - 1;

    return far ? INT64_MAX : now + limit->tv_sec * NS_PER_S + limit->tv_nsec;
}

int64_t amph_ip_left(int64_t until)
{
    int64_t now = until == INT64_MAX ? 0 : clock_ns();
    return until > now ? until - now : 0;
}

struct timespec amph_ip_span(int64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

/* ---- poll ---- */

struct wait {
    struct pollfd *p; /* the program's array */
    struct pollfd *q; /* what the kernel gets: forwarded entries are -1, the notifiers follow */
    nfds_t n;
    struct amph_fwd_notifier notifier[NOTIFIERS_MAX];
    bool fresh[NOTIFIERS_MAX]; /* not used in a request of this round */
    unsigned nnotifiers;
    void *memory;
    size_t bytes;
};

/* Releases what a wait holds; also the cleanup handler if its thread is cancelled. */
static void release(void *arg)
{
    struct wait *w = arg;

    for (unsigned i = 0; i < w->nnotifiers; i++)
        amph_ip_client.fwd.notifier_release(&w->notifier[i], false);

    w->nnotifiers = 0;
    if (w->memory)
        amph_ip_scratch_return(w->memory, w->bytes);
}

/* The notifier of a server for this wait, acquired at its first use; NULL: none could be had. */
static struct amph_fwd_notifier *notifier_of(struct wait *w, uint32_t server, bool **fresh_p)
{
    unsigned i = 0;

    while (i < w->nnotifiers && w->notifier[i].server != server)
        i++;

    if (i == NOTIFIERS_MAX ||
        (i == w->nnotifiers && amph_ip_client.fwd.notifier_acquire(amph_ip_client.client, server,
                                                                   false, &w->notifier[i]) != 0))
        return NULL;

    if (i == w->nnotifiers) {
        w->fresh[i] = true;
        w->nnotifiers++;
    }

    *fresh_p = &w->fresh[i];
    return &w->notifier[i];
}

/* Discards earlier notifications, and releases the notifiers of servers that have ended. */
static void drain_notifiers(struct wait *w)
{
    for (unsigned i = 0; i < w->nnotifiers; i++) {
        if (amph_ip_client.fwd.notifier_drain(&w->notifier[i])) {
            w->fresh[i] = true;
            continue;
        }

        amph_ip_client.fwd.notifier_release(&w->notifier[i], true);
        w->notifier[i] = w->notifier[--w->nnotifiers];
        i--;
    }
}

/* The events wanted of a file by all its entries: copies of a descriptor lead to one file. */
static short all_events(const struct wait *w, const struct amph_fwd_file *file)
{
    short events = 0;

    for (nfds_t i = 0; i < w->n; i++) {
        struct amph_fd_file *of = w->p[i].fd >= 0 && w->q[i].fd < 0 ? amph_fdtab_get(w->p[i].fd)
                                                                    : NULL;

        if (of && of->file.part[0].handle == file->part[0].handle &&
            of->file.part[0].server == file->part[0].server)
            events |= w->p[i].events;

        if (of)
            amph_fdtab_put(of);
    }

    return events;
}

static short ask_one(struct wait *w, const struct pollfd *p, bool armed)
{
    struct amph_fd_file *of;
    struct amph_fwd_notifier *notifier = NULL;
    bool *fresh = NULL;
    size_t ready = 0;
    int err = amph_ip_file_get(p->fd, &of);

    if (err)
        return POLLNVAL;

    err = amph_ip_client_enter();
    if (!err)
        err = amph_ip_file_reach(of, p->fd);

    if (!err && armed && !(notifier = notifier_of(w, of->file.part[0].server, &fresh)))
        err = EIO;

    if (!err)
        err = amph_ip_client.fwd.poll(
            amph_ip_client.client, &of->file,
            (unsigned short)(armed ? all_events(w, &of->file) : p->events),
            notifier ? notifier->number : 0, notifier && *fresh, &ready);

    if (!err && notifier)
        *fresh = false;

    amph_fdtab_put(of);
    return err ? POLLERR
               : (short)(ready & ((unsigned short)p->events | POLLERR | POLLHUP | POLLNVAL));
}

static int ask_all(struct wait *w, bool armed)
{
    int n = 0;

    if (armed)
        drain_notifiers(w);

    for (nfds_t i = 0; i < w->n; i++)
        if (w->p[i].fd >= 0 && w->q[i].fd < 0) {
            w->p[i].revents = ask_one(w, &w->p[i], armed);
            n += w->p[i].revents != 0;
        }

    return n;
}

static int take_local(struct wait *w)
{
    int n = 0;

    for (nfds_t i = 0; i < w->n; i++)
        if (w->q[i].fd >= 0 || w->p[i].fd < 0) {
            w->p[i].revents = w->q[i].revents;
            n += w->q[i].revents != 0;
        }

    return n;
}

static int wait_for(struct wait *w, int64_t until, const sigset_t *mask)
{
    for (bool armed = false;; armed = true) {
        int n = ask_all(w, armed);
        int64_t left = n ? 0 : amph_ip_left(until);

        if (!armed && left > 0)
            continue;

        struct timespec span_left = amph_ip_span(left);

        for (unsigned i = 0; i < w->nnotifiers; i++)
            w->q[w->n + i] = (struct pollfd){ .fd = w->notifier[i].fd, .events = POLLIN };

        int local = libc_ppoll(w->q, w->n + w->nnotifiers,
                               until == INT64_MAX && !n ? NULL : &span_left, mask);

        if (local < 0 && !(n && errno == EINTR))
            return -1;

        n += local > 0 ? take_local(w) : 0;
        if (n || left == 0 || (until != INT64_MAX && amph_ip_left(until) == 0 && local == 0))
            return n;
    }
}

static bool begin(struct wait *w, struct pollfd *p, nfds_t n, struct pollfd *small)
{
    *w = (struct wait){ .p = p, .q = small, .n = n };
    if (n > SMALL) {
        w->bytes = (n + NOTIFIERS_MAX) * sizeof *p;
        w->memory = amph_ip_scratch_take(w->bytes);
        if (!w->memory)
            return false;

        w->q = w->memory;
    }

    for (nfds_t i = 0; i < n; i++) {
        w->q[i] = p[i];
        p[i].revents = 0;
        if (p[i].fd >= 0 && amph_ip_waits(p[i].fd))
            w->q[i].fd = -1;
    }

    return true;
}

static int wait_here(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
    struct pollfd small[SMALL + NOTIFIERS_MAX];
    struct wait w;
    volatile int saved = errno; /* volatile for the clean-up's setjmp */
    int result, kind;

    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= NS_PER_S))
        return amph_ip_fail(EINVAL);

    /* the thread may be cancelled only while the kernel waits; the client handles cancellation of
     * its own calls */
    if (!begin(&w, p, n, small))
        return amph_ip_fail(ENOMEM);

    pthread_cleanup_push(release, &w);
    result = wait_for(&w, amph_ip_until(limit), mask);
    kind = errno;
    pthread_cleanup_pop(1);
    errno = result < 0 ? kind : saved;

    return result;
}

/* Returns whether one of them has a readiness that only its server knows. */
bool amph_ip_poll_waits(const struct pollfd *p, nfds_t n)
{
    if (n > FDTAB_MAX || !amph_ip_can_read(p, n * sizeof *p))
        return false; /* the kernel reports the error */

    for (nfds_t i = 0; i < n; i++)
        if (p[i].fd >= 0 && amph_ip_waits(p[i].fd))
            return amph_ip_can_write(p, n * sizeof *p);

    return false;
}

int amph_do_poll(struct pollfd *p, nfds_t n, int timeout)
{
    const struct timespec limit = { .tv_sec = timeout / 1000,
                                    .tv_nsec = timeout % 1000 * 1000000L };

    if (!amph_ip_poll_waits(p, n))
        return libc_poll(p, n, timeout);

    return wait_here(p, n, timeout < 0 ? NULL : &limit, NULL);
}

int amph_do_ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
    return amph_ip_poll_waits(p, n) ? wait_here(p, n, limit, mask) : libc_ppoll(p, n, limit, mask);
}

/* ---- select ---- */

enum {
    READS,
    WRITES,
    EXCEPTS,
    NSETS
};

static const struct {
    /* what poll is asked for, and which of its answers mean that the descriptor stays in the set */
    short asked, stays;
} kinds[NSETS] = {
    [READS] = { POLLIN | POLLRDNORM | POLLRDBAND,
                POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR },
    [WRITES] = { POLLOUT | POLLWRNORM | POLLWRBAND, POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR },
    [EXCEPTS] = { POLLPRI, POLLPRI },
};

#define WORD_BITS (8 * (int)sizeof(long))

static bool is_in(const long *set, int fd)
{
    return set && ((unsigned long)set[fd / WORD_BITS] >> (fd % WORD_BITS) & 1);
}

static size_t set_bytes(int n)
{
    return ((size_t)n + WORD_BITS - 1) / WORD_BITS * sizeof(long);
}

/* Returns the number of descriptors in the sets; *waits_p: only its server knows the readiness of
 * one of them. */
static nfds_t look(int n, long *const sets[NSETS], bool *waits_p)
{
    nfds_t count = 0;

    *waits_p = false;
    for (int at = 0; at < n; at += WORD_BITS) {
        unsigned long any = 0;

        for (int k = 0; k < NSETS; k++)
            any |= sets[k] ? (unsigned long)sets[k][at / WORD_BITS] : 0;

        for (; any; any &= any - 1) {
            int fd = at + __builtin_ctzl(any);

            if (fd >= n)
                break;

            count++;
            *waits_p = *waits_p || amph_ip_waits(fd);
        }
    }

    return count;
}

static void to_poll(int n, long *const sets[NSETS], struct pollfd *p)
{
    for (int fd = 0; fd < n; fd++) {
        short events = 0;

        for (int k = 0; k < NSETS; k++)
            events |= is_in(sets[k], fd) ? kinds[k].asked : 0;

        if (events)
            *p++ = (struct pollfd){ .fd = fd, .events = events };
    }
}

static int from_poll(int n, long *const sets[NSETS], const struct pollfd *p, nfds_t count)
{
    int ready = 0;

    for (nfds_t i = 0; i < count; i++)
        if (p[i].revents & POLLNVAL)
            return amph_ip_fail(EBADF);

    for (int k = 0; k < NSETS; k++) {
        if (!sets[k])
            continue;

        memset(sets[k], 0, set_bytes(n));
        for (nfds_t i = 0; i < count; i++)
            if ((p[i].events & kinds[k].asked) && (p[i].revents & kinds[k].stays)) {
                sets[k][p[i].fd / WORD_BITS] |= (long)(1UL << (p[i].fd % WORD_BITS));
                ready++;
            }
    }

    return ready;
}

static bool are_there(int n, long *const sets[NSETS])
{
    for (int k = 0; k < NSETS; k++)
        if (sets[k] && !amph_ip_can_write(sets[k], set_bytes(n)))
            return false;

    return true;
}

/* Executes the call and stores the result of pselect.  false: the kernel must execute it. */
static bool selected(int n, long *const sets[NSETS], const struct timespec *limit,
                     const sigset_t *mask, int *result_p)
{
    bool waits;

    if (n <= 0 || n > FDTAB_MAX || !are_there(n, sets))
        return false;

    volatile nfds_t count = look(n, sets, &waits); /* volatile for the clean-up's setjmp */
    if (!waits)
        return false;

    size_t bytes = count * sizeof(struct pollfd);
    struct pollfd *p = amph_ip_scratch_take(bytes);

    if (!p) {
        *result_p = amph_ip_fail(ENOMEM);
        return true;
    }

    memset(p, 0, bytes);
    to_poll(n, sets, p);

    struct wait w = { .memory = p, .bytes = bytes };

    pthread_cleanup_push(release, &w);
    *result_p = wait_here(p, count, limit, mask);
    if (*result_p >= 0)
        *result_p = from_poll(n, sets, p, count);

    pthread_cleanup_pop(0);
    amph_ip_scratch_return(p, bytes);
    return true;
}

bool amph_ip_select_waits(int n, fd_set *reads, fd_set *writes, fd_set *excepts)
{
    long *const sets[NSETS] = { (long *)reads, (long *)writes, (long *)excepts };
    bool waits = false;

    if (n > 0 && n <= FDTAB_MAX && are_there(n, sets))
        look(n, sets, &waits);

    return waits;
}

int amph_do_pselect(int n, fd_set *reads, fd_set *writes, fd_set *excepts,
                    const struct timespec *limit, const sigset_t *mask)
{
    long *const sets[NSETS] = { (long *)reads, (long *)writes, (long *)excepts };
    int result;

    return selected(n, sets, limit, mask, &result)
               ? result
               : libc_pselect(n, reads, writes, excepts, limit, mask);
}

/* Stores in the time limit what is left of it, as Linux does. */
int amph_do_select(int n, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *limit)
{
    long *const sets[NSETS] = { (long *)reads, (long *)writes, (long *)excepts };
    struct timespec span_given = { 0, 0 };
    int64_t until = INT64_MAX;
    int result;

    if (limit && !amph_ip_can_read(limit, sizeof *limit))
        return libc_select(n, reads, writes, excepts, limit);

    if (limit) {
        int64_t more = limit->tv_usec / 1000000; /* Linux accepts a second and more of these */

        span_given = (struct timespec){ .tv_sec = limit->tv_sec + (time_t)more,
                                        .tv_nsec = limit->tv_usec % 1000000 * 1000 };
        until = span_given.tv_sec >= 0 && span_given.tv_nsec >= 0 ? amph_ip_until(&span_given)
                                                                  : INT64_MAX;
    }

    if (!selected(n, sets, limit ? &span_given : NULL, NULL, &result))
        return libc_select(n, reads, writes, excepts, limit);

    if (limit && until != INT64_MAX && amph_ip_can_write(limit, sizeof *limit)) {
        int64_t left = amph_ip_left(until);
        *limit = (struct timeval){ .tv_sec = (time_t)(left / NS_PER_S),
                                   .tv_usec = (suseconds_t)(left % NS_PER_S / 1000) };
    }

    return result;
}
