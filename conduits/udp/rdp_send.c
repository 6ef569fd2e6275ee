/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: messages become segments, and segments are sent in packets as congestion control and the
 * receiver's window allow.
 * Layer: conduits (udp).  Thread rule: the caller holds the lock of struct amph_rdp, except in
 * amph_rdp_am_send, which takes it.
 *
 * Lost segments are sent first; then the lanes in turn, so that many messages in one lane do not
 * delay another.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auth.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "conduits/udp/rdp.h"

#define BLOCKED_NS (100 * AMPH_NS_PER_US) /* after the wire took nothing */
#define BUSY_PACKETS 32u                  /* in flight to a peer that is busy with them */

/* ---- segments ---- */

struct amph_rdp_seg *amph_rdp_seg_new(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                      size_t head_room)
{
    struct amph_rdp_seg *s = amph_rdp_pool_get(&r->pool, sizeof *s);
    uint8_t *head = head_room ? amph_rdp_pool_get(&r->pool, head_room) : NULL;

    if (!s || (head_room && !head)) {
        amph_rdp_pool_put(&r->pool, s, sizeof *s);
        return NULL;
    }

    *s = (struct amph_rdp_seg){ .lane = (uint8_t)lane,
                                .head = head,
                                .head_room = (uint32_t)head_room,
                                .refs = 1,
                                .lseq = c->tx[lane].next_lseq++ };
    return s;
}

void amph_rdp_seg_unref(struct amph_rdp *r, struct amph_rdp_seg *s)
{
    if (--s->refs)
        return;

    amph_rdp_pool_put(&r->pool, s->head, s->head_room);
    amph_rdp_pool_put(&r->pool, s, sizeof *s);
}

void amph_rdp_seg_queue(struct amph_rdp_conn *c, struct amph_rdp_seg *s)
{
    struct amph_rdp_txlane *tx = &c->tx[s->lane];

    s->body_len = (uint32_t)amph_rdp_pad8(s->head_len + s->data_len);
    s->state = RDP_SEG_QUEUED;
    s->next = NULL;

    if (tx->head)
        tx->tail->next = s;
    else
        tx->head = s;

    tx->tail = s;
    tx->queued_bytes += s->body_len + RDP_SEG_COST;
}

static void lent_done(struct amph_rdp *r, struct amph_rdp_seg *s)
{
    struct amph_rdp_zcopy *zcopy = s->zcopy;

    s->zcopy = NULL;
    if (!zcopy || --zcopy->under_way)
        return;

    amph_rdp_finish_op(r, zcopy->lc, zcopy->st);
    free(zcopy);
}

void amph_rdp_seg_arrived(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s)
{
    struct amph_rdp_txlane *tx = &c->tx[s->lane];

    if (s->state == RDP_SEG_DONE)
        return;

    s->state = RDP_SEG_DONE;
    if (s->prev)
        s->prev->next = s->next;
    else
        tx->out = s->next;

    if (s->next)
        s->next->prev = s->prev;
    else
        tx->out_tail = s->prev;

    lent_done(r, s);
    amph_rdp_units_done(r, c, s, AMPH_OK);
    if (s->xfer) {
        s->xfer->under_way--;
        amph_rdp_xfer_release(r, c, s->xfer);
        s->xfer = NULL;
    }

    s->data = NULL;
    amph_rdp_seg_unref(r, s);
}

void amph_rdp_seg_lost(struct amph_rdp_conn *c, struct amph_rdp_seg *s)
{
    if (s->in_lost || s->state != RDP_SEG_OUT)
        return;

    s->state = RDP_SEG_LOST;
    s->in_lost = true;
    s->refs++;
    s->next_lost = NULL;

    if (c->lost)
        c->lost_tail->next_lost = s;
    else
        c->lost = s;

    c->lost_tail = s;
}

static struct amph_rdp_seg *pop_lost(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    while (c->lost) {
        struct amph_rdp_seg *s = c->lost;

        if (s->state == RDP_SEG_LOST)
            return s;

        c->lost = s->next_lost;
        s->in_lost = false;
        amph_rdp_seg_unref(r, s);
    }

    return NULL;
}

bool amph_rdp_has_outgoing(const struct amph_rdp_conn *c)
{
    for (unsigned i = 0; i < RDP_NLANES; i++)
        if (c->tx[i].head || c->tx[i].out || c->tx[i].xfers)
            return true;

    return false;
}

