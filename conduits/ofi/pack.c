/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts to one peer that follow each other travel in one message.
 * Layer: conduits (ofi).  Thread rule: packs are made by instances that are not threaded, on their send side;
 * the pusher's thread sends the open one under `lock`.  The target's part: below.
 *
 * A put of libfabric is a packet of its own, and so is its acknowledgement; sent together (cork.c), each still
 * costs libfabric's work at both ends.  So a small put that follows others is copied to a pack, which is one
 * message (PUTS).  The target copies the data to its memory and then answers with one message (DONE), after
 * which all puts of the pack are complete.
 *
 * A put is sent at once, by itself, if nothing that was put to its peer before is unacknowledged (as in Nagle's
 * algorithm), or if the put before it went to another peer.  A pack is sent when it is full; before any message,
 * get, other put or change of memory; by each progress call, with which each wait and test begins; and, for a
 * process that computes, by the pusher's thread (pusher.c).  That thread uses libfabric while the process does not:
 * as long as a pack is open the process takes `lock` before it calls libfabric, and sends the pack.
 *
 * Only progress calls free buffers.  So a put goes to a pack only if there is a buffer for its message; otherwise it
 * would wait for as long as the process computes.
 *
 * Messages arrive after the puts that were begun before them.  Gets and puts that libfabric executes are not ordered
 * with the puts of a pack in flight; the caller waits for one before it begins the other.
 *
 * A connection that is reset may lose either message.  Both ends count them (amph_ofi_counts), so that am/lost.c
 * finds the loss.
 *
 * The target writes the data and keeps the answer on its progress side.  If it is not threaded, the same progress
 * call sends the answers; else flush does, which follows it, on the send side.
 *
 * PUTS: id; for each put: key, offset in the memory, length, data padded to 8.  Request lane.
 * DONE: id, status.  Reply lane.
 */
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings/counters.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/ofi/ofi.h"

#define PACK_PUTS 64u
#define PACK_BYTES 32704u /* with its header less than 32 KiB */
#define PUT_BYTES 4096u   /* longer ones are sent by themselves */
#define PACKS_MAX 32u     /* in flight */

enum {
    PUTS = OFI_INTERNAL_FIRST,
    DONE,
    PUTS_ARGS = 1,
    DONE_ARGS = 2
};

struct put_head {
    uint64_t key, offset, len_bytes;
};

struct amph_ofi_pack {
    struct amph_ofi_pack *next;
    uint32_t peer, id, count, nbytes;
    enum amph_status st; /* of a pack that could not be sent */
    struct amph_op *op[PACK_PUTS];
    uint64_t bytes[PACK_BYTES / 8];
};

/* A DONE that has not been sent yet. */
struct amph_ofi_pack_answer {
    struct amph_ofi_pack_answer *next;
    uint32_t peer;
    int32_t args[DONE_ARGS];
};

void amph_ofi_pack_open(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;

    all->on = cx->wait == OFI_WAIT_INNER && !cx->base.cfg.threaded && cx->base.cfg.bursts &&
              !cx->need_reg;
    all->tail = &all->in_flight;
    all->answers_tail = &all->answers;
}

static void count(uint32_t *messages)
{
    __atomic_store_n(messages, *messages + 1, __ATOMIC_RELAXED);
}

/* ---- the target ---- */

/* Takes the answer at *at out of the list; lock held. */
static struct amph_ofi_pack_answer *take_answer(struct amph_ofi_cx *cx,
                                                struct amph_ofi_pack_answer **at)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack_answer *a = *at;

    if (!a)
        return NULL;

    *at = a->next;
    if (!*at)
        all->answers_tail = at;

    __atomic_sub_fetch(&cx->peer[a->peer].answers, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&all->nanswers, 1, __ATOMIC_RELAXED);
    return a;
}

/* Returns the oldest answer, which the caller owns: the progress side may drop others meanwhile. */
static struct amph_ofi_pack_answer *first_answer(struct amph_ofi_cx *cx)
{
    pthread_mutex_lock(&cx->pack.lock);

