/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a process's teams, and the all-gather over a team.
 *
 * Layer: extended.
 *
 * Thread rule: amph_teams.lock guards the table.  Handlers, which hold the poll lock, take it.  An
 * exchange is collective over its team and made by one thread of a process; its state has a lock of
 * its own (am/gather.h), which is taken after the table's.
 */
#ifndef AMPH_EXTENDED_TEAM_H
#define AMPH_EXTENDED_TEAM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "am/gather.h"
#include "base/status.h"
#include "extended/gex.h"

enum {
    AMPH_TEAM_BUCKETS = 256,
    AMPH_TEAM_DESTROYED = 64
};

struct amph_teams {
    pthread_mutex_t lock;
    struct amph_team *bucket[AMPH_TEAM_BUCKETS];
    /* the latest team number that this process has proposed; never 0 */
    uint32_t made;
    uint32_t live; /* in the table */
    struct amph_team
        *destroyed[AMPH_TEAM_DESTROYED]; /* the latest ones, so that their use is detected */
    uint32_t next_destroyed;
};

/* The arguments of amph_gex_team_make; the team takes over the arrays, which are from malloc. */
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

static inline uint64_t amph_gex_team_id(uint32_t jobrank, uint32_t number, unsigned slot)
{
    return (uint64_t)jobrank << 40 | (uint64_t)number << 8 | slot;
}

/* A new team number of this process; not 0. */
uint32_t amph_gex_team_number(struct amph_gex *g);

/* Makes a team and puts it into the table; fatal without memory.  Local. */
struct amph_team *amph_gex_team_make(struct amph_gex *g, const struct amph_team_spec *spec);
/* Takes it out and frees it. */
void amph_gex_team_drop(struct amph_gex *g, struct amph_team *team);

/* The team with this id, or NULL; the caller holds the lock. */
struct amph_team *amph_gex_team_find_locked(struct amph_teams *teams, uint64_t id);

/* ---- exchange.c ---- */

/* Gathers len_bytes of each member of the team to all, by rank.  all NULL: the members only wait
 * for each other.  Collective; blocks, running handlers.  Errors: AMPH_ERR_NOMEM, AMPH_ERR_PEER,
 * AMPH_ERR_STATE (another thread is in an exchange of this team). */
enum amph_status amph_gex_team_exchange(struct amph_team *team, const void *mine, size_t len_bytes,
                                        void *all);
enum amph_status amph_gex_exchange_open(struct amph_gex *g); /* registers the handler */

/* The exchange state of a team with `size` members; NULL: no memory. */
struct amph_gather *amph_gex_exchange_make(uint32_t size);
void amph_gex_exchange_free(struct amph_gather *x);

#endif
