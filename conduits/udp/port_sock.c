/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram port over a socket of the kernel.  Layer: conduits (udp).  Thread rule: see port.h.
 *
 * Datagrams are as long as the route's MTU allows (64 KiB on the loopback interface).  One system
 * call sends or receives many.  If the kernel can split (GSO) and join (GRO) datagrams of one
 * length, several of them cross the kernel as one, and are received as one.  Short datagrams to busy peers are sent by
 * sockets that are connected to those peers, which saves a route lookup for each (90 of 1000 ns).
 * Addresses: see inet.h.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/aligned.h"
#include "base/platform.h"
#include "base/wire.h"
#include "conduits/inet.h"
#include "conduits/port.h"

#define BUFFER_BYTES 65536u
#define WANTED_QUEUE (4 << 20)
#define GSO_PIECES 32u
#define GSO_BYTES 65000u
#define OUT_BATCH 32u
#define SMALL_BYTES 512u /* datagrams up to this are joined here instead of by the kernel */
#define STREAK 2u
/* Datagrams of this length are received one at a time: a batch of them does not fit the processor's
 * cache, and a system call costs little beside the copy of one. */
#define ALONE_BYTES 16384u
#define LANES 16u       /* connected sockets at most; a power of two */
#define LANE_AFTER 64u  /* short datagrams to one peer */
#define PROBE_PIECE 24u /* with its two bytes swapped, longer than any datagram */

union name {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr sa;
};

struct dest {
    union name name;
    uint8_t len; /* of the name; 0: not in use */
    uint16_t mtu_datagram;
};

/* A socket for short datagrams to one peer.  Nothing is received by it, because peers know only
 * the address of the port's own socket. */
struct lane {
    uint32_t peer, sent; /* short datagrams since the socket was connected to it */
    int fd;              /* not opened */
    bool never;          /* cannot be opened; do not try again */
};

struct sock_set;

struct sock_port {
    struct amph_port base;
    int fd;
    uint32_t max_peers;
    bool gso;
    unsigned streak;   /* receive calls in a row that found something */
    size_t last_bytes; /* length of the datagram received last */
    uint32_t refused;
    bool said_unreachable;
    struct dest *dest; /* [max_peers] */
    union name own;    /* our address, with port 0 */
    struct lane lane[LANES];
    struct mmsghdr out[OUT_BATCH];
    struct iovec iov[OUT_BATCH * AMPH_PORT_PARTS];
    uint64_t control[OUT_BATCH][4];
    struct sock_set *first; /* the first set to receive into; NULL: it is in use */
};

struct sock_set {
    struct amph_port_set base;
    uint8_t *mem;
    struct mmsghdr msg[AMPH_PORT_BATCH];
    struct iovec iov[AMPH_PORT_BATCH];
};

static struct sock_port *port_of(struct amph_port *port)
{
    return (struct sock_port *)port;
}

static enum amph_status sock_probe(char *why, size_t why_len)
{
    snprintf(why, why_len,
             "kernel socket, datagrams as long as the path allows, many in a system call (when it "
             "was chosen as the "
             "default, a put of 1 MiB on loopback was 6 times as fast as over libfabric's udp; "
             "amphora-perf measures)");
    return AMPH_OK;
}

static void leave_lane(struct lane *lane, uint32_t peer)
{
    if (lane->fd >= 0)
        close(lane->fd);

    *lane = (struct lane){ .peer = peer, .fd = -1 };
}

/* ---- receive buffers ---- */

static struct sock_set *make_set(void)
{
    struct sock_set *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;

    /* pages are allocated at their first use */
    s->mem = amph_aligned_alloc(4096, (size_t)AMPH_PORT_BATCH * BUFFER_BYTES);
    if (!s->mem) {
        free(s);
        return NULL;
    }

    for (unsigned i = 0; i < AMPH_PORT_BATCH; i++) {
        s->iov[i] = (struct iovec){ s->mem + (size_t)i * BUFFER_BYTES, BUFFER_BYTES };
        s->msg[i].msg_hdr = (struct msghdr){ .msg_iov = &s->iov[i], .msg_iovlen = 1 };
    }

    return s;
}

