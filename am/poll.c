/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making progress.  Layer: am.  Thread rule: the poll lock is tried, never waited for; a poll from
 * inside a handler does nothing.
 */
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "base/platform.h"
#include "conduits/conduit.h"

enum {
    IDLE_BEFORE_YIELD = 16,
    IDLE_BETWEEN_YIELDS = 64,
    IDLE_BETWEEN_TICKS = 4096,
    LOOKS_BEFORE_YIELD = 3,
    SOON_LOOKS = 2, /* before a yield after something was sent */
    SOON_YIELDS = 2,
    BUSY_MESSAGES = 16,     /* a poll that handles this many may have left some */
    BUSY_MESSAGES_MAX = 256 /* limit of one call */
};

/* Where processes outnumber cores, of a process whose networks have nothing: how long it looks at them in each
 * poll, after what time it yields, first and later, and the rest between looks after that. */
#define LOOK_NS AMPH_NS_PER_US
#define REST_NS (4 * AMPH_NS_PER_US)
#define FIRST_YIELD_NS (4 * AMPH_NS_PER_US)
#define LATER_YIELD_NS (8 * AMPH_NS_PER_US)
/* The same of a process that has sent something and probably waits for an answer, for a few yields. */
#define SOON_REST_NS AMPH_NS_PER_US
#define SOON_YIELD_NS (2 * AMPH_NS_PER_US)

static void flush_all(struct amph_am_ep *ep)
{
    amph_ep_lock(ep);
    for (unsigned i = 0; i < ep->nactive; i++)
        ep->active[i].cx->ops->flush(ep->active[i].cx);

    amph_ep_unlock(ep);
}

/* One round of progress; of shared memory only if `networks` is false and no reply waits for room. */
static inline unsigned poll_some(struct amph_am_ep *ep, bool networks)
{
    unsigned n = 0;
    unsigned lanes = 1u << AMPH_LANE_REQUEST | 1u << AMPH_LANE_REPLY;

    if (AMPH_UNLIKELY(!amph_ep_enter(ep)))
        return 0;

    if (AMPH_UNLIKELY(ep->deferred != NULL)) {
        networks = true;
        n = amph_ep_flush_deferred(ep);
        if (ep->deferred)
            lanes = 1u << AMPH_LANE_REPLY;
    }

    for (unsigned i = 0; i < ep->nactive; i++)
        if (networks || ep->active[i].cx == ep->cx[AMPH_CX_SMP])
            n += ep->active[i].progress(ep->active[i].cx, lanes, AMPH_AM_BUDGET);

    /* what handlers have sent */
    if (AMPH_UNLIKELY(n && ep->flushes))
        flush_all(ep);

    amph_ep_leave(ep);
    if (AMPH_UNLIKELY(n && ep->threaded))
        amph_ep_announce(ep);

    return n;
}

static inline unsigned poll_once(struct amph_am_ep *ep)
{
    return poll_some(ep, true);
}

unsigned amph_ep_poll_once(struct amph_am_ep *ep)
{
    return poll_once(ep);
}

unsigned amph_am_poll_in_wait(struct amph_am_ep *ep)
{
    return poll_once(ep);
}

void amph_ep_tick(struct amph_am_ep *ep)
{
    if (ep->audit)
        amph_ep_lost_tick(ep);

    if (!ep->tick || __atomic_exchange_n(&ep->in_tick, true, __ATOMIC_ACQUIRE))
        return;

    ep->tick(ep);
    __atomic_store_n(&ep->in_tick, false, __ATOMIC_RELEASE);
}

/* Should a poll yield where there is no network?  If processes outnumber cores, a client that polls in a loop
 * yields.  A switch to another process costs as much as 50 polls of shared memory, and the other one may be polling,
 * too.  So IDLE_BETWEEN_YIELDS polls lie between yields, and not more: the kernel's scheduler may run a process on
 * that yields, and a process that has something to do waits until all others have left its core.  After it has sent
 * something (amph_ep_end_rest sets `polls` to 0), a process probably waits for an answer, so that the first yields come
 * sooner, after polls whose number doubles. */
static inline bool yields_at(const struct amph_am_ep *ep, unsigned polls)
{
    bool power_of_2 = (polls & (polls - 1)) == 0;

    return !ep->networked && polls >= IDLE_BEFORE_YIELD &&
           (power_of_2 || polls % IDLE_BETWEEN_YIELDS == 0);
}

static void long_idle(struct amph_am_ep *ep, unsigned polls)
{
    if (amph_ep_in_handler(ep))
        return;

    if (amph_am_oversubscribed() && yields_at(ep, polls))
        sched_yield();

    if (polls % IDLE_BETWEEN_TICKS == 0)
        amph_ep_tick(ep);
}

/* For a client that polls in a loop: yields if processes outnumber cores, and polls slow sources from
 * time to time. */
