/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of hosts that vanish while data is in flight to them.
 * Layer: conduits (ofi).  Thread rule: progress side.
 *
 * A host that loses its power or its network closes no connection, and the kernel gives a connection up
 * only after 15 minutes.  So now and then this file asks the kernel (TCP_INFO) how libfabric's
 * connections are.  What counts is whether the other kernel acknowledges anything, not whether the other process
 * does: a process that is stopped, or computes for a long time, reads nothing, but its kernel still
 * acknowledges data and the probes of a full receive window.  (TCP_USER_TIMEOUT would also end connections
 * to such a process.)
 *
 * If nothing has come from the host over any other connection of this process either, all peers of the host
 * have failed.  Otherwise only this connection is broken: it is reset, and libfabric reports what was in
 * flight.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

#define LOOKS 8u /* within the limit */
#define LOOK_MIN_NS (100 * AMPH_NS_PER_MS)
#define LOOK_MAX_NS (5 * AMPH_NS_PER_S)
#define CLOSINGS_MAX 64u /* connections that one look ends */

/* Constants of the kernel: the smallest time before the first retransmission, and the largest between two,
 * at which the times stop doubling. */
#define RTO_MIN_MS 200u
#define RTO_MAX_MS (120u * 1000)

/* What is searched for among the descriptors. */
struct search {
    const struct amph_ofi_cx *cx;
    uint64_t limit_ms;
    uint8_t host[AMPH_INET_BLOB_BYTES]; /* an address of the host */
    size_t host_len;
};

static bool read_info(int fd, struct tcp_info *ti)
{
    socklen_t len = sizeof *ti;

    memset(ti, 0, sizeof *ti);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) == 0 &&
           (ti->tcpi_state == TCP_ESTABLISHED || ti->tcpi_state == TCP_CLOSE_WAIT);
}

/* Returns the least time from the first transmission to the last one: n retransmissions, with times between
 * them that doubled until they reached rto_ms. */
static uint64_t retransmitted_ms(unsigned n, uint64_t rto_ms)
{
    uint64_t sum_ms = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t doubled_ms = i < 16 ? (uint64_t)RTO_MIN_MS << i : RTO_MAX_MS;
        uint64_t halved_ms = n - i < 32 ? rto_ms >> (n - i) : 0;
        uint64_t ms = doubled_ms > halved_ms ? doubled_ms : halved_ms;

        sum_ms += ms < rto_ms ? ms : rto_ms;
    }

    return sum_ms;
}

/* Data is in flight.  The connection may have been idle before, so the time since the last acknowledgement
 * says too little; and if the receiver has withdrawn its window, retransmissions are answered
 * although they are not accepted. */
static bool is_data_unanswered(const struct tcp_info *ti, uint64_t limit_ms)
{
    uint64_t rto_ms = ti->tcpi_rto / 1000;
    uint64_t quiet_ms = ti->tcpi_last_ack_recv;
    uint64_t sent_ms = ti->tcpi_last_data_sent; /* ago, retransmissions included */

    if (sent_ms > rto_ms)
        sent_ms = rto_ms; /* the retransmissions did not leave this host */

    if (ti->tcpi_retransmits < 2 ||
        retransmitted_ms(ti->tcpi_retransmits, rto_ms) + sent_ms < limit_ms)
        return false;

    /* neither the last one nor the one before it was answered */
    return quiet_ms >= sent_ms + (rto_ms < RTO_MAX_MS ? rto_ms * 7 / 10 : rto_ms * 3 / 2);
}

/* The receiver's window is full, and the kernel probes it at times that double up to a limit.  A time
 * without an answer that is much longer than the last of them began before the probes. */
static bool is_probe_unanswered(const struct tcp_info *ti)
{
    uint64_t interval_ms = ti->tcpi_backoff < 16
                               ? ((uint64_t)ti->tcpi_rto / 1000) << ti->tcpi_backoff
                               : RTO_MAX_MS;

    return ti->tcpi_probes >= 2 &&
           (interval_ms >= RTO_MAX_MS || ti->tcpi_last_ack_recv <= 2 * interval_ms);
}

bool amph_ofi_is_unanswered(const struct tcp_info *ti, uint64_t limit_ms)
{
    if (ti->tcpi_last_ack_recv < limit_ms)
        return false;

    return ti->tcpi_unacked ? is_data_unanswered(ti, limit_ms) : is_probe_unanswered(ti);
}

/* ---- whose connection it is ---- */

typedef int (*name_fn)(int fd, struct sockaddr *sa, socklen_t *len);

/* Returns the length of the address that fn gives, or 0. */
static size_t name_of(int fd, name_fn fn, uint8_t blob[AMPH_INET_BLOB_BYTES])
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;

    memset(&sa, 0, sizeof sa);
    if (fn(fd, (struct sockaddr *)&sa, &len) != 0 ||
        (sa.ss_family != AF_INET && sa.ss_family != AF_INET6))
        return 0;

    return amph_ofi_put_address(&sa, blob);
}