static void drop_list(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s,
                      enum amph_status st)
{
    while (s) {
        struct amph_rdp_seg *next = s->next;

        s->state = RDP_SEG_DONE;
        s->data = NULL;
        s->xfer = NULL;
        if (s->zcopy)
            s->zcopy->st = st;

        lent_done(r, s);
        amph_rdp_units_done(r, c, s, st);
        amph_rdp_seg_unref(r, s);
        s = next;
    }
}

/* Drops the transfers that have been split completely: only their segments refer to them. */
static void drop_cut(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s,
                     enum amph_status st)
{
    for (; s; s = s->next)
        if (s->xfer && s->xfer->cut == s->xfer->len_bytes && s->xfer->under_way) {
            struct amph_rdp_xfer *x = s->xfer;

            x->st = st;
            s->xfer = NULL;
            x->under_way--;
            amph_rdp_xfer_release(r, c, x);
        }
}

void amph_rdp_drop_all(struct amph_rdp *r, struct amph_rdp_conn *c, enum amph_status st)
{
    for (unsigned i = 0; i < RDP_NLANES; i++) {
        struct amph_rdp_txlane *tx = &c->tx[i];

        /* transfers in the queue are being split; all others are referred to by their segments
         * only */
        for (struct amph_rdp_xfer *x = tx->xfers; x; x = x->next) {
            x->st = st;
            x->under_way = 0;
        }

        drop_cut(r, c, tx->out, st);
        drop_cut(r, c, tx->head, st);

        while (tx->xfers) {
            struct amph_rdp_xfer *x = tx->xfers;

            tx->xfers = x->next;
            x->cut = x->len_bytes;
            amph_rdp_xfer_release(r, c, x);
        }

        tx->xfers_tail = &tx->xfers;
        tx->uncut_bytes = 0;
        drop_list(r, c, tx->out, st);
        drop_list(r, c, tx->head, st);
        tx->out = tx->out_tail = tx->head = tx->tail = NULL;
        tx->queued_bytes = 0;
    }

    while (pop_lost(r, c))
        continue;

    c->inflight = c->inflight_cost = c->out_packets = 0;
    for (; c->oldest_pn < c->next_pn; c->oldest_pn++) {
        struct amph_rdp_rec *rec = &c->rec[c->oldest_pn & (c->nrec - 1)];

        if (rec->state != RDP_REC_NONE && rec->seg)
            amph_rdp_seg_unref(r, rec->seg);

        rec->state = RDP_REC_NONE;
    }
}

/* ---- packets ---- */

void amph_rdp_flush(struct amph_rdp *r)
{
    unsigned n = r->nout;
    unsigned taken = n ? r->cfg.env.send(r->cfg.env.ctx, r->out, n) : 0;

    r->nout = 0;
    r->out_bytes = 0;

    /* the port has no room: sent again a little later; no sign of congestion */
    for (unsigned i = taken; i < n; i++) {
        struct amph_rdp_conn *c = r->out_from[i].c;
        uint64_t pn = r->out_from[i].pn;
        uint64_t now = amph_rdp_now(r);

        c->cc.pace_ns = c->cc.pace_ns > now + BLOCKED_NS ? c->cc.pace_ns : now + BLOCKED_NS;

        struct amph_rdp_rec *rec = pn >= c->oldest_pn && pn < c->next_pn && pn
                                       ? &c->rec[pn & (c->nrec - 1)]
                                       : NULL;

        if (!rec || rec->state != RDP_REC_OUT)
            continue;

        rec->state = RDP_REC_LOST;
        c->inflight -= rec->bytes;
        c->inflight_cost -= amph_rdp_queue_cost(rec->bytes);
        c->out_packets--;
        if (rec->seg && rec->seg->last_pn == pn)
            amph_rdp_seg_lost(c, rec->seg);
    }
}

struct packet {
    struct amph_rdp_hdr h;
    struct amph_rdp_seghdr seg;
    struct amph_mac_part part[3];
    unsigned nparts;
};

/* Writes header, acknowledgement and segment header, still without the MAC.  Returns their
 * length. */
