/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending requests and replies: credits, waiting for room, and deferred replies.
 * Layer: am.  Thread rule: see ep.h; deferred replies belong to the owner of the poll lock.
 *
 * Freedom from deadlock.  Replies have their own lane, and a handler of a reply sends nothing, so a
 * process that polls can always receive replies.  A handler never waits: a reply without room is
 * deferred, and while any is deferred the endpoint receives replies only.  So a process that waits
 * for room polls, which frees room for others.
 */
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"

/* Sends to a peer whose conduit does not bound its lanes: a request uses a credit, and each message
 * returns the credits that are owed. */
static enum amph_status send_windowed(struct amph_peer *p, uint32_t peer, enum amph_lane lane,
                                      const struct amph_am *am, amph_am_send_fn send,
                                      struct amph_op *lc)
{
    struct amph_am m = *am;

    if (lane == AMPH_LANE_REQUEST && __atomic_load_n(&p->credits, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&p->wants_more, true, __ATOMIC_RELAXED);
        return AMPH_AGAIN;
    }

    if (lane == AMPH_LANE_REQUEST)
        /* before the send, because another thread may receive the reply at once */
        __atomic_sub_fetch(&p->credits, 1, __ATOMIC_RELAXED);

    uint32_t owed = __atomic_exchange_n(&p->owed, 0, __ATOMIC_RELAXED);

    bool wants_more = __atomic_load_n(&p->wants_more, __ATOMIC_RELAXED);

    m.aux = (uint16_t)(owed + am->aux) | (wants_more ? AMPH_AM_WANTS_MORE : 0);

    enum amph_status st = send(p->cx, peer, lane, &m, lc);

    if (st == AMPH_OK) {
        __atomic_store_n(&p->sent, p->sent + 1, __ATOMIC_RELAXED);
        if (AMPH_UNLIKELY(wants_more))
            __atomic_store_n(&p->wants_more, false, __ATOMIC_RELAXED);
    } else {
        __atomic_add_fetch(&p->owed, owed, __ATOMIC_RELAXED);
        if (lane == AMPH_LANE_REQUEST)
            __atomic_add_fetch(&p->credits, 1, __ATOMIC_RELAXED);
    }

    return st;
}

/* Counts a message before it is sent, because another thread may handle it at once. */
static void count_own(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am, uint32_t n)
{
    if (peer == ep->self && am->kind != AMPH_AM_INTERNAL)
        __atomic_add_fetch(ep->own_messages, n, __ATOMIC_RELAXED);
}

/* fn NULL: the peer's send function. */
static inline enum amph_status send_by(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                       const struct amph_am *am, amph_am_send_fn fn,
                                       struct amph_op *lc)
{
    struct amph_peer *p = &ep->peer[peer];
    enum amph_status st = AMPH_ERR_PEER;

    amph_ep_lock(ep);

    amph_am_send_fn send = __atomic_load_n(&p->send, __ATOMIC_RELAXED);

    if (AMPH_LIKELY(send != NULL)) {
        if (fn)
            send = fn;

        count_own(ep, peer, am, 1);
        if (!p->windowed)
            st = send(p->cx, peer, lane, am, lc);
        else
            st = send_windowed(p, peer, lane, am, send, lc);

        if (AMPH_UNLIKELY(st != AMPH_OK))
            count_own(ep, peer, am, UINT32_MAX);
    }

    amph_ep_unlock(ep);
    amph_ep_end_rest(ep);
    return st;
}

enum amph_status amph_ep_send(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                              const struct amph_am *am, struct amph_op *lc)
{
    return send_by(ep, peer, lane, am, NULL, lc);
}

enum amph_status amph_ep_send_by(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                 const struct amph_am *am, amph_am_send_fn fn, struct amph_op *lc)
{
    return send_by(ep, peer, lane, am, fn, lc);
}

enum amph_status amph_ep_send_wait(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                   amph_am_send_fn fn, unsigned flags, struct amph_op *lc)
{
    enum amph_status st = send_by(ep, peer, AMPH_LANE_REQUEST, am, fn, lc);

    if (AMPH_LIKELY(st == AMPH_OK)) {
        amph_count(AM_REQUESTS);
        return AMPH_OK;
    }

    if (st != AMPH_AGAIN || (flags & AMPH_AM_IMMEDIATE))
        return st;
    if (amph_ep_in_handler(ep))
        return AMPH_ERR_STATE;

    amph_count(AM_AGAIN);

    unsigned rounds = 0;

    do {
        amph_ep_room_wait(ep, &rounds);
        st = send_by(ep, peer, AMPH_LANE_REQUEST, am, fn, lc);
    } while (st == AMPH_AGAIN);

    if (st == AMPH_OK)
        amph_count(AM_REQUESTS);

    return st;
}

enum amph_status amph_am_request(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                 unsigned flags, struct amph_op *lc)
{
    if (AMPH_UNLIKELY(peer >= ep->max_peers))
        return AMPH_ERR_RANGE;

    const struct amph_peer *p = &ep->peer[peer];

    if (AMPH_UNLIKELY(am->kind >= AMPH_AM_LONG))
        return am->kind == AMPH_AM_LONG ? amph_ep_long_request(ep, peer, am, flags, lc)
                                        : AMPH_ERR_ARG;

    if (AMPH_LIKELY(p->fast != NULL) &&
        AMPH_LIKELY(p->fast(p->cx, peer, AMPH_LANE_REQUEST, am, lc) == AMPH_OK)) {
        amph_ep_end_rest(ep);
        amph_count(AM_REQUESTS);
        return AMPH_OK;
    }