static void drop_set(struct sock_set *s)
{
    amph_aligned_free(s->mem);
    free(s);
}

static void sock_free_set(struct amph_port *base, struct amph_port_set *set)
{
    drop_set((struct sock_set *)set);
}

/* ---- opening ---- */

static void sock_close(struct amph_port *base)
{
    struct sock_port *p = port_of(base);

    for (unsigned i = 0; i < LANES; i++)
        leave_lane(&p->lane[i], UINT32_MAX);

    if (p->fd >= 0)
        close(p->fd);

    if (p->first)
        drop_set(p->first);

    free(p->dest);
    free(p);
}

/* Makes the receive queue as large as the system allows and returns its size. */
static uint64_t set_queue(int fd)
{
    int bytes = WANTED_QUEUE;
    socklen_t len = sizeof bytes;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);

    bytes = WANTED_QUEUE;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);

    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) != 0 || bytes < 65536)
        return 65536;

    return (uint64_t)bytes /
           2; /* the kernel counts twice the requested size, for its own bookkeeping */
}

static void put_segment(struct msghdr *h, size_t len_bytes)
{
    uint16_t size = (uint16_t)len_bytes;

    h->msg_controllen = CMSG_SPACE(sizeof size);

    struct cmsghdr *cm = CMSG_FIRSTHDR(h);

    cm->cmsg_level = IPPROTO_UDP;
    cm->cmsg_type = UDP_SEGMENT;
    cm->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(cm), &size, sizeof size);
}

/* Checks by a datagram to itself that the kernel splits a message with a segment size.  Done on
 * big-endian hosts, because an emulator of such a processor may pass the size to the kernel with
 * its bytes swapped, and the datagrams would arrive joined. */
static bool kernel_splits(const struct sock_port *p, struct sockaddr_storage *own)
{
    uint64_t text[2 * PROBE_PIECE / 8] = { 0 };
    uint64_t control[4] = { 0 };
    struct iovec iov = { text, sizeof text };
    struct msghdr h = { .msg_name = own,
                        .msg_namelen = (socklen_t)amph_conduit_inet_len(own),
                        .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control };
    struct pollfd in = { .fd = p->fd, .events = POLLIN };

    put_segment(&h, PROBE_PIECE);

    bool cut = sendmsg(p->fd, &h, MSG_DONTWAIT) == (ssize_t)sizeof text;

    for (unsigned i = 0; cut && i < 2; i++)
        cut = poll(&in, 1, 20) == 1 && recv(p->fd, text, sizeof text, MSG_DONTWAIT) == PROBE_PIECE;

    return cut;
}

static void set_options(struct sock_port *p, int family)
{
    int on = 1;
    int dont = IP_PMTUDISC_DONT;
    int size = 0;
    socklen_t len = sizeof size;
    bool v6 = family == AF_INET6;

    /* Lets routers fragment a datagram that is too long for a later link: only the first link's
     * MTU is known. */
    if (!v6)
        setsockopt(p->fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof dont);

    setsockopt(p->fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, &on,
               sizeof on);
    p->gso = getsockopt(p->fd, IPPROTO_UDP, UDP_SEGMENT, &size, &len) == 0;
    setsockopt(p->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on); /* older kernels do not join */
}

static enum amph_status sock_open(const struct amph_port_config *cfg, struct amph_port **port_p)
{
    struct sockaddr_storage sa;
    struct sock_port *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->base.ops = &amph_conduit_port_socket_ops;
    p->fd = -1;
    for (unsigned i = 0; i < LANES; i++)
        p->lane[i] = (struct lane){ .peer = UINT32_MAX, .fd = -1 };

    p->max_peers = cfg->max_peers;
    p->refused = UINT32_MAX;
    p->dest = calloc(cfg->max_peers, sizeof *p->dest);

    /* allocated here, so that too little memory is an error of open, not of each receive */
    p->first = make_set();

    enum amph_status st = p->dest && p->first
                              ? amph_conduit_inet_choose(cfg->conduit, cfg->loopback_only,
                                                         cfg->interface, &sa)
                              : AMPH_ERR_NOMEM;

    if (st != AMPH_OK) {
        sock_close(&p->base);
        return st;
    }

