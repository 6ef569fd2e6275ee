/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get by messages.
 * Layer: conduits.  Thread rule: that of conduit.h.
 *
 * One lock guards the transfers and the inner conduit's send side, because progress sends fragments
 * and answers too.  If this instance wraps a conduit, it owns the lock, and every operation takes
 * it.  If it works beside a conduit, the lock belongs to the caller, who holds it in send-side
 * operations. done is called without the lock, except in send-side operations beside a conduit.
 *
 * A transfer is cut into fragments of one medium each.  At most WINDOW fragments to one peer are
 * unanswered, so a slow peer does not delay transfers to others.  At most WINDOW answers to one
 * peer are queued.
 *   request lane  PUT: key, offset, id, 0, length; data     GET: key, offset, id, position in the
 *   transfer, length
 *   reply lane    DONE: 0, 0, id, status, length              DATA: 0, 0, id, position in the
 *   transfer, length; data
 * Keys are random numbers, so only processes that received a key can name the memory.
 */
#include "conduits/emulate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "base/wire.h"
#include "conduits/memkey.h"

#define WINDOW 32u
#define TRANSFERS_MAX 512u /* transfers in flight and queued answers */
#define FULL_ARMS \
    1000u /* refused sleeps in a row, without room, after which the peer counts as dead */
#define HEAD_WORDS 5u
#define HEAD_BYTES (8 * HEAD_WORDS)
#define KEY_VERSION 2

enum code {
    PUT = AMPH_EMULATE_FIRST,
    GET,
    DONE,
    DATA
};

/* A put or get in flight, at its origin. */
struct transfer {
    struct transfer *next;
    uint64_t id;
    uint32_t peer;
    bool is_get;
    enum amph_status st;
    uint64_t key, offset, len_bytes, sent;
    unsigned unanswered; /* fragments */
    char *local;
    struct amph_op *lc, *rc;
};

/* The header of a fragment or an answer. */
struct head {
    uint64_t key, offset, id, position, len_bytes; /* DONE: position holds the status */
};

/* A queued answer, for which there was no room.  Its memory is looked up again when it is sent. */
struct answer {
    struct answer *next;
    uint32_t peer;
    struct head head;
    enum code code;
};

/* The counts of one peer. */
struct flow {
    uint32_t unanswered; /* our fragments */
    uint32_t owed;       /* our queued answers */
    uint32_t full_round; /* the round of push in which it had no room */
    /* fragments and answers, read without the lock (am/lost.c) */
    struct amph_cx_counts counts;
};

struct em_cx {
    struct amph_cx base;
    struct amph_conduit_ops ops; /* the inner table with our operations over it */
    struct amph_cx *inner;
    bool beside; /* inner belongs to another owner and has further peers */
    pthread_mutex_t own_lock;
    pthread_mutex_t *lock; /* NULL: one thread at a time */
    struct amph_mem_region *regions;
    struct transfer *transfers;
    struct answer *answers, **answers_tail;
    struct flow *flow; /* [max_peers] */
    uint64_t next_id;
    uint32_t round; /* of push */
    bool full;      /* the last push left something for which there was no room */
    unsigned full_arms;
    unsigned work; /* transfers and answers; read without the lock */
    uint32_t fragment;
    uint8_t *bounce;
};

static struct em_cx *em_of(struct amph_cx *cx)
{
    return (struct em_cx *)cx;
}

/* For operations of the progress side.  In operations of the send side the caller may hold the
 * lock already: lock_send. */
static void lock(struct em_cx *em)
{
    if (em->lock)
        pthread_mutex_lock(em->lock);
}

static void unlock(struct em_cx *em)
{
    if (em->lock)
        pthread_mutex_unlock(em->lock);
}

static void lock_send(struct em_cx *em)
{
    if (!em->beside)
        lock(em);
}

static void unlock_send(struct em_cx *em)
{
    if (!em->beside)
        unlock(em);
}

