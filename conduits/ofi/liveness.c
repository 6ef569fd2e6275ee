/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of dead peers.
 * Layer: conduits (ofi).  Thread rule: send side.
 *
 * The tcp providers report EAGAIN for every send to a dead peer: each attempt starts a connection,
 * which is refused internally.  So if a peer has accepted nothing for a while, this file connects to
 * its address.  ECONNREFUSED means that its process has ended.  If the connection is accepted, the
 * peer is only slow, and the probe is repeated later.  If nothing answers for AMPHORA_TCP_TIMEOUT, its host
 * has vanished (silence.c finds that for connections that exist).
 *
 * A probe is one more connection for a peer that is slow already.  If all processes of a busy host probed
 * ten times a second, that would be most of its work, and their connections would overflow the queues of
 * the listening sockets.  So after each probe that was accepted the next one waits twice as long.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

#define PATIENCE_MIN_NS (100 * AMPH_NS_PER_MS)
#define PATIENCE_MAX_NS (3200 * AMPH_NS_PER_MS)
#define QUIET_PATIENCES 8u /* without a probe, after which the patience is the least again */
#define UNANSWERED_NS \
    (2 * AMPH_NS_PER_S)             /* a probe that is older has been repeated by the kernel */
#define TURN_NS (3 * AMPH_NS_PER_S) /* after which another peer may have the probe */

static void end_probe(struct amph_ofi_cx *cx)
{
    close(cx->probe_fd);
    cx->probe_fd = -1;
}

/* How long a peer must have accepted nothing, and the time between two probes. */
static uint64_t patience(struct amph_ofi_cx *cx, uint64_t now)
{
    if (cx->patience_ns < PATIENCE_MIN_NS || now - cx->probe_ns > QUIET_PATIENCES * cx->patience_ns)
        cx->patience_ns = PATIENCE_MIN_NS;

    return cx->patience_ns;
}

static void be_patient(struct amph_ofi_cx *cx)
{
    if (cx->patience_ns < PATIENCE_MAX_NS)
        cx->patience_ns *= 2;
}

static int start_probe(struct amph_ofi_cx *cx, struct amph_ofi_peer *p, uint64_t now)
{
    struct sockaddr_storage sa;
    size_t len = sizeof sa;

    memset(&sa, 0, sizeof sa);
    if (fi_av_lookup(cx->av, p->addr, &sa, &len) != 0)
        return 0;

    cx->probe_fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (cx->probe_fd < 0)
        return 0;

    cx->probe_peer = p;
    cx->probe_ns = now;
    if (!p->unheard_s)
        p->unheard_s = (uint32_t)(now / AMPH_NS_PER_S);

    /* From the address from which libfabric connects: another one may have a route. */
    struct sockaddr_storage own = cx->listen_addr;

    ((struct sockaddr_in *)&own)->sin_port = 0; /* at the same offset in both families */
    /* the kernel chooses the port by both addresses, which is quicker and can use one port often */
    const int on = 1;

    setsockopt(cx->probe_fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (own.ss_family == sa.ss_family)
        bind(cx->probe_fd, (struct sockaddr *)&own, (socklen_t)amph_ofi_sockaddr_len(&own));

    if (connect(cx->probe_fd, (struct sockaddr *)&sa, (socklen_t)amph_ofi_sockaddr_len(&sa)) == 0)
        return 0;

    return errno == EINPROGRESS ? 0 : errno;
}

/* Is it an error that a host gives that is not there? */
static bool is_silence(int err)
{
    return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == EHOSTDOWN ||
           err == ENETDOWN;
}

/* The result of the probe in flight, whose peer is p: EINPROGRESS while unknown, 0 if the peer's
 * host accepted the connection, else an errno value. */
static int probe_result(struct amph_ofi_cx *cx, struct amph_ofi_peer *p, uint64_t now)
{
    struct pollfd pfd = { .fd = cx->probe_fd, .events = POLLOUT };
    int err = 0;
    socklen_t len = sizeof err;

    if (poll(&pfd, 1, 0) != 1)
        return EINPROGRESS;

    getsockopt(cx->probe_fd, SOL_SOCKET, SO_ERROR, &err, &len);
    end_probe(cx);
    if (err == 0)
        be_patient(cx);

    if (!is_silence(err)) {
        p->again_ns = now;
        p->unheard_s = 0;
    }

    return err;
}

/* The probe in flight is another peer's.  Ends it if it is complete, too old, or not needed any
 * more because that peer has accepted something. */
static void take_turn(struct amph_ofi_cx *cx, uint64_t now)
{
    struct amph_ofi_peer *other = cx->probe_peer;

    if (!other->again_ns)
        end_probe(cx);
    else if (probe_result(cx, other, now) == EINPROGRESS && now - cx->probe_ns > TURN_NS)
        end_probe(cx);
}

/* Has the peer the address of this process?  Then its host is there. */
static bool is_own_host(const struct amph_ofi_cx *cx, const struct amph_ofi_peer *p)
{
    uint8_t own[AMPH_INET_BLOB_BYTES];
    size_t len = amph_ofi_put_address(&cx->listen_addr, own);

    return len && len == p->name_len && amph_conduit_inet_same_host(p->name, own, len);
}

/* Has the host answered no probe for the limit, this one included?  A full queue of a listening socket
 * answers none either. */
static bool is_unheard(const struct amph_ofi_cx *cx, const struct amph_ofi_peer *p, int err,
                       uint64_t now)
{
    uint64_t limit_s = (cx->silence_ns + AMPH_NS_PER_S - 1) / AMPH_NS_PER_S;

    if (!limit_s || !p->unheard_s || (uint32_t)(now / AMPH_NS_PER_S) - p->unheard_s < limit_s)
        return false;

    if (is_own_host(cx, p))
        return false;

    return is_silence(err) || (err == EINPROGRESS && now - cx->probe_ns > UNANSWERED_NS);
}

enum amph_ofi_peer_state amph_ofi_peer_liveness(struct amph_ofi_cx *cx, struct amph_ofi_peer *p)
{
    uint64_t now = amph_now_ns();
    int err = 0;

    if (!cx->family->own_port)
        return OFI_PEER_UP; /* a card has no TCP ports: the launcher reports deaths */

    if (!p->again_ns) {
        p->again_ns = now;
        return OFI_PEER_UP;
    }

    if (now - p->again_ns < patience(cx, now))
        return OFI_PEER_UP;

    if (cx->probe_fd >= 0 && cx->probe_peer == p)
        err = probe_result(cx, p, now);
    else if (cx->probe_fd >= 0)
        take_turn(cx, now);
    else if (now - cx->probe_ns >= patience(cx, now))
        err = start_probe(cx, p, now);

    enum amph_ofi_peer_state state = OFI_PEER_UP;

    if (err == ECONNREFUSED || err == ECONNRESET)
        state = OFI_PEER_REFUSED;
    else if (is_unheard(cx, p, err, now))
        state = OFI_PEER_SILENT;

    if (cx->probe_fd >= 0 && (state != OFI_PEER_UP || (err && err != EINPROGRESS)))
        end_probe(cx);

    return state;
}
