/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated connections to libfabric's listening socket.
 * Layer: conduits (ofi).  Thread rule: any thread; libfabric calls these functions in its progress.
 *
 * The tcp providers expect the greeting of a new connection in one piece.  If it is incomplete, their
 * reaction depends on the errno value of an earlier call: after EAGAIN they stop watching the
 * connection and never close it, so each connection that is closed after some bytes leaks a
 * descriptor.  A connection that sends nothing also holds one, for any time.
 *
 * So libfabric's calls of accept and recv are redirected to this file (imports.c).  A connection that
 * was accepted at a guarded listener is recorded until its greeting has been read completely.  An
 * incomplete greeting is reported to libfabric as a reset of the connection, which it closes.  The
 * number of connections without a greeting is limited: the oldest is shut down for a new one, and
 * libfabric closes it.  All members of the job may be connecting at the same time, and a member that
 * computes greets late, so the limit is STRANGERS_MAX beside one for each peer.  The last descriptors of
 * the process are not used for new connections, so that they remain for files and local clients.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define STRANGERS_MAX 64u
#define PEERS_MAX 65536u /* each connection also needs a descriptor */
#define LISTENERS_MAX 64u
#define RESERVE_MAX 128u /* reserved descriptors, but at most a quarter of all */
#define SIZE_AT \
    2u /* in a greeting: the length of what follows its head, 2 bytes, most significant first */

/* A connection whose greeting has not been read.  The inode detects that the descriptor has been
 * closed and its number used again. */
struct ungreeted {
    _Atomic int fd_plus_1; /* 0: free */
    uint64_t number;       /* in the order of their arrival */
    ino_t ino;
    bool head_read;
};

/* All state of the file. */
static struct {
    pthread_once_t once;
    bool swapped; /* libfabric's accept and recv lead here */
    pthread_mutex_t lock;
    _Atomic int listener_plus_1[LISTENERS_MAX];
    struct ungreeted *conn; /* [max] */
    unsigned max;
    uint64_t arrivals;
    _Atomic unsigned count;
    uint64_t refused;
} state = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static ino_t inode_of(int fd)
{
    struct stat sb;

    return fstat(fd, &sb) == 0 ? sb.st_ino : 0;
}

/* Counts a refused connection and logs the 1st, 2nd, 4th, 8th and so on. */
static void refused(const char *why)
{
    amph_count_exact(DROP_STRANGER, 1);
    state.refused++;

    if ((state.refused & (state.refused - 1)) == 0)
        amph_warn("%llu connections to the port of libfabric were refused so far; the last one %s",
                  (unsigned long long)state.refused, why);
}

static void forget(struct ungreeted *u)
{
    atomic_store(&u->fd_plus_1, 0);
    atomic_fetch_sub(&state.count, 1);
}

/* Returns the entry of fd, or NULL.  Removes the entry if the descriptor has been closed and used
 * again. */
static struct ungreeted *find(int fd)
{
    unsigned left = atomic_load(&state.count);

    for (struct ungreeted *u = state.conn; left; u++) {
        int fd_plus_1 = atomic_load_explicit(&u->fd_plus_1, memory_order_relaxed);

        left -= fd_plus_1 != 0;
        if (fd_plus_1 != fd + 1)
            continue;
        if (u->ino == inode_of(fd))
            return u;

        forget(u);
    }

    return NULL;
}

/* Returns the first free entry, so that few connections are found quickly, or the oldest one. */
static struct ungreeted *next_entry(void)
{
    struct ungreeted *oldest = &state.conn[0];

    for (unsigned i = 0; i < state.max; i++) {
        struct ungreeted *u = &state.conn[i];

        if (atomic_load_explicit(&u->fd_plus_1, memory_order_relaxed) == 0)
            return u;

        if (u->number < oldest->number)
            oldest = u;
    }

    return oldest;
}

static void note(int fd)
{
    struct ungreeted *u = find(fd);

    if (u)
        forget(u);

    u = next_entry();

    int old = atomic_load(&u->fd_plus_1) - 1;

    if (old >= 0) {
        if (u->ino == inode_of(old)) {
            shutdown(old, SHUT_RDWR);
            refused("had been silent for the longest time");
        }

        forget(u);
    }

    u->number = ++state.arrivals;
    u->ino = inode_of(fd);
    u->head_read = false;
    atomic_store(&u->fd_plus_1, fd + 1);
    atomic_fetch_add(&state.count, 1);
}

static bool is_guarded(int listener)
{
    for (unsigned i = 0; i < LISTENERS_MAX; i++)
        if (atomic_load_explicit(&state.listener_plus_1[i], memory_order_relaxed) == listener + 1)
            return true;

    return false;
}

