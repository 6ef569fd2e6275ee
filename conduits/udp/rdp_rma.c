/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get.  Layer: conduits (udp).  Thread rule: see rdp.h.
 *
 * A put is split into segments that contain key and offset, so that each can be written to its
 * destination on arrival, in any order.  The segment's number keeps a duplicate from being written
 * twice.  The acknowledgement of the last packet is the remote completion.  A get is a part of one
 * segment; the answers are segments that are read from memory when they are sent.  Small puts, gets and
 * answers share segments (rdp_units.c).  Nothing here waits for handlers of the target: a message states
 * how many numbers of the PUT lane must be received before it (`after`).
 *
 * A target that refuses a put (no such memory) sends a REFUSED instead of the acknowledgement.  The
 * origin then voids the put's segments, or its part of a segment.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/conduit.h"
#include "conduits/udp/rdp.h"

#define EARLY_BYTES 4096u /* puts up to this are copied, so that lc need not wait */
#define ALONE_BYTES 1024u /* ones up to this are copied to units also if none follow */
#define PIECE 64u         /* pieces of a transfer are multiples of this, the last apart */
#define QUEUED_MAX 1024u  /* transfers to one peer */
#define RMA_HEAD sizeof(struct amph_rdp_rma)
#define ANSWERS_MAX (4 * RDP_OPS_MAX) /* to gets of one peer that are not acknowledged */

/* ---- memory ---- */

enum amph_status amph_rdp_mem_reg(struct amph_rdp *r, void *base, size_t len_bytes,
                                  struct amph_mem_region **region_p)
{
    amph_rdp_lock(r);

    struct amph_mem_region *region = amph_conduit_region_add(&r->regions, base, len_bytes);

    amph_rdp_unlock(r);
    if (!region)
        return AMPH_ERR_NOMEM;

    *region_p = region;
    return AMPH_OK;
}

static uint8_t *find(const struct amph_rdp *r, uint64_t key, uint64_t offset, uint64_t len_bytes)
{
    return amph_conduit_region_find(r->regions, key, offset, len_bytes);
}

/* ---- transfers ---- */

/* As long as a packet allows: two packets of half the length take longer than a long and a short one. */
static uint32_t piece_bytes(const struct amph_rdp_conn *c)
{
    return (c->body_max - (uint32_t)RMA_HEAD) & ~(PIECE - 1);
}

static void queue_xfer(struct amph_rdp_conn *c, unsigned lane, struct amph_rdp_xfer *x)
{
    x->next = NULL;
    *c->tx[lane].xfers_tail = x;
    c->tx[lane].xfers_tail = &x->next;
    c->tx[lane].uncut_bytes += x->len_bytes;
}

/* Ends a transfer if nothing of it is left to be split or acknowledged. */
void amph_rdp_xfer_release(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_xfer *x)
{
    if (x->cut < x->len_bytes || x->under_way)
        return;

    amph_rdp_finish_op(r, x->lc, x->st);
    amph_rdp_finish_op(r, x->rc, x->st);
    if (x->code == RDP_RMA_DATA)
        c->nanswers--;

    if (x->owned)
        free((void *)(uintptr_t)x->base);

    free(x);
}

/* Returns the next segment of the first transfer in the lane's queue. */
struct amph_rdp_seg *amph_rdp_xfer_cut(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane)
{
    struct amph_rdp_xfer *x = c->tx[lane].xfers;
    struct amph_rdp_seg *s = amph_rdp_seg_new(r, c, lane, RMA_HEAD);

    if (!s)
        return NULL;

    uint64_t left = x->len_bytes - x->cut;
    struct amph_rdp_rma m = { .code = x->code,
                              .len_bytes = (uint32_t)(left < x->chunk ? left : x->chunk),
                              .id = x->id,
                              .key = x->key,
                              .offset = x->offset + x->cut };