static size_t write_head(struct amph_rdp_conn *c, struct packet *p, bool ack, uint8_t *head,
                         uint64_t now)
{
    struct amph_rdp_ackblk blk;
    uint64_t words[RDP_ACK_WORDS];
    unsigned max = p->h.flags & RDP_F_SEG ? 2 : RDP_ACK_WORDS;
    unsigned nwords = ack ? amph_rdp_make_ack(c, max, &blk, words, now) : 0;
    size_t len = sizeof p->h;

    p->h.src = c->remote_index;
    p->h.type |= RDP_VERSION << 4;

    if (nwords) {
        p->h.flags |= RDP_F_ACK;
        p->h.ack_words = (uint8_t)nwords;
        len += amph_rdp_put_ack(head + len, &blk, words, nwords);
    }

    if (p->h.flags & RDP_F_SEG)
        len += amph_rdp_put_seghdr(head + len, &p->seg);

    return len;
}

/* Fills in the MACs of a packet.  The bulk is the last part of a long body, and is hashed in place.  Its
 * padding is elsewhere, but the hash ignores zeros. */
static void seal(struct amph_rdp_conn *c, struct packet *p, uint8_t *head, size_t head_len,
                 size_t body_len)
{
    struct amph_mac_part plain[3];
    struct amph_mac_part bulk = { NULL, 0 };
    unsigned n = p->nparts;

    if (n && body_len > RDP_BULK_BYTES)
        bulk = p->part[--n];

    p->h.body_len = (uint32_t)body_len;
    p->h.split = (uint32_t)(bulk.len_bytes ? body_len - amph_rdp_pad8(bulk.len_bytes) : body_len);
    p->h.bulk_mac = amph_rdp_bulk_mac(&c->out, bulk.at, bulk.len_bytes);
    for (unsigned i = 0; i < n; i++)
        plain[i] = p->part[i];

    amph_rdp_put_hdr(head, &p->h);
    p->h.mac = amph_rdp_head_mac(&c->out, head, head_len, plain, n);
    amph_rdp_put_hdr(head, &p->h);
}

static void add_part(struct amph_port_out *out, const void *at, size_t len_bytes)
{
    if (!len_bytes)
        return;

    out->part[out->nparts].at = at;
    out->part[out->nparts++].len_bytes = len_bytes;
    out->len_bytes += len_bytes;
}

/* Adds a packet to the batch.  Returns its length. */
static size_t emit(struct amph_rdp *r, struct amph_rdp_conn *c, struct packet *p, bool ack,
                   uint64_t pn, uint64_t now)
{
    static const uint64_t zeros;
    size_t body_len = 0;

    if (r->nout == RDP_OUT_BATCH)
        amph_rdp_flush(r);

    for (unsigned i = 0; i < p->nparts; i++)
        body_len += p->part[i].len_bytes;

    if (!amph_rdp_keys_want_hash(&c->out, amph_rdp_pad8(body_len) > RDP_BULK_BYTES))
        return 0; /* no memory: as if it had been lost */

    unsigned n = r->nout++;
    uint8_t *head = (uint8_t *)r->head[n];
    struct amph_port_out *out = &r->out[n];
    size_t head_len = write_head(c, p, ack, head, now);

    *out = (struct amph_port_out){ .peer = c->peer };
    add_part(out, head, head_len);

    for (unsigned i = 0; i < p->nparts; i++)
        add_part(out, p->part[i].at, p->part[i].len_bytes);

    add_part(out, &zeros, amph_rdp_pad8(body_len) - body_len);
    seal(c, p, head, head_len, amph_rdp_pad8(body_len));
    r->out_from[n].c = c;
    r->out_from[n].pn = pn;
    c->last_sent_ns = now;
    amph_count(UDP_PACKETS);

    return out->len_bytes;
}

void amph_rdp_send_ack(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    struct packet p = { .h = { .type = RDP_DATA } };
    emit(r, c, &p, true, 0, now);
}

void amph_rdp_send_bye(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    for (unsigned i = 0; i < 2; i++) {
        struct packet p = { .h = { .type = RDP_BYE } };
        emit(r, c, &p, c->any_received, 0, now);
    }
}

static struct amph_rdp_rec *record(struct amph_rdp_conn *c, struct amph_rdp_seg *s, size_t bytes,
                                   uint64_t now, bool more)
{
    struct amph_rdp_rec *rec = amph_rdp_rec_new(c, now, bytes);

    rec->seg = s;
    if (s) {
        s->refs++;
        s->last_pn = c->next_pn;
    }

    amph_rdp_cc_sent(c, rec, now, bytes, more);
    c->inflight += bytes;
    c->inflight_cost += amph_rdp_queue_cost(bytes);
    c->out_packets++;
    c->next_pn++;
    c->last_wanted_ns = now;

    return rec;
}

