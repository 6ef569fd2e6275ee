/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The teams of this process: the table by id, the naming of members, queries.  Layer: extended.
 * Thread rule: any thread, also handlers; making and dropping take the table's lock.  Client data
 * is the client's to guard.
 *
 * A team keeps 28 bytes of each member: its job rank (4) and how its segment is reached (24).  A
 * team of the same processes in the same order as the job shares the job's tables.
 */
#include "am/am.h"
#include "conduits/conduit.h"
#include "extended/team/team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* A gex_TM_t with its lowest bit set is a pair: the local endpoint's index from bit 16, the peer's
 * from bit 1. */
static bool is_pair(gex_TM_t tm)
{
    return (uintptr_t)tm & 1;
}

static struct amph_team *team_in(gex_TM_t tm)
{
    return AMPH_CONTAINER_OF(tm, struct amph_team, pub);
}

/* ---- the table ---- */

static struct amph_team **bucket_of(struct amph_teams *teams, uint64_t id)
{
    uint64_t h = id * UINT64_C(0x9e3779b97f4a7c15);
    return &teams->bucket[h >> 56];
}

struct amph_team *amph_gex_team_find_locked(struct amph_teams *teams, uint64_t id)
{
    struct amph_team *team = *bucket_of(teams, id);

    while (team && team->id != id)
        team = team->next;

    return team;
}

static void insert(struct amph_teams *teams, struct amph_team *team)
{
    struct amph_team **bucket = bucket_of(teams, team->id);

    pthread_mutex_lock(&teams->lock);
    team->next = *bucket;
    *bucket = team;
    teams->live++;
    pthread_mutex_unlock(&teams->lock);
}

static void take_out(struct amph_teams *teams, struct amph_team *team)
{
    struct amph_team **at = bucket_of(teams, team->id);

    while (*at != team)
        at = &(*at)->next;

    *at = team->next;
    teams->live--;
}

uint32_t amph_gex_team_number(struct amph_gex *g)
{
    uint32_t number;

    do
        number = __atomic_add_fetch(&g->teams->made, 1, __ATOMIC_RELAXED);
    while (number == 0);
    return number;
}

/* ---- making ---- */

static void need_memory(const void *p, uint32_t members)
{
    if (!p)
        amph_fatal("no memory for a team of %u members; give the process more memory", members);
}

