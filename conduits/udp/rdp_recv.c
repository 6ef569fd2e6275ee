/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: checks packets, orders segments, delivers messages once.
 * Layer: conduits (udp).  Thread rule: see rdp.h; functions here that are not static take the lock,
 * except amph_rdp_rx_fini and amph_rdp_seen_*.
 *
 * A segment in order is delivered from the datagram itself.  Others (too early, of a lane that the
 * caller excludes, or beyond the budget) are copied and held.  An upcall may remove the peer whose
 * message it handles, and may call progress for the reply lane; `busy` excludes a lane that is being
 * delivered from that inner progress.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "conduits/udp/rdp.h"

#define RING_MAX 65536u
#define SEEN_MAX 65536u
#define WINDOW_MAX (16u << 20)
#define LOOKS 4u /* idle polls between two readings of the clock */
#define BULKY 8u /* datagrams after a long one for which another is expected */
#define TURN 8u  /* messages of one peer before it is the next one's turn */

/* ---- numbers of an RMA lane ---- */

bool amph_rdp_seen_test(const struct amph_rdp_seen *s, uint64_t lseq)
{
    uint64_t ahead = lseq - s->floor;
    if (lseq < s->floor)
        return true;

    return ahead < s->nbits && s->bits[lseq % s->nbits / 64] >> lseq % 64 & 1;
}

static bool seen_grow(struct amph_rdp_seen *s, uint64_t ahead)
{
    uint32_t n = s->nbits ? s->nbits : 256;

    if (ahead >= SEEN_MAX)
        return false;

    while (n <= ahead)
        n *= 2;

    uint64_t *bits = calloc(n / 64, sizeof *bits);
    if (!bits)
        return false;

    for (uint64_t i = s->floor; i < s->floor + s->nbits; i++)
        if (s->bits[i % s->nbits / 64] >> i % 64 & 1)
            bits[i % n / 64] |= UINT64_C(1) << i % 64;

    free(s->bits);
    s->bits = bits;
    s->nbits = n;

    return true;
}

bool amph_rdp_seen_mark(struct amph_rdp_seen *s, uint64_t lseq)
{
    uint64_t ahead = lseq - s->floor;

    if (ahead == 0 && !s->bits) {
        s->floor++;
        return true;
    }

    if (ahead >= s->nbits && !seen_grow(s, ahead))
        return false;

    s->bits[lseq % s->nbits / 64] |= UINT64_C(1) << lseq % 64;
    for (uint64_t f = s->floor; s->bits[f % s->nbits / 64] >> f % 64 & 1; f = ++s->floor)
        s->bits[f % s->nbits / 64] &= ~(UINT64_C(1) << f % 64);

    return true;
}

/* ---- held segments ---- */

static struct amph_rdp_held **slot(struct amph_rdp_rxlane *rx, uint64_t lseq)
{
    return &rx->ring[lseq & (rx->ring_size - 1)];
}

static bool ring_reach(struct amph_rdp_rxlane *rx, uint64_t lseq)
{
    uint64_t ahead = lseq - rx->expected;
    uint32_t n = rx->ring_size ? rx->ring_size : 16;

    if (ahead < rx->ring_size)
        return true;
    if (ahead >= RING_MAX)
        return false;

    while (n <= ahead)
        n *= 2;

    struct amph_rdp_held **ring = calloc(n, sizeof *ring);
    if (!ring)
        return false;

    for (uint64_t i = 0; i < rx->ring_size; i++)
        ring[(rx->expected + i) & (n - 1)] = *slot(rx, rx->expected + i);

    free(rx->ring);
    rx->ring = ring;
    rx->ring_size = n;

    return true;
}

static bool is_held(const struct amph_rdp_rxlane *rx, uint64_t lseq)
{
    return lseq - rx->expected < rx->ring_size && rx->ring[lseq & (rx->ring_size - 1)];
}