/* Makes room for one more record. */
static bool may_record(struct amph_rdp_conn *c)
{
    if (c->next_pn - c->oldest_pn < c->nrec)
        return true;
    if (c->nrec == RDP_RECORDS_MAX)
        return false;

    uint32_t more = c->nrec ? 2 * c->nrec : 16;
    struct amph_rdp_rec *rec = calloc(more, sizeof *rec);

    if (!rec)
        return false;

    for (uint64_t pn = c->oldest_pn; pn < c->next_pn; pn++)
        rec[pn & (more - 1)] = c->rec[pn & (c->nrec - 1)];

    free(c->rec);
    c->rec = rec;
    c->nrec = more;

    return true;
}

void amph_rdp_send_ping(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    if (!may_record(c))
        return;

    struct packet p = { .h = {
                            .type = RDP_DATA, .flags = RDP_F_PING | RDP_F_NOW, .pn = c->next_pn } };
    size_t bytes = emit(r, c, &p, c->any_received, c->next_pn, now);

    record(c, NULL, bytes, now, false);
    amph_rdp_rearm(r, c, now);
}

static void send_segment(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s,
                         unsigned flags, bool more, uint64_t now)
{
    struct packet p = { .h = { .type = RDP_DATA,
                               .flags = (uint8_t)(RDP_F_SEG | s->flags | flags),
                               .lane = s->lane,
                               .pn = c->next_pn },
                        .seg = { s->lseq, s->after } };

    if (!(s->flags & RDP_F_VOID)) {
        uint32_t lead = s->lead ? s->lead : s->head_len;

        if (lead)
            p.part[p.nparts++] = (struct amph_mac_part){ s->head, lead };

        if (lead < s->head_len)
            p.part[p.nparts++] = (struct amph_mac_part){ s->head + lead, s->head_len - lead };

        if (s->data_len)
            p.part[p.nparts++] = (struct amph_mac_part){ s->data, s->data_len };
    }

    size_t bytes = emit(r, c, &p, c->ack_packets > 0, c->next_pn, now);

    record(c, s, bytes, now, more);
    s->state = RDP_SEG_OUT;
    r->out_bytes += bytes;
    if (r->out_bytes >= RDP_BATCH_BYTES)
        amph_rdp_flush(r);
}

/* ---- the choice of what goes next ---- */

/* Returns the next new segment, of the lane whose turn it is, or NULL. */
static struct amph_rdp_seg *next_of_lane(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane)
{
    struct amph_rdp_txlane *tx = &c->tx[lane];

    if (lane >= RDP_PUT && tx->out && tx->next_lseq - tx->out->lseq >= RDP_RMA_SPAN)
        return NULL;

    if (!tx->head && tx->xfers) {
        struct amph_rdp_seg *s = amph_rdp_xfer_cut(r, c, lane);
        if (s)
            amph_rdp_seg_queue(c, s);
    }

    struct amph_rdp_seg *s = tx->head;
    if (s && tx->sent_bytes + s->body_len + RDP_SEG_COST > tx->limit)
        return NULL;

    return s;
}

static void take_from_queue(struct amph_rdp_conn *c, struct amph_rdp_seg *s)
{
    struct amph_rdp_txlane *tx = &c->tx[s->lane];

    tx->head = s->next;
    tx->queued_bytes -= s->body_len + RDP_SEG_COST;
    tx->sent_bytes += s->body_len + RDP_SEG_COST;
    s->next = NULL;
    s->prev = tx->out_tail;

    if (tx->out_tail)
        tx->out_tail->next = s;
    else
        tx->out = s;

    tx->out_tail = s;
}

static struct amph_rdp_seg *next_segment(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    struct amph_rdp_seg *s = pop_lost(r, c);

    for (unsigned i = 0; !s && i < RDP_NLANES; i++)
        s = next_of_lane(r, c, (c->turn + i) % RDP_NLANES);

    return s;
}

static bool has_more(const struct amph_rdp_conn *c)
{
    if (c->lost)
        return true;

    for (unsigned i = 0; i < RDP_NLANES; i++)
        if (c->tx[i].head || c->tx[i].xfers)
            return true;

    return false;
}

