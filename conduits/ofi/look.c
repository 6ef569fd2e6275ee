/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks whether libfabric has anything to do.
 * Layer: conduits (ofi).  Thread rule: progress side of one instance that is not threaded: where several threads call
 * libfabric, one could close a connection that another has just found ready.  Calls for other instances pass through.
 *
 * A process that waits reads libfabric's completion queue again and again, and most reads find nothing.  Around the
 * one system call that finds this out (epoll_wait), libfabric does as much work as the kernel.  So this file makes
 * that call first, on libfabric's own set, and libfabric is called only if something is ready.
 *
 * If something is ready, libfabric makes two calls: epoll_wait finds the connection, recv reads it.  Two processes
 * that answer each other wait for one connection.  If the last messages were short and all came over one (the hot
 * one), a look is the recv itself, into a buffer here, and libfabric gets both results without a system call.  Every
 * eighth look still asks the set.
 *
 * Libfabric's calls of epoll_wait, epoll_ctl, recv and recvmsg lead here (imports.c).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define FOUND_MAX 16u  /* sockets; others that are ready are found by the next look */
#define WATCHED_MAX 8u /* connections of which one may be hot: the last ones */
#define STAGE_BYTES \
    9000u /* what libfabric reads at a time, unless it reads a greeting or a large message */
#define SHORT_BYTES 4608u /* longer messages are better read in place */
#define SHORTS_BEFORE_HOT 3u
#define LOOKS_BETWEEN_SETS 8u

/* A socket that libfabric watches for input, and what its set returns for it. */
struct watched {
    int fd_plus_1; /* 0: unused; atomic */
    epoll_data_t data;
};

static struct {
    int set; /* libfabric's, of the instance that looks, or -1; atomic */

    /* for libfabric's next call of epoll_wait */
    unsigned count; /* 0: it asks the kernel */
    struct epoll_event event[FOUND_MAX];

    struct watched watched[WATCHED_MAX];
    unsigned next; /* entry for the next socket if all are used */

    struct watched *hot; /* or NULL */
    unsigned looks;      /* since it has become hot */
    int short_fd;        /* over which the last message came, if it was short */
    unsigned shorts;     /* in a row */

    /* for libfabric's next calls of recv: what the hot one had */
    int fd_plus_1; /* 0: nothing; atomic */
    int err;       /* if len is -1 */
    ssize_t len, taken;
    uint8_t bytes[STAGE_BYTES];
} state = { .set = -1 };

static bool looks_at(int set)
{
    return set == __atomic_load_n(&state.set, __ATOMIC_RELAXED);
}

static struct watched *watched_of(int fd)
{
    for (unsigned i = 0; i < WATCHED_MAX; i++)
        if (__atomic_load_n(&state.watched[i].fd_plus_1, __ATOMIC_RELAXED) == fd + 1)
            return &state.watched[i];

    return NULL;
}

/* Does the buffer hold what was received from this descriptor? */
static bool holds(int fd)
{
    return __atomic_load_n(&state.fd_plus_1, __ATOMIC_RELAXED) == fd + 1;
}

static void drop_held(void)
{
    __atomic_store_n(&state.fd_plus_1, 0, __ATOMIC_RELAXED);
}

/* ---- what libfabric watches ---- */

/* Returns the entry for one socket more, where all are used.  What is held can be handed to libfabric only
 * while its socket has an entry. */
static struct watched *replaced(void)
{
    struct watched *w = &state.watched[state.next++ % WATCHED_MAX];

    return holds(w->fd_plus_1 - 1) ? &state.watched[state.next++ % WATCHED_MAX] : w;
}

static void watch(int fd, epoll_data_t data)
{
    struct watched *w = watched_of(fd);

    if (!w)
        w = watched_of(-1);
    if (!w)
        w = replaced();
    if (w == state.hot)
        state.hot = NULL;

    w->data = data;
    __atomic_store_n(&w->fd_plus_1, fd + 1, __ATOMIC_RELAXED);
}

static void unwatch(int fd)
{
    struct watched *w = watched_of(fd);

    if (!w)
        return;

    __atomic_store_n(&w->fd_plus_1, 0, __ATOMIC_RELAXED);
    if (w == state.hot)
        state.hot = NULL;
}

static int noted_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    int ret = epoll_ctl(set, op, fd, event);

    if (!looks_at(set))
        return ret;

    if (op != EPOLL_CTL_DEL && ret == 0 && (event->events & EPOLLIN))
        watch(fd, event->data);
    else
        unwatch(fd);

    if (op == EPOLL_CTL_DEL && holds(fd))
        drop_held();

    return ret;
}

static int found_or_wait(int set, struct epoll_event *event, int max, int timeout_ms)
{
    if (!looks_at(set) || state.count == 0 || state.count > (unsigned)max)
        return epoll_wait(set, event, max, timeout_ms);

    const unsigned n = state.count;

    memcpy(event, state.event, n * sizeof *event);
    state.count = 0;
    return (int)n;
}

/* ---- what libfabric receives ---- */