/* Returns true if the next segment can be delivered now. */
static bool in_turn(const struct amph_rdp_conn *c, const struct amph_rdp_rxlane *rx, uint64_t after)
{
    return !rx->busy && after <= c->seen[0].floor;
}

static void update_ready(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane)
{
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    bool ready = is_held(rx, rx->expected) && in_turn(c, rx, (*slot(rx, rx->expected))->after);

    if (ready != rx->ready) {
        rx->ready = ready;
        r->nready += ready ? 1 : UINT32_MAX;
    }

    if (ready)
        amph_rdp_activate(r, c);
}

static size_t held_bytes(uint32_t len_bytes)
{
    return sizeof(struct amph_rdp_held) + len_bytes;
}

/* Bytes of the lane's window that a segment uses; the same as in take_from_queue() of rdp_send.c. */
static uint32_t window_bytes(const struct amph_rdp_packet *p)
{
    return p->h.body_len + RDP_SEG_COST;
}

/* Holds a copy of the segment in p, from byte `at` of its body on; the bytes before have been
 * delivered.  The whole segment uses the window until its last byte is consumed.  Returns false if
 * there is no room; `must` ignores the limit of memory. */
static bool hold(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                 uint32_t at, bool must)
{
    unsigned lane = p->h.lane;
    uint64_t lseq = p->seg.lseq;
    uint32_t len_bytes = p->h.body_len - at;
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    size_t bytes = held_bytes(len_bytes);

    if ((!must && r->held_bytes + bytes > r->cfg.memory) || !ring_reach(rx, lseq))
        return false;

    struct amph_rdp_held *h = amph_rdp_pool_get(&r->pool, bytes);
    if (!h)
        return false;

    *h = (struct amph_rdp_held){ .after = p->seg.after,
                                 .len_bytes = len_bytes,
                                 .window_bytes = window_bytes(p),
                                 .flags = p->h.flags };
    memcpy(h->body, p->body + at, len_bytes);
    *slot(rx, lseq) = h;
    rx->nheld++;
    r->held_bytes += bytes;
    update_ready(r, c, lane);

    return true;
}

static void release_held(struct amph_rdp *r, struct amph_rdp_rxlane *rx, uint64_t lseq)
{
    struct amph_rdp_held *h = *slot(rx, lseq);

    *slot(rx, lseq) = NULL;
    rx->nheld--;
    r->held_bytes -= held_bytes(h->len_bytes);
    amph_rdp_pool_put(&r->pool, h, held_bytes(h->len_bytes));
}

void amph_rdp_rx_fini(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        struct amph_rdp_rxlane *rx = &c->rx[lane];

        for (uint64_t i = 0; i < rx->ring_size; i++)
            if (rx->ring[i]) {
                r->held_bytes -= held_bytes(rx->ring[i]->len_bytes);
                amph_rdp_pool_put(&r->pool, rx->ring[i], held_bytes(rx->ring[i]->len_bytes));
            }

        r->nready -= rx->ready;
        free(rx->ring);
        free(rx->assembly);
        rx->ring = NULL;
        rx->assembly = NULL;
        rx->ring_size = 0;
        rx->ready = false;
    }
}

/* ---- delivery ---- */

static void upcall(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                   const struct amph_rdp_msg *m, const int32_t *args, const void *payload)
{
    struct amph_am am = { .kind = m->kind,
                          .handler = m->handler,
                          .nargs = m->nargs,
                          .flags = m->flags,
                          .aux = m->aux,
                          .nbytes = m->nbytes,
                          .dest = m->dest,
                          .args = args,
                          .payload = payload };
    uint32_t peer = c->peer;

    amph_rdp_unlock(r);
    r->cfg.upcalls->on_am(r->cfg.up, peer, lane, &am);
    amph_rdp_lock(r);
}

