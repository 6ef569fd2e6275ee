/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A team's state for collectives, and the progress of all teams of the process.  Layer: extended.
 * Thread rule: see coll.h.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/boot.h"
#include "extended/coll/coll.h"

enum {
    LOOKS_WITHOUT_NEIGHBOURS = 4,
    POOL_KEEPS = 4
};
/* Most leaders of a team whose small collectives go through one of them, on one host and on several. */
enum {
    STAR_MAX = 512,
    STAR_MAX_OF_HOSTS = 33
};
#define EAGER_OF_ALL (1u << 20) /* of one operation, from all members */
#define POOL_BYTES \
    (AMPH_COLL_SEGMENT + (64u << 10)) /* kept by the pool; larger pieces come from malloc */

void amph_coll_spin_lock(uint32_t *lock)
{
    for (unsigned i = 1; !amph_coll_spin_try(lock); i++)
        if (i % (amph_job.oversubscribed ? 64 : 1024))
            amph_cpu_relax();
        else
            sched_yield();
}

bool amph_coll_wake(const struct amph_coll *c, uint32_t member)
{
    return member != c->self && amph_coll_share_wake(&amph_colls()->share, c->nbrhd_index[member]);
}

/* ---- temporary memory ---- */

void *amph_coll_pool_get(size_t bytes)
{
    struct amph_colls *all = amph_colls();
    void *buf = NULL;

    if (bytes <= POOL_BYTES) {
        amph_coll_spin_lock(&all->mail_lock);
        if (all->pool.count)
            buf = all->pool.buf[--all->pool.count];

        amph_coll_spin_unlock(&all->mail_lock);
        bytes = POOL_BYTES;
    }

    if (!buf)
        buf = aligned_alloc(AMPH_CACHE_LINE, amph_align_up(bytes, AMPH_CACHE_LINE));

    if (!buf)
        amph_fatal("no memory for %zu bytes of a collective; give the process more memory", bytes);

    return buf;
}

void amph_coll_pool_put(void *buf, size_t bytes)
{
    struct amph_colls *all = amph_colls();

    if (bytes <= POOL_BYTES) {
        amph_coll_spin_lock(&all->mail_lock);
        if (all->pool.count < POOL_KEEPS) {
            all->pool.buf[all->pool.count++] = buf;
            buf = NULL;
        }

        amph_coll_spin_unlock(&all->mail_lock);
    }

    free(buf);
}

/* ---- a team's neighbourhoods ---- */

/* The process's neighbourhood of a rank, identified by its lowest process. */
static uint32_t nbrhd_of(const struct amph_coll *c, uint32_t rank)
{
    return amph_gex()->leader[amph_coll_peer(c, rank)];
}

/* Numbers the neighbourhoods in the order of their lowest ranks.  If processes have several members
 * (by several endpoints), each member is a neighbourhood of its own and everything goes by
 * messages. false: no memory. */
static bool number_nbrhds(struct amph_coll *c)
{
    const uint32_t size = c->team->pub.size;
    uint32_t *number = malloc(amph_job.size * sizeof *number); /* by lowest process, plus 1 */

    c->nbrhd = malloc(size * sizeof *c->nbrhd);
    c->first = malloc(size * sizeof *c->first);

    if (!number || !c->nbrhd || !c->first) {
        free(number);
        return false;
    }

    for (uint32_t i = 0; i < size; i++)
        number[nbrhd_of(c, i)] = UINT32_MAX;

    c->in_blocks = true;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t *n = &number[nbrhd_of(c, i)];

        if (*n == UINT32_MAX || c->team->slot) {
            c->first[c->count] = i;
            *n = c->count++;
        } else if (c->nbrhd[i - 1] != *n) {
            c->in_blocks = false;
        }

        c->nbrhd[i] = *n;
    }

    c->mine = c->nbrhd[c->team->pub.rank];
    free(number);
    return true;
}

/* The host of a neighbourhood's leader. */
static uint32_t host_of(const struct amph_coll *c, uint32_t nbrhd)
{
    const struct amph_proc *proc = &amph_boot_job(amph_job.boot)->proc[amph_job.first];

    return proc[amph_coll_peer(c, c->first[nbrhd])].host;
}

/* Do several leaders share a host, and has some host more processes than cores?  The answer is the
 * same at all members.  The centre needs memory and time for each other leader. */
static bool star_is_faster(const struct amph_coll *c)
{
    uint32_t on_first = 0; /* leaders on the host of the first one */

    if (!amph_gex()->oversubscribed || c->count < 3 || c->count > STAR_MAX)
        return false;

    for (uint32_t i = 0; i < c->count; i++)
        on_first += host_of(c, i) == host_of(c, 0);

    if (on_first == c->count || c->count > STAR_MAX_OF_HOSTS)
        return on_first == c->count;

    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (host_of(c, i) == host_of(c, j))
                return true;

    return false;
}

