/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather over active messages, and the job's use of it.  See gather.h for the algorithm.
 *
 * Layer: am.  Thread rule: as gather.h; amph_job_allgather by one thread at a time.
 *
 * Chunks of different rounds and calls may overtake each other.  A member is at most one call ahead
 * of another, because a call ends only when all members have begun it: a chunk of the next call is
 * kept until this member begins that call.
 */
#include "am/gather.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "am/bruck.h"
#include "am/job.h"
#include "base/settings/counters.h"
#include "base/log.h"

enum {
    ARG_CALL = 0,
    ARG_ROUND,
    ARG_OFFSET_LOW,
    ARG_OFFSET_HIGH,
    NARGS
};

_Static_assert((int)NARGS == (int)AMPH_GATHER_ARGS, "gather.h states the number of arguments");

/* A chunk that came before its call was begun. */
struct amph_gather_chunk {
    struct amph_gather_chunk *next;
    uint32_t call, round;
    uint64_t offset;
    uint32_t nbytes;
    uint8_t bytes[];
};

void amph_am_gather_init(struct amph_gather *g, uint32_t size)
{
    memset(g, 0, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
    g->size = size;
}

void amph_am_gather_destroy(struct amph_gather *g)
{
    struct amph_gather_chunk *chunk;

    while ((chunk = g->early) != NULL) {
        g->early = chunk->next;
        free(chunk);
    }

    pthread_mutex_destroy(&g->lock);
}

/* ---- receiving ---- */

/* The bytes of round's blocks; *start_p: the offset of the first of them in `all`. */
static uint64_t round_bytes(const struct amph_gather *g, uint32_t round, uint64_t *start_p)
{
    *start_p = amph_am_bruck_first(round) * g->block_bytes;
    return amph_am_bruck_blocks(g->size, round) * g->block_bytes;
}

static void drop(uint32_t call, const struct amph_gather *g, const char *why)
{
    amph_count_exact(DROP_MALFORMED, 1);
    amph_info("dropped a piece of all-gather %u during all-gather %u: %s", call, g->call, why);
}

/* Copies a chunk of the current call to its place; locked. */
static void store_chunk(struct amph_gather *g, uint32_t round, uint64_t offset, const void *bytes,
                        uint32_t nbytes)
{
    uint64_t start = 0;
    uint64_t len = 0;

    if (amph_am_bruck_has_round(g->size, round))
        len = round_bytes(g, round, &start);

    if (nbytes > len || offset > len - nbytes) {
        drop(g->call, g, "it lies outside its round");
        return;
    }

    memcpy(g->all + start + offset, bytes, nbytes);

    /* the waiting thread reads the count without the lock */
    __atomic_store_n(&g->received_bytes[round], g->received_bytes[round] + nbytes,
                     __ATOMIC_RELEASE);
}

/* Keeps a chunk of the next call; locked. */
static void keep_chunk(struct amph_gather *g, uint32_t call, uint32_t round, uint64_t offset,
                       const struct amph_am *am)
{
    struct amph_gather_chunk *chunk = malloc(sizeof *chunk + am->nbytes);

    if (!chunk)
        amph_fatal("no memory for %u bytes of an all-gather; give the process more memory",
                   am->nbytes);

    *chunk = (struct amph_gather_chunk){ g->early, call, round, offset, am->nbytes };
    memcpy(chunk->bytes, am->payload, am->nbytes);
    g->early = chunk;
}

/* Stores the kept chunks of the call that has just been begun; locked. */
static void store_early_chunks(struct amph_gather *g)
{
    struct amph_gather_chunk **at = &g->early;
    struct amph_gather_chunk *chunk;

    while ((chunk = *at) != NULL) {
        if (chunk->call != g->call) {
            at = &chunk->next;
            continue;
        }

        *at = chunk->next;
        store_chunk(g, chunk->round, chunk->offset, chunk->bytes, chunk->nbytes);
        free(chunk);
    }
}

void amph_am_gather_deliver(struct amph_gather *g, const int32_t *args, const struct amph_am *am)
{
    uint32_t call = (uint32_t)args[ARG_CALL];
    uint32_t round = (uint32_t)args[ARG_ROUND];
    uint64_t offset = (uint32_t)args[ARG_OFFSET_LOW] | (uint64_t)(uint32_t)args[ARG_OFFSET_HIGH]
                                                           << 32;

    pthread_mutex_lock(&g->lock);
    if (g->all && call == g->call)
        store_chunk(g, round, offset, am->payload, am->nbytes);
    else if (call == g->call + 1)
        keep_chunk(g, call, round, offset, am);
    else
        drop(call, g, "it belongs to neither this call nor the next");

    pthread_mutex_unlock(&g->lock);
}

/* ---- sending ---- */

/* Makes the group's next call the current one; false: a call is in progress. */
static bool begin(struct amph_gather *g, size_t block_bytes, uint8_t *all)
{
    pthread_mutex_lock(&g->lock);

    bool idle = !g->all;

    if (idle) {
        g->call++;
        g->block_bytes = block_bytes;
        memset(g->received_bytes, 0, sizeof g->received_bytes);
        g->all = all;
        store_early_chunks(g);
    }

    pthread_mutex_unlock(&g->lock);
    return idle;
}

static void end(struct amph_gather *g)
{
    pthread_mutex_lock(&g->lock);
    g->all = NULL;
    pthread_mutex_unlock(&g->lock);
}

static enum amph_status send_chunk(const struct amph_gather *g,
                                   const struct amph_gather_route *route, uint32_t round,
                                   uint64_t offset, uint32_t nbytes)
{
    int32_t args[AMPH_GATHER_ROUTE_ARGS_MAX + NARGS];
    int32_t *own = args + route->nargs;

    memcpy(args, route->args, route->nargs * sizeof *args);
    own[ARG_CALL] = (int32_t)g->call;
    own[ARG_ROUND] = (int32_t)round;
    own[ARG_OFFSET_LOW] = (int32_t)(uint32_t)offset;
    own[ARG_OFFSET_HIGH] = (int32_t)(offset >> 32);

    const struct amph_am am = {
        .kind = AMPH_AM_MEDIUM,
        .handler = (uint8_t)route->handler,
        .nargs = (uint8_t)(route->nargs + NARGS),
        .nbytes = nbytes,
        .args = args,
        .payload = g->all + offset,
    };

    return amph_am_request(route->ep, route->peer, &am, 0, NULL);
}

/* Sends the first len bytes to the round's receiver. */
static enum amph_status send_round(const struct amph_gather *g,
                                   const struct amph_gather_group *group, void *arg, uint32_t round,
                                   uint64_t len)
{
    uint32_t to = amph_am_bruck_to(group->size, group->rank, round);
    struct amph_gather_route route;

    group->route(arg, to, &route);

    uint32_t max = amph_am_max_medium(route.ep, route.peer);
    enum amph_status st = AMPH_OK;

    for (uint64_t offset = 0; offset < len && st == AMPH_OK;) {
        uint32_t nbytes = len - offset < max ? (uint32_t)(len - offset) : max;

        st = send_chunk(g, &route, round, offset, nbytes);
        offset += nbytes;
    }

    return st;
}

/* Waits until all len bytes of a round have been received. */
static enum amph_status wait_round(const struct amph_gather *g,
                                   const struct amph_gather_group *group, uint32_t round,
                                   uint64_t len)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    while (__atomic_load_n(&g->received_bytes[round], __ATOMIC_ACQUIRE) < len) {
        if (amph_job.member_died)
            return AMPH_ERR_PEER;

        group->wait_step(&w);
    }

    return AMPH_OK;
}