static enum amph_status send_head(struct em_cx *em, uint32_t peer, enum code code,
                                  const struct head *h, const void *data)
{
    struct amph_wr w;

    amph_wr_init(&w, em->bounce, HEAD_BYTES + em->fragment);
    amph_wr_u64(&w, h->key);
    amph_wr_u64(&w, h->offset);
    amph_wr_u64(&w, h->id);
    amph_wr_u64(&w, h->position);
    amph_wr_u64(&w, h->len_bytes);
    if (data)
        amph_wr_bytes(&w, data, h->len_bytes);

    struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                          .handler = (uint8_t)code,
                          .nbytes = (uint32_t)amph_wr_len(&w),
                          .payload = em->bounce };

    enum amph_lane lane = code >= DONE ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST;
    enum amph_status st = em->inner->ops->am_send(em->inner, peer, lane, &am, NULL);
    uint32_t *sent = &em->flow[peer].counts.sent;

    if (st == AMPH_OK)
        __atomic_store_n(sent, *sent + 1, __ATOMIC_RELAXED);

    return st;
}

/* Sends one more fragment of t; AMPH_AGAIN when there is no room. */
static enum amph_status send_fragment(struct em_cx *em, struct transfer *t)
{
    uint64_t left = t->len_bytes - t->sent;
    struct head h = { t->key, t->offset + t->sent, t->id, t->sent,
                      left < em->fragment ? left : em->fragment };
    enum amph_status st = send_head(em, t->peer, t->is_get ? GET : PUT, &h,
                                    t->is_get ? NULL : t->local + t->sent);

    if (st == AMPH_OK) {
        t->sent += h.len_bytes;
        t->unanswered++;
        em->flow[t->peer].unanswered++;
    }

    return st;
}

/* Removes finished transfers from the list and returns them.  The caller completes them after it
 * has released the lock. */
static struct transfer *reap(struct em_cx *em)
{
    struct transfer *done = NULL;

    for (struct transfer **at = &em->transfers; *at;) {
        struct transfer *t = *at;

        if (t->unanswered || (t->sent < t->len_bytes && t->st == AMPH_OK)) {
            at = &t->next;
            continue;
        }

        *at = t->next;
        t->next = done;
        done = t;
        __atomic_sub_fetch(&em->work, 1, __ATOMIC_RELAXED);
    }

    return done;
}

static void complete_all(struct transfer *done)
{
    while (done) {
        struct transfer *t = done;

        done = t->next;
        if (t->lc)
            t->lc->done(t->lc, t->st);

        if (t->rc)
            t->rc->done(t->rc, t->st);

        free(t);
    }
}

static char *find(struct em_cx *em, const struct head *h)
{
    return amph_conduit_region_find(em->regions, h->key, h->offset, h->len_bytes);
}

/* Sends an answer.  The data of a GET is read from memory at this moment. */
static enum amph_status send_answer(struct em_cx *em, const struct answer *o)
{
    const char *from = o->code == DATA ? find(em, &o->head) : NULL;
    struct head h = o->head;

    if (o->code == DATA && !from) {
        h.position = AMPH_ERR_RANGE;
        return send_head(em, o->peer, DONE, &h, NULL);
    }

    return send_head(em, o->peer, o->code, &h, from);
}

static void send_or_queue(struct em_cx *em, const struct answer *what)
{
    struct flow *flow = &em->flow[what->peer];

    if (!flow->owed && send_answer(em, what) != AMPH_AGAIN)
        return;

    struct answer *o = flow->owed < WINDOW ? malloc(sizeof *o) : NULL;

    if (!o) { /* a correct peer never waits for so much */
        amph_count(DROP_MALFORMED);
        return;
    }

    *o = *what;
    o->next = NULL;
    *em->answers_tail = o;
    em->answers_tail = &o->next;
    flow->owed++;
    __atomic_add_fetch(&em->work, 1, __ATOMIC_RELAXED);
}

static bool has_room(const struct em_cx *em, uint32_t peer)
{
    return em->flow[peer].full_round != em->round;
}

static void found_full(struct em_cx *em, uint32_t peer)
{
    em->flow[peer].full_round = em->round;
    em->full = true;
}