    s->head_len = (uint32_t)amph_rdp_put_rma(s->head, &m);
    if (x->st != AMPH_OK) { /* refused meanwhile */
        s->flags = RDP_F_VOID;
        s->head_len = 0;
    } else {
        s->data = x->base + x->cut;
        s->data_len = m.len_bytes;
    }

    s->xfer = x;
    x->under_way++;
    x->cut += m.len_bytes;
    c->tx[lane].uncut_bytes -= m.len_bytes;

    if (x->cut == x->len_bytes) {
        c->tx[lane].xfers = x->next;
        if (!x->next)
            c->tx[lane].xfers_tail = &c->tx[lane].xfers;
    }

    return s;
}

static bool usable(struct amph_rdp *r, struct amph_rdp_conn *c, enum amph_status *st_p)
{
    *st_p = AMPH_ERR_STATE;
    if (!c)
        return false;

    *st_p = AMPH_ERR_PEER;
    if (c->state == RDP_CONN_LEFT)
        amph_rdp_fail(r, c, RDP_WHY_LEFT);

    return c->state <= RDP_CONN_UP;
}

static bool is_small(const struct amph_rdp_conn *c, uint64_t len_bytes)
{
    return len_bytes <= RDP_UNIT_BYTES && RMA_HEAD + len_bytes <= c->body_max;
}

/* Is that copied to a unit?  One that is alone is worth it only if it is short.  more: it is one of many. */
static bool is_unit(const struct amph_rdp_conn *c, uint64_t len_bytes, bool more)
{
    return is_small(c, len_bytes) && (more || len_bytes <= ALONE_BYTES);
}

static enum amph_status put_unit(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t key,
                                 uint64_t offset, const void *src, size_t len_bytes,
                                 struct amph_op *rc, bool more)
{
    const struct amph_rdp_txlane *tx = &c->tx[RDP_PUT];
    const struct amph_rdp_rma m = { .code = RDP_RMA_PUT,
                                    .len_bytes = (uint32_t)len_bytes,
                                    .id = r->next_id,
                                    .key = key,
                                    .offset = offset };

    if (tx->head && tx->queued_bytes >= RDP_QUEUE_BYTES)
        return AMPH_AGAIN;
    if (!amph_rdp_unit_add(r, c, RDP_PUT, &m, src, rc, more))
        return AMPH_AGAIN;

    r->next_id++;
    amph_rdp_unit_push(r, c, RDP_PUT, more);
    return AMPH_OK;
}

static enum amph_status start_put(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t key,
                                  uint64_t offset, const void *src, size_t len_bytes,
                                  struct amph_op **lc, struct amph_op *rc)
{
    struct amph_rdp_txlane *tx = &c->tx[RDP_PUT];
    uint64_t waiting = tx->reserved - tx->next_lseq;

    const bool more = is_small(c, len_bytes) && amph_rdp_is_one_of_many(c);

    /* the numbers of transfers that have not been split yet come first */
    if (is_unit(c, len_bytes, more) && !tx->xfers)
        return put_unit(r, c, key, offset, src, len_bytes, rc, more);

    if (waiting >= QUEUED_MAX && tx->xfers)
        return AMPH_AGAIN;

    struct amph_rdp_xfer *x = calloc(1, sizeof *x);
    bool copy = (*lc && len_bytes <= EARLY_BYTES) || (!*lc && !rc);
    void *own = x && copy ? malloc(len_bytes) : NULL;

    if (!x || (copy && !own)) {
        free(x);
        return AMPH_AGAIN;
    }

    *x = (struct amph_rdp_xfer){ .code = RDP_RMA_PUT,
                                 .owned = copy,
                                 .id = r->next_id++,
                                 .key = key,
                                 .offset = offset,
                                 .base = copy ? memcpy(own, src, len_bytes) : src,
                                 .len_bytes = len_bytes,
                                 .lc = copy ? NULL : *lc,
                                 .rc = rc,
                                 .chunk = piece_bytes(c) };
    if (!copy)
        *lc = NULL;

