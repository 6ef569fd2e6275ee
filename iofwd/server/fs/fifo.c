/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes of FIFOs, which may block for long.
 *
 * The descriptor never blocks.  A blocked call waits in ppoll for the FIFO and for the end of its
 * client's connection.  The connection of a killed client is closed before its parent has waited
 * for it, so data that is written to the FIFO later is not consumed for the dead client.
 *
 * Layer: iofwd.
 * Thread rule: workers.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/server/internal.h"

void amph_server_fifo_open(struct amph_server_handle *h)
{
    h->fifo = true;
    fcntl(h->fd, F_SETFL, fcntl(h->fd, F_GETFL) | O_NONBLOCK);
}

/* Waits until a call is worth trying; at_once: only checks that the client still exists.  0 or an
 * errno value. */
static int wait_for(const struct amph_server_request *rq, const struct amph_server_handle *h,
                    short events, bool at_once)
{
    const struct timespec none = { 0, 0 };
    struct pollfd p[2] = { { .fd = h->fd, .events = events },
                           { .fd = rq->client_fd, .events = POLLRDHUP } };
    sigset_t others;

    sigfillset(&others);
    sigdelset(&others, AMPH_SERVER_WAKE_SIGNAL);

    int n = 0;
    bool interrupted = true;

    while (interrupted && !atomic_load(&rq->cancelled)) {
        n = ppoll(p, 2, at_once ? &none : NULL, &others);
        interrupted = n < 0 && errno == EINTR;
    }

    if (atomic_load(&rq->cancelled))
        return EINTR;

    if (n < 0)
        return errno;

    return p[1].revents ? EIO : 0;
}

static int move(struct amph_server_request *rq, struct amph_server_handle *h, struct iovec v,
                size_t *done_p)
{
    bool writes = rq->desc->flags & FWD_CALL_WRITES;
    bool waits = !h->exec.nonblock && !(rq->bulk.rwf & RWF_NOWAIT);
    bool at_once = true;
    int err;

    while (!(err = wait_for(rq, h, writes ? POLLOUT : POLLIN, at_once))) {
        ssize_t n = writes ? pwritev2(h->fd, &v, 1, -1, rq->bulk.rwf)
                           : preadv2(h->fd, &v, 1, -1, rq->bulk.rwf);

        if (n >= 0)
            *done_p = (size_t)n;

        if (n >= 0 || errno != EAGAIN || !waits)
            return n < 0 ? errno : 0;

        at_once = false;
    }

    return err;
}

int amph_server_fifo_read(struct amph_server_request *rq, struct amph_server_handle *h, void *buf,
                          size_t len, size_t *done_p)
{
    return move(rq, h, (struct iovec){ buf, len }, done_p);
}

/* A blocking write writes all data, unless an error prevents it. */
int amph_server_fifo_write(struct amph_server_request *rq, struct amph_server_handle *h,
                           const void *data, size_t len, size_t *done_p)
{
    size_t done = 0;
    size_t n = 0;
    bool whole = !h->exec.nonblock;
    int err;

    do {
        err = move(rq, h, (struct iovec){ (char *)data + done, len - done }, &n);
        done += err ? 0 : n;
    } while (!err && whole && n && done < len);

    *done_p = done;
    return done ? 0 : err;
}
