/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects the pieces of an appending call and writes them by one system call, which the kernel
 * does not mix with the appends of others, here or at other servers.
 *
 * Layer: iofwd.
 * Thread rule: begin and end by the progress thread, between two pieces; amph_server_append by the
 * thread that executes the piece.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iofwd/server/internal.h"
#include "iofwd/server/state.h"

#define COLLECT_MAX \
    ((size_t)4 \
     << 20) /* data collected of one call; the rest of a longer call is written piece by piece */
#define NOAPPEND 0x20 /* RWF_NOAPPEND */

struct amph_server_append_buffer {
    size_t len;
    bool full;
    size_t counted; /* bytes counted in the memory of the client and of the server */
    struct amph_server *server;
    off_t off; /* offset and flags for pwritev2 */
    int rwf;
    uint8_t data[];
};

static struct amph_server_append_buffer *take(void)
{
    for (int i = 0; i < AMPH_SERVER_SPARE_BUFFERS_MAX; i++) {
        struct amph_server_append_buffer *g = amph_server_state.spare[i];

        if (g) {
            amph_server_state.spare[i] = NULL;
            return g;
        }
    }

    return malloc(sizeof(struct amph_server_append_buffer) + COLLECT_MAX);
}

static void give(struct amph_server_append_buffer *g)
{
    for (int i = 0; i < AMPH_SERVER_SPARE_BUFFERS_MAX; i++)
        if (!amph_server_state.spare[i]) {
            amph_server_state.spare[i] = g;
            return;
        }

    free(g);
}

void amph_server_append_begin(struct amph_server_handle *h, const struct amph_server_request *rq)
{
    bool write = rq->desc->flags & FWD_CALL_WRITES;
    bool appends = (h->exec.append && !(rq->bulk.rwf & NOAPPEND)) || (rq->bulk.rwf & RWF_APPEND);

    if (h->exec.append_buffer || !write || !appends || !h->regular ||
        (rq->bulk.flags & (FWD_PIECE_LAST | FWD_PIECE_SPREAD)))
        return;
    struct amph_server *s = rq->server;

    if (rq->peer->memory + COLLECT_MAX > s->client_memory ||
        s->progress.memory + COLLECT_MAX > s->memory_limit || !(h->exec.append_buffer = take()))
        return; /* each piece is appended by itself */

    h->exec.append_buffer->len = 0;
    h->exec.append_buffer->full = false;
    h->exec.append_buffer->off = rq->desc->flags & FWD_CALL_OFFSET ? -1 : 0;
    h->exec.append_buffer->rwf = rq->bulk.rwf;
    h->exec.append_buffer->counted = COLLECT_MAX;
    h->exec.append_buffer->server = s;
    rq->peer->memory += COLLECT_MAX;
    s->progress.memory += COLLECT_MAX;
}

static ssize_t put(const struct amph_server_handle *h, const void *data, size_t len)
{
    struct iovec v = { (void *)data, len };
    ssize_t n;

    while ((n = pwritev2(h->fd, &v, 1, h->exec.append_buffer->off, h->exec.append_buffer->rwf)) <
               0 &&
           errno == EINTR)
        ;

    return n;
}

/* Writes the collected data.  A short write is reported for the call as a whole, because its pieces
 * have been answered. */
static int flush(struct amph_server_request *rq, const struct amph_server_handle *h)
{
    struct amph_server_append_buffer *g = h->exec.append_buffer;
    ssize_t n = g->len ? put(h, g->data, g->len) : 0;
    int err = n < 0 ? errno : 0;

    if (n < 0 || (size_t)n < g->len) {
        rq->exec.report_whole = true;
        rq->exec.whole = n < 0 ? 0 : (uint64_t)n;
    }

    g->len = 0;
    return err;
}

int amph_server_append(struct amph_server_request *rq, struct amph_server_handle *h,
                       const void *data, size_t len, size_t *done_p)
{
    struct amph_server_append_buffer *g = h->exec.append_buffer;
    ssize_t n = (ssize_t)len;
    int err = 0;

    if (!g->full && g->len + len > COLLECT_MAX) {
        g->full = true;
        err = flush(rq, h);
    }

    if (!g->full) {
        memcpy(g->data + g->len, data, len);
        g->len += len;
        err = rq->bulk.flags & FWD_PIECE_LAST ? flush(rq, h) : 0;
    } else if (!err && !rq->exec.report_whole && (n = put(h, data, len)) < 0)
        err = errno;

    *done_p = err || rq->exec.report_whole ? 0 : (size_t)n;
    return err;
}

void amph_server_append_end(struct amph_server_handle *h, struct amph_server_peer *peer)
{
    struct amph_server_append_buffer *g = h->exec.append_buffer;

    if (!g)
        return;

    struct amph_server_request rest = { .peer = peer };

    if (!peer->gone)
        flush(&rest, h); /* of a call that ended early */

    peer->memory -= g->counted;
    g->server->progress.memory -= g->counted;
    h->exec.append_buffer = NULL;
    give(g);
}