    tx->reserved += (len_bytes + x->chunk - 1) / x->chunk;
    queue_xfer(c, RDP_PUT, x);
    amph_rdp_push(r, c);

    return AMPH_OK;
}

enum amph_status amph_rdp_put(struct amph_rdp *r, uint32_t peer, uint64_t key, uint64_t offset,
                              const void *src, size_t len_bytes, struct amph_op *lc,
                              struct amph_op *rc)
{
    enum amph_status st;

    if (peer >= r->cfg.max_peers)
        return AMPH_ERR_RANGE;

    amph_rdp_lock(r);

    struct amph_rdp_conn *c = r->conn[peer];

    if (usable(r, c, &st))
        st = len_bytes ? start_put(r, c, key, offset, src, len_bytes, &lc, rc) : AMPH_OK;

    amph_rdp_unlock(r);
    if (st == AMPH_OK && lc) /* copied, or nothing to do */
        lc->done(lc, AMPH_OK);

    if (st == AMPH_OK && rc && len_bytes == 0)
        rc->done(rc, AMPH_OK);

    return st;
}

/* ---- gets ---- */

static struct amph_rdp_get **gets_of(struct amph_rdp *r, uint64_t id)
{
    return &r->gets[id % RDP_GET_LISTS];
}

static enum amph_status start_get(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t key,
                                  uint64_t offset, void *dst, size_t len_bytes,
                                  struct amph_op *done)
{
    struct amph_rdp_get *g = c->ngets < RDP_OPS_MAX ? malloc(sizeof *g) : NULL;

    if (!g)
        return AMPH_AGAIN;

    const struct amph_rdp_rma m = {
        .code = RDP_RMA_GET, .id = r->next_id++, .key = key, .offset = offset, .total = len_bytes
    };
    const bool more = is_small(c, len_bytes) && amph_rdp_is_one_of_many(c);

    if (!amph_rdp_unit_add(r, c, RDP_GET, &m, NULL, NULL, more)) {
        free(g);
        return AMPH_AGAIN;
    }

    struct amph_rdp_get **list = gets_of(r, m.id);

    *g = (struct amph_rdp_get){
        .next = *list, .done = done, .id = m.id, .peer = c->peer, .dst = dst, .len_bytes = len_bytes
    };
    *list = g;
    c->ngets++;
    amph_rdp_unit_push(r, c, RDP_GET, more);

    return AMPH_OK;
}

enum amph_status amph_rdp_get(struct amph_rdp *r, uint32_t peer, uint64_t key, uint64_t offset,
                              void *dst, size_t len_bytes, struct amph_op *done)
{
    enum amph_status st;

    if (peer >= r->cfg.max_peers)
        return AMPH_ERR_RANGE;

    amph_rdp_lock(r);

    struct amph_rdp_conn *c = r->conn[peer];

    if (usable(r, c, &st))
        st = len_bytes ? start_get(r, c, key, offset, dst, len_bytes, done) : AMPH_OK;

    amph_rdp_unlock(r);
    if (st == AMPH_OK && len_bytes == 0 && done)
        done->done(done, AMPH_OK);

    return st;
}

static struct amph_rdp_get **find_get(struct amph_rdp *r, uint32_t peer, uint64_t id)
{
    for (struct amph_rdp_get **at = gets_of(r, id); *at; at = &(*at)->next)
        if ((*at)->id == id && (*at)->peer == peer)
            return at;

    return NULL;
}

static void end_get(struct amph_rdp *r, struct amph_rdp_get **at, enum amph_status st)
{
    struct amph_rdp_get *g = *at;

    *at = g->next;
    if (r->conn[g->peer])
        r->conn[g->peer]->ngets--;

    amph_rdp_finish_op(r, g->done, st);
    free(g);
}

