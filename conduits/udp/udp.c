/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp conduit: the reliable-datagram protocol (rdp.h) over a datagram port (conduits/port.h).
 * Layer: conduits (udp).
 * Thread rule: that of conduit.h.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/clmul.h"
#include "base/log.h"
#include "conduits/memkey.h"
#include "conduits/udp/rdp_wire.h"
#include "conduits/udp/udp.h"

#define KEY_VERSION 3u
#define MESSAGES_VERSION 1u              /* rises with what extended/ sends */
#define LINGER_NS (250 * AMPH_NS_PER_MS) /* for packets in flight when an instance is closed */
#define LOSS_SCALE 10000u
/* Bulk from this length on is received in place: a copy of it takes longer than another system call. */
#define PLACE_MIN 8192u
/* A process that has not looked for as long polls seldom. */
#define LATE_NS (100 * AMPH_NS_PER_US)

static enum amph_status amph_udp_probe(char *why, size_t why_len)
{
    const struct amph_port_ops *ops;
    return amph_udp_choose_port(&ops, why, why_len);
}

static const struct amph_conduit_caps caps = {
    .max_medium = RDP_MAX_MEDIUM,
    .inject_bytes = RDP_COPY_BYTES,
    .self_flow = true,
    .native_rma = true,
    .put_then_am = true,
    .maps_memory = false,
    .can_sleep = false,
    .fd_blocks = true,
    .mixed_order = true,
    .mixed_width = true,
};

/* ---- the wire and the clock of the protocol ---- */

static uint64_t clock_now(void *ctx)
{
    return amph_now_ns();
}

static unsigned wire_send(void *ctx, const struct amph_port_out *v, unsigned n)
{
    struct amph_udp_cx *u = ctx;
    return u->port->ops->send(u->port, v, n);
}

static size_t wire_peek(void *ctx, void *head, size_t room)
{
    struct amph_udp_cx *u = ctx;
    return u->port->ops->peek(u->port, head, room);
}

static bool wire_take(void *ctx, const struct amph_port_in_parts *parts)
{
    struct amph_udp_cx *u = ctx;
    return u->port->ops->take(u->port, parts);
}

static bool wire_queued(void *ctx)
{
    struct amph_udp_cx *u = ctx;
    return u->port->ops->queued(u->port);
}

static bool should_lose(struct amph_udp_cx *u)
{
    uint64_t z = u->loss_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % LOSS_SCALE < u->loss;
}

/* Sends datagrams, but drops those that AMPHORA_UDP_LOSS and AMPHORA_UDP_LOSE_HANDLER select. */
static unsigned wire_lossy(void *ctx, const struct amph_port_out *v, unsigned n)
{
    struct amph_udp_cx *u = ctx;
    struct amph_port_out some[RDP_OUT_BATCH];
    unsigned k = 0;

    for (unsigned i = 0; i < n && i < RDP_OUT_BATCH; i++)
        if (!__atomic_load_n(&u->losing, __ATOMIC_RELAXED) && !should_lose(u))
            some[k++] = v[i];
        else
            amph_count(UDP_LOST);

    unsigned taken = k ? u->port->ops->send(u->port, some, k) : 0;

    return taken == k ? n : taken;
}

/* ---- instances ---- */

static unsigned receive_some(struct amph_udp_cx *u, unsigned lanes, unsigned budget,
                             uint64_t looked_ns);

/* Accepted messages must be delivered even if the sender leaves at once: waits a little for
 * retransmissions. */
static void linger(struct amph_udp_cx *u)
{
    uint64_t end = amph_now_ns() + LINGER_NS;
    struct pollfd pfd = { .fd = u->port->ops->fd(u->port), .events = POLLIN };

    while (!amph_rdp_finish(u->rdp) && amph_now_ns() < end) {
        amph_rdp_progress(u->rdp, 0, 0);
        if (receive_some(u, 0, 1, amph_rdp_looked_ns(u->rdp)) == 0)
            poll(&pfd, pfd.fd >= 0, 1);
    }

    amph_rdp_send_goodbye(u->rdp);
}

static void amph_udp_close(struct amph_cx *cx)
{
    struct amph_udp_cx *u = amph_udp_of(cx);

    if (u->rdp) {
        linger(u);
        amph_udp_guard_close(u);
        amph_rdp_close(u->rdp);
    }

    amph_udp_wait_close(u);
    for (unsigned i = 0; i < UDP_DEPTH; i++)
        if (u->set[i])
            u->port->ops->free_set(u->port, u->set[i]);

    if (u->port)
        u->port->ops->close(u->port);

    free(u);
}

static uint32_t accepted_auth(void)
{
    if (!amph_env_bool(AMPH_ENV_UDP_MAC))
        return RDP_AUTH_NONE;

    return RDP_AUTH_NH | (amph_clmul_works() ? RDP_AUTH_CLMUL : 0);
}