/* Lists the members of this process's neighbourhood.  false: no memory. */
static bool list_local(struct amph_coll *c)
{
    const struct amph_gex *g = amph_gex();
    uint32_t index = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->team->pub.size; i++)
        count += c->nbrhd[i] == c->mine;

    c->local = malloc(count * sizeof *c->local);
    c->nbrhd_index = malloc(count * sizeof *c->nbrhd_index);
    if (!c->local || !c->nbrhd_index)
        return false;

    for (uint32_t i = 0; i < c->team->pub.size; i++) {
        uint32_t peer = amph_coll_peer(c, i);

        if (c->nbrhd[i] != c->mine)
            continue;

        if (i == c->team->pub.rank)
            c->self = c->nlocal;

        /* A team may list processes in any order; usually the next entry follows. */
        for (uint32_t tries = 0; g->nbrhd.info[index].gex_jobrank != peer && tries < g->nbrhd.count;
             tries++)
            index = (index + 1) % g->nbrhd.count;

        c->local[c->nlocal] = i;
        c->nbrhd_index[c->nlocal++] = index;
    }

    return true;
}

/* Members may be AMPH_COLL_FLOW operations behind, and keep that much of each other member meanwhile. */
static uint32_t eager_bytes(uint32_t size)
{
    const uint32_t share = EAGER_OF_ALL / size & ~(AMPH_COLL_EAGER - 1);
    const uint32_t wanted = share > AMPH_COLL_EAGER ? share : AMPH_COLL_EAGER;

    return wanted < AMPH_COLL_EAGER_MAX ? wanted : AMPH_COLL_EAGER_MAX;
}

static enum amph_status set_up(struct amph_coll *c)
{
    struct amph_colls *all = amph_colls();

    if (!number_nbrhds(c) || !list_local(c))
        return AMPH_ERR_NOMEM;

    c->star = star_is_faster(c);
    c->eager = eager_bytes(c->team->pub.size);
    for (uint32_t i = 0; i < AMPH_BARRIERS; i++)
        if (!amph_coll_barrier_open(c, i))
            return AMPH_ERR_NOMEM;

    if (c->nlocal == 1)
        return AMPH_OK;

    c->part_bytes = AMPH_SHARE_CELL_BYTES / (c->nlocal - 1);

    enum amph_status st = amph_coll_share_open(&all->share, c->team->id,
                                               amph_coll_peer(c, c->local[0]), c->nlocal, &c->slot);

    for (uint32_t i = 0; i < AMPH_BARRIERS && st == AMPH_OK; i++)
        c->barrier[i].line = c->slot.line + (size_t)i * (c->nlocal + 1);

    return st;
}

static void free_coll(struct amph_coll *c)
{
    for (uint32_t i = 0; i < AMPH_BARRIERS; i++)
        amph_coll_barrier_close(&c->barrier[i]);

    free(c->mail.area);
    free(c->mail.in);
    free(c->mail.out);
    free(c->nbrhd);
    free(c->first);
    free(c->local);
    free(c->nbrhd_index);
    free(c);
}

enum amph_status amph_coll_team_open(struct amph_team *team)
{
    struct amph_colls *all = amph_colls();
    struct amph_coll *c = calloc(1, sizeof *c);

    if (!c)
        return AMPH_ERR_NOMEM;

    c->team = team;
    c->cell = 1;
    amph_coll_spin_lock(&all->list_lock);

    enum amph_status st = set_up(c);

    if (st == AMPH_OK) {
        team->coll = c;
        c->next = all->all;
        all->all = c;
    }

    amph_coll_spin_unlock(&all->list_lock);
    if (st == AMPH_OK)
        amph_coll_mail_add_team(c);
    else
        free_coll(c);

    return st;
}

void amph_coll_team_close(struct amph_team *team)
{
    struct amph_colls *all = amph_colls();
    struct amph_coll *c = team->coll;
    struct amph_coll **at = &all->all;

    if (__atomic_load_n(&c->active, __ATOMIC_ACQUIRE))
        amph_fatal("a team of %u is destroyed while %u of its collectives are under way; wait for "
                   "their events first",
                   team->pub.size, c->active);

    amph_coll_mail_remove_team(c);
    amph_coll_spin_lock(&all->list_lock); /* from here on no thread makes progress on it */
    while (*at != c)
        at = &(*at)->next;

    *at = c->next;
    if (c->slot.base)
        amph_coll_share_close(&all->share, &c->slot);

    amph_coll_spin_unlock(&all->list_lock);
    for (struct amph_coll_op *op; (op = c->spare) != NULL;) {
        c->spare = op->next;
        free(op);
    }

    team->coll = NULL;
    free_coll(c);
}

