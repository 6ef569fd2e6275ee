/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quiesces an endpoint before it is closed.
 * Layer: conduits (ofi).  Thread rule: called by amph_ofi_close, while neither side is active.
 *
 * rxm over tcp crashes in fi_close if traffic is outstanding (seen with libfabric 1.17, reported
 * of 2.4 over verbs): in the flush after a connection has been freed it meets an error completion
 * without a context.  Its source suggests two ways to that:
 * - A large message that is still in its queue, and for which a receive buffer is posted, makes it
 *   read from the peer over the connection
 *   that has just been freed (libfabric #11828).
 * - A connection that is freed in the middle of the answer to a read reports that read twice.
 *
 * So the receive buffers are cancelled, after which no read begins.  Then the receiving ends of the
 * sockets are shut down, and each connection is ended by its own receive path, which handles both
 * cases.  The wait object of a card's provider contains no sockets, so nothing is shut down there.
 */
#include <netinet/in.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define LIMIT_NS (2 * AMPH_NS_PER_S) /* for a busy machine; usually a few milliseconds suffice */
#define ROUNDS_PER_LOOK 32u
#define DEPTH_MAX 4u /* epoll sets inside of epoll sets: three with rxm over tcp */

/* The value of a socket's option, or -1: fd is no socket. */
static int option_of(int fd, int option)
{
    int value;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* Returns true for a network connection. libfabric's own socket pairs, by which it wakes itself,
 * must not be shut down. */
static bool is_connection(int fd)
{
    return option_of(fd, SO_PROTOCOL) == IPPROTO_TCP && option_of(fd, SO_ACCEPTCONN) == 0;
}

/* Shuts down the receiving end of each connection that the epoll set watches, directly or through
 * other sets.  Returns the number of connections. */
static unsigned end_input(int set, unsigned depth)
{
    char path[64];
    char line[256];
    unsigned n = 0;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);

    FILE *f = fopen(path, "re");
    if (!f)
        return 0;

    while (fgets(line, sizeof line, f)) {
        int fd;

        if (sscanf(line, "tfd: %d", &fd) != 1)
            continue;

        if (is_connection(fd)) {
            shutdown(fd, SHUT_RD);
            n++;
        } else if (depth < DEPTH_MAX) {
            n += end_input(fd, depth + 1); /* adds nothing if fd is not an epoll set */
        }
    }

    fclose(f);
    return n;
}

/* Lets the provider make progress.  Completions are ignored: amph_ofi_close completes all operations. */
static void work(struct amph_ofi_cx *cx)
{
    struct fi_cq_data_entry ev[OFI_BATCH];

    for (unsigned i = 0; i < ROUNDS_PER_LOOK; i++) {
        struct fi_cq_err_entry err = { 0 };

        if (fi_cq_read(cx->cq, ev, OFI_BATCH) == -FI_EAVAIL)
            fi_cq_readerr(cx->cq, &err, 0);
    }
}

void amph_ofi_quiesce(struct amph_ofi_cx *cx)
{
    if (!cx->ep || !cx->prov->own_buffers)
        return;

    amph_ofi_rx_cancel(cx);
    if (cx->inner_fd < 0)
        return;

    uint64_t end = amph_now_ns() + LIMIT_NS;
    unsigned left;

    while ((left = end_input(cx->inner_fd, 0)) > 0 && amph_now_ns() < end)
        work(cx);

    if (left)
        amph_debug("%s: %u connections of provider %s could not be quiesced", cx->base.cfg.name,
                   left, cx->prov->name);
}