static enum amph_status open_protocol(struct amph_udp_cx *u)
{
    u->loss = (uint32_t)amph_env_int(AMPH_ENV_UDP_LOSS) * (LOSS_SCALE / 100);
    u->lose_handler = (uint8_t)amph_env_int(AMPH_ENV_UDP_LOSE);
    u->loss_state = (uint64_t)amph_env_int(AMPH_ENV_UDP_SEED) * 1000003u + u->port->addr[2] * 256u +
                    u->port->addr[3];

    struct amph_rdp_config cfg = {
        .env = { .ctx = u,
                 .now = clock_now,
                 .send = u->loss || u->lose_handler ? wire_lossy : wire_send,
                 .peek = wire_peek,
                 .take = wire_take,
                 .queued = wire_queued },
        .upcalls = u->base.cfg.upcalls,
        .up = u->base.cfg.up,
        .max_peers = u->base.cfg.max_peers,
        .threaded = true, /* the guard is a second thread */
        .place_min = PLACE_MIN,
        .auth = accepted_auth(),
        .datagram = u->port->datagram,
        .queue_bytes = u->port->queue_bytes,
        .timeout_ns = amph_env_ns(AMPH_ENV_UDP_TIMEOUT),
        .memory = amph_env_size(AMPH_ENV_UDP_MEMORY),
    };

    return amph_rdp_open(&cfg, &u->rdp);
}

static enum amph_status amph_udp_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    const struct amph_port_ops *ops;
    char why[512];

    if (cfg->max_peers == 0)
        return AMPH_ERR_ARG;

    enum amph_status st = amph_udp_choose_port(&ops, why, sizeof why);

    if (st != AMPH_OK) {
        amph_error_shared("the udp conduit cannot be used here: %s", why);
        return st;
    }

    struct amph_udp_cx *u = calloc(1, sizeof *u);
    if (!u)
        return AMPH_ERR_NOMEM;

    u->base = (struct amph_cx){ .ops = &amph_udp_ops, .caps = caps, .cfg = *cfg };
    u->wait_fd = u->timer_fd = u->guard_fd = -1;
    u->alarm_ns = RDP_NEVER;

    const struct amph_port_config port_cfg = {
        .conduit = amph_udp_ops.name,
        .max_peers = cfg->max_peers,
        .loopback_only = cfg->loopback_only,
        .interface = cfg->interface,
    };

    st = ops->open(&port_cfg, &u->port);
    if (st == AMPH_OK)
        st = open_protocol(u);

    if (st == AMPH_OK)
        st = amph_udp_wait_open(u);

    if (st == AMPH_OK)
        st = amph_udp_guard_open(u);

    if (st != AMPH_OK) {
        amph_udp_close(&u->base);
        return st;
    }

    memcpy(u->base.addr, u->port->addr, u->port->addr_len);
    u->base.addr_len = u->port->addr_len;
    u->base.protocol = RDP_VERSION << 16 | MESSAGES_VERSION;
    *cx_p = &u->base;

    return AMPH_OK;
}

static enum amph_status amph_udp_add_peer(struct amph_cx *cx, uint32_t peer,
                                          const struct amph_peer_spec *spec)
{
    struct amph_udp_cx *u = amph_udp_of(cx);
    uint32_t datagram;

    amph_rdp_lock(u->rdp); /* the guard may be sending */

    enum amph_status st = u->port->ops->add_peer(u->port, peer, spec->addr, spec->addr_len,
                                                 &datagram);

    amph_rdp_unlock(u->rdp);
    if (st != AMPH_OK)
        return st;

    st = amph_rdp_add_peer(u->rdp, peer, spec->remote_index, spec->cookie_out, spec->cookie_in,
                           datagram);
    if (st != AMPH_OK)
        u->port->ops->del_peer(u->port, peer);

    return st;
}

static void amph_udp_del_peer(struct amph_cx *cx, uint32_t peer)
{
    struct amph_udp_cx *u = amph_udp_of(cx);

    amph_rdp_del_peer(u->rdp, peer);
    amph_rdp_lock(u->rdp);
    u->port->ops->del_peer(u->port, peer);
    amph_rdp_unlock(u->rdp);
}

/* ---- memory ---- */

static enum amph_status amph_udp_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                         uint64_t fd_offset, struct amph_mem *mem)
{
    struct amph_mem_region *region;

    if (!base || len_bytes == 0)
        return AMPH_ERR_ARG;

    enum amph_status st = amph_rdp_mem_reg(amph_udp_of(cx)->rdp, base, len_bytes, &region);
    if (st != AMPH_OK)
        return st;

    amph_conduit_memkey_put(mem, KEY_VERSION, region->key, base, len_bytes, region);
    return AMPH_OK;
}

