/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering a block of each member to all members, over active messages.  Layer: am.
 * Thread rule: one thread at a time calls it; the handler runs under the poll lock.
 *
 * Bruck's algorithm: in round k each member sends the first min(2^k, n - 2^k) blocks it has, in the
 * order own, own+1, ..., to the member 2^k below, so that all is there after log2(n) rounds.
 * Rounds and calls may overtake each other: what comes for a call that this member has not begun is
 * kept.  A member can be at most one call ahead, since a call ends only when all have begun it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "am/job.h"
#include "base/log.h"

enum {
    ROUNDS_MAX = 32,
    ARG_CALL = 0,
    ARG_ROUND,
    ARG_OFFSET_LOW,
    ARG_OFFSET_HIGH,
    NARGS
};

/* A chunk that came before its call was begun. */
struct early {
    struct early *next;
    uint32_t call, round;
    uint64_t offset;
    uint32_t nbytes;
    uint8_t bytes[];
};

/* The call in progress (active while all is set), and what came early. */
struct amph_gather {
    pthread_mutex_t lock;
    uint32_t call; /* latest that was begun; the first is 1 */
    uint8_t *all;  /* blocks in the order own, own+1, ... */
    uint64_t block_bytes;
    uint64_t got[ROUNDS_MAX];
    struct early *early;
};

/* Where round k's blocks start, and how many bytes they are. */
static uint64_t round_bytes(const struct amph_gather *g, uint32_t round, uint64_t *start_p)
{
    uint64_t n = amph_job.size;
    uint64_t first = UINT64_C(1) << round;

    *start_p = first * g->block_bytes;
    return (first < n - first ? first : n - first) * g->block_bytes;
}

static void take(struct amph_gather *g, uint32_t round, uint64_t offset, const void *bytes,
                 uint32_t nbytes)
{
    uint64_t start = 0;
    uint64_t len = 0;

    if (round < ROUNDS_MAX && (UINT64_C(1) << round) < amph_job.size)
        len = round_bytes(g, round, &start);

    if (nbytes > len || offset > len - nbytes) {
        amph_warn("a piece of a gathered table lies outside it (round %u, offset %llu, %u bytes); "
                  "it is ignored",
                  round, (unsigned long long)offset, nbytes);
        return;
    }

    memcpy(g->all + start + offset, bytes, nbytes);

    /* the waiting thread looks without the lock */
    __atomic_store_n(&g->got[round], g->got[round] + nbytes, __ATOMIC_RELEASE);
}

static void keep(struct amph_gather *g, uint32_t call, uint32_t round, uint64_t offset,
                 const struct amph_am *am)
{
    struct early *e = malloc(sizeof *e + am->nbytes);

    if (!e)
        amph_fatal("no memory for %u bytes of a gathered table; give the process more memory",
                   am->nbytes);

    *e = (struct early){ g->early, call, round, offset, am->nbytes };
    memcpy(e->bytes, am->payload, am->nbytes);
    g->early = e;
}

void amph_gather_handler(struct amph_token *token, const struct amph_am *am)
{
    uint32_t call = (uint32_t)am->args[ARG_CALL];
    uint32_t round = (uint32_t)am->args[ARG_ROUND];
    uint64_t offset = (uint32_t)am->args[ARG_OFFSET_LOW] |
                      (uint64_t)(uint32_t)am->args[ARG_OFFSET_HIGH] << 32;
    struct amph_gather *g = amph_job.gather;

    pthread_mutex_lock(&g->lock);
    if (g->all && call == g->call)
        take(g, round, offset, am->payload, am->nbytes);
    else if (call == g->call + 1)
        keep(g, call, round, offset, am);
    else
        amph_warn(
            "a piece of gathered table %u came while this process is at table %u; it is ignored",
            call, g->call);

    pthread_mutex_unlock(&g->lock);
}

