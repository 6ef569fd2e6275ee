/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of dead peers.
 * Layer: conduits (ofi).  Thread rule: send side.
 *
 * The tcp providers report EAGAIN for every send to a dead peer: each attempt starts a connection,
 * which is refused internally.  So if a peer has accepted nothing for a while, this file connects to
 * its address.  ECONNREFUSED means that its process has ended.  If the connection is accepted, the
 * peer is only slow, and the probe is repeated later.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "conduits/ofi/ofi.h"

#define PATIENCE_NS (100 * AMPH_NS_PER_MS)

static void stop_asking(struct amph_ofi_cx *cx)
{
    close(cx->reach_fd);
    cx->reach_fd = -1;
}

static int start_asking(struct amph_ofi_cx *cx, struct amph_ofi_peer *p)
{
    struct sockaddr_storage sa;
    size_t len = sizeof sa;

    memset(&sa, 0, sizeof sa);
    if (fi_av_lookup(cx->av, p->addr, &sa, &len) != 0)
        return 0;

    cx->reach_fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (cx->reach_fd < 0)
        return 0;

    cx->reach_peer = p;
    if (connect(cx->reach_fd, (struct sockaddr *)&sa, (socklen_t)amph_ofi_sockaddr_len(&sa)) == 0)
        return 0;

    return errno == EINPROGRESS ? 0 : errno;
}

/* The result of the probe in flight: 0 while unknown or if the peer is alive, else an errno
 * value. */
static int look(struct amph_ofi_cx *cx, struct amph_ofi_peer *p, uint64_t now)
{
    struct pollfd pfd = { .fd = cx->reach_fd, .events = POLLOUT };
    int err = 0;
    socklen_t len = sizeof err;

    if (poll(&pfd, 1, 0) != 1)
        return 0;

    getsockopt(cx->reach_fd, SOL_SOCKET, SO_ERROR, &err, &len);
    stop_asking(cx);
    p->again_ns = now;

    return err;
}

bool amph_ofi_peer_gone(struct amph_ofi_cx *cx, struct amph_ofi_peer *p)
{
    uint64_t now = amph_now_ns();
    int err = 0;

    if (!cx->family->own_port)
        return false; /* a card has no TCP ports: the launcher reports deaths */

    if (!p->again_ns) {
        p->again_ns = now;
        return false;
    }

    if (now - p->again_ns < PATIENCE_NS)
        return false;

    if (cx->reach_fd < 0)
        err = start_asking(cx, p);
    else if (cx->reach_peer == p)
        err = look(cx, p, now);
    else if (now - p->again_ns > 2 * PATIENCE_NS &&
             now - cx->reach_peer->again_ns > 2 * PATIENCE_NS)
        stop_asking(cx); /* no further sends to that peer */

    if (err != ECONNREFUSED && err != ECONNRESET)
        return false;

    if (cx->reach_fd >= 0)
        stop_asking(cx);

    return true;
}