    struct amph_ofi_pack_answer *a = take_answer(cx, &cx->pack.answers);

    pthread_mutex_unlock(&cx->pack.lock);
    return a;
}

/* Puts an answer back for which there is no room. */
static void put_back(struct amph_ofi_cx *cx, struct amph_ofi_pack_answer *a)
{
    struct amph_ofi_packs *all = &cx->pack;

    pthread_mutex_lock(&all->lock);
    a->next = all->answers;
    all->answers = a;
    if (!a->next)
        all->answers_tail = &a->next;

    __atomic_add_fetch(&cx->peer[a->peer].answers, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&all->nanswers, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all->lock);
}

void amph_ofi_pack_answer(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack_answer *a;

    while (__atomic_load_n(&all->nanswers, __ATOMIC_RELAXED) && (a = first_answer(cx)) != NULL) {
        const struct amph_am am = {
            .kind = AMPH_AM_INTERNAL, .handler = DONE, .nargs = DONE_ARGS, .args = a->args
        };
        const enum amph_status st = amph_ofi_send_now(cx, a->peer, AMPH_LANE_REPLY, &am, NULL);

        if (st == AMPH_AGAIN) {
            put_back(cx, a);
            return;
        }

        if (st == AMPH_OK)
            count(&cx->peer[a->peer].pack_counts.sent);

        free(a);
    }
}

static void drop_answers(struct amph_ofi_cx *cx, uint32_t peer)
{
    struct amph_ofi_packs *all = &cx->pack;

    if (!__atomic_load_n(&all->nanswers, __ATOMIC_RELAXED))
        return;

    pthread_mutex_lock(&all->lock);
    for (struct amph_ofi_pack_answer **at = &all->answers; *at;) {
        if ((*at)->peer == peer)
            free(take_answer(cx, at));
        else
            at = &(*at)->next;
    }

    pthread_mutex_unlock(&all->lock);
}

static void add_answer(struct amph_ofi_cx *cx, uint32_t peer, int32_t id, enum amph_status st)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack_answer *a = malloc(sizeof *a);

    if (!a)
        amph_fatal("%s: no memory for the answer to puts", cx->base.cfg.name);

    *a = (struct amph_ofi_pack_answer){ .peer = peer, .args = { id, (int32_t)st } };
    pthread_mutex_lock(&all->lock);
    *all->answers_tail = a;
    all->answers_tail = &a->next;
    __atomic_add_fetch(&cx->peer[peer].answers, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&all->nanswers, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all->lock);
}

/* What is left of a message of puts, and the memory of the last one. */
struct reader {
    const uint8_t *at;
    size_t left;
    struct amph_ofi_reg *reg;
    uint64_t key;
};

/* Returns the memory with that key, or NULL. */
static const struct amph_ofi_reg *memory_of(struct amph_ofi_cx *cx, struct reader *r, uint64_t key)
{
    if (r->reg && r->key == key)
        return r->reg;
    if (r->reg)
        amph_ofi_reg_put(cx, r->reg);

    r->reg = amph_ofi_reg_of_key(cx, key);
    r->key = key;
    return r->reg;
}

/* Writes the next put to this process's memory. */
static enum amph_status write_put(struct amph_ofi_cx *cx, struct reader *r)
{
    struct put_head head;

    if (r->left < sizeof head)
        return AMPH_ERR_PROTO;

    memcpy(&head, r->at, sizeof head);
    r->at += sizeof head;
    r->left -= sizeof head;

    const uint64_t offset = amph_le64(head.offset);
    const uint64_t len = amph_le64(head.len_bytes);
    const size_t padded = amph_ofi_pad8((size_t)len);

    if (len > r->left || padded > r->left)
        return AMPH_ERR_PROTO;

    const struct amph_ofi_reg *reg = memory_of(cx, r, amph_le64(head.key));

    if (!reg || len > reg->len_bytes || offset > reg->len_bytes - len)
        return AMPH_ERR_RANGE;

    memcpy((uint8_t *)reg->base + offset, r->at, (size_t)len);
    r->at += padded;
    r->left -= padded;
    return AMPH_OK;
}