static enum amph_status run_rounds(const struct amph_gather *g,
                                   const struct amph_gather_group *group, void *arg)
{
    enum amph_status st = AMPH_OK;

    for (uint32_t round = 0; st == AMPH_OK && amph_am_bruck_has_round(group->size, round);
         round++) {
        uint64_t start;
        uint64_t len = round_bytes(g, round, &start);

        st = send_round(g, group, arg, round, len);
        if (st == AMPH_OK)
            st = wait_round(g, group, round, len);
    }

    return st;
}

enum amph_status amph_am_gather_run(struct amph_gather *g, const struct amph_gather_group *group,
                                    void *arg, const void *mine, size_t len_bytes, void *all)
{
    uint8_t *blocks = malloc((size_t)group->size * len_bytes);

    if (!blocks)
        return AMPH_ERR_NOMEM;

    memcpy(blocks, mine, len_bytes);
    if (!begin(g, len_bytes, blocks)) {
        free(blocks);
        return AMPH_ERR_STATE;
    }

    enum amph_status st = run_rounds(g, group, arg);

    end(g);
    if (all && st == AMPH_OK)
        amph_am_bruck_copy_by_rank(all, len_bytes, blocks, len_bytes, group->size, group->rank);

    free(blocks);
    return st;
}

/* ---- the job's ---- */

static void job_route(void *arg, uint32_t to, struct amph_gather_route *route_p)
{
    *route_p = (struct amph_gather_route){
        .ep = amph_job.ep,
        .peer = to,
        .handler = AMPH_AM_GATHER,
    };
}

static void job_wait_step(struct amph_waiter *w)
{
    /* extended/'s step also makes progress on collectives, for which another member may wait
     * before it calls amph_job_allgather */
    if (amph_job.wait_step)
        amph_job.wait_step(w);
    else
        amph_am_wait_step(amph_job.ep, w);
}

void amph_am_gather_handler(struct amph_token *token, const struct amph_am *am)
{
    amph_am_gather_deliver(amph_job.gather, am->args, am);
}

enum amph_status amph_job_allgather(const void *mine, size_t len_bytes, void *all)
{
    const struct amph_gather_group group = {
        .size = amph_job.size,
        .rank = amph_job.rank,
        .route = job_route,
        .wait_step = job_wait_step,
    };

    if (!amph_job.ep)
        return AMPH_ERR_STATE;

    if (len_bytes == 0)
        return AMPH_OK;

    enum amph_status st = amph_am_gather_run(amph_job.gather, &group, NULL, mine, len_bytes, all);

    amph_job_await_cause(st);
    return st;
}

enum amph_status amph_am_gather_setup(void)
{
    amph_job.gather = malloc(sizeof *amph_job.gather);
    if (!amph_job.gather)
        return AMPH_ERR_NOMEM;

    amph_am_gather_init(amph_job.gather, amph_job.size);
    return AMPH_OK;
}