    socklen_t len = (socklen_t)amph_conduit_inet_len(&sa);

    p->fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0 || bind(p->fd, (struct sockaddr *)&sa, len) != 0 ||
        getsockname(p->fd, (struct sockaddr *)&sa, &len) != 0) {
        int err = errno;

        amph_conduit_inet_report(&sa, err);
        sock_close(&p->base);
        return amph_status_from_errno(err);
    }

    memcpy(&p->own, &sa, len);
    if (sa.ss_family == AF_INET6)
        p->own.v6.sin6_port = 0;
    else
        p->own.v4.sin_port = 0;

    set_options(p, sa.ss_family);
    if (AMPH_BIG_ENDIAN && p->gso)
        p->gso = kernel_splits(p, &sa);

    p->base.queue_bytes = set_queue(p->fd);
    p->base.datagram = AMPH_INET_DATAGRAM_MAX;
    p->base.peeks = true;
    p->base.addr_len = amph_conduit_inet_put_port(&sa, p->base.datagram, p->base.addr);
    *port_p = &p->base;

    return AMPH_OK;
}

/* ---- peers ---- */

/* Returns the length of the longest datagram that the route to an address carries unfragmented. */
static uint32_t route_datagram(const union name *name, socklen_t len)
{
    bool v6 = name->sa.sa_family == AF_INET6;
    int mtu = 0;
    int fd = socket(name->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t mtu_len = sizeof mtu;
    uint32_t headers = v6 ? 48 : 28;

    if (fd < 0)
        return 1400;

    if (connect(fd, &name->sa, len) != 0 ||
        getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &mtu_len) != 0)
        mtu = 1500;

    close(fd);
    if (mtu < 1280)
        mtu = 1280;

    uint32_t max = (uint32_t)mtu - headers;

    return (max < AMPH_INET_DATAGRAM_MAX ? max : AMPH_INET_DATAGRAM_MAX) & ~7u;
}

static enum amph_status sock_add_peer(struct amph_port *base, uint32_t peer, const void *addr,
                                      size_t addr_len, uint32_t *datagram_p)
{
    struct sock_port *p = port_of(base);
    struct sockaddr_storage sa;
    uint32_t takes;

    if (peer >= p->max_peers)
        return AMPH_ERR_RANGE;
    if (amph_conduit_inet_get_port(addr, addr_len, &sa, &takes) != AMPH_OK)
        return AMPH_ERR_PROTO;
    if (sa.ss_family != p->own.sa.sa_family) /* the socket sends to its own kind of address only */
        return AMPH_ERR_PEER;

    struct dest *dest = &p->dest[peer];
    if (dest->len)
        return AMPH_ERR_STATE;

    socklen_t len = (socklen_t)amph_conduit_inet_len(&sa);

    memcpy(&dest->name, &sa, len);

    uint32_t route = route_datagram(&dest->name, len);

    *datagram_p = route < takes ? route : takes;
    dest->len = (uint8_t)len;

    return AMPH_OK;
}

static void sock_del_peer(struct amph_port *base, uint32_t peer)
{
    struct sock_port *p = port_of(base);

    if (peer < p->max_peers)
        p->dest[peer].len = 0;

    if (p->lane[peer % LANES].peer == peer)
        leave_lane(&p->lane[peer % LANES], UINT32_MAX);
}

/* ---- errors ---- */

static bool same_dest(const struct dest *dest, const union name *name)
{
    if (!dest->len || dest->name.sa.sa_family != name->sa.sa_family ||
        dest->name.v4.sin_port != name->v4.sin_port)
        return false;

    return name->sa.sa_family == AF_INET6
               ? memcmp(&dest->name.v6.sin6_addr, &name->v6.sin6_addr, 16) == 0
               : dest->name.v4.sin_addr.s_addr == name->v4.sin_addr.s_addr;
}

