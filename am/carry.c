/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get by messages, for memory that a peer on the same host cannot map because it is private
 * to its owner.
 * Layer: am.  Thread rule: carry.lock guards regions and transfers; handlers run under the poll
 * lock; done is called without the lock.
 *
 *   PUT:  key, offset, id; data.  id 0: no answer.  In either lane, in order with its other
 * messages.
 *   GET:  key, offset, id, position in the transfer, length
 *   DONE: id, status
 *   DATA: id, position; data
 *
 * Keys are random numbers, so only processes that received a key can name the memory.
 *
 * Key bytes: mark | key | base address | length
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "am/job.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/memkey.h"

#define KEY_MARK 0x59525243u /* differs from the version numbers of smp's keys */
enum {
    BUCKETS = 256
};

/* A put or get with outstanding answers. */
struct transfer {
    struct transfer *next;
    uint64_t id;
    uint32_t peer;
    char *dst; /* of a get */
    uint64_t len_bytes;
    uint64_t left; /* outstanding answers */
    bool sending;  /* its fragments are being sent */
    enum amph_status st;
    struct amph_op *done;
};

struct amph_carry {
    pthread_mutex_t lock;
    struct amph_mem_region *regions;
    struct transfer *bucket[BUCKETS];
    uint64_t next_id; /* from 1 */
};

enum {
    PUT_NARGS = 6,
    GET_NARGS = 9,
    DONE_NARGS = 3,
    DATA_NARGS = 4
};

static void split(int32_t *low_high, uint64_t v)
{
    low_high[0] = (int32_t)(uint32_t)v;
    low_high[1] = (int32_t)(uint32_t)(v >> 32);
}

static uint64_t join(const int32_t *low_high)
{
    return (uint32_t)low_high[0] | (uint64_t)(uint32_t)low_high[1] << 32;
}

/* ---- memory ---- */

enum amph_status amph_am_carry_reg(struct amph_am_ep *ep, void *base, size_t len_bytes,
                                   struct amph_mem *mem)
{
    pthread_mutex_lock(&ep->carry->lock);

    struct amph_mem_region *r = amph_conduit_region_add(&ep->carry->regions, base, len_bytes);

    pthread_mutex_unlock(&ep->carry->lock);
    if (!r)
        return AMPH_ERR_NOMEM;

    amph_conduit_memkey_put(mem, KEY_MARK, r->key, base, len_bytes, r);
    return AMPH_OK;
}

bool amph_am_carry_is_key(const void *key, size_t key_len)
{
    struct amph_rd r;

    amph_rd_init(&r, key, key_len);
    return amph_rd_u32(&r) == KEY_MARK && !r.bad;
}

bool amph_am_carry_dereg(struct amph_am_ep *ep, struct amph_mem *mem)
{
    if (!ep->carry || !amph_am_carry_is_key(mem->key, mem->key_len))
        return false;

    pthread_mutex_lock(&ep->carry->lock);

    bool found = amph_conduit_region_remove(&ep->carry->regions, mem->impl);

    pthread_mutex_unlock(&ep->carry->lock);
    if (found)
        free(mem->impl);

    mem->impl = NULL;
    mem->key_len = 0;

    return true;
}

/* Returns the address of a range of a region, or NULL.  Lock held. */
static char *find(struct amph_carry *c, uint64_t key, uint64_t offset, uint64_t len_bytes)
{
    return amph_conduit_region_find(c->regions, key, offset, len_bytes);
}

enum amph_status amph_am_carry_import(struct amph_am_ep *ep, const void *key, size_t key_len,
                                      struct amph_rmem *rmem)
{
    struct amph_rmem m;

    if (amph_conduit_memkey_get(key, key_len, KEY_MARK, &m) != AMPH_OK || !ep->carry)
        return AMPH_ERR_PROTO;

    pthread_mutex_lock(&ep->carry->lock);
    m.local = find(ep->carry, m.rkey, 0, m.len_bytes); /* not NULL for memory of this process */
    pthread_mutex_unlock(&ep->carry->lock);
    *rmem = m;

