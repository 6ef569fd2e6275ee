/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a process's teams, and how the members of a team exchange what they must know of
 * each other.  Layer: extended.
 *
 * Thread rule: one lock, amph_teams.lock, guards the table and all exchanges.  An exchange is
 * collective over its team: one thread of a process is in it.  Handlers run under the poll lock and
 * take the table's.
 */
#ifndef AMPH_EXTENDED_TEAM_H
#define AMPH_EXTENDED_TEAM_H

#include <pthread.h>

#include "am/gather.h"
#include "extended/gex.h"

enum {
    AMPH_TEAM_BUCKETS = 256,
    AMPH_TEAM_DESTROYED = 64
};

struct amph_teams {
    pthread_mutex_t lock;
    struct amph_team *bucket[AMPH_TEAM_BUCKETS];
    /* counts what this process proposes as numbers of teams; never 0 */
    uint32_t made;
    uint32_t live;                                    /* in the table */
    struct amph_team *destroyed[AMPH_TEAM_DESTROYED]; /* the latest ones: a use of theirs is seen */
    uint32_t next_destroyed;
};

/* What makes a team; the arrays are malloc'ed and become the team's. */
struct amph_team_spec {
    uint64_t id;
    uint32_t size, rank;
    uint32_t *member;   /* NULL: job ranks are ranks */
    uint8_t *member_ep; /* NULL: all 0 */
    uint8_t *slot;      /* NULL: all 0 */
    struct amphora_ep *ep;
    gex_Memvec_t scratch;
    gex_Flags_t flags;
};

static inline uint64_t amph_team_id(uint32_t jobrank, uint32_t number, unsigned slot)
{
    return (uint64_t)jobrank << 40 | (uint64_t)number << 8 | slot;
}

/* A fresh number of this process, not 0. */
uint32_t amph_team_number(struct amph_gex *g);

/* Makes a team and puts it into the table; fatal without memory.  Local. */
struct amph_team *amph_team_make(struct amph_gex *g, const struct amph_team_spec *spec);
/* Takes it out and frees it. */
void amph_team_drop(struct amph_gex *g, struct amph_team *team);

/* The same without the lock, which the caller holds. */
struct amph_team *amph_team_find_locked(struct amph_teams *teams, uint64_t id);

/* ---- team_exchange.c ---- */

/* Gathers len_bytes of each member of the team to all, by rank.  all NULL: the members only wait
 * for each other.  Collective; blocks, running handlers.  Errors: AMPH_ERR_NOMEM, AMPH_ERR_PEER,
 * AMPH_ERR_STATE (another thread is in an exchange of this team). */
enum amph_status amph_team_exchange(struct amph_team *team, const void *mine, size_t len_bytes,
                                    void *all);
enum amph_status amph_exchange_open(struct amph_gex *g); /* registers the handler */

/* The exchange state of a team with `size` members; NULL: no memory. */
struct amph_gather *amph_exchange_make(uint32_t size);
void amph_exchange_free(struct amph_gather *x);

#endif