static unsigned push_answers(struct em_cx *em)
{
    unsigned n = 0;
    struct answer **at = &em->answers;

    while (*at) {
        struct answer *o = *at;
        enum amph_status st = has_room(em, o->peer) ? send_answer(em, o) : AMPH_AGAIN;

        if (st == AMPH_AGAIN) {
            found_full(em, o->peer);
            at = &o->next;
            continue;
        }

        *at = o->next;
        em->flow[o->peer].owed--;
        __atomic_sub_fetch(&em->work, 1, __ATOMIC_RELAXED);
        free(o);
        n++;
    }

    em->answers_tail = at;
    return n;
}

/* Sends whatever the windows and the conduit have room for.  The caller holds the lock. */
static unsigned push(struct em_cx *em)
{
    em->round++;
    em->full = false;

    unsigned n = push_answers(em);

    for (struct transfer *t = em->transfers; t; t = t->next)
        while (t->st == AMPH_OK && t->sent < t->len_bytes &&
               em->flow[t->peer].unanswered < WINDOW && has_room(em, t->peer)) {
            enum amph_status st = send_fragment(em, t);
            if (st == AMPH_AGAIN) {
                found_full(em, t->peer);
                break;
            }
            if (st != AMPH_OK)
                t->st = st;
            n++;
        }

    return n;
}

static void on_put(struct em_cx *em, uint32_t peer, const struct head *h, const void *data)
{
    char *to = find(em, h);

    if (to)
        memcpy(to, data, h->len_bytes);

    struct answer o = { .peer = peer, .head = *h, .code = DONE };

    o.head.position = to ? AMPH_OK : AMPH_ERR_RANGE;
    send_or_queue(em, &o);
}

static void on_get(struct em_cx *em, uint32_t peer, const struct head *h, const void *data)
{
    struct answer o = { .peer = peer, .head = *h, .code = DATA };
    send_or_queue(em, &o);
}

/* Returns the transfer that an answer of peer belongs to, or NULL. */
static struct transfer *answered(struct em_cx *em, uint32_t peer, const struct head *h)
{
    for (struct transfer *t = em->transfers; t; t = t->next)
        if (t->id == h->id && t->peer == peer && t->unanswered) {
            t->unanswered--;
            em->flow[peer].unanswered--;
            return t;
        }

    amph_count(DROP_MALFORMED);
    return NULL;
}

static void on_done(struct em_cx *em, uint32_t peer, const struct head *h, const void *data)
{
    struct transfer *t = answered(em, peer, h);
    if (t && h->position != AMPH_OK && t->st == AMPH_OK)
        t->st = h->position < AMPH_STATUS_COUNT ? (enum amph_status)h->position : AMPH_ERR_PROTO;
}

static void on_data(struct em_cx *em, uint32_t peer, const struct head *h, const void *data)
{
    struct transfer *t = answered(em, peer, h);

    if (t && t->is_get && h->len_bytes <= t->len_bytes &&
        h->position <= t->len_bytes - h->len_bytes)
        memcpy(t->local + h->position, data, h->len_bytes);
    else if (t)
        t->st = AMPH_ERR_PROTO;
}

static const struct {
    void (*fn)(struct em_cx *em, uint32_t peer, const struct head *h, const void *data);
    enum amph_lane lane;
    bool data;
} actions[] = {
    { on_put, AMPH_LANE_REQUEST, true },
    { on_get, AMPH_LANE_REQUEST, false },
    { on_done, AMPH_LANE_REPLY, false },
    { on_data, AMPH_LANE_REPLY, true },
};

void amph_conduit_emulate_take(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                               const struct amph_am *am)
{
    struct em_cx *em = em_of(cx);
    unsigned code = am->handler - AMPH_EMULATE_FIRST;
    struct head h;
    struct amph_rd r;

    if (peer >= em->base.cfg.max_peers)
        return;

    __atomic_add_fetch(&em->flow[peer].counts.received, 1, __ATOMIC_RELAXED);
    amph_rd_init(&r, am->payload, am->payload ? am->nbytes : 0);
    h.key = amph_rd_u64(&r);
    h.offset = amph_rd_u64(&r);
    h.id = amph_rd_u64(&r);
    h.position = amph_rd_u64(&r);
    h.len_bytes = amph_rd_u64(&r);

    if (r.bad || h.len_bytes == 0 || code >= AMPH_COUNTOF(actions) || actions[code].lane != lane ||
        h.len_bytes > em->fragment || amph_rd_left(&r) != (actions[code].data ? h.len_bytes : 0)) {
        amph_count(DROP_MALFORMED);
        return;
    }

    lock(em);
    actions[code].fn(em, peer, &h, r.at);
    unlock(em);
}