void amph_rdp_pump(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    struct amph_rdp_seg *s;
    uint64_t when = RDP_NEVER;

    if (c->state != RDP_CONN_UP) {
        if (c->state == RDP_CONN_HELLO && !c->hellos)
            amph_rdp_send_hello(r, c, now);

        amph_rdp_flush(r);
        amph_rdp_rearm(r, c, now);
        return;
    }

    c->send_ns = RDP_NEVER;
    c->corked = false;
    for (bool more = has_more(c); more && (s = next_segment(r, c));) {
        size_t bytes = s->body_len + RDP_SEG_OVERHEAD;
        bool probe = c->probes > 0;
        bool last_lost = s->state == RDP_SEG_LOST && !s->next_lost;

        if ((!probe && !amph_rdp_cc_may_send(c, bytes, now, &when)) || !may_record(c))
            break;

        if (s->state == RDP_SEG_QUEUED) {
            take_from_queue(c, s);
            c->turn = (s->lane + 1u) % RDP_NLANES;
        } else {
            amph_count(UDP_RESENT);
        }

        uint64_t ignore;

        more = has_more(c);

        bool last = probe || last_lost || (s->lane == RDP_PUT && !more) ||
                    (more && !amph_rdp_cc_may_send(c, 2 * bytes, now, &ignore));

        send_segment(r, c, s, last ? RDP_F_NOW : 0, more, now);
        c->probes -= probe;
    }

    c->send_ns = when;
    amph_rdp_flush(r);
    amph_rdp_rearm(r, c, now);
}

/* Does the peer have enough to do until a batch has been collected? */
static bool peer_is_busy(const struct amph_rdp_conn *c)
{
    uint64_t bytes = 0;

    if (c->state != RDP_CONN_UP || c->out_packets < BUSY_PACKETS || c->lost)
        return false;

    for (unsigned i = 0; i < RDP_NLANES; i++)
        bytes += c->tx[i].queued_bytes + c->tx[i].uncut_bytes;

    return bytes < RDP_BATCH_BYTES;
}

void amph_rdp_push(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (!peer_is_busy(c)) {
        const bool sends = has_more(c) || c->state != RDP_CONN_UP;

        amph_rdp_pump(r, c, sends ? amph_rdp_now(r) : r->now);
        return;
    }

    amph_rdp_cork(r, c);
}

void amph_rdp_cork(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (c->corked || c->send_ns != RDP_NEVER)
        return;

    c->corked = true;
    r->corks++;
    c->send_ns = r->now; /* in the past: the next progress sends it */
    amph_rdp_rearm(r, c, r->now);
    __atomic_store_n(&r->corked, true, __ATOMIC_SEQ_CST);
}

void amph_rdp_uncork(struct amph_rdp *r, uint64_t now)
{
    bool corked = false;

    for (struct amph_rdp_conn *c = r->active, *next; c; c = next) {
        next = c->next_active;
        if (c->corked && c->send_ns + RDP_CORK_NS <= now)
            amph_rdp_pump(r, c, now);

        corked |= c->corked;
    }

    __atomic_store_n(&r->corked, corked, __ATOMIC_SEQ_CST);
}

/* ---- messages ---- */

static enum amph_status check(const struct amph_am *am, enum amph_lane lane)
{
    if (am->nargs > AMPH_AM_MAX_ARGS || am->kind > AMPH_AM_INTERNAL ||
        (unsigned)lane >= AMPH_NLANES)
        return AMPH_ERR_ARG;

    return amph_rdp_kind_packs(am->kind) && am->nbytes > RDP_MAX_MEDIUM ? AMPH_ERR_ARG : AMPH_OK;
}

/* Appends the message to the last queued segment if it fits: many small messages become one
 * packet. */
static bool append(struct amph_rdp_conn *c, unsigned lane, const struct amph_am *am, size_t payload,
                   size_t total, uint64_t after)
{
    struct amph_rdp_txlane *tx = &c->tx[lane];
    struct amph_rdp_seg *s = tx->head ? tx->tail : NULL;

    if (!s || s->flags || s->data_len || s->zcopy || s->head_room - s->head_len < total)
        return false;

    uint8_t *at = s->head + s->head_len;
    size_t head = amph_rdp_put_msg(at, am);

    if (payload)
        memcpy(at + head, am->payload, payload);

    memset(at + head + payload, 0, total - head - payload);
    s->head_len += (uint32_t)total;
    s->body_len = s->head_len;
    s->after = after > s->after ? after : s->after;
    tx->queued_bytes += (uint32_t)total;

    return true;
}

/* Frees the segments that were made for a message before memory ran out. */
static enum amph_status undo(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                             struct amph_rdp_seg *first)
{
    while (first) {
        struct amph_rdp_seg *next = first->next;

        c->tx[lane].next_lseq--;
        amph_rdp_seg_unref(r, first);
        first = next;
    }