    return AMPH_OK;
}

/* ---- transfers ---- */

static struct transfer *begin(struct amph_am_ep *ep, uint32_t peer, char *dst, uint64_t len_bytes,
                              uint64_t answers, struct amph_op *done)
{
    struct amph_carry *c = ep->carry;
    struct transfer *t = malloc(sizeof *t);

    if (!t)
        return NULL;

    *t = (struct transfer){ .peer = peer,
                            .dst = dst,
                            .len_bytes = len_bytes,
                            .left = answers,
                            .sending = true,
                            .done = done };
    pthread_mutex_lock(&c->lock);
    t->id = ++c->next_id;
    t->next = c->bucket[t->id % BUCKETS];
    c->bucket[t->id % BUCKETS] = t;
    pthread_mutex_unlock(&c->lock);

    return t;
}

/* Counts n answers that have arrived or cannot arrive any more.  all_sent: nothing more will be
 * sent. The last call for t completes and frees it. */
static void count_down(struct amph_am_ep *ep, struct transfer *t, uint64_t n, bool all_sent,
                       enum amph_status st)
{
    struct amph_carry *c = ep->carry;

    pthread_mutex_lock(&c->lock);
    if (st != AMPH_OK && t->st == AMPH_OK)
        t->st = st;

    t->left -= n < t->left ? n : t->left;
    t->sending = t->sending && !all_sent;

    bool over = t->left == 0 && !t->sending;

    for (struct transfer **at = &c->bucket[t->id % BUCKETS]; over && *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }

    pthread_mutex_unlock(&c->lock);
    if (!over)
        return;

    if (t->done)
        t->done->done(t->done, t->st);

    free(t);
}

/* Frees t, of which nothing was sent, without calling done. */
static void retract(struct amph_am_ep *ep, struct transfer *t)
{
    t->done = NULL;
    count_down(ep, t, t->left, true, AMPH_OK);
}

static struct transfer *answered(struct amph_am_ep *ep, uint32_t peer, uint64_t id)
{
    pthread_mutex_lock(&ep->carry->lock);

    struct transfer *t = ep->carry->bucket[id % BUCKETS];

    while (t && (t->id != id || t->peer != peer || !t->left))
        t = t->next;

    pthread_mutex_unlock(&ep->carry->lock);
    if (!t)
        amph_count_exact(DROP_MALFORMED, 1);

    return t;
}

static enum amph_status send_put(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                 uint64_t offset, const void *src, uint32_t nbytes, uint64_t id,
                                 unsigned flags)
{
    int32_t args[PUT_NARGS];

    split(args, rmem->rkey);
    split(args + 2, offset);
    split(args + 4, id);

    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = AMPH_AM_CARRY_PUT,
                                .nargs = PUT_NARGS,
                                .nbytes = nbytes,
                                .args = args,
                                .payload = src };

    return amph_am_request(ep, peer, &am, flags, NULL);
}

static enum amph_status send_get(struct amph_am_ep *ep, const struct transfer *t,
                                 const struct amph_rmem *rmem, uint64_t offset, uint64_t position,
                                 uint32_t nbytes, unsigned flags)
{
    int32_t args[GET_NARGS];

    split(args, rmem->rkey);
    split(args + 2, offset + position);
    split(args + 4, t->id);
    split(args + 6, position);
    args[8] = (int32_t)nbytes;

    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_AM_CARRY_GET, .nargs = GET_NARGS, .args = args
    };

    return amph_am_request(ep, t->peer, &am, flags, NULL);
}

/* Returns the number of fragments of a transfer, or 0 if it cannot be started here. */
static uint64_t fragments(struct amph_am_ep *ep, uint32_t peer, size_t len_bytes, uint32_t *max_p)
{
    *max_p = amph_am_max_medium(ep, peer);
    uint64_t n = *max_p ? (len_bytes + *max_p - 1) / *max_p : 0;
    return n > 1 && amph_ep_in_handler(ep) ? 0 : n;
}