static void em_on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct em_cx *em = up;

    if (am->kind == AMPH_AM_INTERNAL && am->handler >= AMPH_EMULATE_FIRST)
        amph_conduit_emulate_take(&em->base, peer, lane, am);
    else
        em->base.cfg.upcalls->on_am(em->base.cfg.up, peer, lane, am);
}

/* Drops the queued answers to peer. */
static void drop_answers(struct em_cx *em, uint32_t peer)
{
    struct answer **at = &em->answers;

    while (*at) {
        struct answer *o = *at;

        if (o->peer != peer) {
            at = &o->next;
            continue;
        }

        *at = o->next;
        free(o);
        __atomic_sub_fetch(&em->work, 1, __ATOMIC_RELAXED);
    }

    em->answers_tail = at;
    em->flow[peer].owed = 0;
}

/* Fails the transfers with a dead peer and drops the answers to it. */
static void fail_transfers(struct em_cx *em, uint32_t peer, enum amph_status st)
{
    for (struct transfer *t = em->transfers; t; t = t->next)
        if (t->peer == peer) {
            t->unanswered = 0;
            t->st = st;
        }

    em->flow[peer].unanswered = 0;
    drop_answers(em, peer);
}

void amph_conduit_emulate_peer_gone(struct amph_cx *cx, uint32_t peer)
{
    struct em_cx *em = em_of(cx);

    if (peer >= em->base.cfg.max_peers)
        return;

    lock(em);
    fail_transfers(em, peer, AMPH_ERR_PEER);

    struct transfer *done = reap(em);

    unlock(em);
    complete_all(done);
}

static void em_on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    struct em_cx *em = up;

    amph_conduit_emulate_peer_gone(&em->base, peer);
    if (peer < em->base.cfg.max_peers)
        em->base.cfg.upcalls->on_peer_error(em->base.cfg.up, peer, st, why);
}

static const struct amph_upcalls upcalls = { em_on_am, em_on_peer_error };

/* ---- operations ---- */

static void em_close(struct amph_cx *cx)
{
    struct em_cx *em = em_of(cx);

    for (struct transfer *t = em->transfers; t; t = t->next)
        t->st = AMPH_ERR_STATE;

    complete_all(em->transfers);
    while (em->answers) {
        struct answer *o = em->answers;

        em->answers = o->next;
        free(o);
    }

    amph_conduit_regions_free(&em->regions);
    if (!em->beside)
        em->inner->ops->close(em->inner);

    pthread_mutex_destroy(&em->own_lock);
    free(em->flow);
    free(em->bounce);
    free(em);
}

static enum amph_status em_add_peer(struct amph_cx *cx, uint32_t peer,
                                    const struct amph_peer_spec *spec)
{
    struct em_cx *em = em_of(cx);

    lock_send(em);

    enum amph_status st = em->inner->ops->add_peer(em->inner, peer, spec);

    unlock_send(em);
    return st;
}

static void em_del_peer(struct amph_cx *cx, uint32_t peer)
{
    struct em_cx *em = em_of(cx);

    if (peer >= cx->cfg.max_peers)
        return;

    lock_send(em);
    fail_transfers(em, peer, AMPH_ERR_PEER);

    struct transfer *done = reap(em);

    em->inner->ops->del_peer(em->inner, peer);
    em->flow[peer] = (struct flow){ 0 };
    unlock_send(em);
    complete_all(done);
}

static enum amph_status em_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                   uint64_t fd_offset, struct amph_mem *mem)
{
    struct em_cx *em = em_of(cx);

    lock_send(em);

    struct amph_mem_region *r = amph_conduit_region_add(&em->regions, base, len_bytes);

    unlock_send(em);
    if (!r)
        return AMPH_ERR_NOMEM;

    amph_conduit_memkey_put(mem, KEY_VERSION, r->key, base, len_bytes, r);
    return AMPH_OK;
}