    return AMPH_AGAIN;
}

/* Makes one segment with the payload from byte `at` on; the first one also contains the
 * message's head. */
static struct amph_rdp_seg *make_segment(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                         const struct amph_am *am, size_t payload, size_t at,
                                         struct amph_rdp_zcopy *zcopy)
{
    size_t head = at ? 0 : sizeof(struct amph_rdp_msg) + amph_rdp_pad8(4u * am->nargs);
    size_t left = payload - at;
    size_t part = head + left <= c->body_max ? left : c->body_max - head;
    size_t room = zcopy ? head : amph_rdp_pad8(head + part);
    bool waits = c->tx[lane].head != NULL && !zcopy && at == 0 && part == payload;

    if (waits && room < 1024) /* further messages may be appended */
        room = c->body_max < 2048 ? c->body_max : 2048;

    struct amph_rdp_seg *s = amph_rdp_seg_new(r, c, lane, room);
    if (!s)
        return NULL;

    s->flags = at ? RDP_F_CONT : 0;
    s->lead = (uint32_t)head;
    if (!at)
        amph_rdp_put_msg(s->head, am);

    s->head_len = (uint32_t)(zcopy ? head : amph_rdp_pad8(head + part));
    if (zcopy) {
        s->data = (const uint8_t *)am->payload + at;
        s->data_len = (uint32_t)part;
        s->zcopy = zcopy;
        zcopy->under_way++;
    } else if (part) {
        memcpy(s->head + head, (const uint8_t *)am->payload + at, part);
        memset(s->head + head + part, 0, s->head_len - head - part);
    }

    return s;
}

static enum amph_status enqueue(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                const struct amph_am *am, size_t payload, struct amph_op **lc,
                                uint64_t after)
{
    struct amph_rdp_zcopy *zcopy = *lc && payload > RDP_COPY_BYTES ? calloc(1, sizeof *zcopy)
                                                                   : NULL;
    struct amph_rdp_seg *first = NULL;
    struct amph_rdp_seg **tail = &first;
    struct amph_rdp_seg *s;
    size_t at = 0;
    size_t head = sizeof(struct amph_rdp_msg) + amph_rdp_pad8(4u * am->nargs);

    do {
        s = make_segment(r, c, lane, am, payload, at, zcopy);
        if (!s) {
            free(zcopy);
            return undo(r, c, lane, first);
        }

        s->after = after;
        at = at ? at + c->body_max : c->body_max - head;
        *tail = s;
        tail = &s->next;
    } while (at < payload);

    if (zcopy) {
        zcopy->lc = *lc;
        *lc = NULL;
    }

    while (first) {
        s = first;
        first = s->next;
        amph_rdp_seg_queue(c, s);
    }

    return AMPH_OK;
}

enum amph_status amph_rdp_am_send(struct amph_rdp *r, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc)
{
    if (peer >= r->cfg.max_peers)
        return AMPH_ERR_RANGE;

    enum amph_status st = check(am, lane);
    if (st != AMPH_OK)
        return st;

    amph_rdp_lock(r);

    struct amph_rdp_conn *c = r->conn[peer];

    if (!c || c->state >= RDP_CONN_LEFT) {
        if (c && c->state == RDP_CONN_LEFT)
            amph_rdp_fail(r, c, RDP_WHY_LEFT);

        amph_rdp_unlock(r);
        return c ? AMPH_ERR_PEER : AMPH_ERR_STATE;
    }

    struct amph_rdp_txlane *put = &c->tx[RDP_PUT];
    struct amph_rdp_txlane *tx = &c->tx[lane];
    uint64_t after = put->out || put->xfers || put->head ? put->reserved : 0;
    size_t payload = amph_rdp_kind_packs(am->kind) ? am->nbytes : 0;
    size_t total = amph_rdp_pad8(sizeof(struct amph_rdp_msg) + amph_rdp_pad8(4u * am->nargs) +
                                 payload);

    if (tx->head && tx->queued_bytes >= RDP_QUEUE_BYTES)
        st = AMPH_AGAIN;
    else if (total > c->body_max || !append(c, lane, am, payload, total, after))
        st = enqueue(r, c, lane, am, payload, &lc, after);
    else
        st = AMPH_OK;

    if (st == AMPH_OK)
        amph_rdp_push(r, c);

    amph_rdp_unlock(r);
    if (st == AMPH_OK && lc)
        lc->done(lc, AMPH_OK);

    return st;
}