/* Appends to an incomplete message.  Returns true if it is complete and was delivered. */
static bool assemble(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                     const uint8_t *body, uint32_t len_bytes)
{
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    uint32_t left = rx->assembly_len - rx->assembled;
    uint32_t take = len_bytes < left ? len_bytes : left;

    if (!rx->assembly || len_bytes > amph_rdp_pad8(left)) {
        amph_count(DROP_MALFORMED);
        return false;
    }

    if (take && body != rx->assembly + rx->assembled)
        memcpy(rx->assembly + rx->assembled, body, take);

    rx->assembled += take;
    if (rx->assembled < rx->assembly_len)
        return false;

    uint8_t *whole = rx->assembly;
    struct amph_rdp_msg m = rx->msg;
    int32_t args[AMPH_AM_MAX_ARGS];

    memcpy(args, rx->args, sizeof args);
    rx->assembly = NULL;
    upcall(r, c, lane, &m, args, whole);
    free(whole);

    return true;
}

/* Makes the memory for a message longer than one segment. */
static bool make_assembly(struct amph_rdp_rxlane *rx, uint32_t nbytes)
{
    /* Memory that is there already was made for a segment that was not authentic, or the peer has
     * violated the protocol. */
    free(rx->assembly);
    rx->assembly = malloc(nbytes);
    rx->assembly_len = nbytes;
    rx->assembled = 0;

    return rx->assembly != NULL;
}

static bool start_assembly(struct amph_rdp_rxlane *rx, const struct amph_rdp_msg *m,
                           const int32_t *args, const uint8_t *part, uint32_t len)
{
    bool placed = rx->assembly && part == rx->assembly;

    if (!placed && !make_assembly(rx, m->nbytes))
        return false;

    rx->msg = *m;
    memcpy(rx->args, args, sizeof rx->args);
    rx->assembled = len;
    if (!placed)
        memcpy(rx->assembly, part, len);

    return true;
}

/* The bytes of a segment.  Those from `split` on are elsewhere if the packet was placed. */
struct text {
    const uint8_t *body, *bulk;
    uint32_t len_bytes, split;
};

static const uint8_t *text_at(const struct text *t, uint32_t at)
{
    if (at < t->split)
        return t->body + at;

    return at > t->split ? t->bulk + (at - t->split) : t->bulk; /* NULL if nothing was placed */
}

/* Delivers messages of a segment from *at_p on, until the budget is used up.  Returns their number.
 * *at_p == len_bytes: the segment is finished. */
static unsigned deliver_body(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                             const struct text *t, uint32_t *at_p, unsigned flags, unsigned budget)
{
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    uint32_t len_bytes = t->len_bytes;
    unsigned n = 0;

    if (flags & (RDP_F_CONT | RDP_F_VOID)) {
        *at_p = len_bytes;
        return flags & RDP_F_CONT ? assemble(r, c, lane, text_at(t, 0), len_bytes) : 0;
    }

    while (*at_p < len_bytes && n < budget && !c->gone) {
        struct amph_rdp_msg m;
        int32_t args[AMPH_AM_MAX_ARGS] = { 0 };
        const uint8_t *at = text_at(t, *at_p);
        uint32_t left = len_bytes - *at_p;
        size_t head = amph_rdp_get_msg(at, left, &m, args);
        uint32_t payload = amph_rdp_kind_packs(m.kind) ? m.nbytes : 0;

        if (!head || payload > RDP_MAX_MEDIUM) {
            amph_count(DROP_MALFORMED);
            *at_p = len_bytes;
            break;
        }

        if (payload > left - head) {
            if (!start_assembly(rx, &m, args, text_at(t, *at_p + (uint32_t)head),
                                (uint32_t)(left - head)))
                break; /* no memory: tried again later */

            *at_p = len_bytes;
            break;
        }

        *at_p += (uint32_t)(head + amph_rdp_pad8(payload));
        if (*at_p > len_bytes)
            *at_p = len_bytes;

        n++;
        upcall(r, c, lane, &m, args, payload ? at + head : NULL);
    }

    return n;
}