static int get_peer_name(int fd, struct sockaddr *sa, socklen_t *len)
{
    return getpeername(fd, sa, len);
}

static int get_own_name(int fd, struct sockaddr *sa, socklen_t *len)
{
    return getsockname(fd, sa, len);
}

static bool is_up(const struct amph_ofi_peer *p)
{
    return __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == OFI_PEER_UP;
}

/* Is it a connection of this instance: accepted at its address, or made to the address of a peer? */
static bool is_own(const struct amph_ofi_cx *cx, int fd)
{
    uint8_t name[AMPH_INET_BLOB_BYTES], listener[AMPH_INET_BLOB_BYTES];
    size_t len = name_of(fd, get_own_name, name);

    if (len && len == amph_ofi_put_address(&cx->listen_addr, listener) &&
        memcmp(name, listener, len) == 0)
        return true;

    len = name_of(fd, get_peer_name, name);
    for (uint32_t i = 0; len && i < cx->base.cfg.max_peers; i++) {
        const struct amph_ofi_peer *p = &cx->peer[i];

        if (is_up(p) && p->name_len == len && memcmp(p->name, name, len) == 0)
            return true;
    }

    return false;
}

static bool test_silent(int fd, const void *arg)
{
    const struct search *s = arg;
    struct tcp_info ti;

    return read_info(fd, &ti) && amph_ofi_is_unanswered(&ti, s->limit_ms) && is_own(s->cx, fd);
}

/* Has something come from the host over this connection, whoever uses it?  Half the limit: all connections
 * to a host that has vanished were heard of last at about the same time. */
static bool test_heard(int fd, const void *arg)
{
    const struct search *s = arg;
    uint8_t name[AMPH_INET_BLOB_BYTES];
    struct tcp_info ti;

    if (!read_info(fd, &ti) || ti.tcpi_last_ack_recv >= s->limit_ms / 2)
        return false;

    size_t len = name_of(fd, get_peer_name, name);

    return len == s->host_len && amph_conduit_inet_same_host(name, s->host, len);
}

/* ---- what follows ---- */

static void fail_host(struct amph_ofi_cx *cx, const struct search *s)
{
    for (uint32_t i = 0; i < cx->base.cfg.max_peers; i++) {
        struct amph_ofi_peer *p = &cx->peer[i];

        if (is_up(p) && p->name_len == s->host_len &&
            amph_conduit_inet_same_host(p->name, s->host, s->host_len))
            amph_ofi_fail_peer(cx, p, OFI_PEER_SILENT);
    }
}

/* Drops what the kernel holds; libfabric sees the end of the connection and cancels what is in flight. */
static void reset(int fd)
{
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

    connect(fd, &nowhere, sizeof nowhere);
    shutdown(fd, SHUT_RDWR);
}

/* Ends one silent connection.  Returns false if no connection is silent. */
static bool end_silent(struct amph_ofi_cx *cx)
{
    struct search s = { .cx = cx, .limit_ms = cx->silence_ns / AMPH_NS_PER_MS };
    int found = amph_ofi_find_fd(test_silent, &s);

    if (found < 0)
        return false;

    /* Another thread may close the descriptor and use its number again, so everything else concerns a
     * duplicate. */
    int fd = fcntl(found, F_DUPFD_CLOEXEC, 0);

    if (fd < 0) {
        amph_debug("%s: the silent connection %d is looked at later: %m", cx->base.cfg.name, found);
        return false;
    }

    if (test_silent(fd, &s) && (s.host_len = name_of(fd, get_peer_name, s.host)) != 0) {
        bool alone = amph_ofi_find_fd(test_heard, &s) >= 0;

        amph_debug("%s: connection %d is silent, %s", cx->base.cfg.name, found,
                   alone ? "others to the host are not" : "and so is its host");
        if (!alone)
            fail_host(cx, &s);

        reset(fd);
    }

    close(fd);
    return true;
}

void amph_ofi_tick(struct amph_cx *base, uint64_t now_ns)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    if (now_ns < cx->look_ns || !cx->silence_ns || !cx->family->own_port)
        return;

    int saved = errno;
    uint64_t interval_ns = cx->silence_ns / LOOKS;

    if (interval_ns < LOOK_MIN_NS)
        interval_ns = LOOK_MIN_NS;
    else if (interval_ns > LOOK_MAX_NS)
        interval_ns = LOOK_MAX_NS;

    /* the first time only the clock is set: most jobs are shorter */
    for (unsigned i = 0; cx->look_ns && i < CLOSINGS_MAX && end_silent(cx); i++)
        ;

    cx->look_ns = now_ns + interval_ns;
    errno = saved;
}
