/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Should a member that waits yield its core, where processes outnumber cores?  Layer: extended.
 * Thread rule: see coll.h.
 *
 * A yield takes a microsecond and helps only if the core's next process is one that the wait
 * depends on.  Each process publishes the core on which it waits (coll/share.h).  If no member that
 * the collectives in progress await was last seen on this core, the wait keeps the core for
 * KEEP_NS, which is about as long as the other cores take for their processes, and polls.  It does
 * so once: after that it yields, because what is published may be old, and because processes that
 * are no members may want the core.
 */
#include <sched.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "extended/coll/coll.h"

#define KEEP_NS 3000u

enum {
    LOOKS_BETWEEN_CLOCKS = 4
};

/* Does an operation of the team await this member? */
static bool awaits(struct amph_coll *c, uint32_t member, uint64_t wanted)
{
    for (int i = 0; i < AMPH_BARRIERS; i++)
        if (amph_coll_barrier_awaits(&c->barrier[i], member))
            return true;

    if (!__atomic_load_n(&c->head, __ATOMIC_RELAXED))
        return false;
    if (!amph_coll_spin_try(&c->locked))
        return true;

    const struct amph_coll_op *op = c->head;
    bool yes = op && (op->flat || amph_coll_local_awaits(op, member, wanted));

    amph_coll_spin_unlock(&c->locked);
    return yes;
}

/* Does the team await a member that was last seen on this core, or one whose core is not known? */
static bool awaits_here(struct amph_coll *c, uint32_t core)
{
    const struct amph_share *share = &amph_colls()->share;

    if (c->count > 1)
        return true; /* what other hosts have to do is not known here */
    if (c->nlocal == 1)
        return false;

    uint64_t wanted = amph_coll_local_wanted(c);

    for (uint32_t i = 0; i < c->nlocal; i++) {
        if (i == c->self)
            continue;

        uint32_t seen = amph_coll_share_core(share, c->nbrhd_index[i]);

        if ((seen == core || seen == AMPH_SHARE_NO_CORE) && awaits(c, i, wanted))
            return true;
    }

    return false;
}

/* Does another process need this core before the wait can end? */
static bool core_is_needed(struct amph_colls *all)
{
    const int core = sched_getcpu();
    bool needed = core < 0 || !amph_coll_spin_try(&all->list_lock);

    if (needed)
        return true;

    amph_coll_share_set_core(&all->share, (uint32_t)core);
    for (struct amph_coll *c = all->all; c && !needed; c = c->next)
        needed = __atomic_load_n(&c->active, __ATOMIC_RELAXED) && awaits_here(c, (uint32_t)core);

    amph_coll_spin_unlock(&all->list_lock);
    return needed;
}

bool amph_coll_keep_core(struct amph_colls *all, struct amph_waiter *w)
{
    const uint32_t finished = __atomic_load_n(&all->finished, __ATOMIC_RELAXED);

    if (!w->neighbours || core_is_needed(all))
        return false;

    const uint64_t start_ns = amph_now_ns();

    do {
        for (int i = 0; i < LOOKS_BETWEEN_CLOCKS; i++) {
            amph_gex_progress();
            if (__atomic_load_n(&all->finished, __ATOMIC_RELAXED) != finished)
                return true;

            amph_cpu_relax();
        }

        amph_am_poll_in_wait(amph_gex()->ep.am);
    } while (amph_now_ns() - start_ns < KEEP_NS);

    w->neighbours = false;
    return false;
}