/* Doubles the window of a lane if it limits the sender, as far as memory allows. */
static void grow_window(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_rxlane *rx)
{
    uint64_t now = r->now;
    uint64_t span = now - rx->grow_ns;

    if (span < c->srtt_ns)
        return;

    if (rx->grow_ns && rx->used_bytes - rx->grow_used > rx->window / 2 && rx->window < WINDOW_MAX &&
        r->held_bytes + rx->window < r->cfg.memory / 2)
        rx->window *= 2;

    rx->grow_ns = now;
    rx->grow_used = rx->used_bytes;
}

/* A segment has been delivered completely: frees its bytes of the window. */
static void consumed(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                     uint32_t freed_bytes)
{
    struct amph_rdp_rxlane *rx = &c->rx[lane];

    rx->expected++;
    rx->used_bytes += freed_bytes;
    grow_window(r, c, rx);

    /* A sender that may be waiting for room gets an acknowledgement at once. */
    if (c->any_received && rx->limit - rx->used_bytes < rx->window / 2 && c->ack_ns > r->now) {
        c->ack_ns = r->now;
        c->timer_ns = c->ack_ns < c->timer_ns ? c->ack_ns : c->timer_ns;
        amph_rdp_activate(r, c);
        amph_rdp_note_deadline(r, c->ack_ns);
    }
}

/* Delivers held segments of a lane. */
static unsigned deliver_held(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                             unsigned budget)
{
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    unsigned n = 0;

    c->users++;
    while (rx->ready && n < budget) {
        struct amph_rdp_held *h = *slot(rx, rx->expected);
        uint32_t at = h->at;

        rx->busy = true;
        update_ready(r, c, lane);
        struct text t = { .body = (const uint8_t *)h->body,
                          .len_bytes = h->len_bytes,
                          .split = h->len_bytes };

        n += deliver_body(r, c, lane, &t, &at, h->flags, budget - n);
        rx->busy = false;
        if (c->gone)
            break;

        bool stuck = at == h->at && at < h->len_bytes;

        h->at = at;
        if (at == h->len_bytes) {
            uint32_t freed_bytes = h->window_bytes;

            release_held(r, rx, rx->expected);
            consumed(r, c, lane, freed_bytes);
        }

        update_ready(r, c, lane);
        if (stuck)
            break;
    }

    amph_rdp_release_conn(r, c);
    return n;
}

/* Returns the peer with a deliverable message in this lane whose last turn is the oldest. */
static struct amph_rdp_conn *longest_waiting(const struct amph_rdp *r, unsigned lane)
{
    struct amph_rdp_conn *best = NULL;

    for (struct amph_rdp_conn *c = r->active; c; c = c->next_active)
        if (c->rx[lane].ready && (!best || c->served < best->served))
            best = c;

    return best;
}

static unsigned deliver_ready(struct amph_rdp *r, unsigned lanes, unsigned budget)
{
    unsigned n = 0;

    for (unsigned lane = AMPH_NLANES; lane-- > 0 && r->nready && n < budget;) {
        struct amph_rdp_conn *c;

        while ((lanes >> lane & 1) && n < budget && (c = longest_waiting(r, lane))) {
            uint64_t before = c->served;

            c->served = ++r->turns;

            unsigned got = deliver_held(r, c, lane, budget - n < TURN ? budget - n : TURN);

            n += got;
            if (!got && before + 1 == r->turns)
                break; /* no progress: memory has run out */
        }
    }

    return n;
}

