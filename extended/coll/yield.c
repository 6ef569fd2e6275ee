/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Should a member that waits yield its core, where processes outnumber cores?  Layer: extended.
 * Thread rule: see coll.h.
 *
 * A yield takes a microsecond and helps only if the core's next process is one that the wait
 * depends on.  Each process publishes the core on which it waits (coll/share.h).  If the other
 * processes of this core are members that the collectives in progress do not await, the wait keeps
 * the core for KEEP_NS, which is about as long as the other cores take for their processes, and
 * polls.  It does so once: after that it yields, because what is published may be old, and because
 * processes of other jobs may want the core.
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
static bool awaits(struct amph_coll *c, uint32_t member)
{
    for (int i = 0; i < AMPH_BARRIERS; i++)
        if (amph_coll_barrier_awaits(&c->barrier[i], member))
            return true;

    if (!__atomic_load_n(&c->head, __ATOMIC_RELAXED))
        return false;
    if (!amph_coll_spin_try(&c->locked))
        return true;

    const struct amph_coll_op *op = c->head;
    bool yes = op && (op->flat || amph_coll_local_awaits(op, member));

    amph_coll_spin_unlock(&c->locked);
    return yes;
}

/* Does the team await a member that was last seen on this core, or one whose core is not known?
 * *here_p: the number of these members, if it awaits none of them.  Begins with the next member, which
 * often is the one. */
static bool awaits_here(struct amph_coll *c, uint32_t core, uint32_t *here_p)
{
    const struct amph_share *share = &amph_colls()->share;
    uint32_t here = 0;

    if (c->count > 1)
        return true; /* what other hosts have to do is not known here */

    for (uint32_t i = 1, member = c->self; i < c->nlocal; i++) {
        member = member + 1 < c->nlocal ? member + 1 : 0;

        if (!amph_coll_share_maybe_on(share, c->nbrhd_index[member], core))
            continue;
        if (awaits(c, member))
            return true;

        here++;
    }

    *here_p = here;
    return false;
}

/* Does another process of the job need this core, or perhaps need it?  Of a process that is in none
 * of the teams at work nothing is known. */
static bool core_is_needed(struct amph_colls *all)
{
    const int core = sched_getcpu();
    bool awaited = false;
    uint32_t known = 0; /* processes of this core in one team at work */

    if (core < 0 || !amph_coll_spin_try(&all->list_lock))
        return true;

    amph_coll_share_set_core(&all->share, (uint32_t)core);

    for (struct amph_coll *c = all->all; c && !awaited; c = c->next) {
        uint32_t here = 0;

        if (!__atomic_load_n(&c->active, __ATOMIC_RELAXED))
            continue;

        awaited = awaits_here(c, (uint32_t)core, &here);
        known = here > known ? here : known;
    }

    amph_coll_spin_unlock(&all->list_lock);
    return awaited || known < amph_coll_share_neighbours_on(&all->share, (uint32_t)core);
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