static void amph_udp_mem_dereg(struct amph_cx *cx, struct amph_mem *mem)
{
    if (mem->impl)
        amph_rdp_mem_dereg(amph_udp_of(cx)->rdp, mem->impl);

    mem->impl = NULL;
    mem->key_len = 0;
}

static enum amph_status amph_udp_mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                            size_t key_len, struct amph_rmem *rmem)
{
    struct amph_rmem m;

    if (peer >= cx->cfg.max_peers)
        return AMPH_ERR_PEER;
    if (amph_conduit_memkey_get(key, key_len, KEY_VERSION, &m) != AMPH_OK || m.len_bytes == 0)
        return AMPH_ERR_PROTO;

    *rmem = m;
    return AMPH_OK;
}

/* ---- the send side ---- */

static enum amph_status amph_udp_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                         const struct amph_am *am, struct amph_op *lc)
{
    struct amph_udp_cx *u = amph_udp_of(cx);
    const bool loses = AMPH_UNLIKELY(u->lose_handler) && am->handler == u->lose_handler;

    /* drops what this call sends, and what the guard sends meanwhile; later transmissions of the
     * message are normal */
    if (loses)
        __atomic_store_n(&u->losing, true, __ATOMIC_RELAXED);

    enum amph_status st = amph_rdp_am_send(u->rdp, peer, lane, am, lc);

    if (loses)
        __atomic_store_n(&u->losing, false, __ATOMIC_RELAXED);

    amph_udp_sent(u);
    return st;
}

static enum amph_status amph_udp_put(struct amph_cx *cx, uint32_t peer,
                                     const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                     size_t len_bytes, struct amph_op *lc, struct amph_op *rc)
{
    struct amph_udp_cx *u = amph_udp_of(cx);
    enum amph_status st = amph_rdp_put(u->rdp, peer, rmem->rkey, offset, src, len_bytes, lc, rc);

    amph_udp_sent(u);
    return st;
}

static enum amph_status amph_udp_get(struct amph_cx *cx, uint32_t peer,
                                     const struct amph_rmem *rmem, uint64_t offset, void *dst,
                                     size_t len_bytes, struct amph_op *done)
{
    struct amph_udp_cx *u = amph_udp_of(cx);
    enum amph_status st = amph_rdp_get(u->rdp, peer, rmem->rkey, offset, dst, len_bytes, done);

    amph_udp_sent(u);
    return st;
}

/* ---- the progress side ---- */

/* Returns a set with unhandled datagrams: an outer progress call may be in the middle of it. */
static struct amph_port_set *unfinished(struct amph_udp_cx *u)
{
    for (unsigned i = 0; i < u->depth; i++)
        if (u->set[i] && u->set[i]->at < u->set[i]->end)
            return u->set[i];

    return NULL;
}

/* Receives long datagrams in place, until one of another kind is next.  Adds to *n_p the messages
 * delivered, up to `budget` in all, and sets *any_p if it received anything.  Returns RDP_NEXT_ELSEWHERE if
 * others may be next, RDP_NEXT_NONE if the queue is empty, and RDP_NEXT_HANDLED if it is enough for now. */
static enum amph_rdp_next receive_bulk(struct amph_udp_cx *u, unsigned lanes, unsigned budget,
                                       unsigned *n_p, bool *any_p)
{
    for (unsigned i = 0; u->port->peeks && amph_rdp_is_bulky(u->rdp); i++) {
        unsigned n;

        if (i == AMPH_PORT_BATCH || *n_p >= budget)
            return RDP_NEXT_HANDLED;

        enum amph_rdp_next next = amph_rdp_input_placed(u->rdp, lanes, budget - *n_p, &n);

        if (next != RDP_NEXT_HANDLED)
            return next;

        *n_p += n;
        *any_p = true;
    }

    return RDP_NEXT_ELSEWHERE;
}

/* Removes the next packet of a set.  Its bytes stay valid until the next recv into the set. */
static struct amph_port_in next_packet(struct amph_port_set *set)
{
    struct amph_port_in *in = &set->in[set->at];
    struct amph_port_in packet = { in->at, amph_rdp_first_packet(in->at, in->len_bytes) };

    in->at = (const uint8_t *)in->at + packet.len_bytes;
    in->len_bytes -= packet.len_bytes;
    if (!in->len_bytes || packet.len_bytes % 8) /* the rest would not be aligned: not from a peer */
        set->at++;

    return packet;
}

/* Did a datagram come alone that is long, or while long ones are expected?  The port gives these one by one, so
 * others may be there. */
static bool is_alone(const struct amph_udp_cx *u, const struct amph_port_set *set, unsigned came)
{
    return came == 1 && (amph_rdp_is_bulky(u->rdp) || set->in[0].len_bytes >= PLACE_MIN);
}