void amph_rdp_gets_fail(struct amph_rdp *r, uint32_t peer, enum amph_status st)
{
    for (unsigned i = 0; i < RDP_GET_LISTS; i++)
        for (struct amph_rdp_get **at = &r->gets[i]; *at;)
            if ((*at)->peer == peer)
                end_get(r, at, st);
            else
                at = &(*at)->next;
}

/* ---- the target's side, and answers ---- */

/* Sends a segment that consists of its head only. */
static bool send_word(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m)
{
    struct amph_rdp_seg *s = amph_rdp_seg_new(r, c, RDP_GET, RMA_HEAD);

    if (!s)
        return false;

    s->head_len = (uint32_t)amph_rdp_put_rma(s->head, m);
    amph_rdp_seg_queue(c, s);
    return true;
}

static bool refuse(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t id)
{
    struct amph_rdp_rma m = { .code = RDP_RMA_REFUSED, .id = id, .key = AMPH_ERR_RANGE };

    /* already sent, not yet acknowledged? */
    for (struct amph_rdp_seg *s = c->tx[RDP_GET].out; s; s = s->next) {
        struct amph_rdp_rma said;

        if (s->head_len == RMA_HEAD && s->data_len == 0 && s->head[0] == RDP_RMA_REFUSED) {
            memcpy(&said, s->head, sizeof said);
            if (amph_le64(said.id) == id)
                return true;
        }
    }

    return send_word(r, c, &m);
}

static bool on_put(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                   const uint8_t *data, bool more)
{
    uint8_t *to = find(r, m->key, m->offset, m->len_bytes);

    if (to && to != data)
        memcpy(to, data, m->len_bytes);
    else if (!to)
        refuse(r, c, m->id);

    return to != NULL;
}

/* A small answer is copied.  more: others will follow it. */
static bool answer(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                   const uint8_t *from, bool more)
{
    const struct amph_rdp_rma said = { .code = RDP_RMA_DATA,
                                       .len_bytes = (uint32_t)m->total,
                                       .id = m->id };
    struct amph_rdp_seg *s = amph_rdp_unit_add(r, c, RDP_GET, &said, from, NULL, more);

    if (!s)
        return false;

    s->nanswers++;
    c->nanswers++;
    return true;
}

static bool on_get(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                   const uint8_t *data, bool more)
{
    uint8_t *from = m->total ? find(r, m->key, m->offset, m->total) : NULL;

    if (!from)
        return refuse(r, c, m->id);
    if (c->nanswers >= ANSWERS_MAX)
        return false;
    if (is_unit(c, m->total, more))
        return answer(r, c, m, from, more);

    struct amph_rdp_xfer *x = calloc(1, sizeof *x);
    if (!x)
        return false;

    *x = (struct amph_rdp_xfer){ .code = RDP_RMA_DATA,
                                 .id = m->id,
                                 .key = m->key,
                                 .base = from,
                                 .len_bytes = m->total,
                                 .chunk = piece_bytes(c) };
    c->nanswers++;
    queue_xfer(c, RDP_GET, x);

    return true;
}

static bool is_part_of(const struct amph_rdp_get *g, const struct amph_rdp_rma *m)
{
    return m->len_bytes <= g->len_bytes - g->got && m->offset <= g->len_bytes &&
           m->len_bytes <= g->len_bytes - m->offset;
}

static bool on_data(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                    const uint8_t *data, bool more)
{
    struct amph_rdp_get **at = find_get(r, c->peer, m->id);
    struct amph_rdp_get *g = at ? *at : NULL;

    if (!g || !is_part_of(g, m)) {
        amph_count(DROP_MALFORMED);
        return true;
    }

    if (data != g->dst + m->offset)
        memcpy(g->dst + m->offset, data, m->len_bytes);

    g->got += m->len_bytes;
    if (g->got == g->len_bytes)
        end_get(r, at, AMPH_OK);

    return true;
}

/* Voids the segments of a refused put: their data is no longer sent, but their numbers are,
 * because the target waits for these. */