    return amph_ep_send_wait(ep, peer, am, NULL, flags, lc);
}

static enum amph_status slow_reply(struct amph_token *token, const struct amph_am *am,
                                   unsigned flags, struct amph_op *lc)
{
    enum amph_status st = amph_ep_send(token->ep, token->peer, AMPH_LANE_REPLY, am, lc);

    if (st == AMPH_AGAIN && !(flags & AMPH_AM_IMMEDIATE)) {
        st = amph_ep_defer(token->ep, token->peer, am, false);
        if (lc)
            lc->done(lc, st);
    }

    if (st == AMPH_OK) {
        token->replied = true;
        amph_count(AM_REPLIES);
    }

    return st;
}

enum amph_status amph_am_reply(struct amph_token *token, const struct amph_am *am, unsigned flags,
                               struct amph_op *lc)
{
    const struct amph_peer *p = &token->ep->peer[token->peer];

    if (AMPH_UNLIKELY(!token->is_request || token->replied))
        return AMPH_ERR_STATE;
    if (AMPH_UNLIKELY(am->kind >= AMPH_AM_LONG))
        return am->kind == AMPH_AM_LONG ? amph_ep_long_reply(token, am, flags, lc) : AMPH_ERR_ARG;

    if (AMPH_LIKELY(p->fast != NULL) &&
        AMPH_LIKELY(p->fast(p->cx, token->peer, AMPH_LANE_REPLY, am, lc) == AMPH_OK)) {
        amph_ep_end_rest(token->ep);
        token->replied = true;
        amph_count(AM_REPLIES);
        return AMPH_OK;
    }

    return slow_reply(token, am, flags, lc);
}

/* ---- deferred messages ---- */

static void bounce_done(struct amph_op *op, enum amph_status st)
{
    free(AMPH_CONTAINER_OF(op, struct amph_bounce, op));
}

struct amph_bounce *amph_am_bounce_make(const void *src, size_t len_bytes)
{
    struct amph_bounce *b = malloc(sizeof *b + len_bytes);

    if (!b)
        amph_fatal("no memory for a copy of a reply of %zu bytes; give the process more memory",
                   len_bytes);

    b->op.done = bounce_done;
    memcpy(b->bytes, src, len_bytes);
    return b;
}

enum amph_status amph_ep_defer(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                               bool put_first)
{
    if (am->nargs > AMPH_AM_MAX_ARGS)
        return AMPH_ERR_ARG;

    struct amph_deferred *d = calloc(1, sizeof *d);

    if (!d)
        amph_fatal("no memory to defer a reply; give the process more memory");

    d->peer = peer;
    d->put_first = put_first;
    d->am = *am;
    if (am->nargs)
        memcpy(d->args, am->args, am->nargs * sizeof d->args[0]);

    d->am.args = d->args;
    if (am->payload && am->nbytes && (put_first || am->kind != AMPH_AM_LONG)) {
        d->payload = amph_am_bounce_make(am->payload, am->nbytes);
        d->am.payload = d->payload->bytes;
    }

    /* atomic: threads that are about to sleep read the first one */
    __atomic_store_n(ep->deferred_end, d, __ATOMIC_RELAXED);
    ep->deferred_end = &d->next;
    count_own(ep, peer, am, 1);
    return AMPH_OK;
}

static enum amph_status send_deferred(struct amph_am_ep *ep, struct amph_deferred *d)
{
    if (d->put_first) {
        const struct amph_rmem *segment = amph_ep_segment_of(ep, d->peer,
                                                             AMPH_AM_ROUTE_TO(d->am.flags));
        enum amph_status st = amph_ep_put_now(ep, d->peer, segment, d->am.dest - segment->base,
                                              d->payload->bytes, d->am.nbytes, &d->payload->op,
                                              NULL);

        if (st != AMPH_OK)
            return st;

        d->put_first = false;
        d->payload = NULL; /* its done function frees it */
        d->am.payload = NULL;
    }

    return amph_ep_send(ep, d->peer, AMPH_LANE_REPLY, &d->am, NULL);
}

unsigned amph_ep_flush_deferred(struct amph_am_ep *ep)
{
    unsigned n = 0;
    struct amph_deferred *d;

    while ((d = ep->deferred) != NULL && send_deferred(ep, d) != AMPH_AGAIN) {
        __atomic_store_n(&ep->deferred, d->next, __ATOMIC_RELAXED);
        if (!d->next)
            ep->deferred_end = &ep->deferred;

        count_own(ep, d->peer, &d->am, UINT32_MAX);
        free(d->payload);
        free(d);
        n++;
    }

    return n;
}

void amph_ep_drop_deferred(struct amph_am_ep *ep)
{
    struct amph_deferred *d;

    while ((d = ep->deferred) != NULL) {
        ep->deferred = d->next;
        free(d->payload);
        free(d);
    }

    ep->deferred_end = &ep->deferred;
}

void amph_ep_return_credits(struct amph_am_ep *ep, uint32_t peer)
{
    struct amph_am m = { .kind = AMPH_AM_INTERNAL, .handler = AMPH_AM_INTERNAL_CREDITS };

    if (amph_ep_send(ep, peer, AMPH_LANE_REPLY, &m, NULL) != AMPH_AGAIN)
        return;

    m.aux = (uint16_t)__atomic_exchange_n(&ep->peer[peer].owed, 0, __ATOMIC_RELAXED);
    amph_ep_defer(ep, peer, &m, false);
}