/* Did only a part of what is queued come?  The port gives short datagrams one by one until several have come.  A
 * process that polls often finds the next one in its next poll, without a system call for an empty
 * queue in this one; one that has not looked since looked_ns, long ago, would make it wait. */
static bool others_may_wait(const struct amph_udp_cx *u, unsigned came, uint64_t looked_ns)
{
    return came == 1 && amph_rdp_looked_ns(u->rdp) - looked_ns > LATE_NS;
}

/* Handles received datagrams, at most `budget` messages, into the sets of this level.  *any_p: it received
 * something.  *emptied_p: the queue has been found empty, and what was in it has been handled.  Returns the
 * number of messages.  After some datagrams that came alone it ends, so that their senders, which may wait for
 * room, get acknowledgements. */
static unsigned receive_into(struct amph_udp_cx *u, struct amph_port_set **own, unsigned lanes,
                             unsigned budget, uint64_t looked_ns, bool *any_p, bool *emptied_p)
{
    unsigned n = 0;
    unsigned alone = 0;
    unsigned came = 0;
    bool dry = false;

    for (;;) {
        struct amph_port_set *set = unfinished(u);

        if (!set) {
            if (dry && (++alone >= AMPH_PORT_BATCH || !others_may_wait(u, came, looked_ns))) {
                *emptied_p = (*own)->emptied;
                return n;
            }

            enum amph_rdp_next next = receive_bulk(u, lanes, budget, &n, any_p);

            came = next == RDP_NEXT_ELSEWHERE ? u->port->ops->recv(u->port, own) : 0;

            if (!came) {
                *emptied_p = next != RDP_NEXT_HANDLED;
                return n;
            }

            dry = came < AMPH_PORT_BATCH &&
                  (!is_alone(u, *own, came) || ++alone >= AMPH_PORT_BATCH);

            continue;
        }

        struct amph_port_in packet = next_packet(set);

        *any_p = true;
        n += amph_rdp_input(u->rdp, packet.at, packet.len_bytes, lanes, budget - n);
        if (n >= budget)
            return n;
    }
}

static unsigned receive_some(struct amph_udp_cx *u, unsigned lanes, unsigned budget,
                             uint64_t looked_ns)
{
    bool any = false;
    bool emptied = false;

    if (u->depth == UDP_DEPTH)
        return 0;

    uint64_t since_ns = amph_rdp_wants_drain(u->rdp) ? amph_now_ns() : 0;
    struct amph_port_set **own = &u->set[u->depth++];
    unsigned n = receive_into(u, own, lanes, budget, looked_ns, &any, &emptied);

    u->depth--;
    if (emptied && AMPH_UNLIKELY(since_ns))
        amph_rdp_drained(u->rdp, since_ns);
    else if (!any)
        return n;

    if (AMPH_UNLIKELY(__atomic_load_n(&u->guarded, __ATOMIC_RELAXED) == UDP_GUARD_NONE))
        amph_udp_guard_wake(u); /* a peer may wait for this process, also if it never sends */

    return n + amph_rdp_after_input(u->rdp);
}

static unsigned amph_udp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    struct amph_udp_cx *u = amph_udp_of(cx);
    const uint64_t looked_ns = amph_rdp_looked_ns(u->rdp);
    unsigned n = amph_rdp_progress(u->rdp, lanes, budget);

    if (n < budget)
        n += receive_some(u, lanes, budget - n, looked_ns);

    uint32_t refused = u->port->ops->refused(u->port);

    if (AMPH_UNLIKELY(refused != UINT32_MAX))
        amph_rdp_refused(u->rdp, refused);

    return n;
}

const struct amph_conduit_ops amph_udp_ops = {
    .name = "udp",
    .summary = "UDP/IP with a protocol of its own that survives loss (socket, or libfabric's udp)",
    .probe = amph_udp_probe,
    .open = amph_udp_open,
    .close = amph_udp_close,
    .add_peer = amph_udp_add_peer,
    .del_peer = amph_udp_del_peer,
    .peer_gone = amph_conduit_no_peer_gone,
    .mem_reg = amph_udp_mem_reg,
    .mem_dereg = amph_udp_mem_dereg,
    .mem_import = amph_udp_mem_import,
    .am_send = amph_udp_am_send,
    .am_prepare = amph_conduit_no_prepare,
    .am_commit = amph_conduit_no_commit,
    .put = amph_udp_put,
    .get = amph_udp_get,
    .atomic = amph_conduit_no_atomic,
    .flush = amph_conduit_no_flush,
    .counts = amph_conduit_no_counts,
    .progress = amph_udp_progress,
    .tick = amph_conduit_no_tick,
    .wait_fd = amph_udp_wait_fd,
    .arm = amph_udp_arm,
};