static int by_word(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the ranks sorted by job rank; NULL: they are in that order. */
static const uint32_t *make_order(const uint32_t *member, uint32_t size)
{
    uint32_t i = 1;

    while (i < size && member[i - 1] <= member[i])
        i++;

    if (i >= size)
        return NULL;

    uint64_t *word = malloc((size_t)size * sizeof *word);
    uint32_t *order = malloc((size_t)size * sizeof *order);

    need_memory(word, size);
    need_memory(order, size);
    for (i = 0; i < size; i++)
        word[i] = (uint64_t)member[i] << 32 | i;

    qsort(word, size, sizeof *word, by_word);
    for (i = 0; i < size; i++)
        order[i] = (uint32_t)word[i];

    free(word);
    return order;
}

static struct amphora_reach reach_of(const struct amph_rmem *rmem)
{
    /* from address 0 on */
    bool own_all = amph_job.built_anywhere && rmem == &amph_gex()->rmem[amph_job.rank];

    if (amph_gex()->recorded || (!rmem->local && !own_all))
        return (struct amphora_reach){ 0 };

    return (struct amphora_reach){ .base = (uintptr_t)rmem->base,
                                   .len = (uintptr_t)rmem->len_bytes,
                                   .delta = (uintptr_t)rmem->local - (uintptr_t)rmem->base };
}

/* Fills in how the members' segments are reached: the job's entries, in the order of the team's
 * ranks. */
static void fill_reach(const struct amph_gex *g, struct amph_team *team)
{
    struct amphora_reach *reach = (struct amphora_reach *)team->pub.reach;

    for (uint32_t i = 0; reach != g->reach && i < team->pub.size; i++)
        reach[i] = reach_of(
            amph_gex_ep_rmem(g, team->member[i], team->member_ep ? team->member_ep[i] : 0));
}

struct amph_team *amph_gex_team_make(struct amph_gex *g, const struct amph_team_spec *spec)
{
    struct amph_team *team = calloc(1, sizeof *team);

    need_memory(team, spec->size);
    team->exchange = amph_gex_exchange_make(spec->size);
    need_memory(team->exchange, spec->size);
    team->pub = (struct amphora_team){ .reach = g->reach, .size = spec->size, .rank = spec->rank };
    team->id = spec->id;
    team->ep = spec->ep;
    team->flags = spec->flags;
    team->scratch = spec->scratch;
    team->member = spec->member;
    team->member_ep = spec->member_ep;
    team->slot = spec->slot;

    if (spec->member) {
        team->order = make_order(spec->member, spec->size);
        team->pub.reach = calloc(spec->size, sizeof *team->pub.reach);
        need_memory(team->pub.reach, spec->size);
        fill_reach(g, team);
    }

    enum amph_status st = amph_coll_team_open(team);

    if (st != AMPH_OK)
        amph_fatal("a team of %u members cannot be made: %s", spec->size, amph_status_text(st));

    insert(g->teams, team);
    return team;
}

void amph_gex_team_drop(struct amph_gex *g, struct amph_team *team)
{
    struct amph_teams *teams = g->teams;

    amph_coll_team_close(team);
    pthread_mutex_lock(&teams->lock);
    take_out(teams, team);
    pthread_mutex_unlock(&teams->lock);
    team->pub.size = 0; /* so that amph_gex_team_of detects a later use */
    if (team->pub.reach != g->reach)
        free((void *)team->pub.reach);

    team->pub.reach = NULL;
    free((void *)team->member);
    free((void *)team->member_ep);
    free((void *)team->slot);
    free((void *)team->order);
    amph_gex_exchange_free(team->exchange);

    /* from here on another thread that destroys teams may free it */
    pthread_mutex_lock(&teams->lock);

    struct amph_team **slot = &teams->destroyed[teams->next_destroyed++ % AMPH_TEAM_DESTROYED];
    struct amph_team *oldest = *slot;

    *slot = team;
    pthread_mutex_unlock(&teams->lock);
    free(oldest);
}

void amph_gex_teams_refresh(struct amph_gex *g)
{
    for (uint32_t i = 0; i < g->team.pub.size; i++)
        g->reach[i] = reach_of(&g->rmem[i]);

    pthread_mutex_lock(&g->teams->lock);
    for (int i = 0; i < AMPH_TEAM_BUCKETS; i++)
        for (struct amph_team *team = g->teams->bucket[i]; team; team = team->next)
            fill_reach(g, team);

    pthread_mutex_unlock(&g->teams->lock);
}

enum amph_status amph_gex_teams_open(struct amph_gex *g)
{
    g->teams = calloc(1, sizeof *g->teams);
    g->team.exchange = amph_gex_exchange_make(g->team.pub.size);
    if (!g->teams || !g->team.exchange)
        return AMPH_ERR_NOMEM;

    pthread_mutex_init(&g->teams->lock, NULL);
    insert(g->teams, &g->team);
    return amph_gex_exchange_open(g);
}

/* ---- naming members ---- */

struct amph_team *amph_gex_team_of(gex_TM_t tm, const char *call)
{
    amph_gex_need(call);
    if (is_pair(tm))
        amph_fatal("%s: a value of gex_TM_Pair stands for no team; pass a team", call);

    if (AMPH_UNLIKELY(tm == GEX_TM_INVALID || tm->size == 0))
        amph_fatal("%s: the team is not valid: it was never made or has been destroyed", call);

    return team_in(tm);
}

static void refuse_rank(gex_Rank_t rank, uint32_t size, const char *call)
{
    amph_fatal("%s: rank %u is out of range; the team has %u members", call, rank, size);
}

uint32_t amph_gex_team_peer(gex_TM_t tm, gex_Rank_t rank, const char *call)
{
    const struct amph_gex *g = amph_gex();

    if (AMPH_LIKELY(g && tm == &g->team.pub && rank < g->team.pub.size))
        return rank;

    if (is_pair(tm)) {
        if (rank >= amph_gex_need(call)->team.pub.size)
            refuse_rank(rank, g->team.pub.size, call);

        return rank;
    }

    const struct amph_team *team = amph_gex_team_of(tm, call);

    if (AMPH_UNLIKELY(rank >= team->pub.size))
        refuse_rank(rank, team->pub.size, call);

    return amph_gex_team_member(team, rank);
}

struct amph_dest amph_gex_team_dest(gex_TM_t tm, gex_Rank_t rank, const char *call)
{
    struct amph_gex *g = amph_gex_need(call);
    struct amph_dest d = { .peer = amph_gex_team_peer(tm, rank, call), .from = &g->ep };

    if (is_pair(tm)) {
        d.index = (uintptr_t)tm >> 1 & (GASNET_MAXEPS - 1);
        d.from = amph_gex_ep_find(g, (gex_EP_Index_t)((uintptr_t)tm >> 16));

        if (!d.from)
            amph_fatal(
                "%s: the pair %p was not made by gex_TM_Pair: this process has no endpoint %u",
                call, (void *)tm, (unsigned)((uintptr_t)tm >> 16));
    } else if (tm != &g->team.pub) {
        const struct amph_team *team = team_in(tm);

        d.index = team->member_ep ? team->member_ep[rank] : 0;
        d.from = team->ep;
    }

    d.rmem = amph_gex_ep_rmem(g, d.peer, d.index);
    return d;
}

gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank)
{
    const struct amph_team *team = amph_gex_team_of(tm, "gex_TM_TranslateRankToJobrank");

    if (rank >= team->pub.size)
        refuse_rank(rank, team->pub.size, "gex_TM_TranslateRankToJobrank");

    return amph_gex_team_member(team, rank);
}

gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank)
{
    const struct amph_team *team = amph_gex_team_of(tm, "gex_TM_TranslateJobrankToRank");

    if (!team->member)
        return jobrank < team->pub.size ? jobrank : GEX_RANK_INVALID;

    /* the first member whose job rank is not less */
    uint32_t low = 0;
    uint32_t high = team->pub.size;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        uint32_t rank = team->order ? team->order[mid] : mid;

        if (team->member[rank] < jobrank)
            low = mid + 1;
        else
            high = mid;
    }

    if (low == team->pub.size)
        return GEX_RANK_INVALID;

    uint32_t rank = team->order ? team->order[low] : low;

    return team->member[rank] == jobrank ? rank : GEX_RANK_INVALID;
}

gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags)
{
    const struct amph_team *team = amph_gex_team_of(tm, "gex_TM_TranslateRankToEP");

    if (flags)
        amph_fatal("gex_TM_TranslateRankToEP: flags are %#x and must be 0", (unsigned)flags);

    if (rank >= team->pub.size)
        refuse_rank(rank, team->pub.size, "gex_TM_TranslateRankToEP");

    return (gex_EP_Location_t){ .gex_rank = amph_gex_team_member(team, rank),
                                .gex_ep_index = team->member_ep ? team->member_ep[rank] : 0 };
}

gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index)
{
    if (!local_ep || remote_ep_index >= GASNET_MAXEPS)
        amph_fatal("gex_TM_Pair: endpoint index %u is out of range; a process has at most %d",
                   remote_ep_index, GASNET_MAXEPS);

    _Static_assert(GASNET_MAXEPS <= 32 && !(GASNET_MAXEPS & (GASNET_MAXEPS - 1)),
                   "indices of endpoints fit into the fields of a pair");
    return (gex_TM_t)(((uintptr_t)local_ep->index << 16) | ((uintptr_t)remote_ep_index << 1) | 1);
}

/* ---- queries ---- */

gex_Client_t gex_TM_QueryClient(gex_TM_t tm)
{
    return amph_gex_team_of(tm, "gex_TM_QueryClient")->ep->client;
}

gex_EP_t gex_TM_QueryEP(gex_TM_t tm)
{
    return amph_gex_team_of(tm, "gex_TM_QueryEP")->ep;
}

gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm)
{
    return amph_gex_team_of(tm, "gex_TM_QueryFlags")->flags;
}

gex_Rank_t gex_TM_QueryRank(gex_TM_t tm)
{
    return amph_gex_team_of(tm, "gex_TM_QueryRank")->pub.rank;
}

gex_Rank_t gex_TM_QuerySize(gex_TM_t tm)
{
    return amph_gex_team_of(tm, "gex_TM_QuerySize")->pub.size;
}

void gex_TM_SetCData(gex_TM_t tm, const void *val)
{
    amph_gex_team_of(tm, "gex_TM_SetCData")->cdata = val;
}

void *gex_TM_QueryCData(gex_TM_t tm)
{
    return (void *)amph_gex_team_of(tm, "gex_TM_QueryCData")->cdata;
}
