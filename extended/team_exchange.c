/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering a block of each member of a team to all members.  Layer: extended.  Thread rule: see
 * team.h.
 *
 * Bruck's algorithm, as am/gather.c has it for the whole group: in round k each member sends the
 * first min(2^k, n - 2^k) blocks that it has, in the order own, own+1, ..., to the member 2^k
 * below; log2(n) rounds, n-1 blocks to each member in all.  A member can be one exchange ahead of
 * another, since none ends before all have begun it; its chunks are kept.  Each chunk is waited
 * for, so nothing of an exchange is under way to a member that has left it, and the team may end
 * there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/log.h"
#include "extended/team.h"

enum {
    ROUNDS_MAX = 32,
    ARG_ID_LOW = 0,
    ARG_ID_HIGH,
    ARG_CALL,
    ARG_ROUND,
    ARG_OFFSET_LOW,
    ARG_OFFSET_HIGH,
    NARGS
};

/* Where round k's blocks start, and how many bytes they are. */
static uint64_t round_bytes(const struct amph_team *team, uint32_t round, uint64_t *start_p)
{
    uint64_t n = team->pub.size;
    uint64_t first = UINT64_C(1) << round;

    *start_p = first * team->exchange->block_bytes;
    return (first < n - first ? first : n - first) * team->exchange->block_bytes;
}

static void take(struct amph_team *team, uint32_t round, uint64_t offset, const void *bytes,
                 uint32_t nbytes)
{
    struct amph_exchange *x = team->exchange;
    uint64_t start = 0;
    uint64_t len = 0;

    if (round < ROUNDS_MAX && (UINT64_C(1) << round) < team->pub.size)
        len = round_bytes(team, round, &start);

    if (nbytes > len || offset > len - nbytes) {
        amph_count_exact(DROP_MALFORMED, 1);
        return;
    }

    memcpy(x->all + start + offset, bytes, nbytes);
    __atomic_store_n(&x->got[round], x->got[round] + nbytes, __ATOMIC_RELEASE);
}

static void keep(struct amph_exchange *x, uint32_t call, uint32_t round, uint64_t offset,
                 const struct amph_am *am)
{
    struct amph_exchange_early *e = malloc(sizeof *e + am->nbytes);

    if (!e)
        amph_fatal(
            "no memory for %u bytes that members of a team exchange; give the process more memory",
            am->nbytes);

    *e = (struct amph_exchange_early){ x->early, call, round, offset, am->nbytes };
    memcpy(e->bytes, am->payload, am->nbytes);
    x->early = e;
}

static uint64_t join(const int32_t *low_high)
{
    return (uint32_t)low_high[0] | (uint64_t)(uint32_t)low_high[1] << 32;
}

static void on_exchange(struct amph_token *token, const struct amph_am *am)
{
    struct amph_teams *teams = amph_gex() ? amph_gex()->teams : NULL;
    uint32_t call = (uint32_t)am->args[ARG_CALL];
    uint32_t round = (uint32_t)am->args[ARG_ROUND];
    uint64_t offset = join(am->args + ARG_OFFSET_LOW);

    if (!teams) {
        amph_count_exact(DROP_MALFORMED, 1);
        return;
    }

    pthread_mutex_lock(&teams->lock);

    struct amph_team *team = amph_team_find_locked(teams, join(am->args + ARG_ID_LOW));
    struct amph_exchange *x = team ? team->exchange : NULL;

    if (x && x->all && call == x->call)
        take(team, round, offset, am->payload, am->nbytes);
    else if (x && call == x->call + 1)
        keep(x, call, round, offset, am);
    else
        amph_count_exact(DROP_MALFORMED, 1);

    pthread_mutex_unlock(&teams->lock);
}

/* Makes x's next exchange the one under way; false: another thread is in one. */
static bool begin(struct amph_team *team, size_t block_bytes, uint8_t *all)
{
    struct amph_exchange *x = team->exchange;
    struct amph_exchange_early **at = &x->early;
    struct amph_exchange_early *e;

    if (x->all)
        return false;

    x->call++;
    x->block_bytes = block_bytes;
    memset(x->got, 0, sizeof x->got);
    x->all = all;

    while ((e = *at) != NULL) {
        if (e->call != x->call) {
            at = &e->next;
            continue;
        }

        *at = e->next;
        take(team, e->round, e->offset, e->bytes, e->nbytes);
        free(e);
    }

    return true;
}

