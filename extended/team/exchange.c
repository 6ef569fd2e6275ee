/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather over a team: am/gather.h's algorithm, with messages that name the team.
 *
 * Layer: extended.  Thread rule: see team.h.
 *
 * amph_am_gather_run returns when all chunks for this member have arrived, so nothing of an
 * exchange is in flight to a member that has left it, and the team may be destroyed then.
 */
#include <pthread.h>
#include <stdlib.h>

#include "am/am.h"
#include "base/settings/counters.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "extended/team/team.h"

enum {
    ARG_ID_LOW = 0,
    ARG_ID_HIGH,
    ARG_GATHER, /* the first of am/gather.h's arguments */
    NARGS = ARG_GATHER + AMPH_GATHER_ARGS
};

/* Delivers a chunk to its team's exchange. */
static void on_exchange(struct amph_token *token, const struct amph_am *am)
{
    struct amph_teams *teams = amph_gex() ? amph_gex()->teams : NULL;

    if (!teams) {
        amph_count_exact(DROP_MALFORMED, 1);
        return;
    }

    uint64_t id = (uint32_t)am->args[ARG_ID_LOW] | (uint64_t)(uint32_t)am->args[ARG_ID_HIGH] << 32;

    /* the lock keeps the team from being destroyed meanwhile */
    pthread_mutex_lock(&teams->lock);

    struct amph_team *team = amph_gex_team_find_locked(teams, id);

    if (team)
        amph_am_gather_deliver(team->exchange, am->args + ARG_GATHER, am);
    else
        amph_count_exact(DROP_MALFORMED, 1);

    pthread_mutex_unlock(&teams->lock);
}

static void route(void *arg, uint32_t to, struct amph_gather_route *route_p)
{
    const struct amph_team *team = arg;
    uint64_t id = amph_gex_team_id_at(team, to);

    *route_p = (struct amph_gather_route){
        .ep = team->ep->am,
        .peer = amph_gex_team_member(team, to),
        .handler = AMPH_GEX_EXCHANGE,
        .nargs = ARG_GATHER,
        .args = { (int32_t)(uint32_t)id, (int32_t)(id >> 32) },
    };
}

enum amph_status amph_gex_team_exchange(struct amph_team *team, const void *mine, size_t len_bytes,
                                        void *all)
{
    const struct amph_gather_group group = {
        .size = team->pub.size,
        .rank = team->pub.rank,
        .route = route,
        .wait_step = amph_gex_wait_step,
    };

    return amph_am_gather_run(team->exchange, &group, team, mine, len_bytes, all);
}

struct amph_gather *amph_gex_exchange_make(uint32_t size)
{
    struct amph_gather *x = malloc(sizeof *x);

    if (x)
        amph_am_gather_init(x, size);

    return x;
}

void amph_gex_exchange_free(struct amph_gather *x)
{
    if (x)
        amph_am_gather_destroy(x);

    free(x);
}

enum amph_status amph_gex_exchange_open(struct amph_gex *g)
{
    static const struct amph_am_entry entry = { (void *)on_exchange, false, 2, 1, NARGS, NULL,
                                                "exchange" };

    return amph_am_register(g->ep.am, AMPH_GEX_EXCHANGE, &entry);
}