static void void_segments(struct amph_rdp_txlane *tx, struct amph_rdp_seg *s,
                          const struct amph_rdp_xfer *x)
{
    for (; s; s = s->next)
        if (s->xfer == x) {
            if (s->state == RDP_SEG_QUEUED)
                tx->queued_bytes -= s->body_len;

            s->flags |= RDP_F_VOID;
            s->data = NULL;
            s->data_len = s->head_len = s->body_len = 0;
        }
}

static void void_xfer(struct amph_rdp_conn *c, unsigned lane, struct amph_rdp_xfer *x)
{
    struct amph_rdp_txlane *tx = &c->tx[lane];

    x->st = AMPH_ERR_RANGE;
    void_segments(tx, tx->head, x);
    void_segments(tx, tx->out, x);
}

static bool on_refused(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                       const uint8_t *data, bool more)
{
    struct amph_rdp_txlane *tx = &c->tx[RDP_PUT];
    struct amph_rdp_get **at = find_get(r, c->peer, m->id);

    if (at) {
        end_get(r, at, AMPH_ERR_RANGE);
        return true;
    }

    for (struct amph_rdp_xfer *x = tx->xfers; x; x = x->next)
        if (x->id == m->id)
            void_xfer(c, RDP_PUT, x);

    struct amph_rdp_seg *lists[] = { tx->out, tx->head };

    for (unsigned i = 0; i < AMPH_COUNTOF(lists); i++)
        for (struct amph_rdp_seg *s = lists[i]; s; s = s->next)
            if (s->xfer && s->xfer->id == m->id)
                void_xfer(c, RDP_PUT, s->xfer);
            else if (amph_rdp_unit_void(r, s, m->id))
                return true;

    return true;
}

static bool on_void(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
                    const uint8_t *data, bool more)
{
    return true;
}

static const struct {
    bool (*fn)(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_rma *m,
               const uint8_t *data, bool more);
    unsigned lane;
} actions[] = {
    [RDP_RMA_PUT] = { on_put, RDP_PUT },   [RDP_RMA_GET] = { on_get, RDP_GET },
    [RDP_RMA_DATA] = { on_data, RDP_GET }, [RDP_RMA_REFUSED] = { on_refused, RDP_GET },
    [RDP_RMA_VOID] = { on_void, RDP_PUT },
};

/* ---- segments ---- */

/* Are all units of a segment well formed, and of its lane? */
static bool check_units(const struct amph_rdp_packet *p, uint32_t *ngets_p)
{
    uint32_t at = 0;

    *ngets_p = 0;
    do {
        struct amph_rdp_rma m;
        const uint32_t n = (uint32_t)amph_rdp_get_unit(p->body + at, p->h.body_len - at, &m);

        if (!n || actions[m.code].lane != p->h.lane)
            return false;

        *ngets_p += m.code == RDP_RMA_GET;
        at += n;
    } while (at < p->h.body_len);

    return true;
}

/* Refuses the puts of a segment for which there is no memory here.  Returns false if there are any: nothing of the
 * segment is written then.  It will come again without them, and no put may be written twice. */
static bool has_memory(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p)
{
    bool all = true;

    for (uint32_t at = 0; at < p->h.body_len;) {
        struct amph_rdp_rma m;

        at += (uint32_t)amph_rdp_get_unit(p->body + at, p->h.body_len - at, &m);
        if (m.code == RDP_RMA_PUT && !find(r, m.key, m.offset, m.len_bytes)) {
            refuse(r, c, m.id);
            all = false;
        }
    }

    return all;
}

