/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts to one peer that follow each other travel in one message, and so do small gets.
 * Layer: conduits (ofi).  Thread rule: packs are made by instances that are not threaded, on their send side;
 * the pusher's thread sends the open one under `lock`.  The target's part: below.
 *
 * A put of libfabric is a packet of its own, and so is its acknowledgement; sent together (cork.c), each still
 * costs libfabric's work at both ends.  So a small put that follows others is copied to a pack, which is one
 * message (PUTS).  The target copies the data to its memory and then answers with one message (DONE), after
 * which all puts of the pack are complete.  A pack of gets (GETS) is answered with their data (GOT).
 *
 * A put or get is sent at once, by itself, if nothing that was put to its peer or asked of it before is
 * unanswered (as in Nagle's algorithm), or if the one before it went to another peer.  The first of several goes
 * into a pack, too, if last time others followed it: a packet and an answer less.  A pack is sent when it is
 * full; before anything of another kind or to another peer; by each progress call, with which each wait and test
 * begins; and, for a process that computes, by the pusher's thread (pusher.c).  That thread uses libfabric while
 * the process does not: as long as a pack is open the process takes `lock` before it calls libfabric, and sends
 * the pack.
 *
 * Only progress calls free buffers.  So a put or get goes to a pack only if there is a buffer for its message;
 * otherwise it would wait for as long as the process computes.
 *
 * Messages arrive after the puts that were begun before them.  Gets and puts that libfabric executes are not ordered
 * with those of a pack in flight; the caller waits for one before it begins the other.
 *
 * A connection that is reset may lose either message.  Both ends count them (amph_ofi_counts), so that am/lost.c
 * finds the loss.
 *
 * The target writes or reads the data and keeps the answer on its progress side.  If it is not threaded, the same
 * progress call sends the answers; else flush does, which follows it, on the send side.
 *
 * PUTS: id; for each put: key, offset in the memory, length, data padded to 8.  Request lane.
 * DONE: id, status.  Reply lane.
 * GETS: id; for each get: key, offset in the memory, length.  Request lane.
 * GOT: id, status; if it is OK, for each get: data padded to 8.  Reply lane.
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

#define PACK_PIECES 64u   /* puts or gets */
#define PACK_BYTES 32704u /* of a message, and of its answer; with the header less than 32 KiB */
#define PIECE_BYTES 4096u /* longer ones are sent by themselves */
#define PACKS_MAX 32u     /* in flight */
#define MANY 8u           /* so many at a time, that as many are expected the next time */

enum {
    PUTS = OFI_INTERNAL_FIRST,
    DONE,
    GETS,
    GOT,
    PACK_ARGS = 1,
    ANSWER_ARGS = 2
};

struct piece_head {
    uint64_t key, offset, len_bytes;
};

struct amph_ofi_pack {
    struct amph_ofi_pack *next;
    uint32_t peer, id, count, nbytes;
    uint32_t answer_bytes; /* of the data of gets, padded */
    uint8_t what;          /* PUTS or GETS */
    enum amph_status st;   /* of a pack that could not be sent */
    struct {
        struct amph_op *op;
        void *dst; /* of a get */
        size_t len_bytes;
    } piece[PACK_PIECES];
    uint64_t bytes[PACK_BYTES / 8];
};

/* A DONE or GOT that has not been sent yet. */
struct amph_ofi_pack_answer {
    struct amph_ofi_pack_answer *next;
    uint32_t peer, nbytes;
    uint8_t what;
    int32_t args[ANSWER_ARGS];
    uint64_t bytes[];
};

/* A put or a get. */
struct piece {
    const struct amph_rmem *rmem;
    uint64_t offset;
    const void *src; /* of a put, or NULL */
    void *dst;       /* of a get */
    size_t len_bytes;
    struct amph_op *op;
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
            .kind = AMPH_AM_INTERNAL,
            .handler = a->what,
            .nargs = ANSWER_ARGS,
            .nbytes = a->nbytes,
            .args = a->args,
            .payload = a->bytes,
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

/* Returns an answer with room for that many bytes. */
static struct amph_ofi_pack_answer *make_answer(struct amph_ofi_cx *cx, uint8_t what, size_t nbytes)
{
    struct amph_ofi_pack_answer *a = malloc(sizeof *a + nbytes);

    if (!a)
        amph_fatal("%s: no memory for the answer to puts or gets", cx->base.cfg.name);

    a->next = NULL;
    a->what = what;
    a->nbytes = (uint32_t)nbytes;
    return a;
}

/* Queues an answer to pack `id`.  Without success it has no data. */
static void add_answer(struct amph_ofi_cx *cx, struct amph_ofi_pack_answer *a, uint32_t peer,
                       int32_t id, enum amph_status st)
{
    struct amph_ofi_packs *all = &cx->pack;

    a->peer = peer;
    a->args[0] = id;
    a->args[1] = (int32_t)st;
    if (st != AMPH_OK)
        a->nbytes = 0;

    pthread_mutex_lock(&all->lock);
    *all->answers_tail = a;
    all->answers_tail = &a->next;
    __atomic_add_fetch(&cx->peer[peer].answers, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&all->nanswers, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all->lock);
}

/* What is left of a message, and the memory of its last piece. */
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

/* Reads the head of the next piece. */
static enum amph_status next_head(struct reader *r, struct piece_head *head)
{
    if (r->left < sizeof *head)
        return AMPH_ERR_PROTO;

    memcpy(head, r->at, sizeof *head);
    r->at += sizeof *head;
    r->left -= sizeof *head;

    head->key = amph_le64(head->key);
    head->offset = amph_le64(head->offset);
    head->len_bytes = amph_le64(head->len_bytes);
    return head->len_bytes > PACK_BYTES ? AMPH_ERR_PROTO : AMPH_OK;
}

/* Finds the memory of a piece. */
static enum amph_status find(struct amph_ofi_cx *cx, struct reader *r,
                             const struct piece_head *head, uint8_t **at_p)
{
    const struct amph_ofi_reg *reg = memory_of(cx, r, head->key);

    if (!reg || head->len_bytes > reg->len_bytes || head->offset > reg->len_bytes - head->len_bytes)
        return AMPH_ERR_RANGE;

    *at_p = (uint8_t *)reg->base + head->offset;
    return AMPH_OK;
}

/* Writes the next put to this process's memory. */
static enum amph_status write_put(struct amph_ofi_cx *cx, struct reader *r)
{
    struct piece_head head;
    uint8_t *at;
    enum amph_status st = next_head(r, &head);

    if (st != AMPH_OK)
        return st;

    const size_t padded = amph_ofi_pad8((size_t)head.len_bytes);

    if (padded > r->left)
        return AMPH_ERR_PROTO;
    if ((st = find(cx, r, &head, &at)) != AMPH_OK)
        return st;

    memcpy(at, r->at, (size_t)head.len_bytes);
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

/* The bytes of the data that a message asks for; more than PACK_BYTES: it is malformed. */
static size_t bytes_asked(const struct amph_am *am)
{
    struct reader r = { .at = am->payload, .left = am->nbytes };
    size_t total = 0;

    while (r.left && total <= PACK_BYTES) {
        struct piece_head head;

        if (next_head(&r, &head) != AMPH_OK)
            return PACK_BYTES + 1;

        total += amph_ofi_pad8((size_t)head.len_bytes);
    }

    return total;
}

/* Copies what a well-formed message asks for from this process's memory. */
static enum amph_status read_gets(struct amph_ofi_cx *cx, const struct amph_am *am, void *to)
{
    struct reader r = { .at = am->payload, .left = am->nbytes };
    enum amph_status st = AMPH_OK;
    uint8_t *out = to;

    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    while (r.left && st == AMPH_OK) {
        struct piece_head head;
        uint8_t *at;

        (void)next_head(&r, &head);
        if ((st = find(cx, &r, &head, &at)) != AMPH_OK)
            break;

        const size_t padded = amph_ofi_pad8((size_t)head.len_bytes);

        if (padded)
            memset(out + padded - 8, 0, 8);

        memcpy(out, at, (size_t)head.len_bytes);
        out += padded;
    }

    if (r.reg)
        amph_ofi_reg_put(cx, r.reg);

    return st;
}

static bool take_puts(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    const enum amph_status st = write_puts(cx, am);

    add_answer(cx, make_answer(cx, DONE, 0), peer, am->args[0], st);
    return st == AMPH_OK;
}

static bool take_gets(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    const size_t nbytes = bytes_asked(am);
    const bool good = nbytes <= PACK_BYTES;
    struct amph_ofi_pack_answer *a = make_answer(cx, GOT, good ? nbytes : 0);
    const enum amph_status st = good ? read_gets(cx, am, a->bytes) : AMPH_ERR_PROTO;

    add_answer(cx, a, peer, am->args[0], st);
    return st == AMPH_OK;
}

/* Handles a message of puts or gets. */
static bool serve(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    if (am->nargs != PACK_ARGS ||
        __atomic_load_n(&cx->peer[peer].answers, __ATOMIC_RELAXED) == PACKS_MAX)
        return false; /* a correct peer never waits for so many answers */

    return am->handler == PUTS ? take_puts(cx, peer, am) : take_gets(cx, peer, am);
}

/* ---- the origin ---- */

static struct amph_ofi_pack *make_pack(struct amph_ofi_cx *cx, uint32_t peer, uint8_t what)
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
    pack->what = what;
    pack->id = ++all->last_id;
    pack->count = pack->nbytes = pack->answer_bytes = 0;
    cx->peer[peer].unacked++;
    return pack;
}

/* Completes the operations of packs that are in no list.  Returns the number of packs. */
static unsigned finish(struct amph_ofi_cx *cx, struct amph_ofi_pack *pack, enum amph_status st)
{
    unsigned n = 0;

    while (pack) {
        struct amph_ofi_pack *next = pack->next;

        amph_ofi_rma_ended(cx, pack->peer);
        for (uint32_t i = 0; i < pack->count; i++)
            pack->piece[i].op->done(pack->piece[i].op, st);

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
                                .handler = pack->what,
                                .nargs = PACK_ARGS,
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

/* The buffers for a message with that many bytes of pieces. */
static struct amph_ofi_pool *buffers_for(struct amph_ofi_cx *cx, size_t nbytes)
{
    return amph_ofi_bounce_pool(cx, amph_ofi_head_len(PACK_ARGS) + nbytes);
}

/* Can a pack be opened with that many bytes?  Until it is sent nothing else takes what its message needs. */
static bool has_room(struct amph_ofi_cx *cx, size_t nbytes)
{
    return amph_ofi_pool_has_item(&cx->ops) && amph_ofi_pool_has_item(buffers_for(cx, nbytes));
}

static uint8_t what_of(const struct piece *piece)
{
    return piece->src ? PUTS : GETS;
}

/* The bytes of a piece in its message, and in the answer. */
static size_t message_bytes(const struct piece *piece)
{
    return sizeof(struct piece_head) + (piece->src ? amph_ofi_pad8(piece->len_bytes) : 0);
}

static size_t answer_bytes(const struct piece *piece)
{
    return piece->src ? 0 : amph_ofi_pad8(piece->len_bytes);
}

/* Can the piece be added to that pack?  A larger one may need another buffer. */
static bool takes(struct amph_ofi_cx *cx, const struct amph_ofi_pack *pack, uint32_t peer,
                  const struct piece *piece)
{
    const size_t nbytes = pack->nbytes + message_bytes(piece);
    struct amph_ofi_pool *buffers = buffers_for(cx, nbytes);

    return pack->peer == peer && pack->what == what_of(piece) && pack->count < PACK_PIECES &&
           nbytes <= PACK_BYTES && pack->answer_bytes + answer_bytes(piece) <= PACK_BYTES &&
           (buffers == buffers_for(cx, pack->nbytes) || amph_ofi_pool_has_item(buffers));
}

static void add_piece(struct amph_ofi_pack *pack, const struct piece *piece)
{
    const size_t nbytes = message_bytes(piece);
    const struct piece_head head = { amph_le64(piece->rmem->rkey), amph_le64(piece->offset),
                                     amph_le64(piece->len_bytes) };
    uint8_t *at = (uint8_t *)pack->bytes + pack->nbytes;

    memcpy(at, &head, sizeof head);
    if (piece->src) {
        memset(at + nbytes - 8, 0, 8);
        memcpy(at + sizeof head, piece->src, piece->len_bytes);
    }

    pack->nbytes += (uint32_t)nbytes;
    pack->answer_bytes += (uint32_t)answer_bytes(piece);
    pack->piece[pack->count].op = piece->op;
    pack->piece[pack->count].dst = piece->dst;
    pack->piece[pack->count].len_bytes = piece->len_bytes;
    pack->count++;
}

/* Returns the pack for one more piece; lock held.  NULL: there is none, because *st_p. */
static struct amph_ofi_pack *pack_for(struct amph_ofi_cx *cx, uint32_t peer,
                                      const struct piece *piece, enum amph_status *st_p)
{
    struct amph_ofi_packs *all = &cx->pack;

    if (all->open && !takes(cx, all->open, peer, piece) && !send_open(cx)) {
        *st_p = all->open->peer == peer ? AMPH_AGAIN : AMPH_ERR_NOSYS;
        return NULL;
    }

    if (!all->open && !has_room(cx, message_bytes(piece))) {
        *st_p = AMPH_AGAIN;
        return NULL;
    }

    if (!all->open)
        all->open = make_pack(cx, peer, what_of(piece));

    *st_p = AMPH_ERR_NOSYS;
    return all->open;
}

/* Counts a put or get.  Does it follow others, or will others follow it soon? */
static bool is_one_of_many(struct amph_ofi_cx *cx, uint32_t peer)
{
    struct amph_ofi_packs *all = &cx->pack;

    if (cx->peer[peer].unacked) {
        all->run++;
        return true;
    }

    all->last_run = all->run;
    all->run = 1;
    return all->last_run >= MANY;
}

/* Adds a piece to a pack, or sends an open one before it; the result is that of amph_ofi_pack_put. */
static enum amph_status add(struct amph_ofi_cx *cx, uint32_t peer, const struct piece *piece)
{
    struct amph_ofi_packs *all = &cx->pack;
    const bool many = is_one_of_many(cx, peer);

    if (!many || piece->len_bytes > PIECE_BYTES || !piece->op || all->last_peer != peer ||
        all->in_progress || !amph_ofi_can_push_soon(cx))
        return amph_ofi_pack_first(cx, peer) ? AMPH_ERR_NOSYS : AMPH_AGAIN;

    enum amph_status st;

    pthread_mutex_lock(&all->lock);

    struct amph_ofi_pack *pack = pack_for(cx, peer, piece, &st);

    if (pack) {
        add_piece(pack, piece);
        st = AMPH_OK;
        if (pack->count == PACK_PIECES)
            (void)send_open(cx); /* without room the next call tries again */
    }

    bool is_new = all->open && all->open->count == 1;

    if (is_new && !__atomic_load_n(&cx->pusher.set, __ATOMIC_RELAXED))
        all->seen_id = all->last_id;

    all->held = all->open != NULL;
    pthread_mutex_unlock(&all->lock);
    if (is_new && !amph_ofi_push_soon(cx, true))
        (void)amph_ofi_pack_send(cx, peer);

    return st;
}

enum amph_status amph_ofi_pack_put(struct amph_ofi_cx *cx, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                   size_t len_bytes, struct amph_op *lc, struct amph_op *rc)
{
    const struct piece piece = {
        .rmem = rmem, .offset = offset, .src = src, .len_bytes = len_bytes, .op = rc
    };
    const enum amph_status st = add(cx, peer, &piece);

    if (st == AMPH_OK && lc)
        lc->done(lc, AMPH_OK);

    return st;
}

enum amph_status amph_ofi_pack_get(struct amph_ofi_cx *cx, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, void *dst,
                                   size_t len_bytes, struct amph_op *done)
{
    const struct piece piece = {
        .rmem = rmem, .offset = offset, .dst = dst, .len_bytes = len_bytes, .op = done
    };

    return add(cx, peer, &piece);
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

/* Copies the data of an answer to where they were wanted.  false: it has not what was asked for. */
static bool scatter(const struct amph_ofi_pack *pack, const struct amph_am *am)
{
    const uint8_t *at = am->payload;

    if (am->nbytes != pack->answer_bytes)
        return false;

    for (uint32_t i = 0; pack->what == GETS && i < pack->count; i++) {
        memcpy(pack->piece[i].dst, at, pack->piece[i].len_bytes);
        at += amph_ofi_pad8(pack->piece[i].len_bytes);
    }

    return true;
}

/* Handles a DONE or a GOT. */
static bool take_answers(struct amph_ofi_cx *cx, uint32_t peer, const struct amph_am *am)
{
    if (am->nargs != ANSWER_ARGS)
        return false;

    const uint32_t id = (uint32_t)am->args[0];
    const uint32_t said = (uint32_t)am->args[1];
    enum amph_status st = said < AMPH_STATUS_COUNT ? (enum amph_status)said : AMPH_ERR_PROTO;
    struct amph_ofi_pack *pack = take_in_flight(&cx->pack, peer, &id);

    if (pack && st == AMPH_OK &&
        (am->handler != (pack->what == GETS ? GOT : DONE) || !scatter(pack, am)))
        st = AMPH_ERR_PROTO;

    return finish(cx, pack, st) > 0;
}

bool amph_ofi_pack_take(struct amph_ofi_cx *cx, uint32_t peer, enum amph_lane lane,
                        const struct amph_am *am)
{
    if (am->handler < PUTS || am->handler > GOT)
        return false;

    const bool asks = am->handler == PUTS || am->handler == GETS;
    bool good = lane == (asks ? AMPH_LANE_REQUEST : AMPH_LANE_REPLY);

    count(&cx->peer[peer].pack_counts.received);
    if (good)
        good = asks ? serve(cx, peer, am) : take_answers(cx, peer, am);
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

/* Completes all of them with AMPH_ERR_STATE, also those that upcalls begin meanwhile. */
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