static void em_mem_dereg(struct amph_cx *cx, struct amph_mem *mem)
{
    struct em_cx *em = em_of(cx);

    lock_send(em);

    bool found = amph_conduit_region_remove(&em->regions, mem->impl);

    unlock_send(em);
    if (found)
        free(mem->impl);

    mem->impl = NULL;
    mem->key_len = 0;
}

static enum amph_status em_mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                      size_t key_len, struct amph_rmem *rmem)
{
    return amph_conduit_memkey_get(key, key_len, KEY_VERSION, rmem);
}

static enum amph_status em_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                   const struct amph_am *am, struct amph_op *lc)
{
    struct em_cx *em = em_of(cx);

    if (am->kind == AMPH_AM_INTERNAL && am->handler >= AMPH_EMULATE_FIRST)
        return AMPH_ERR_ARG;

    lock_send(em);

    enum amph_status st = em->inner->ops->am_send(em->inner, peer, lane, am, lc);

    unlock_send(em);
    return st;
}

static enum amph_status start(struct em_cx *em, const struct transfer *what)
{
    if (what->peer >= em->base.cfg.max_peers)
        return AMPH_ERR_RANGE;
    if (__atomic_load_n(&em->work, __ATOMIC_RELAXED) >= TRANSFERS_MAX)
        return AMPH_AGAIN;

    struct transfer *t = malloc(sizeof *t);
    struct transfer **at;

    if (!t)
        return AMPH_ERR_NOMEM;

    *t = *what;
    if (t->len_bytes == 0) {
        complete_all(t);
        return AMPH_OK;
    }

    __atomic_add_fetch(&em->work, 1, __ATOMIC_RELAXED);
    lock_send(em);
    t->id = em->next_id++;
    for (at = &em->transfers; *at; at = &(*at)->next)
        ;

    *at = t;
    push(em);
    unlock_send(em);

    return AMPH_OK;
}

static enum amph_status em_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                               uint64_t offset, const void *src, size_t len_bytes,
                               struct amph_op *lc, struct amph_op *rc)
{
    struct transfer t = { .peer = peer,
                          .key = rmem->rkey,
                          .offset = offset,
                          .len_bytes = len_bytes,
                          .local = (char *)(uintptr_t)src,
                          .lc = lc,
                          .rc = rc };

    return start(em_of(cx), &t);
}

static enum amph_status em_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                               uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done)
{
    struct transfer t = { .peer = peer,
                          .is_get = true,
                          .key = rmem->rkey,
                          .offset = offset,
                          .len_bytes = len_bytes,
                          .local = dst,
                          .rc = done };

    return start(em_of(cx), &t);
}

static void em_flush(struct amph_cx *cx)
{
    struct em_cx *em = em_of(cx);

    lock_send(em);
    em->inner->ops->flush(em->inner);
    unlock_send(em);
}

static struct amph_cx_counts em_counts(struct amph_cx *cx, uint32_t peer)
{
    struct amph_cx_counts *counts = &em_of(cx)->flow[peer].counts;

    return (struct amph_cx_counts){ __atomic_load_n(&counts->sent, __ATOMIC_RELAXED),
                                    __atomic_load_n(&counts->received, __ATOMIC_RELAXED) };
}

static unsigned em_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    struct em_cx *em = em_of(cx);
    unsigned n = em->beside ? 0 : em->inner->ops->progress(em->inner, lanes, budget);

    if (!__atomic_load_n(&em->work, __ATOMIC_RELAXED))
        return n;

    lock(em);
    n += push(em);

    struct transfer *done = reap(em);

    unlock(em);
    for (struct transfer *t = done; t; t = t->next)
        n++;

    complete_all(done);
    return n;
}

static void em_tick(struct amph_cx *cx, uint64_t now_ns)
{
    struct em_cx *em = em_of(cx);

    if (!em->beside)
        em->inner->ops->tick(em->inner, now_ns);
}

static int em_wait_fd(struct amph_cx *cx)
{
    struct em_cx *em = em_of(cx);
    return em->beside ? -1 : em->inner->ops->wait_fd(em->inner);
}

