/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivery: checks messages from conduits and calls their handlers.  Layer: am.  Thread rule:
 * upcalls are made inside progress, under the poll lock.
 *
 * Indirect calls of one message, from sender to handler: am_send (from amph_am_request); progress
 * (from amph_am_poll), on_am (from the conduit), the handler.  A client's handler with arguments
 * needs one more, for the row of its number of arguments (dispatch.c).
 */
#include <string.h>

#include "am/check.h"
#include "am/ep.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/emulate.h"

static void drop(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am, const char *why)
{
    amph_count_exact(DROP_MALFORMED, 1);
    if (!__atomic_exchange_n(&amph_job.drop_warned, true, __ATOMIC_RELAXED))
        amph_warn("%s: dropped a message of peer %u: %s (kind %u, handler %u, %u arguments, %u "
                  "bytes); further ones are only "
                  "counted",
                  ep->cfg.name, peer, why, am->kind, am->handler, am->nargs, am->nbytes);
}

/* Returns the destination of a long, or NULL if it is not inside this process's segment. */
static void *long_dest(struct amph_am_ep *ep, const struct amph_am *am)
{
    const struct amph_am_context *c = ep->context[AMPH_AM_ROUTE_TO(am->flags)]; /* [0] is NULL */
    uint8_t *base = c ? c->segment_base : ep->segment_base;
    uint64_t bytes = c ? c->segment_bytes : ep->segment_bytes;
    uint64_t offset = am->dest - (uint64_t)(uintptr_t)base;

    if (am->nbytes > bytes || offset > bytes - am->nbytes)
        return NULL;

    return (void *)((uintptr_t)base + offset); /* a segment may begin at address 0 */
}

static inline void call(struct amph_token *token, const struct amph_hot *hot,
                        const struct amph_am *am)
{
    if (am->kind == AMPH_AM_SHORT && am->nargs == 0)
        ((void (*)(struct amph_token *))hot->fn)(token);
    else if (am->kind == AMPH_AM_SHORT)
        amph_am_call_short[am->nargs](hot->fn, token, am->args);
    else
        amph_am_call_data[am->nargs](hot->fn, token, (void *)(uintptr_t)am->payload, am->nbytes,
                                     am->args);
}

static inline void run_checked(struct amph_token *token, const struct amph_hot *hot,
                               const struct amph_am *am)
{
    amph_am_context_enter(token);
    call(token, hot, am);
    amph_am_context_leave(token);
}

static inline void run(struct amph_token *token, const struct amph_hot *hot,
                       const struct amph_am *am)
{
    if (!hot->client_form)
        ((amph_am_fn)hot->fn)(token, am);
    else if (AMPH_CHECKS)
        run_checked(token, hot, am);
    else
        call(token, hot, am);
}

/* Delivers a long: copies a packed payload to the segment, and passes its address to the
 * handler. */
static void deliver_long(struct amph_token *token, const struct amph_hot *hot,
                         const struct amph_am *am)
{
    struct amph_am placed = *am;

    if (am->nbytes == 0) {
        /* no data there, but a client may compare the address */
        placed.payload = (void *)(uintptr_t)am->dest;
    } else {
        void *dest = long_dest(token->ep, am);

        if (!dest) {
            drop(token->ep, token->peer, am, "its destination lies outside the segment");
            return;
        }

        if (am->kind == AMPH_AM_LONG_PACKED)
            memcpy(dest, am->payload, am->nbytes);

        placed.payload = dest;
    }

    placed.kind = AMPH_AM_LONG;
    token->am = &placed;
    amph_count(AM_RECEIVED);
    run(token, hot, &placed);
}

static const char *refusal(const struct amph_hot *hot, const struct amph_am *am, unsigned lane)
{
    if (am->kind > AMPH_AM_LONG_PACKED || am->nargs > AMPH_AM_MAX_ARGS)
        return "there is no such kind of message";
    if (!hot->fn)
        return "no handler has this index";
    if (!(hot->accept & amph_accept_bit(am->kind, lane)))
        return "its handler was not registered for this kind or direction";

    return "its handler expects another number of arguments";
}

static void refuse(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am, const char *why)
{
    drop(ep, peer, am, why);
    if (ep->refused)
        ep->refused(ep, peer, am, why);
}