/* Returns false if the segment must be treated as not received. */
static bool take_units(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p)
{
    uint32_t ngets;

    if (!check_units(p, &ngets)) {
        amph_count(DROP_MALFORMED);
        return true;
    }

    if (c->nanswers + ngets > ANSWERS_MAX || (p->h.lane == RDP_PUT && !has_memory(r, c, p)))
        return false;

    for (uint32_t at = 0; at < p->h.body_len;) {
        struct amph_rdp_rma m;
        const uint8_t *data = p->body + at + sizeof m;
        const uint32_t n = (uint32_t)amph_rdp_get_unit(p->body + at, p->h.body_len - at, &m);

        if (!actions[m.code].fn(r, c, &m, data, n < p->h.body_len))
            return false;

        at += n;
    }

    return true;
}

/* A segment of one unit, or with its data in their place. */
static bool take_unit(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p)
{
    struct amph_rdp_rma m;
    const uint8_t *data;

    if (!amph_rdp_get_rma(p, &m, &data)) /* a placed one has been parsed before */
        return take_units(r, c, p);

    if (actions[m.code].lane == p->h.lane)
        return actions[m.code].fn(r, c, &m, data, false);

    amph_count(DROP_MALFORMED);
    return true;
}

bool amph_rdp_on_rma(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p)
{
    struct amph_rdp_seen *seen = &c->seen[p->h.lane - RDP_PUT];

    if (amph_rdp_seen_test(seen, p->seg.lseq))
        return true;
    if (p->seg.lseq - seen->floor >= 2 * RDP_RMA_SPAN)
        return false;

    if (!(p->h.flags & RDP_F_VOID)) {
        if (!take_unit(r, c, p))
            return false;

        r->work++;
    }

    return amph_rdp_seen_mark(seen, p->seg.lseq);
}

/* A segment that was received before is not written again: the operation may have completed. */
uint8_t *amph_rdp_rma_dest(struct amph_rdp *r, struct amph_rdp_conn *c,
                           const struct amph_rdp_packet *p, uint32_t *len_bytes_p)
{
    struct amph_rdp_seen *seen = &c->seen[p->h.lane - RDP_PUT];
    struct amph_rdp_rma m;
    const uint8_t *data;

    if ((p->h.flags & RDP_F_VOID) || p->h.split != sizeof m ||
        amph_rdp_seen_test(seen, p->seg.lseq) || p->seg.lseq - seen->floor >= 2 * RDP_RMA_SPAN ||
        !amph_rdp_get_rma(p, &m, &data) || actions[m.code].lane != p->h.lane)
        return NULL;

    *len_bytes_p = m.len_bytes;
    if (m.code == RDP_RMA_PUT)
        return find(r, m.key, m.offset, m.len_bytes);

    struct amph_rdp_get **at = m.code == RDP_RMA_DATA ? find_get(r, c->peer, m.id) : NULL;

    return at && is_part_of(*at, &m) ? (*at)->dst + m.offset : NULL;
}

void amph_rdp_mem_dereg(struct amph_rdp *r, struct amph_mem_region *region)
{
    amph_rdp_lock(r);
    (void)amph_conduit_region_remove(&r->regions, region);

    /* Answers that have not been read from this memory yet report an error instead. */
    for (uint32_t i = 0; i < r->cfg.max_peers; i++) {
        struct amph_rdp_conn *c = r->conn[i];
        struct amph_rdp_txlane *tx = c ? &c->tx[RDP_GET] : NULL;

        if (!c || !c->nanswers)
            continue;

        struct amph_rdp_seg *lists[] = { tx->out, tx->head };

        for (unsigned k = 0; k < AMPH_COUNTOF(lists); k++)
            for (struct amph_rdp_seg *s = lists[k]; s; s = s->next)
                if (s->xfer && s->xfer->key == region->key && s->xfer->st == AMPH_OK) {
                    refuse(r, c, s->xfer->id);
                    void_xfer(c, RDP_GET, s->xfer);
                }

        for (struct amph_rdp_xfer *x = tx->xfers; x; x = x->next)
            if (x->key == region->key && x->st == AMPH_OK) {
                refuse(r, c, x->id);
                x->st = AMPH_ERR_RANGE;
            }
    }

    amph_rdp_unlock(r);
    free(region);
}