static enum amph_status em_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns)
{
    struct em_cx *em = em_of(cx);

    /* No message announces free room, so a process that waits for room does not sleep for a
     * while. */
    if (how != AMPH_ARM_OFF && __atomic_load_n(&em->work, __ATOMIC_RELAXED)) {
        lock(em);

        bool busy = push(em) || (em->full && ++em->full_arms < FULL_ARMS);

        unlock(em);
        if (busy)
            return AMPH_AGAIN;
    }

    em->full_arms = 0;
    return em->beside ? AMPH_OK : em->inner->ops->arm(em->inner, how, timeout_ns);
}

static void fill_ops(struct em_cx *em)
{
    em->ops = *em->inner->ops;
    em->ops.close = em_close;
    em->ops.add_peer = em_add_peer;
    em->ops.del_peer = em_del_peer;
    em->ops.peer_gone = amph_conduit_emulate_peer_gone;
    em->ops.mem_reg = em_mem_reg;
    em->ops.mem_dereg = em_mem_dereg;
    em->ops.mem_import = em_mem_import;
    em->ops.am_send = em_am_send;
    em->ops.am_prepare = amph_conduit_no_prepare;
    em->ops.am_commit = amph_conduit_no_commit;
    em->ops.put = em_put;
    em->ops.get = em_get;
    em->ops.atomic = amph_conduit_no_atomic;
    if (em->ops.flush != amph_conduit_no_flush)
        em->ops.flush = em->beside ? amph_conduit_no_flush : em_flush;

    em->ops.counts = em_counts;
    em->ops.progress = em_progress;
    em->ops.tick = em_tick;
    em->ops.wait_fd = em_wait_fd;
    em->ops.arm = em_arm;
    em->base = *em->inner;
    em->base.ops = &em->ops;
    em->base.caps.native_rma = true;
    em->base.caps.put_then_am = false;
    em->base.caps.maps_memory = false;
    em->base.caps.puts_in_place = false;
    em->base.caps.mixed_width = true;
}

/* Completes an instance whose inner conduit is open. */
static enum amph_status finish(struct em_cx *em, const struct amph_cx_config *cfg)
{
    fill_ops(em);
    em->base.cfg = *cfg;
    em->answers_tail = &em->answers;
    em->fragment = em->inner->caps.max_medium - HEAD_BYTES;
    em->flow = calloc(cfg->max_peers, sizeof *em->flow);
    em->bounce = malloc(em->inner->caps.max_medium);

    if (em->flow && em->bounce) {
        pthread_mutex_init(&em->own_lock, NULL);
        return AMPH_OK;
    }

    free(em->flow);
    free(em->bounce);
    return AMPH_ERR_NOMEM;
}

enum amph_status amph_conduit_emulate_open(const struct amph_conduit_ops *ops,
                                           const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    struct em_cx *em = calloc(1, sizeof *em);

    if (!em)
        return AMPH_ERR_NOMEM;

    struct amph_cx_config inner_cfg = *cfg;

    inner_cfg.upcalls = &upcalls;
    inner_cfg.up = em;
    em->lock = &em->own_lock;

    enum amph_status st = ops->open(&inner_cfg, &em->inner);
    if (st != AMPH_OK)
        goto free_em;

    st = finish(em, cfg);
    if (st != AMPH_OK)
        goto close_inner;

    *cx_p = &em->base;
    return AMPH_OK;

close_inner:
    ops->close(em->inner);
free_em:
    free(em);
    return st;
}

enum amph_status amph_conduit_emulate_beside(struct amph_cx *inner, pthread_mutex_t *send_lock,
                                             struct amph_cx **cx_p)
{
    struct em_cx *em = calloc(1, sizeof *em);

    if (!em)
        return AMPH_ERR_NOMEM;

    em->inner = inner;
    em->beside = true;
    em->lock = send_lock;

    enum amph_status st = finish(em, &inner->cfg);

    if (st != AMPH_OK) {
        free(em);
        return st;
    }

    em->base.caps.can_sleep = false;
    em->base.caps.fd_blocks = true; /* all events arrive through inner */
    *cx_p = &em->base;

    return AMPH_OK;
}