/* Reads the error queue for the peer whose host reported that no process receives at its port. */
static void read_errors(struct sock_port *p)
{
    for (unsigned i = 0; i < 64; i++) {
        union name name;
        uint8_t control[512], data[8];
        struct iovec iov = { data, sizeof data };
        struct msghdr msg = { .msg_name = &name,
                              .msg_namelen = sizeof name,
                              .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof control };

        if (recvmsg(p->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return;

        for (struct cmsghdr *cm = CMSG_FIRSTHDR(&msg); cm; cm = CMSG_NXTHDR(&msg, cm)) {
            struct sock_extended_err err;
            bool ours = (cm->cmsg_level == IPPROTO_IP && cm->cmsg_type == IP_RECVERR) ||
                        (cm->cmsg_level == IPPROTO_IPV6 && cm->cmsg_type == IPV6_RECVERR);

            if (!ours || cm->cmsg_len < CMSG_LEN(sizeof err))
                continue;

            memcpy(&err, CMSG_DATA(cm), sizeof err);
            for (uint32_t k = 0; err.ee_errno == ECONNREFUSED && k < p->max_peers; k++)
                if (same_dest(&p->dest[k], &name)) {
                    p->refused = k;
                    break;
                }
        }
    }
}

static uint32_t sock_refused(struct amph_port *base)
{
    uint32_t peer = port_of(base)->refused;

    port_of(base)->refused = UINT32_MAX;
    return peer;
}

/* ---- sending ---- */

static unsigned add_parts(struct iovec *iov, const struct amph_port_out *o)
{
    for (unsigned i = 0; i < o->nparts; i++)
        iov[i] = (struct iovec){ (void *)(uintptr_t)o->part[i].at, o->part[i].len_bytes };

    return o->nparts;
}

/* Returns how many of v[0..n) can be sent as one message that the kernel splits: all to one peer
 * and of one length (the last may be shorter). */
static unsigned joinable(const struct sock_port *p, const struct amph_port_out *v, unsigned n)
{
    unsigned k = 1;
    size_t len = v[0].len_bytes;
    size_t sum = len;

    if (!p->gso || len > GSO_BYTES / 2)
        return 1;

    while (k < n && k < GSO_PIECES && v[k].peer == v[0].peer && v[k].len_bytes <= len &&
           sum + v[k].len_bytes <= GSO_BYTES) {
        sum += v[k].len_bytes;
        if (v[k++].len_bytes < len)
            break;
    }

    return k;
}

static void set_segment(struct sock_port *p, unsigned i, size_t len_bytes)
{
    p->out[i].msg_hdr.msg_control = p->control[i];
    put_segment(&p->out[i].msg_hdr, len_bytes);
}

/* Fills p->out from v.  Returns the number of messages; covers[i] is the number of datagrams in
 * each. */
static unsigned build(struct sock_port *p, const struct amph_port_out *v, unsigned n,
                      unsigned covers[])
{
    unsigned made = 0;
    unsigned niov = 0;

    for (unsigned i = 0; i < n; made++) {
        struct dest *dest = &p->dest[v[i].peer];
        unsigned k = joinable(p, v + i, n - i);
        unsigned first = niov;

        for (unsigned j = 0; j < k; j++)
            niov += add_parts(p->iov + niov, &v[i + j]);

        p->out[made].msg_hdr = (struct msghdr){ .msg_name = &dest->name,
                                                .msg_namelen = dest->len,
                                                .msg_iov = p->iov + first,
                                                .msg_iovlen = niov - first };
        if (k > 1)
            set_segment(p, made, v[i].len_bytes);

        covers[made] = k;
        i += k;
    }

    return made;
}

static void open_lane(struct sock_port *p, struct lane *lane)
{
    const struct dest *dest = &p->dest[lane->peer];
    int one = 1;
    int fd = socket(dest->name.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    lane->never = fd < 0 || bind(fd, &p->own.sa, dest->len) != 0 ||
                  connect(fd, &dest->name.sa, dest->len) != 0;
    if (lane->never && fd >= 0)
        close(fd);

    if (lane->never)
        return;

    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &one, sizeof one); /* the minimum */
    lane->fd = fd;
}

/* Returns the socket that is connected to a peer, or -1.  If two peers use the same lane, the
 * one that sends more gets it. */
static int lane_to(struct sock_port *p, uint32_t peer)
{
    struct lane *lane = &p->lane[peer % LANES];

    if (lane->peer != peer) {
        if (lane->peer != UINT32_MAX && lane->sent > 0) {
            lane->sent--;
            return -1;
        }

        leave_lane(lane, peer);
    }

    if (lane->sent < 2 * LANE_AFTER)
        lane->sent++;

    if (lane->fd < 0 && lane->sent >= LANE_AFTER && !lane->never)
        open_lane(p, lane);

    return lane->fd;
}

/* Sends one short datagram from a copy; returns -1 as sendto does.  The system call is made directly,
 * because the C library's is a cancellation point, which costs time and must not be one here. */
static ssize_t send_small(struct sock_port *p, const struct amph_port_out *o, int lane)
{
    uint64_t text[SMALL_BYTES / 8];
    size_t n = 0;
    struct dest *dest = &p->dest[o->peer];

    for (unsigned i = 0; i < o->nparts; i++) {
        memcpy((uint8_t *)text + n, o->part[i].at, o->part[i].len_bytes);
        n += o->part[i].len_bytes;
    }

    if (lane >= 0)
        return syscall(SYS_sendto, lane, text, n, MSG_DONTWAIT, NULL, 0);

    return syscall(SYS_sendto, p->fd, text, n, MSG_DONTWAIT, &dest->name.sa, dest->len);
}

/* Sends one datagram in the cheapest way; returns -1 with errno as sendmsg does. */
static ssize_t send_one(struct sock_port *p, const struct amph_port_out *o)
{
    int lane = lane_to(p, o->peer);

    if (o->len_bytes <= SMALL_BYTES)
        return send_small(p, o, lane);

    struct dest *dest = &p->dest[o->peer];
    struct msghdr h = { .msg_name = lane < 0 ? &dest->name : NULL,
                        .msg_namelen = lane < 0 ? dest->len : 0,
                        .msg_iov = p->iov,
                        .msg_iovlen = add_parts(p->iov, o) };

    return syscall(SYS_sendmsg, lane < 0 ? p->fd : lane, &h, MSG_DONTWAIT);
}

/* Sends the n > 0 datagrams at out.  Returns how many the kernel took, or -1 with errno. */
static int send_datagrams(const struct sock_port *p, struct mmsghdr *out, unsigned n)
{
    if (n > 1)
        return sendmmsg(p->fd, out, n, MSG_DONTWAIT);

    return sendmsg(p->fd, &out->msg_hdr, MSG_DONTWAIT) >= 0 ? 1 : -1;
}

/* A network that cannot be reached may come back, so datagrams are sent again.  But a job whose processes
 * have never heard of each other must not wait in silence for its timeout. */
static void say_unreachable(struct sock_port *p, int err)
{
    if (p->said_unreachable || p->last_bytes)
        return;

    p->said_unreachable = true;
    amph_warn("udp: nothing can be sent: %s; tried again until AMPHORA_UDP_TIMEOUT (is the network "
              "up? AMPHORA_INTERFACE chooses another address)",
              strerror(err));
}

static unsigned send_some(struct sock_port *p, const struct amph_port_out *v, unsigned n)
{
    if (n == 1 && send_one(p, v) >= 0)
        return 1; /* the call below reports an error again */

    unsigned covers[OUT_BATCH];
    unsigned made = build(p, v, n, covers);
    unsigned done = 0;
    unsigned at = 0;

    while (at < made) {
        int sent = send_datagrams(p, p->out + at, made - at);

        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
            break;
        if (sent < 0 && errno == EINTR)
            continue;

        if (sent < 0 && (errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH)) {
            int err = errno; /* error of an earlier datagram or of this one */

            read_errors(p);
            if (err != ECONNREFUSED)
                say_unreachable(p, err);

            sent = err != ECONNREFUSED;
        } else if (sent < 0) {
            if (covers[at] > 1 && (errno == EINVAL || errno == EIO || errno == EMSGSIZE))
                p->gso =
                    false; /* the device does not support it; the lost datagrams are retransmitted one by one */

            amph_debug("udp: a datagram could not be sent: %m");
            sent = 1; /* as if it had been lost */
        }

        for (; sent > 0; sent--)
            done += covers[at++];
    }

    return done;
}

static unsigned sock_send(struct amph_port *base, const struct amph_port_out *v, unsigned n)
{
    unsigned done = 0;

    while (done < n) {
        unsigned some = n - done < OUT_BATCH ? n - done : OUT_BATCH;
        unsigned taken = send_some(port_of(base), v + done, some);

        done += taken;
        if (taken < some)
            break;
    }

    return done;
}

/* ---- receiving ---- */

/* Receives one datagram.  Used while datagrams arrive one at a time, because a call for many
 * would look into the empty queue a second time, and for long ones, which then reuse memory that is in
 * the cache. */
static unsigned recv_one(struct sock_port *p, struct sock_set *s)
{
    ssize_t n = syscall(SYS_recvfrom, p->fd, s->mem, BUFFER_BYTES, MSG_DONTWAIT, NULL, NULL);

    if (n < 0) {
        p->streak = 0;
        if (errno != EAGAIN && errno != EINTR)
            read_errors(p);

        return 0;
    }

    p->streak++;
    p->last_bytes = (size_t)n;
    s->base.in[0] = (struct amph_port_in){ s->mem, (size_t)n };
    s->base.end = 1;

    return 1;
}

static unsigned sock_recv(struct amph_port *base, struct amph_port_set **set_p)
{
    struct sock_port *p = port_of(base);
    struct sock_set *s = (struct sock_set *)*set_p;

    if (!s) {
        s = p->first ? p->first : make_set();
        p->first = NULL;
    }

    if (!s)
        return 0;

    *set_p = &s->base;
    s->base.at = s->base.end = 0;
    s->base.emptied = false;
    if (p->streak < STREAK || p->last_bytes >= ALONE_BYTES)
        return recv_one(p, s);

    int n = recvmmsg(p->fd, s->msg, AMPH_PORT_BATCH, MSG_DONTWAIT, NULL);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        read_errors(p);

    if (n < 2)
        p->streak = 0;

    for (int i = 0; i < n; i++)
        s->base.in[s->base.end++] = (struct amph_port_in){ s->iov[i].iov_base, s->msg[i].msg_len };

    if (n > 0)
        p->last_bytes = s->msg[n - 1].msg_len;

    s->base.emptied = n < AMPH_PORT_BATCH;

    return s->base.end;
}

static size_t sock_peek(struct amph_port *base, void *head, size_t room)
{
    struct sock_port *p = port_of(base);
    ssize_t n = syscall(SYS_recvfrom, p->fd, head, room, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC, NULL,
                        NULL);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        read_errors(p);

    if (n < 0)
        p->streak = 0;

    return n < 0 ? 0 : (size_t)n;
}

static bool sock_take(struct amph_port *base, const struct amph_port_in_parts *parts)
{
    struct sock_port *p = port_of(base);
    uint64_t pad;
    struct iovec iov[] = { { parts->head, parts->head_len },
                           { parts->bulk, parts->bulk_len },
                           { &pad, parts->pad_len } };
    struct msghdr h = { .msg_iov = iov, .msg_iovlen = parts->pad_len ? 3 : 2 };
    size_t len = parts->head_len + parts->bulk_len + parts->pad_len;

    p->last_bytes = len;
    return syscall(SYS_recvmsg, p->fd, &h, MSG_DONTWAIT | MSG_TRUNC) == (ssize_t)len;
}

static bool sock_queued(struct amph_port *base)
{
    struct pollfd in = { .fd = port_of(base)->fd, .events = POLLIN };

    return poll(&in, 1, 0) > 0 && (in.revents & POLLIN);
}

static int sock_fd(struct amph_port *base)
{
    return port_of(base)->fd;
}

static bool sock_idle(struct amph_port *base)
{
    return true; /* the descriptor is readable, so a sleep on it returns at once */
}

const struct amph_port_ops amph_conduit_port_socket_ops = {
    .name = "socket",
    .probe = sock_probe,
    .open = sock_open,
    .close = sock_close,
    .add_peer = sock_add_peer,
    .del_peer = sock_del_peer,
    .send = sock_send,
    .recv = sock_recv,
    .peek = sock_peek,
    .take = sock_take,
    .free_set = sock_free_set,
    .queued = sock_queued,
    .refused = sock_refused,
    .fd = sock_fd,
    .idle = sock_idle,
};