static uint32_t piece(size_t len_bytes, uint64_t position, uint32_t max)
{
    return len_bytes - position < max ? (uint32_t)(len_bytes - position) : max;
}

enum amph_status amph_am_carry_put(struct amph_am_ep *ep, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                   size_t len_bytes, unsigned flags, struct amph_op *lc,
                                   struct amph_op *rc)
{
    uint32_t max;
    uint64_t n = fragments(ep, peer, len_bytes, &max);
    uint64_t sent = 0;

    if (!n)
        return AMPH_AGAIN;

    struct transfer *t = rc ? begin(ep, peer, NULL, len_bytes, n, rc) : NULL;
    enum amph_status st = rc && !t ? AMPH_ERR_NOMEM : AMPH_OK;

    for (uint64_t at = 0; st == AMPH_OK && at < len_bytes; at += max) {
        st = send_put(ep, peer, rmem, offset + at, (const char *)src + at,
                      piece(len_bytes, at, max), t ? t->id : 0,
                      sent ? 0 : flags); /* a transfer that has begun must be completed */
        sent += st == AMPH_OK;
    }

    if (!sent) {
        if (t)
            retract(ep, t);

        return st;
    }

    if (lc)
        lc->done(lc, st);

    if (t)
        count_down(ep, t, n - sent, true, st);

    return t ? AMPH_OK : st;
}

enum amph_status amph_am_carry_get(struct amph_am_ep *ep, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, void *dst,
                                   size_t len_bytes, unsigned flags, struct amph_op *done)
{
    uint32_t max;
    uint64_t n = fragments(ep, peer, len_bytes, &max);
    uint64_t sent = 0;

    if (!n)
        return AMPH_AGAIN;

    struct transfer *t = begin(ep, peer, dst, len_bytes, n, done);
    enum amph_status st = t ? AMPH_OK : AMPH_ERR_NOMEM;

    for (uint64_t at = 0; st == AMPH_OK && at < len_bytes; at += max) {
        st = send_get(ep, t, rmem, offset, at, piece(len_bytes, at, max), sent ? 0 : flags);
        sent += st == AMPH_OK;
    }

    if (!sent) {
        if (t)
            retract(ep, t);

        return st;
    }

    count_down(ep, t, n - sent, true, st);
    return AMPH_OK;
}

void amph_am_carry_reply(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                         uint64_t offset, const void *src, size_t len_bytes)
{
    int32_t args[PUT_NARGS] = { 0 };
    uint32_t max = amph_am_max_medium(ep, peer);

    split(args, rmem->rkey);
    for (uint64_t at = 0; at < len_bytes; at += max) {
        split(args + 2, offset + at);

        const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                    .handler = AMPH_AM_CARRY_PUT,
                                    .nargs = PUT_NARGS,
                                    .nbytes = piece(len_bytes, at, max),
                                    .args = args,
                                    .payload = (const char *)src + at };

        /* After a deferred message all are deferred, to keep their order. */
        if (ep->deferred || amph_ep_send(ep, peer, AMPH_LANE_REPLY, &am, NULL) == AMPH_AGAIN)
            amph_ep_defer(ep, peer, &am, false);
    }
}

/* ---- handlers ---- */

static void answer_done(struct amph_token *token, const int32_t *id, enum amph_status st)
{
    const int32_t args[DONE_NARGS] = { id[0], id[1], (int32_t)st };
    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_AM_CARRY_DONE, .nargs = DONE_NARGS, .args = args
    };

    amph_am_reply(token, &am, 0, NULL);
}

static void on_put(struct amph_token *token, const struct amph_am *am)
{
    struct amph_carry *c = token->ep->carry;

    pthread_mutex_lock(&c->lock);

    char *to = find(c, join(am->args), join(am->args + 2), am->nbytes);

    if (to)
        memcpy(to, am->payload, am->nbytes);

    pthread_mutex_unlock(&c->lock);
    if (!to)
        amph_count_exact(DROP_MALFORMED, 1);

    if (join(am->args + 4) && token->is_request)
        answer_done(token, am->args + 4, to ? AMPH_OK : AMPH_ERR_RANGE);
}