/* Moves up to len bytes of what is held to buf, or returns the end of the connection or its error. */
static ssize_t take_held(void *buf, size_t len)
{
    const size_t left = state.len > 0 ? (size_t)(state.len - state.taken) : 0;
    const size_t n = len < left ? len : left;

    if (n)
        memcpy(buf, state.bytes + state.taken, n);

    state.taken += (ssize_t)n;
    if (n == left)
        drop_held();

    if (state.len >= 0)
        return (ssize_t)n;

    errno = state.err;
    return -1;
}

/* Decides which connection is hot.  room: what libfabric had room for; 0: in several parts of a long message. */
static void note_received(int fd, size_t room, ssize_t n)
{
    struct watched *w = watched_of(fd);

    if (!w)
        return;

    if (room < STAGE_BYTES || n <= 0 || n > (ssize_t)SHORT_BYTES) {
        state.shorts = 0;
        state.hot = NULL;
        return;
    }

    state.shorts = fd == state.short_fd ? state.shorts + 1 : 1;
    state.short_fd = fd;
    if (state.shorts == 1)
        state.hot = NULL;
    if (state.shorts == SHORTS_BEFORE_HOT)
        state.hot = w;
}

static ssize_t held_or_recv(int fd, void *buf, size_t len, int flags)
{
    ssize_t n = AMPH_UNLIKELY(holds(fd)) ? take_held(buf, len)
                                         : amph_ofi_guarded_recv(fd, buf, len, flags);

    note_received(fd, len, n);
    return n;
}

static ssize_t held_or_recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n = AMPH_UNLIKELY(holds(fd)) ? 0 : recvmsg(fd, msg, flags);

    for (size_t i = 0; i < msg->msg_iovlen && holds(fd) && n >= 0; i++) {
        ssize_t part = take_held(msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);

        n = part < 0 ? part : n + part;
    }

    note_received(fd, 0, n);
    return n;
}

/* ---- looking ---- */

static bool hand(const struct watched *w)
{
    state.event[0] = (struct epoll_event){ .events = EPOLLIN, .data = w->data };
    state.count = 1;
    return true;
}

static bool look_at_hot(void)
{
    const int fd = state.hot->fd_plus_1 - 1;
    const int saved = errno;
    ssize_t n = recv(fd, state.bytes, sizeof state.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        errno = saved;
        return false;
    }

    state.err = errno;
    state.len = n;
    state.taken = 0;
    __atomic_store_n(&state.fd_plus_1, fd + 1, __ATOMIC_RELAXED);
    errno = saved;
    return hand(state.hot);
}

/* An event of another connection ends the time of the hot one. */
static bool look_at_set(void)
{
    int n = epoll_wait(state.set, state.event, FOUND_MAX, 0);

    if (n < 0)
        return true; /* libfabric meets the error, too */

    state.count = (unsigned)n;
    if (n > 1 || (n == 1 && state.hot && state.event[0].data.u64 != state.hot->data.u64))
        state.hot = NULL;

    return n > 0;
}

bool amph_ofi_look(void)
{
    const struct watched *w = amph_ofi_look_holds() ? watched_of(state.fd_plus_1 - 1) : NULL;

    if (AMPH_UNLIKELY(w != NULL))
        return hand(w);

    return state.hot && ++state.looks % LOOKS_BETWEEN_SETS ? look_at_hot() : look_at_set();
}

void amph_ofi_look_end(void)
{
    state.count = 0;
}

bool amph_ofi_look_holds(void)
{
    return __atomic_load_n(&state.fd_plus_1, __ATOMIC_RELAXED) != 0;
}

/* ---- the instance ---- */

static bool swap(void)
{
    return amph_ofi_swap_import("recv", (void *)(uintptr_t)held_or_recv) &&
           amph_ofi_swap_import("recvmsg", (void *)(uintptr_t)held_or_recvmsg) &&
           amph_ofi_swap_import("epoll_ctl", (void *)(uintptr_t)noted_epoll_ctl) &&
           amph_ofi_swap_import("epoll_wait", (void *)(uintptr_t)found_or_wait);
}

void amph_ofi_look_open(struct amph_ofi_cx *cx)
{
    int none = -1;

    if (cx->wait != OFI_WAIT_INNER || cx->base.cfg.threaded ||
        !__atomic_compare_exchange_n(&state.set, &none, cx->inner_fd, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;

    cx->looks = swap();
    if (!cx->looks)
        amph_debug("libfabric's calls were not found; a look at the network takes longer");
}

void amph_ofi_look_close(struct amph_ofi_cx *cx)
{
    if (cx->inner_fd < 0 || !looks_at(cx->inner_fd))
        return;

    for (unsigned i = 0; i < WATCHED_MAX; i++)
        __atomic_store_n(&state.watched[i].fd_plus_1, 0, __ATOMIC_RELAXED);

    cx->looks = false;
    state.hot = NULL;
    state.count = state.shorts = 0;
    drop_held();
    __atomic_store_n(&state.set, -1, __ATOMIC_RELEASE);
}