/* A segment of an AM lane. */
static void on_segment(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                       size_t len_bytes, unsigned lanes, unsigned budget, unsigned *n_p)
{
    unsigned lane = p->h.lane;
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    uint64_t lseq = p->seg.lseq;

    /* a repetition: acknowledged again, otherwise nothing */
    bool known = lseq < rx->expected || is_held(rx, lseq);
    bool now = !known && lseq == rx->expected && (lanes >> lane & 1) && budget &&
               in_turn(c, rx, p->seg.after);

    if (!known && !now && !hold(r, c, p, 0, false))
        return;

    /* before the handler, whose reply takes the acknowledgement along */
    amph_rdp_note_packet(r, c, p, len_bytes, r->now);
    if (!now)
        return;

    uint32_t at = 0;

    rx->busy = true;
    struct text t = { p->body, p->bulk, p->h.body_len, p->h.split };

    *n_p = deliver_body(r, c, lane, &t, &at, p->h.flags, budget);
    rx->busy = false;
    if (c->gone)
        return;

    if (at == p->h.body_len)
        consumed(r, c, lane, window_bytes(p));
    else if (!hold(r, c, p, at, true))
        amph_rdp_fail(r, c, RDP_WHY_MEMORY);

    update_ready(r, c, lane);
}

/* ---- packets ---- */

static void on_bye(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (c->state != RDP_CONN_UP)
        return;

    c->state = RDP_CONN_LEFT;
    if (amph_rdp_has_outgoing(c) || c->ngets)
        amph_rdp_fail(r, c, RDP_WHY_LEFT);
}

static void note_bulk(struct amph_rdp *r, const struct amph_rdp_packet *p)
{
    if (p->bulk_len >= r->cfg.place_min)
        r->bulky = BULKY;
    else
        r->bulky -= r->bulky > 0;
}

/* Returns true if the head of a packet is authentic. */
static bool is_authentic(struct amph_rdp_conn *c, const void *packet,
                         const struct amph_rdp_packet *p)
{
    if (!c->peer_nonce || c->state >= RDP_CONN_FAILED)
        return false;
    if (!amph_rdp_keys_want_hash(&c->in, p->bulk_len > 0))
        return false;

    return amph_rdp_head_ok(&c->in, packet, p);
}

/* Handles an authenticated packet of this session. */
static void on_data(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                    size_t len_bytes, unsigned lanes, unsigned budget, unsigned *n_p)
{
    uint64_t now = amph_rdp_read_clock(r);

    c->last_heard_ns = now;
    c->confirmed = true;
    note_bulk(r, p);

    if (c->state == RDP_CONN_HELLO) { /* its MAC was made with our nonce */
        c->state = RDP_CONN_UP;
        c->waiting_since_ns = now;
    }

    if (p->h.flags & RDP_F_ACK)
        amph_rdp_on_ack(r, c, p, now);

    if (p->kind == RDP_BYE) {
        on_bye(r, c);
        return;
    }

    c->users++;
    if (!(p->h.flags & RDP_F_SEG)) {
        if (p->h.flags & RDP_F_PING)
            amph_rdp_note_packet(r, c, p, len_bytes, now);
    } else if (p->h.lane < AMPH_NLANES) {
        on_segment(r, c, p, len_bytes, lanes, budget, n_p);
    } else if (amph_rdp_on_rma(r, c, p)) {
        amph_rdp_note_packet(r, c, p, len_bytes, now);
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            update_ready(r, c, lane); /* a message may have waited for this put */
    }

    if (!c->gone)
        amph_rdp_push(r, c); /* what it leaves is sent after the batch of datagrams */

    amph_rdp_release_conn(r, c);
}

unsigned amph_rdp_input(struct amph_rdp *r, const void *packet, size_t len_bytes, unsigned lanes,
                        unsigned budget)
{
    struct amph_rdp_packet p;
    unsigned n = 0;

    r->handled_cost += len_bytes + RDP_SEG_COST;
    if (!amph_rdp_parse(packet, len_bytes, &p)) {
        amph_count(DROP_MALFORMED);
        return 0;
    }

    amph_rdp_lock(r);

    struct amph_rdp_conn *c = p.h.src < r->cfg.max_peers ? r->conn[p.h.src] : NULL;

    if (!c) {
        amph_count(DROP_STRANGER);
    } else if (p.kind == RDP_HELLO) {
        amph_rdp_on_hello(r, c, &p, amph_rdp_now(r));
        amph_rdp_flush(r);
    } else if (!is_authentic(c, packet, &p) || !amph_rdp_bulk_ok(&c->in, &p)) {
        amph_count(DROP_COOKIE);
    } else {
        on_data(r, c, &p, len_bytes, lanes, budget, &n);
    }

    amph_rdp_unlock(r);
    return n;
}