static void on_get(struct amph_token *token, const struct amph_am *am)
{
    struct amph_carry *c = token->ep->carry;
    const uint32_t nbytes = (uint32_t)am->args[8];
    const int32_t args[DATA_NARGS] = { am->args[4], am->args[5], am->args[6], am->args[7] };

    pthread_mutex_lock(&c->lock);

    const char *from = nbytes <= amph_am_max_medium(token->ep, token->peer)
                           ? find(c, join(am->args), join(am->args + 2), nbytes)
                           : NULL;

    pthread_mutex_unlock(&c->lock);

    const struct amph_am data = { .kind = AMPH_AM_MEDIUM,
                                  .handler = AMPH_AM_CARRY_DATA,
                                  .nargs = DATA_NARGS,
                                  .nbytes = nbytes,
                                  .args = args,
                                  .payload = from };

    if (from)
        amph_am_reply(token, &data, 0, NULL);
    else
        answer_done(token, am->args + 4, AMPH_ERR_RANGE);
}

static void on_done(struct amph_token *token, const struct amph_am *am)
{
    struct transfer *t = answered(token->ep, token->peer, join(am->args));
    uint32_t st = (uint32_t)am->args[2];

    if (t)
        count_down(token->ep, t, 1, false,
                   st < AMPH_STATUS_COUNT ? (enum amph_status)st : AMPH_ERR_PROTO);
}

static void on_data(struct amph_token *token, const struct amph_am *am)
{
    struct transfer *t = answered(token->ep, token->peer, join(am->args));
    uint64_t position = join(am->args + 2);
    bool fits = t && t->dst && am->nbytes <= t->len_bytes && position <= t->len_bytes - am->nbytes;

    if (fits)
        memcpy(t->dst + position, am->payload, am->nbytes);

    if (t)
        count_down(token->ep, t, 1, false, fits ? AMPH_OK : AMPH_ERR_PROTO);
}

enum amph_status amph_am_carry_open(struct amph_am_ep *ep)
{
    static const struct {
        unsigned index;
        struct amph_am_entry entry;
    } rows[] = {
        { AMPH_AM_CARRY_PUT, { (void *)on_put, false, 2, 3, PUT_NARGS, NULL, "carry put" } },
        { AMPH_AM_CARRY_GET, { (void *)on_get, false, 1, 1, GET_NARGS, NULL, "carry get" } },
        { AMPH_AM_CARRY_DONE, { (void *)on_done, false, 1, 2, DONE_NARGS, NULL, "carry done" } },
        { AMPH_AM_CARRY_DATA, { (void *)on_data, false, 2, 2, DATA_NARGS, NULL, "carry data" } },
    };

    enum amph_status st = AMPH_OK;
    if (ep->carry)
        return AMPH_ERR_STATE;

    ep->carry = calloc(1, sizeof *ep->carry);
    if (!ep->carry)
        return AMPH_ERR_NOMEM;

    pthread_mutex_init(&ep->carry->lock, NULL);
    for (size_t i = 0; i < AMPH_COUNTOF(rows) && st == AMPH_OK; i++)
        st = amph_am_register(ep, rows[i].index, &rows[i].entry);

    return st;
}

void amph_am_carry_close(struct amph_am_ep *ep)
{
    struct amph_carry *c = ep->carry;

    if (!c)
        return;

    amph_conduit_regions_free(&c->regions);
    for (unsigned i = 0; i < BUCKETS; i++)
        while (c->bucket[i]) {
            struct transfer *t = c->bucket[i];

            c->bucket[i] = t->next;
            if (t->done)
                t->done->done(t->done, AMPH_ERR_STATE);

            free(t);
        }

    pthread_mutex_destroy(&c->lock);
    free(c);
    ep->carry = NULL;
}