static enum amph_status send_round(struct amph_team *team, uint32_t round, uint64_t len)
{
    struct amph_am_ep *ep = team->ep->am;
    const struct amph_exchange *x = team->exchange;
    uint32_t n = team->pub.size;
    uint32_t rank = (uint32_t)((team->pub.rank + (uint64_t)n - (UINT64_C(1) << round)) % n);
    uint32_t to = amph_team_member(team, rank);
    uint32_t most = amph_am_max_medium(ep, to);
    uint64_t id = amph_team_id_at(team, rank);
    enum amph_status st = AMPH_OK;

    for (uint64_t offset = 0; offset < len && st == AMPH_OK;) {
        uint32_t nbytes = len - offset < most ? (uint32_t)(len - offset) : most;
        const int32_t args[NARGS] = { (int32_t)(uint32_t)id,     (int32_t)(id >> 32),
                                      (int32_t)x->call,          (int32_t)round,
                                      (int32_t)(uint32_t)offset, (int32_t)(offset >> 32) };
        const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                    .handler = AMPH_GEX_EXCHANGE,
                                    .nargs = NARGS,
                                    .nbytes = nbytes,
                                    .args = args,
                                    .payload = x->all + offset };

        st = amph_am_request(ep, to, &am, 0, NULL);
        offset += nbytes;
    }

    return st;
}

static enum amph_status run_rounds(struct amph_team *team)
{
    const struct amph_exchange *x = team->exchange;
    enum amph_status st = AMPH_OK;

    for (uint32_t round = 0; st == AMPH_OK && (UINT64_C(1) << round) < team->pub.size; round++) {
        uint64_t start;
        uint64_t len = round_bytes(team, round, &start);
        struct amph_waiter w = AMPH_WAITER_INIT;

        st = send_round(team, round, len);
        while (st == AMPH_OK && __atomic_load_n(&x->got[round], __ATOMIC_ACQUIRE) < len) {
            if (amph_job.member_died)
                st = AMPH_ERR_PEER;
            else
                amph_gex_wait_step(&w);
        }
    }

    return st;
}

enum amph_status amph_team_exchange(struct amph_team *team, const void *mine, size_t len_bytes,
                                    void *all)
{
    struct amph_teams *teams = amph_gex()->teams;
    const uint32_t n = team->pub.size;
    const uint32_t rank = team->pub.rank;
    uint8_t *turned = malloc((size_t)n * len_bytes);

    if (!turned)
        return AMPH_ERR_NOMEM;

    memcpy(turned, mine, len_bytes);
    pthread_mutex_lock(&teams->lock);

    bool begun = begin(team, len_bytes, turned);

    pthread_mutex_unlock(&teams->lock);

    enum amph_status st = begun ? run_rounds(team) : AMPH_ERR_STATE;

    if (begun) {
        pthread_mutex_lock(&teams->lock);
        team->exchange->all = NULL;
        pthread_mutex_unlock(&teams->lock);
    }

    for (uint32_t i = 0; all && st == AMPH_OK && i < n; i++)
        memcpy((uint8_t *)all + (size_t)((rank + (uint64_t)i) % n) * len_bytes,
               turned + (size_t)i * len_bytes, len_bytes);

    free(turned);
    return st;
}

enum amph_status amph_exchange_open(struct amph_gex *g)
{
    static const struct amph_am_entry entry = { (void *)on_exchange, false, 2, 1, NARGS, NULL,
                                                "exchange" };
    return amph_am_register(g->ep.am, AMPH_GEX_EXCHANGE, &entry);
}

void amph_exchange_free(struct amph_exchange *x)
{
    struct amph_exchange_early *e;

    while (x && (e = x->early) != NULL) {
        x->early = e->next;
        free(e);
    }

    free(x);
}