static inline void idle(struct amph_am_ep *ep)
{
    unsigned polls = __atomic_load_n(&ep->idle_polls, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&ep->idle_polls, polls, __ATOMIC_RELAXED);
    if (AMPH_UNLIKELY(polls % IDLE_BETWEEN_TICKS == 0 ||
                      (amph_am_oversubscribed() && yields_at(ep, polls))))
        long_idle(ep, polls);
}

/* A client that computes between its polls may have many messages by now, and its peers wait for room:
 * polls until little is left. */
static unsigned poll_busy(struct amph_am_ep *ep, unsigned n)
{
    unsigned all = n;

    while (n >= BUSY_MESSAGES && all < BUSY_MESSAGES_MAX) {
        n = poll_once(ep);
        all += n;
    }

    return all;
}

/* Should a process yield whose networks have had nothing for idle_ns?  Messages of processes on other cores
 * often come in the first microseconds, and then one switch of processes serves several of them. */
static bool yields_now(const struct amph_rest *rest, unsigned soon, uint64_t now_ns,
                       uint64_t idle_ns)
{
    const unsigned looks = __atomic_load_n(&rest->looks, __ATOMIC_RELAXED);
    const uint64_t turn_ns = now_ns - __atomic_load_n(&rest->yield_ns, __ATOMIC_RELAXED);

    if (soon)
        return looks >= SOON_LOOKS && turn_ns >= SOON_YIELD_NS;
    if (looks < LOOKS_BEFORE_YIELD)
        return false;

    return turn_ns < idle_ns ? turn_ns >= LATER_YIELD_NS : idle_ns >= FIRST_YIELD_NS;
}

/* The networks had nothing: yields, or lets the next polls rest, at first for half as long as has passed since the
 * last message, so that a message is found after at most one and a half times the time. */
static void after_empty_look(struct amph_rest *rest, uint64_t now_ns)
{
    const uint64_t idle_ns = now_ns - __atomic_load_n(&rest->found_ns, __ATOMIC_RELAXED);
    unsigned soon = __atomic_load_n(&rest->soon, __ATOMIC_RELAXED);

    if (__atomic_load_n(&rest->sent, __ATOMIC_RELAXED)) {
        __atomic_store_n(&rest->sent, false, __ATOMIC_RELAXED);
        __atomic_store_n(&rest->soon, soon = SOON_YIELDS, __ATOMIC_RELAXED);
        __atomic_store_n(&rest->looks, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&rest->yield_ns, now_ns, __ATOMIC_RELAXED);
    }

    __atomic_store_n(&rest->looks, __atomic_load_n(&rest->looks, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);

    if (yields_now(rest, soon, now_ns, idle_ns)) {
        sched_yield();
        __atomic_store_n(&rest->looks, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&rest->soon, soon - (soon > 0), __ATOMIC_RELAXED);
        __atomic_store_n(&rest->yield_ns, amph_now_ns(), __ATOMIC_RELAXED);
        return;
    }

    uint64_t rest_ns = idle_ns < FIRST_YIELD_NS ? idle_ns / 2 : REST_NS;

    if (soon)
        rest_ns = SOON_REST_NS;

    if (soon || idle_ns >= LOOK_NS)
        __atomic_store_n(&rest->until_ns, now_ns + rest_ns, __ATOMIC_RELAXED);
}

/* After a message nothing is awaited until something is sent. */
static void after_message(struct amph_rest *rest, uint64_t now_ns)
{
    __atomic_store_n(&rest->found_ns, now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&rest->looks, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&rest->soon, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&rest->sent, false, __ATOMIC_RELAXED);
    __atomic_store_n(&rest->until_ns, 0, __ATOMIC_RELAXED);
}

/* A poll where processes outnumber cores.  It reads the clock, because a look at a network is a system call,
 * which takes five to ten times as long. */
static unsigned poll_with_rests(struct amph_am_ep *ep)
{
    const uint64_t now_ns = amph_now_ns();
    const bool rests = now_ns < __atomic_load_n(&ep->rest.until_ns, __ATOMIC_RELAXED);
    unsigned n = poll_some(ep, !rests);

    if (n) {
        after_message(&ep->rest, now_ns);
    } else if (!rests && !amph_ep_in_handler(ep)) {
        after_empty_look(&ep->rest, now_ns);
    }

    return n;
}

unsigned amph_am_poll(struct amph_am_ep *ep)
{
    const bool may_rest = amph_am_oversubscribed() && ep->networked;
    unsigned n = AMPH_UNLIKELY(may_rest) ? poll_with_rests(ep) : poll_once(ep);

    if (AMPH_LIKELY(n == 0))
        idle(ep);
    else if (__atomic_load_n(&ep->idle_polls, __ATOMIC_RELAXED) != IDLE_BETWEEN_YIELDS)
        __atomic_store_n(&ep->idle_polls, IDLE_BETWEEN_YIELDS, __ATOMIC_RELAXED);

    return AMPH_UNLIKELY(n >= BUSY_MESSAGES) ? poll_busy(ep, n) : n;
}