/* Returns true if fd is one of the reserved descriptors. */
static bool is_reserved(int fd)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;

    rlim_t reserve = limit.rlim_cur / 4 < RESERVE_MAX ? limit.rlim_cur / 4 : RESERVE_MAX;

    return (rlim_t)fd >= limit.rlim_cur - reserve;
}

bool amph_ofi_has_room(uint32_t connections)
{
    int next = dup(STDERR_FILENO);

    if (next >= 0)
        close(next);

    return !state.swapped || (next < 0 && errno != EMFILE) ||
           (next >= 0 && !is_reserved(next + (int)connections - 1));
}

static int guarded_accept(int listener, struct sockaddr *sa, socklen_t *len)
{
    int fd = accept(listener, sa, len);

    if (fd >= 0)
        amph_ofi_accepted(fd);

    if (fd < 0 || !is_guarded(listener))
        return fd;

    pthread_mutex_lock(&state.lock);
    if (is_reserved(fd)) {
        close(fd);
        fd = -1;
        refused("found too few descriptors left (ulimit -n)");
        errno = EAGAIN; /* libfabric calls again for the next connection */
    } else {
        note(fd);
    }

    pthread_mutex_unlock(&state.lock);
    return fd;
}

/* Receives a part of the greeting.  If a part is incomplete, reports that the connection was
 * reset. */
static ssize_t recv_greeting(struct ungreeted *u, int fd, void *buf, size_t len, int flags)
{
    ssize_t n = recv(fd, buf, len, flags | MSG_DONTWAIT);

    if (n != (ssize_t)len) {
        forget(u);

        /* n is 0 after the probe of a live member (liveness.c): nothing to count */
        if (n != 0 || u->head_read)
            refused("sent no whole greeting");

        errno = ECONNRESET;
        return -1;
    }

    const uint8_t *head = buf;
    bool more = !u->head_read && len > SIZE_AT + 1 && (head[SIZE_AT] || head[SIZE_AT + 1]);

    u->head_read = true;
    if (!more)
        forget(u);

    return n;
}

/* A connection that was shut down has no entry any more, and may not have read its greeting. */
static ssize_t plain_recv(int fd, void *buf, size_t len, int flags)
{
    ssize_t n = recv(fd, buf, len, flags);

    if (n >= 0 && (size_t)n < len)
        errno = ECONNRESET; /* what libfabric takes for the reason, if it expected a greeting */

    return n;
}

ssize_t amph_ofi_guarded_recv(int fd, void *buf, size_t len, int flags)
{
    if (AMPH_LIKELY(atomic_load_explicit(&state.count, memory_order_relaxed) == 0))
        return plain_recv(fd, buf, len, flags);

    pthread_mutex_lock(&state.lock);

    struct ungreeted *u = find(fd);
    ssize_t n = u ? recv_greeting(u, fd, buf, len, flags) : -1;

    pthread_mutex_unlock(&state.lock);

    return u ? n : plain_recv(fd, buf, len, flags);
}

static void swap(void)
{
    state.swapped = amph_ofi_swap_import("recv", (void *)(uintptr_t)amph_ofi_guarded_recv) &&
                    amph_ofi_swap_import("accept", (void *)(uintptr_t)guarded_accept);
    if (!state.swapped)
        amph_debug(
            "libfabric's accept and recv were not found; refused connections are not counted");
}

/* Makes room for connections of that many peers beside those of strangers.  Returns false if there is
 * no memory.  Room of a listener that is unguarded is kept for the next one. */
static bool expect(uint32_t peers)
{
    unsigned max = STRANGERS_MAX + (peers < PEERS_MAX ? peers : PEERS_MAX);
    bool ok = true;

    pthread_mutex_lock(&state.lock);
    if (max > state.max) {
        /* zeroed pages take no memory until they are used */
        struct ungreeted *conn = calloc(max, sizeof *conn);

        ok = conn != NULL;
        if (ok) {
            if (state.conn)
                memcpy(conn, state.conn, state.max * sizeof *conn);

            free(state.conn);
            state.conn = conn;
            state.max = max;
        }
    }

    pthread_mutex_unlock(&state.lock);
    return ok;
}

void amph_ofi_guard(int listener, uint32_t peers)
{
    pthread_once(&state.once, swap);

    bool room = expect(peers);

    for (unsigned i = 0; i < LISTENERS_MAX && state.swapped && room; i++) {
        int unused = 0;

        if (atomic_compare_exchange_strong(&state.listener_plus_1[i], &unused, listener + 1))
            return;
    }

    amph_debug(
        "the listening socket %d of libfabric is not guarded against unauthenticated connections",
        listener);
}

void amph_ofi_unguard(int listener)
{
    for (unsigned i = 0; i < LISTENERS_MAX; i++) {
        int it = listener + 1;

        if (atomic_compare_exchange_strong(&state.listener_plus_1[i], &it, 0))
            return;
    }
}