static void begin(struct amph_gather *g, size_t block_bytes, uint8_t *all)
{
    struct early **at = &g->early;
    struct early *e;

    pthread_mutex_lock(&g->lock);
    g->call++;
    g->block_bytes = block_bytes;
    memset(g->got, 0, sizeof g->got);
    g->all = all;

    while ((e = *at) != NULL) {
        if (e->call != g->call) {
            at = &e->next;
            continue;
        }

        *at = e->next;
        take(g, e->round, e->offset, e->bytes, e->nbytes);
        free(e);
    }

    pthread_mutex_unlock(&g->lock);
}

static enum amph_status send_round(struct amph_am_ep *ep, const struct amph_gather *g,
                                   uint32_t round, uint64_t len)
{
    uint32_t to = (uint32_t)((amph_job.rank + (uint64_t)amph_job.size - (UINT64_C(1) << round)) %
                             amph_job.size);
    uint32_t most = amph_am_max_medium(ep, to);

    for (uint64_t offset = 0; offset < len;) {
        uint32_t nbytes = len - offset < most ? (uint32_t)(len - offset) : most;
        const int32_t args[NARGS] = { (int32_t)g->call, (int32_t)round, (int32_t)(uint32_t)offset,
                                      (int32_t)(offset >> 32) };
        const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                    .handler = AMPH_AM_GATHER,
                                    .nargs = NARGS,
                                    .nbytes = nbytes,
                                    .args = args,
                                    .payload = g->all + offset };
        enum amph_status st = amph_am_request(ep, to, &am, 0, NULL);

        if (st != AMPH_OK)
            return st;

        offset += nbytes;
    }

    return AMPH_OK;
}

static enum amph_status run_rounds(struct amph_am_ep *ep, struct amph_gather *g)
{
    enum amph_status st = AMPH_OK;

    for (uint32_t round = 0; st == AMPH_OK && (UINT64_C(1) << round) < amph_job.size; round++) {
        uint64_t start;
        uint64_t len = round_bytes(g, round, &start);
        struct amph_waiter w = AMPH_WAITER_INIT;

        st = send_round(ep, g, round, len);
        while (st == AMPH_OK && __atomic_load_n(&g->got[round], __ATOMIC_ACQUIRE) < len) {
            if (amph_job.member_died)
                st = AMPH_ERR_PEER;
            else if (amph_job.wait_step)
                /* another member may come only when what it waits for has gone on here */
                amph_job.wait_step(&w);
            else
                amph_am_wait_step(ep, &w);
        }
    }

    return st;
}

enum amph_status amph_job_allgather(const void *mine, size_t len_bytes, void *all)
{
    struct amph_am_ep *ep = amph_job.ep;
    struct amph_gather *g = amph_job.gather;
    uint32_t n = amph_job.size;
    uint32_t rank = amph_job.rank;

    if (!ep)
        return AMPH_ERR_STATE;
    if (len_bytes == 0)
        return AMPH_OK;

    uint8_t *turned = malloc((size_t)n * len_bytes);
    if (!turned)
        return AMPH_ERR_NOMEM;

    memcpy(turned, mine, len_bytes);
    begin(g, len_bytes, turned);

    enum amph_status st = run_rounds(ep, g);

    pthread_mutex_lock(&g->lock);
    g->all = NULL;
    pthread_mutex_unlock(&g->lock);

    for (uint32_t i = 0; st == AMPH_OK && i < n; i++)
        memcpy((uint8_t *)all + (size_t)((rank + i) % n) * len_bytes,
               turned + (size_t)i * len_bytes, len_bytes);

    free(turned);
    return st;
}

enum amph_status amph_gather_setup(void)
{
    amph_job.gather = calloc(1, sizeof *amph_job.gather);
    if (!amph_job.gather)
        return AMPH_ERR_NOMEM;

    pthread_mutex_init(&amph_job.gather->lock, NULL);
    return AMPH_OK;
}
