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
 *
 * The kernel runs the processes of a core in turn, in an order that yields do not change.  If roots
 * take turns, each process needs what the one before it posts, and any other order costs several
 * switches a call in place of one.  So a process that several times got its turn too early (it has
 * posted nothing since its last yield) naps: it sleeps until the process that must run before it
 * has yielded.  The next process of the core then wakes it, which puts it behind the one that has
 * yielded.  After a few naps the processes run in the order of the roots, and no turn is early.
 * Where naps do not help, they become rare.
 */
#include <sched.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "extended/coll/coll.h"

#define KEEP_NS 10000u
#define NAP_NS (100 * AMPH_NS_PER_US) /* messages are not answered meanwhile */

enum {
    LOOKS_BETWEEN_CLOCKS = 4,
    EARLY_TURNS = 16,    /* before each of the first naps */
    NAPS_A_DOUBLING = 8, /* naps after which twice as many early turns come before the next */
    DOUBLINGS_MAX = 9,
    SORTED_TURNS = 64 /* turns in time after which the next early ones make naps soon again */
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

/* ---- the order of a core's processes ---- */

/* Returns the process of this core that must run before this one, by its number in the
 * neighbourhood, plus 1: of those that have posted less in the team's operation, the one that has
 * posted most. 0: none. */
static uint32_t predecessor_in(const struct amph_coll *c, uint32_t core)
{
    const struct amph_share *share = &amph_colls()->share;
    const uint64_t own = c->slot.done[c->self].posted;
    uint64_t max = 0;
    uint32_t found = 0;

    for (uint32_t i = 0; i < c->nlocal; i++) {
        uint64_t posted = __atomic_load_n(&c->slot.done[i].posted, __ATOMIC_RELAXED);

        if (posted < own && (posted > max || !found) &&
            amph_coll_share_maybe_on(share, c->nbrhd_index[i], core) &&
            !amph_coll_share_napping(share, c->nbrhd_index[i])) {
            max = posted;
            found = c->nbrhd_index[i] + 1;
        }
    }

    return found;
}

static uint32_t predecessor(const struct amph_colls *all, uint32_t core)
{
    uint32_t found = 0;

    for (const struct amph_coll *c = all->all; c && !found; c = c->next)
        if (c->head && c->slot.base && c->count == 1)
            found = predecessor_in(c, core);

    return found;
}

/* This process is about to yield.  Does its turn come too early too often? */
static bool naps_now(struct amph_colls *all)
{
    const bool early = all->order.posts == all->order.posts_at_yield;

    all->order.posts_at_yield = all->order.posts;

    if (!early) {
        if (++all->order.in_time >= SORTED_TURNS) {
            all->order.in_time = 0;
            all->order.early = 0;
            all->order.naps = 0;
        }

        return false;
    }

    all->order.in_time = 0;
    if (++all->order.early < (uint32_t)EARLY_TURNS << all->order.naps / NAPS_A_DOUBLING)
        return false;

    all->order.early = 0;
    all->order.naps += all->order.naps / NAPS_A_DOUBLING < DOUBLINGS_MAX;
    return true;
}

/* Naps if this process has often got its turn too early. */
static void sort(struct amph_colls *all)
{
    if (amph_gex()->threaded || !naps_now(all))
        return;

    const int core = sched_getcpu();
    uint32_t other = core >= 0 ? predecessor(all, (uint32_t)core) : 0;

    if (other)
        amph_coll_share_nap(&all->share, other - 1, NAP_NS);
}

void amph_coll_after_yield(struct amph_colls *all)
{
    const int core = sched_getcpu();

    if (core >= 0)
        amph_coll_share_end_naps(&all->share, (uint32_t)core);
}

/* Polls without yielding, for KEEP_NS.  true: something completed. */
static bool keep(struct amph_colls *all)
{
    const uint32_t finished = __atomic_load_n(&all->finished, __ATOMIC_RELAXED);
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

    return false;
}

bool amph_coll_keep_core(struct amph_colls *all, struct amph_waiter *w)
{
    if (w->neighbours) {
        if (core_is_needed(all))
            sort(all);
        else if (keep(all))
            return true;
        else
            w->neighbours = false;
    }

    if (all->share.head)
        amph_coll_share_yields(&all->share);

    return false;
}