static enum amph_status write_puts(struct amph_ofi_cx *cx, const struct amph_am *am)
{
    struct reader r = { .at = am->payload, .left = am->nbytes };
    enum amph_status st = AMPH_OK;

    while (r.left && st == AMPH_OK)
        st = write_put(cx, &r);

    if (r.reg)
        amph_ofi_reg_put(cx, r.reg);

    __atomic_thread_fence(__ATOMIC_RELEASE);
    return st;
}

static bool take_puts(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    if (am->nargs != PUTS_ARGS ||
        __atomic_load_n(&cx->peer[peer].answers, __ATOMIC_RELAXED) == PACKS_MAX)
        return false; /* a correct peer never waits for so many answers */

    const enum amph_status st = write_puts(cx, am);

    add_answer(cx, peer, am->args[0], st);
    return st == AMPH_OK;
}

/* ---- the origin ---- */

static struct amph_ofi_pack *make_pack(struct amph_ofi_cx *cx, uint32_t peer)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack *pack = all->unused;

    if (pack)
        all->unused = pack->next;
    else if (all->made == PACKS_MAX || !(pack = malloc(sizeof *pack)))
        return NULL;
    else
        all->made++;

    pack->next = NULL;
    pack->peer = peer;
    pack->id = ++all->last_id;
    pack->count = pack->nbytes = 0;
    cx->peer[peer].unacked++;
    return pack;
}

/* Completes the puts of packs that are in no list.  Returns the number of packs. */
static unsigned finish(struct amph_ofi_cx *cx, struct amph_ofi_pack *pack, enum amph_status st)
{
    unsigned n = 0;

    while (pack) {
        struct amph_ofi_pack *next = pack->next;

        amph_ofi_put_ended(cx, pack->peer);
        for (uint32_t i = 0; i < pack->count; i++)
            pack->op[i]->done(pack->op[i], st);

        pack->next = cx->pack.unused;
        cx->pack.unused = pack;
        pack = next;
        n++;
    }

    return n;
}

/* Sends the open pack; lock held.  false: no room now. */
static bool send_open(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack *pack = all->open;

    if (!pack)
        return true;

    const int32_t id = (int32_t)pack->id;
    const struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                                .handler = PUTS,
                                .nargs = PUTS_ARGS,
                                .nbytes = pack->nbytes,
                                .args = &id,
                                .payload = pack->bytes };

    pack->st = amph_ofi_send_now(cx, pack->peer, AMPH_LANE_REQUEST, &am, NULL);
    all->stuck = pack->st == AMPH_AGAIN;
    if (all->stuck)
        return false;

    all->open = NULL;
    if (pack->st == AMPH_OK) {
        count(&cx->peer[pack->peer].pack_counts.sent);
        *all->tail = pack;
        all->tail = &pack->next;
    } else {
        pack->next = all->failed;
        all->failed = pack;
    }

    return true;
}

bool amph_ofi_pack_send(struct amph_ofi_cx *cx, uint32_t peer)
{
    struct amph_ofi_packs *all = &cx->pack;

    pthread_mutex_lock(&all->lock);

    bool sent = send_open(cx);
    bool other = !sent && all->open->peer != peer;

    pthread_mutex_unlock(&all->lock);
    all->held = !sent;
    return sent || other;
}

enum amph_ofi_pack_found amph_ofi_pack_push(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;
    enum amph_ofi_pack_found found = OFI_PACK_NONE;

    pthread_mutex_lock(&all->lock);
    if (all->last_id != all->seen_id) {
        all->seen_id = all->last_id;
        found = OFI_PACK_ACTIVE;
    } else if (all->open) {
        found = OFI_PACK_SENT;
        if (!all->stuck)
            (void)send_open(cx);
    }

    pthread_mutex_unlock(&all->lock);
    return found;
}

unsigned amph_ofi_pack_progress(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;
    unsigned n = 0;

    if (all->held)
        (void)amph_ofi_pack_send(cx, UINT32_MAX);

    while (all->failed) {
        struct amph_ofi_pack *pack = all->failed;

        all->failed = pack->next;
        pack->next = NULL;
        n += finish(cx, pack, pack->st);
    }

    return n;
}

