/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes to servers of this host; see pipes.h.
 *
 * Layer: iofwd.  Thread rule: see pipes.h.  amph_client_state.lock guards the making of pipes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "base/platform.h"
#include "base/settings/env.h"
#include "base/status.h"
#include "iofwd/client/data/pipes.h"
#include "iofwd/client/internal.h"

#define CALLS_BEFORE \
    4u /* large writes to a server that make no pipe, whose handshake would not pay */

/* ---- making pipes ---- */

/* Asks the server for a pipe.  Returns its descriptor, or -1. */
static int ask(struct amph_fwd_client *cl, struct amph_client_link *link, uint32_t *number_p)
{
    struct amph_fwd_welcome wc = { .passed_fd = -1 };
    int connection;

    if (amph_client_handshake(cl, link, FWD_HELLO_PIPE, FWD_NUMBER_NONE, &wc, &connection) !=
        AMPH_OK)
        return -1;

    close(connection);
    if (wc.passed_fd < 0)
        return -1;

    int up = fcntl(wc.passed_fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM);

    close(wc.passed_fd);
    *number_p = wc.number;

    return up;
}

/* Makes one more pipe, which the caller then has.  The caller has the lock. */
static struct amph_client_pipe *make(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    struct amph_client_pipes *all = &link->pipes;
    uint32_t i = atomic_load_explicit(&all->made, memory_order_relaxed);
    struct stat st;
    int size = 0;

    if (i == FWD_PIPES_MAX || atomic_load(&all->refused) ||
        atomic_load(&link->state) != AMPH_CLIENT_LINK_READY)
        return NULL;

    struct amph_client_pipe *pipe = &all->pipe[i];

    pipe->fd = ask(cl, link, &pipe->number);
    if (pipe->fd >= 0)
        size = fcntl(pipe->fd, F_GETPIPE_SZ);

    if (size <= 0 || fstat(pipe->fd, &st) != 0) {
        if (pipe->fd >= 0)
            close(pipe->fd);

        pipe->fd = -1;
        atomic_store(&all->refused, true);
        return NULL;
    }

    pipe->size_bytes = (size_t)size;
    pipe->dev = st.st_dev;
    pipe->ino = st.st_ino;
    atomic_store_explicit(&all->made, i + 1, memory_order_release);

    return pipe;
}

/* ---- acquiring and releasing ---- */

static struct amph_client_pipe *take_free(struct amph_client_pipes *all)
{
    uint32_t bits = atomic_load_explicit(&all->free, memory_order_relaxed);

    while (bits)
        if (atomic_compare_exchange_weak_explicit(&all->free, &bits, bits & (bits - 1),
                                                  memory_order_acquire, memory_order_relaxed))
            return &all->pipe[__builtin_ctz(bits)];

    return NULL;
}

/* Is the descriptor still the pipe?  Programs that close all descriptors may have closed it. */
static bool is_itself(const struct amph_client_pipe *pipe)
{
    struct stat st;

    return fstat(pipe->fd, &st) == 0 && st.st_dev == pipe->dev && st.st_ino == pipe->ino;
}

struct amph_client_pipe *amph_client_pipe_acquire(struct amph_fwd_client *cl,
                                                  struct amph_client_link *link)
{
    struct amph_client_pipes *all = &link->pipes;

    /* descriptors of another table than the process's are not known here */
    if (amph_env_int(AMPH_ENV_IOFWD_PIPES) == 0 || amph_thread_fd_table() != 0)
        return NULL;

    struct amph_client_pipe *pipe = take_free(all);

    if (!pipe) {
        if (atomic_load_explicit(&all->refused, memory_order_relaxed) ||
            atomic_load_explicit(&all->made, memory_order_relaxed) == FWD_PIPES_MAX ||
            atomic_fetch_add_explicit(&all->calls, 1, memory_order_relaxed) < CALLS_BEFORE ||
            pthread_mutex_trylock(&amph_client_state.lock) != 0)
            return NULL;

        pipe = make(cl, link);
        pthread_mutex_unlock(&amph_client_state.lock);
        return pipe;
    }

    if (is_itself(pipe))
        return pipe;

    pipe->fd = -1; /* it is another's now */
    return NULL;
}

void amph_client_pipe_release(struct amph_client_link *link, struct amph_client_pipe *pipe,
                              bool empty)
{
    if (empty) {
        atomic_fetch_or_explicit(&link->pipes.free, UINT32_C(1) << (pipe - link->pipes.pipe),
                                 memory_order_release);
        return;
    }

    if (is_itself(pipe))
        close(pipe->fd);

    pipe->fd = -1;
}

bool amph_client_pipes_own(const struct amph_client_link *link, int fd)
{
    uint32_t n = atomic_load_explicit(&link->pipes.made, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++)
        if (fd >= 0 && link->pipes.pipe[i].fd == fd)
            return true;

    return false;
}

void amph_client_pipes_end(struct amph_client_link *link)
{
    struct amph_client_pipe *pipe;

    atomic_store(&link->pipes.refused, true);
    while ((pipe = take_free(&link->pipes)))
        amph_client_pipe_release(link, pipe, false);
}

void amph_client_pipes_forget(struct amph_client_link *link)
{
    uint32_t n = atomic_load(&link->pipes.made);

    atomic_store(&link->pipes.free, 0);
    for (uint32_t i = 0; i < n; i++)
        if (link->pipes.pipe[i].fd >= 0)
            amph_client_pipe_release(link, &link->pipes.pipe[i], false);
}

/* ---- data ---- */

ssize_t amph_client_pipe_fill(struct amph_client_pipe *pipe, const uint8_t *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct iovec part = { (void *)(data + done), len - done };
        ssize_t n = vmsplice(pipe->fd, &part, 1, SPLICE_F_NONBLOCK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            bool full = n < 0 && errno == EAGAIN;
            return done || full ? (ssize_t)done : -1;
        }

        done += (size_t)n;
    }

    return (ssize_t)done;
}

bool amph_client_pipe_empty(struct amph_client_pipe *pipe)
{
    char buf[4096];
    ssize_t n;

    do
        n = read(pipe->fd, buf, sizeof buf);
    while (n > 0 || (n < 0 && errno == EINTR));

    return n < 0 && errno == EAGAIN;
}