/* Delivers a message to a handler: its rows in the context's two tables. */
static inline void deliver_to(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                              const struct amph_am *am, const struct amph_hot *hot,
                              const struct amph_am_entry *entry)
{
    if (AMPH_UNLIKELY(am->kind > AMPH_AM_LONG_PACKED || am->nargs > AMPH_AM_MAX_ARGS ||
                      !(hot->accept & amph_accept_bit(am->kind, lane)) ||
                      !(hot->counts >> am->nargs & 1))) {
        refuse(ep, peer, am, refusal(hot, am, lane));
        return;
    }

    struct amph_token token = { ep, peer, am, entry, lane == AMPH_LANE_REQUEST, false };

    if (AMPH_UNLIKELY(am->kind >= AMPH_AM_LONG)) {
        deliver_long(&token, hot, am);
        return;
    }

    amph_count(AM_RECEIVED);
    run(&token, hot, am);
}

static __attribute__((noinline)) void deliver_routed(struct amph_am_ep *ep, uint32_t peer,
                                                     enum amph_lane lane, const struct amph_am *am)
{
    const unsigned to = AMPH_AM_ROUTE_TO(am->flags);
    const struct amph_am_context *c = __atomic_load_n(&ep->context[to], __ATOMIC_ACQUIRE);

    if (to && !c)
        refuse(ep, peer, am, "this process has no such endpoint for messages");
    else
        deliver_to(ep, peer, lane, am, c ? &c->hot[am->handler] : &ep->hot[am->handler],
                   c ? &c->entry[am->handler] : &ep->entry[am->handler]);
}

static inline void deliver(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                           const struct amph_am *am)
{
    if (AMPH_UNLIKELY(am->flags))
        deliver_routed(ep, peer, lane, am);
    else
        deliver_to(ep, peer, lane, am, &ep->hot[am->handler], &ep->entry[am->handler]);
}

/* What a message says of credits: it gives some back, and its sender may want more than it has. */
static void take_credits(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am)
{
    struct amph_peer *p = &ep->peer[peer];
    uint32_t now = __atomic_add_fetch(&p->credits, am->aux & ~AMPH_AM_WANTS_MORE, __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(now > AMPH_AM_WINDOW_MAX)) {
        __atomic_store_n(&p->credits, AMPH_AM_WINDOW_MAX, __ATOMIC_RELAXED);
        drop(ep, peer, am, "it gives back more credits than were used");
    }

    if (am->aux & AMPH_AM_WANTS_MORE && p->window < AMPH_AM_WINDOW_MAX) {
        __atomic_add_fetch(&p->owed, AMPH_AM_WINDOW, __ATOMIC_RELAXED);
        p->window += AMPH_AM_WINDOW;
    }
}

/* Delivers a message of a peer whose conduit does not bound its lanes: the message may return
 * credits, and a request uses one until it is returned. */
static __attribute__((noinline)) void on_windowed(struct amph_am_ep *ep, uint32_t peer,
                                                  enum amph_lane lane, const struct amph_am *am)
{
    struct amph_peer *p = &ep->peer[peer];

    if (am->aux)
        take_credits(ep, peer, am);

    if (am->kind == AMPH_AM_INTERNAL && amph_ep_lost_take(ep, peer, am))
        return;

    if (am->kind != AMPH_AM_INTERNAL || am->handler < AMPH_EMULATE_FIRST)
        __atomic_store_n(&p->received, p->received + 1, __ATOMIC_RELAXED);

    if (am->kind == AMPH_AM_INTERNAL) {
        if (am->handler >= AMPH_EMULATE_FIRST && p->cx == ep->cx[AMPH_CX_EMULATED])
            amph_conduit_emulate_take(p->cx, peer, lane, am);

        return;
    }

    if (lane == AMPH_LANE_REQUEST)
        /* before the handler, whose reply returns the credit */
        __atomic_add_fetch(&p->owed, 1, __ATOMIC_RELAXED);

    deliver(ep, peer, lane, am);
    if (__atomic_load_n(&p->owed, __ATOMIC_RELAXED) >= AMPH_AM_WINDOW / 2)
        amph_ep_return_credits(ep, peer);
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct amph_am_ep *ep = up;

    if (AMPH_UNLIKELY(ep->windowed) && ep->peer[peer].windowed)
        on_windowed(ep, peer, lane, am);
    else
        deliver(ep, peer, lane, am);

    if (AMPH_UNLIKELY(peer == ep->self) && am->kind != AMPH_AM_INTERNAL)
        __atomic_sub_fetch(ep->own_messages, 1, __ATOMIC_RELAXED);
}

static void on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    struct amph_am_ep *ep = up;

    if (peer < ep->max_peers && ep->peer[peer].cx && ep->peer[peer].cx == ep->cx[AMPH_CX_EMULATED])
        amph_conduit_emulate_peer_gone(ep->peer[peer].cx, peer);

    amph_am_peer_failed(up, peer, st, why);
}

const struct amph_upcalls amph_am_upcalls = { on_am, on_peer_error };