/* The buffers for a message with that many bytes of puts. */
static struct amph_ofi_pool *buffers_for(struct amph_ofi_cx *cx, size_t nbytes)
{
    return amph_ofi_bounce_pool(cx, amph_ofi_head_len(PUTS_ARGS) + nbytes);
}

/* Can a pack be opened with that many bytes?  Until it is sent nothing else takes what its message needs. */
static bool has_room(struct amph_ofi_cx *cx, size_t nbytes)
{
    return amph_ofi_pool_has_item(&cx->ops) && amph_ofi_pool_has_item(buffers_for(cx, nbytes));
}

/* Can the put be added to that pack?  A larger one may need another buffer. */
static bool takes(struct amph_ofi_cx *cx, const struct amph_ofi_pack *pack, uint32_t peer,
                  size_t padded)
{
    const size_t nbytes = pack->nbytes + sizeof(struct put_head) + padded;
    struct amph_ofi_pool *buffers = buffers_for(cx, nbytes);

    return pack->peer == peer && pack->count < PACK_PUTS && nbytes <= PACK_BYTES &&
           (buffers == buffers_for(cx, pack->nbytes) || amph_ofi_pool_has_item(buffers));
}

static void add_put(struct amph_ofi_pack *pack, const struct amph_rmem *rmem, uint64_t offset,
                    const void *src, size_t len_bytes, struct amph_op *rc)
{
    const size_t padded = amph_ofi_pad8(len_bytes);
    const struct put_head head = { amph_le64(rmem->rkey), amph_le64(offset), amph_le64(len_bytes) };
    uint8_t *at = (uint8_t *)pack->bytes + pack->nbytes;

    memcpy(at, &head, sizeof head);
    memset(at + sizeof head + padded - 8, 0, 8);
    memcpy(at + sizeof head, src, len_bytes);
    pack->nbytes += (uint32_t)(sizeof head + padded);
    pack->op[pack->count++] = rc;
}

/* Returns the pack for one more put; lock held.  NULL: there is none, because *st_p. */
static struct amph_ofi_pack *pack_for(struct amph_ofi_cx *cx, uint32_t peer, size_t padded,
                                      enum amph_status *st_p)
{
    struct amph_ofi_packs *all = &cx->pack;

    if (all->open && !takes(cx, all->open, peer, padded) && !send_open(cx)) {
        *st_p = all->open->peer == peer ? AMPH_AGAIN : AMPH_ERR_NOSYS;
        return NULL;
    }

    if (!all->open && !has_room(cx, sizeof(struct put_head) + padded)) {
        *st_p = AMPH_AGAIN;
        return NULL;
    }

    if (!all->open)
        all->open = make_pack(cx, peer);

    *st_p = AMPH_ERR_NOSYS;
    return all->open;
}

enum amph_status amph_ofi_pack_put(struct amph_ofi_cx *cx, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                   size_t len_bytes, struct amph_op *lc, struct amph_op *rc)
{
    struct amph_ofi_packs *all = &cx->pack;

    if (len_bytes > PUT_BYTES || !rc || all->last_peer != peer || !cx->peer[peer].unacked ||
        all->in_progress || !amph_ofi_can_push_soon(cx))
        return amph_ofi_pack_first(cx, peer) ? AMPH_ERR_NOSYS : AMPH_AGAIN;

    enum amph_status st;

    pthread_mutex_lock(&all->lock);

    struct amph_ofi_pack *pack = pack_for(cx, peer, amph_ofi_pad8(len_bytes), &st);

    if (pack) {
        add_put(pack, rmem, offset, src, len_bytes, rc);
        st = AMPH_OK;
        if (pack->count == PACK_PUTS)
            (void)send_open(cx); /* without room the next call tries again */
    }

    bool is_new = all->open && all->open->count == 1;

    if (is_new && !__atomic_load_n(&cx->pusher.set, __ATOMIC_RELAXED))
        all->seen_id = all->last_id;