/* ---- packets whose bulk is received in place ---- */

/* The memory into which the bulk of a message's segment belongs, or NULL. */
static uint8_t *message_dest(struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                             unsigned lanes, uint32_t *len_bytes_p)
{
    unsigned lane = p->h.lane;
    struct amph_rdp_rxlane *rx = &c->rx[lane];
    uint32_t bulk = p->h.body_len - p->h.split;
    struct amph_rdp_msg m;
    int32_t args[AMPH_AM_MAX_ARGS];

    if (p->seg.lseq != rx->expected || is_held(rx, p->seg.lseq) || !(lanes >> lane & 1) ||
        !in_turn(c, rx, p->seg.after) || (p->h.flags & RDP_F_VOID))
        return NULL;

    if (p->h.flags & RDP_F_CONT) {
        uint32_t left = rx->assembly ? rx->assembly_len - rx->assembled : 0;

        *len_bytes_p = bulk < left ? bulk : left;
        return p->h.split == 0 && bulk - *len_bytes_p < 8 ? rx->assembly + rx->assembled : NULL;
    }

    size_t head = amph_rdp_get_msg(p->body, p->h.split, &m, args);

    if (!head || head != p->h.split || !amph_rdp_kind_packs(m.kind) || m.nbytes <= bulk ||
        m.nbytes > RDP_MAX_MEDIUM || !make_assembly(rx, m.nbytes))
        return NULL;

    *len_bytes_p = bulk;
    return rx->assembly;
}

static uint8_t *dest_of(struct amph_rdp *r, struct amph_rdp_conn *c,
                        const struct amph_rdp_packet *p, unsigned lanes, uint32_t *len_bytes_p)
{
    if (p->kind != RDP_DATA || !(p->h.flags & RDP_F_SEG) || !p->bulk_len ||
        p->bulk_len < r->cfg.place_min)
        return NULL;

    return p->h.lane < AMPH_NLANES ? message_dest(c, p, lanes, len_bytes_p)
                                   : amph_rdp_rma_dest(r, c, p, len_bytes_p);
}

/* Receives the packet whose head is p, its bulk to `to`.  Returns false if it still waits. */
static bool take(struct amph_rdp *r, struct amph_rdp_packet *p, void *head, uint8_t *to,
                 uint32_t len_bytes)
{
    struct amph_port_in_parts parts = { .head = head,
                                        .head_len = p->head_len + p->h.split,
                                        .bulk = to,
                                        .bulk_len = len_bytes,
                                        .pad_len = p->bulk_len - len_bytes };

    p->bulk = to;
    p->bulk_len = len_bytes;
    p->placed = true;

    return r->cfg.env.take(r->cfg.env.ctx, &parts);
}

enum amph_rdp_next amph_rdp_input_placed(struct amph_rdp *r, unsigned lanes, unsigned budget,
                                         unsigned *n_p)
{
    uint64_t head[RDP_PLAIN_MAX / 8];
    struct amph_rdp_packet p;
    size_t len = r->cfg.env.peek(r->cfg.env.ctx, head, sizeof head);
    uint32_t data = 0;

    *n_p = 0;
    if (!len)
        return RDP_NEXT_NONE;
    if (!amph_rdp_parse_head(head, len < sizeof head ? len : sizeof head, len, &p))
        return RDP_NEXT_ELSEWHERE;

    /* The lock is held while the packet is received, so that its memory stays valid. */
    amph_rdp_lock(r);

    struct amph_rdp_conn *c = p.h.src < r->cfg.max_peers ? r->conn[p.h.src] : NULL;
    uint8_t *to = c && budget && is_authentic(c, head, &p) ? dest_of(r, c, &p, lanes, &data) : NULL;
    bool taken = to && take(r, &p, head, to, data);

    if (taken)
        r->handled_cost += len + RDP_SEG_COST;

    if (taken && amph_rdp_bulk_ok(&c->in, &p))
        on_data(r, c, &p, p.head_len + p.h.body_len, lanes, budget, n_p);
    else if (taken)
        amph_count(DROP_COOKIE);

    amph_rdp_unlock(r);
    return taken ? RDP_NEXT_HANDLED : RDP_NEXT_ELSEWHERE;
}