/* ---- the process ---- */

enum amph_status amph_coll_open(struct amph_gex *g)
{
    g->colls = calloc(1, sizeof *g->colls);
    if (!g->colls)
        return AMPH_ERR_NOMEM;

    enum amph_status st = amph_coll_barriers_open(g);

    if (st == AMPH_OK)
        st = amph_coll_mail_open(g);

    amph_job.wait_step = amph_gex_wait_step;
    return st;
}

enum amph_status amph_coll_join(struct amph_gex *g, int32_t leader_pid, int32_t fd, bool own_fd)
{
    enum amph_status st = AMPH_OK;

    if (g->nbrhd.count > 1)
        st = amph_coll_share_map(&g->colls->share, g->nbrhd.count, g->nbrhd.self, leader_pid, fd,
                                 own_fd);

    if (st == AMPH_OK)
        st = amph_coll_team_open(&g->team);

    return st;
}

/* ---- progress ---- */

static void move_on(struct amph_coll *c)
{
    for (int i = 0; i < AMPH_BARRIERS; i++)
        amph_coll_barrier_progress(&c->barrier[i]);

    if (__atomic_load_n(&c->head, __ATOMIC_RELAXED) && amph_coll_spin_try(&c->locked)) {
        amph_coll_run(c);
        amph_coll_spin_unlock(&c->locked);
    }
}

static void progress(struct amph_colls *all)
{
    if (!amph_coll_spin_try(&all->list_lock))
        return; /* another thread makes progress */

    for (struct amph_coll *c = all->all; c; c = c->next)
        if (__atomic_load_n(&c->active, __ATOMIC_RELAXED))
            move_on(c);

    amph_coll_spin_unlock(&all->list_lock);
}

void amph_gex_progress(void)
{
    struct amph_gex *g = amph_gex();
    if (!g || AMPH_LIKELY(!__atomic_load_n(&g->colls->active, __ATOMIC_RELAXED)))
        return;

    progress(g->colls);
}

/* Has a look at the shared memory of collectives.  true: something completed. */
static bool look(struct amph_colls *all)
{
    const uint32_t finished = __atomic_load_n(&all->finished, __ATOMIC_RELAXED);

    progress(all);
    return __atomic_load_n(&all->finished, __ATOMIC_RELAXED) != finished;
}

/* Has nothing happened that could complete a collective?  Without neighbours only messages do, and the last
 * poll has found none; neighbours in other collectives in progress are looked at every fourth time. */
static bool nothing_new(const struct amph_waiter *w)
{
    return !w->neighbours && !amph_job.oversubscribed && w->phase == AMPH_WAITER_SPINS &&
           w->rounds % LOOKS_WITHOUT_NEIGHBOURS;
}

/* Would the next step of this wait yield because processes outnumber cores? */
static bool yields(const struct amph_waiter *w)
{
    return amph_job.oversubscribed && w->phase == AMPH_WAITER_SPINS &&
           amph_job.wait_mode == AMPH_WAIT_ADAPTIVE;
}

void amph_gex_wait_step(struct amph_waiter *w)
{
    struct amph_gex *g = amph_gex();
    struct amph_colls *all = g->colls;

    if (AMPH_LIKELY(!__atomic_load_n(&all->active, __ATOMIC_RELAXED)) || nothing_new(w)) {
        amph_am_wait_step(g->ep.am, w);
        return;
    }

    bool sleeps = w->phase == AMPH_WAITER_SLEEPS;

    if (sleeps)
        amph_coll_share_sleep(&all->share);

    __atomic_store_n(&all->no_room, false, __ATOMIC_RELAXED);
    if (AMPH_UNLIKELY(amph_coll_share_naps(&all->share)))
        amph_coll_after_yield(all);

    if (look(all) || (yields(w) && amph_coll_keep_core(all, w))) {
        amph_am_wait_found(w);
    } else {
        if (sleeps && __atomic_load_n(&all->no_room, __ATOMIC_RELAXED)) {
            const struct timespec nap = { 0, (long)(50 * AMPH_NS_PER_US) };

            amph_am_poll(g->ep.am);
            nanosleep(&nap, NULL);
        } else {
            amph_am_wait_step(g->ep.am, w);
        }
    }

    if (sleeps)
        amph_coll_share_awake(&all->share);
}

void amph_gex_found_done(struct amph_gex *g, bool late)
{
    const uint32_t left = __atomic_load_n(&g->found_done, __ATOMIC_RELAXED);

    if (!late && left != 0) {
        __atomic_store_n(&g->found_done, left - 1, __ATOMIC_RELAXED);
        return;
    }

    amph_am_poll(g->ep.am);
    amph_gex_has_polled(g);
}
