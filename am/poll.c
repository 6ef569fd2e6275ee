/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making progress.  Layer: am.  Thread rule: the poll lock is tried, never waited for; a poll from inside a handler does nothing.
 */
#include <sched.h>

#include "am/ep.h"

enum { IDLE_BEFORE_YIELD = 16, IDLE_BETWEEN_TICKS = 4096 };

unsigned amph_ep_poll_once(struct amph_am_ep *ep)
{
    unsigned n = 0, lanes = 1u << AMPH_LANE_REQUEST | 1u << AMPH_LANE_REPLY;
    if (AMPH_UNLIKELY(!amph_ep_enter(ep)))
        return 0;
    if (AMPH_UNLIKELY(ep->deferred != NULL)) {
        n = amph_ep_flush_deferred(ep);
        if (ep->deferred)
            lanes = 1u << AMPH_LANE_REPLY;
    }
    for (unsigned i = 0; i < ep->nactive; i++) {
        struct amph_cx *cx = ep->active[i];
        n += cx->ops->progress(cx, lanes, AMPH_AM_BUDGET);
        if (AMPH_UNLIKELY(cx->ops->flush != amph_conduit_no_flush)) {
            amph_ep_lock(ep);
            cx->ops->flush(cx);
            amph_ep_unlock(ep);
        }
    }
    amph_ep_leave(ep);
    if (AMPH_UNLIKELY(n && ep->threaded))
        amph_ep_announce(ep);
    return n;
}

void amph_ep_tick(struct amph_am_ep *ep)
{
    if (!ep->tick || __atomic_exchange_n(&ep->in_tick, true, __ATOMIC_ACQUIRE))
        return;
    ep->tick(ep);
    __atomic_store_n(&ep->in_tick, false, __ATOMIC_RELEASE);
}

/* A client that polls in a loop: it leaves its core to others where processes outnumber cores, and looks at slow sources at times. */
static void idle(struct amph_am_ep *ep)
{
    if (amph_ep_in_handler(ep))
        return;
    unsigned polls = __atomic_load_n(&ep->idle_polls, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&ep->idle_polls, polls, __ATOMIC_RELAXED);
    if (amph_am_crowded() && polls > IDLE_BEFORE_YIELD)
        sched_yield();
    if (AMPH_UNLIKELY(polls % IDLE_BETWEEN_TICKS == 0))
        amph_ep_tick(ep);
}

unsigned amph_am_poll(struct amph_am_ep *ep)
{
    unsigned n = amph_ep_poll_once(ep);
    if (n)
        __atomic_store_n(&ep->idle_polls, 0, __ATOMIC_RELAXED);
    else
        idle(ep);
    return n;
}