/* ---- progress ---- */

/* LOST and DENIED: the peer's process may be alive, so nobody else reports why messages to it do not
 * arrive. */
static const struct {
    enum amph_status st;
    const char *text;
} reasons[] = {
    [RDP_WHY_SILENT] = { AMPH_ERR_LOST,
                         "nothing has been heard of it for longer than AMPHORA_UDP_TIMEOUT" },
    [RDP_WHY_REFUSED] = { AMPH_ERR_PEER,
                          "its host reports that no process listens at its address" },
    [RDP_WHY_UNREACHED] = { AMPH_ERR_LOST, "its host refuses all packets to its address, and "
                                           "nothing came from it" },
    [RDP_WHY_LEFT] = { AMPH_ERR_PEER, "it has left" },
    [RDP_WHY_MEMORY] = { AMPH_ERR_LOST, "memory for its messages has run out" },
    [RDP_WHY_MAC] = { AMPH_ERR_DENIED, "AMPHORA_UDP_MAC is not the same there as here" }
};

static unsigned report_failures(struct amph_rdp *r)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < r->cfg.max_peers && r->nfailed && !r->closing; i++) {
        struct amph_rdp_conn *c = r->conn[i];

        if (!c || c->state != RDP_CONN_FAILED)
            continue;

        c->state = RDP_CONN_DEAD;
        r->nfailed--;

        unsigned why = c->reason;

        amph_rdp_rearm(r, c, 0);
        amph_rdp_unlock(r);
        r->cfg.upcalls->on_peer_error(r->cfg.up, i, reasons[why].st, reasons[why].text);
        amph_rdp_lock(r);
        n++;
    }

    return n;
}

unsigned amph_rdp_progress(struct amph_rdp *r, unsigned lanes, unsigned budget)
{
    unsigned n = 0;

    amph_rdp_lock(r);

    bool work = r->nready || r->nfailed || r->nfinished || r->timer_ns <= r->now;

    /* reading the clock costs as much as the rest of an idle poll */
    if (AMPH_LIKELY(!work) && ++r->idle_looks % LOOKS && !r->slept) {
        amph_rdp_unlock(r);
        return 0;
    }

    r->slept = false;

    uint64_t now = amph_rdp_read_clock(r);

    if (r->nready)
        n = deliver_ready(r, lanes, budget);

    amph_rdp_do_due(r, now);
    if (now >= r->scan_ns)
        amph_rdp_scan(r, now);

    if (AMPH_UNLIKELY(r->nfailed))
        n += report_failures(r);

    bool finished = r->nfinished > 0;

    amph_rdp_unlock(r);
    return n + (finished ? amph_rdp_complete(r) : 0);
}

unsigned amph_rdp_after_input(struct amph_rdp *r)
{
    amph_rdp_lock(r);
    amph_rdp_do_due(r, r->now); /* deadlines that passed while handlers ran: next progress */

    unsigned n = r->work;

    r->work = 0;
    if (AMPH_UNLIKELY(r->nfailed))
        n += report_failures(r);

    bool finished = r->nfinished > 0;

    amph_rdp_unlock(r);
    return n + (finished ? amph_rdp_complete(r) : 0);
}