    all->held = all->open != NULL;
    pthread_mutex_unlock(&all->lock);
    if (is_new && !amph_ofi_push_soon(cx, true))
        (void)amph_ofi_pack_send(cx, peer);

    if (st == AMPH_OK && lc)
        lc->done(lc, AMPH_OK);

    return st;
}

/* Takes the packs in flight to a peer out of their list; id: only that one, or NULL. */
static struct amph_ofi_pack *take_in_flight(struct amph_ofi_packs *all, uint32_t peer,
                                            const uint32_t *id)
{
    struct amph_ofi_pack *taken = NULL;
    struct amph_ofi_pack **taken_tail = &taken;

    for (struct amph_ofi_pack **at = &all->in_flight; *at && !(id && taken);) {
        struct amph_ofi_pack *pack = *at;

        if (pack->peer != peer || (id && pack->id != *id)) {
            at = &pack->next;
            continue;
        }

        *at = pack->next;
        if (!*at)
            all->tail = at;

        pack->next = NULL;
        *taken_tail = pack;
        taken_tail = &pack->next;
    }

    return taken;
}

static bool take_done(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    if (am->nargs != DONE_ARGS)
        return false;

    const uint32_t id = (uint32_t)am->args[0];
    const uint32_t st = (uint32_t)am->args[1];
    struct amph_ofi_pack *pack = take_in_flight(&cx->pack, peer, &id);

    return finish(cx, pack, st < AMPH_STATUS_COUNT ? (enum amph_status)st : AMPH_ERR_PROTO) > 0;
}

bool amph_ofi_pack_take(struct amph_ofi_cx *cx, uint32_t peer, enum amph_lane lane,
                        const struct amph_am *am)
{
    const bool puts = am->handler == PUTS;
    bool good = lane == (puts ? AMPH_LANE_REQUEST : AMPH_LANE_REPLY);

    if (!puts && am->handler != DONE)
        return false;

    count(&cx->peer[peer].pack_counts.received);
    if (good)
        good = puts ? take_puts(cx, peer, am) : take_done(cx, peer, am);
    if (!good)
        amph_count(DROP_MALFORMED);

    return true;
}

/* ---- both ---- */

void amph_ofi_pack_fail(struct amph_ofi_cx *cx, uint32_t peer, enum amph_status st)
{
    struct amph_ofi_packs *all = &cx->pack;
    struct amph_ofi_pack *open = NULL;

    drop_answers(cx, peer);
    if (all->held) {
        pthread_mutex_lock(&all->lock);
        if (all->open && all->open->peer == peer) {
            open = all->open;
            all->open = NULL;
            all->held = all->stuck = false;
        }

        pthread_mutex_unlock(&all->lock);
    }

    (void)finish(cx, take_in_flight(all, peer, NULL), st);
    (void)finish(cx, open, st);
}

struct amph_cx_counts amph_ofi_counts(struct amph_cx *base, uint32_t peer)
{
    const struct amph_cx_counts *counts = &amph_ofi_of(base)->peer[peer].pack_counts;

    return (struct amph_cx_counts){ __atomic_load_n(&counts->sent, __ATOMIC_RELAXED),
                                    __atomic_load_n(&counts->received, __ATOMIC_RELAXED) };
}

void amph_ofi_peer_gone(struct amph_cx *base, uint32_t peer)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    (void)amph_ofi_pack_first(cx, peer);
    amph_ofi_pack_fail(cx, peer, AMPH_ERR_PEER);
}

/* Completes all puts with AMPH_ERR_STATE, also those that upcalls begin meanwhile. */
void amph_ofi_pack_close(struct amph_ofi_cx *cx)
{
    struct amph_ofi_packs *all = &cx->pack;

    all->on = false;
    if (cx->peer)
        for (uint32_t i = 0; i < cx->base.cfg.max_peers; i++)
            amph_ofi_pack_fail(cx, i, AMPH_ERR_STATE);

    (void)amph_ofi_pack_progress(cx);
    while (all->unused) {
        struct amph_ofi_pack *pack = all->unused;

        all->unused = pack->next;
        free(pack);
    }
}
