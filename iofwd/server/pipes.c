/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes through which the data of large writes arrives from clients of this host.  The client puts
 * references to the pages of its buffer into the pipe (vmsplice), and the server moves them from the
 * pipe to the file (splice), which copies each byte once.  By the transfer area each byte is copied
 * twice.
 *
 * A request is sent after all its data is in the pipe, so the server never waits for data.  Only the
 * pieces of one call use a pipe at a time, and they are executed in their order.  After a call that
 * has ended early, the client removes what is left in the pipe, when it has all replies.
 *
 * The server makes the pipes, because it is the one that counts them: the pages of a user's pipes are
 * limited (pipe-user-pages-soft in proc(5)).  It does not make a pipe that would be too small.
 *
 * Layer: iofwd.
 * Thread rule: progress thread, except amph_server_pipe_write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "iofwd/server/internal.h"

#define PIPE_MAX ((size_t)1 << 20) /* the default of pipe-max-size */
#define PIPE_MIN ((size_t)256 << 10)
#define BUSY_NS (10 * AMPH_NS_PER_MS) /* how long clients that take turns count as several */

/* ---- making pipes ---- */

/* Makes a pipe of a useful size.  Returns its size, or 0. */
static size_t open_pipe(int end[2])
{
    if (pipe2(end, O_CLOEXEC | O_NONBLOCK) != 0)
        return 0;

    for (size_t size = PIPE_MAX; size >= PIPE_MIN; size /= 2)
        if (fcntl(end[1], F_SETPIPE_SZ, (int)size) >= (int)size)
            return size;

    close(end[0]);
    close(end[1]);
    return 0;
}

/* Returns another open file of a pipe, for both directions: the client can remove what is left in
 * it, and gets no SIGPIPE after the server's end. */
static int open_both_ways(int fd)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

uint32_t amph_server_pipe_make(struct amph_server *s, struct amph_server_peer *p, int *fd_p)
{
    amph_server_assert_owner(&s->progress.owner);

    int end[2];

    *fd_p = -1;
    if (!p || p->gone || p->npipes == FWD_PIPES_MAX ||
        s->progress.npipes >= s->progress.pipes_max || !amph_server_limits_spare(s))
        return FWD_NUMBER_NONE;

    size_t size = open_pipe(end);

    if (size == 0)
        return FWD_NUMBER_NONE;

    *fd_p = open_both_ways(end[1]);
    close(end[1]);
    if (*fd_p < 0) {
        close(end[0]);
        return FWD_NUMBER_NONE;
    }

    p->pipe[p->npipes] = (struct amph_server_pipe){ .fd = end[0], .size_bytes = (uint32_t)size };
    s->progress.npipes++;
    return p->npipes++;
}

void amph_server_pipes_close(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    for (uint32_t i = 0; i < p->npipes; i++)
        close(p->pipe[i].fd);

    s->progress.npipes -= p->npipes;
    p->npipes = 0;
    if (s->progress.pipe_peer == p)
        s->progress.pipe_peer = NULL;
}

void amph_server_pipe_note(struct amph_server *s, const struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    if (s->progress.pipe_peer && s->progress.pipe_peer != p)
        s->progress.pipes_busy_ns = amph_now_ns() + BUSY_NS;

    s->progress.pipe_peer = p;
}

bool amph_server_pipes_busy(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    if (s->progress.pipes_busy_ns && amph_now_ns() >= s->progress.pipes_busy_ns)
        s->progress.pipes_busy_ns = 0;

    return s->progress.pipes_busy_ns != 0;
}

/* ---- moving data ---- */

/* Appending files, and those whose data bypasses the page cache, take their data from memory. */
static bool takes_pipes(const struct amph_server_request *rq, const struct amph_server_handle *h)
{
    return h->regular && !h->exec.append && !h->exec.append_buffer && !h->exec.direct &&
           !h->exec.splice_refused && !rq->bulk.rwf;
}

/* Moves up to rq->bulk.len bytes.  Returns what pwrite would: the bytes before an error, or -1. */
static ssize_t splice_all(const struct amph_server_request *rq, int fd, const off_t *off)
{
    size_t done = 0;

    while (done < rq->bulk.len) {
        loff_t at = off ? *off + (off_t)done : 0;
        ssize_t n = splice(rq->pipe_fd, NULL, fd, off ? &at : NULL, rq->bulk.len - done,
                           SPLICE_F_NONBLOCK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EAGAIN;
        if (n <= 0)
            return done ? (ssize_t)done : -1;

        done += (size_t)n;
    }

    return (ssize_t)done;
}

/* Copies a request's data out of its pipe.  0 or an errno value. */
static int copy_out(struct amph_server_request *rq)
{
    size_t have = 0;

    /* aligned for O_DIRECT */
    rq->exec.pipe_data = aligned_alloc(4096, ((size_t)rq->bulk.len + 4095) / 4096 * 4096);
    if (!rq->exec.pipe_data)
        return ENOMEM;

    while (have < rq->bulk.len) {
        ssize_t n = read(rq->pipe_fd, (char *)rq->exec.pipe_data + have, rq->bulk.len - have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return EIO; /* less than the request says */

        have += (size_t)n;
    }

    return 0;
}

bool amph_server_pipe_write(struct amph_server_request *rq, struct amph_server_handle *h,
                            const off_t *off, const void **data_p, size_t *done_p, int *err_p)
{
    if (AMPH_LIKELY(rq->bulk.where != FWD_PIPE))
        return false;

    *done_p = 0;
    *err_p = 0;

    if (takes_pipes(rq, h)) {
        ssize_t n = splice_all(rq, h->fd, off);

        if (n >= 0) {
            *done_p = rq->exec.piped_bytes = (size_t)n;
            return true;
        }

        if (errno != EINVAL) {
            *err_p = errno == EAGAIN ? EIO : errno;
            return true;
        }

        h->exec.splice_refused = !off || *off >= 0;
    }

    *err_p = copy_out(rq);
    *data_p = rq->exec.pipe_data;
    return *err_p != 0;
}
