/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather: every member of a group gets one block of each member, over active messages.  The job
 * (amph_job_allgather) and the teams of extended/ (team/exchange.c) use the same code; a group says
 * only how its members are reached.
 *
 * The schedule is Bruck's (bruck.h).
 *
 * Layer: am; internal, also for extended/.  Thread rule: amph_am_gather_run by one thread at a
 * time of a group (another gets AMPH_ERR_STATE); amph_am_gather_deliver from handlers.  The lock
 * in the struct separates the two.
 */
#ifndef AMPH_AM_GATHER_H
#define AMPH_AM_GATHER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "am/am.h"

enum {
    AMPH_GATHER_ROUNDS_MAX = 32,
    AMPH_GATHER_ROUTE_ARGS_MAX = 2, /* arguments that name the group in a message */
    AMPH_GATHER_ARGS = 4            /* arguments of amph_am_gather_deliver, behind those */
};

/* How a message reaches one member. */
struct amph_gather_route {
    struct amph_am_ep *ep;
    uint32_t peer; /* the endpoint's number of the member's process */
    unsigned handler;
    unsigned nargs; /* arguments that name the group at the receiver; they come first */
    int32_t args[AMPH_GATHER_ROUTE_ARGS_MAX];
};

struct amph_gather_group {
    uint32_t size, rank;
    /* fills route_p for member `to`; arg is amph_am_gather_run's */
    void (*route)(void *arg, uint32_t to, struct amph_gather_route *route_p);
    void (*wait_step)(struct amph_waiter *w);
};

struct amph_gather_chunk;

/* One process's side of a group's all-gathers. */
struct amph_gather {
    pthread_mutex_t lock;
    uint32_t size; /* of the group; set by amph_am_gather_init */
    uint32_t call; /* number of the latest call that was begun; the first is 1 */
    uint8_t *all;  /* blocks in the order own, own+1, ...; NULL: no call is in progress */
    uint64_t block_bytes;
    uint64_t received_bytes[AMPH_GATHER_ROUNDS_MAX];
    struct amph_gather_chunk *early; /* chunks of the call after this one */
};

/* size: members of the group. */
void amph_am_gather_init(struct amph_gather *g, uint32_t size);
void amph_am_gather_destroy(struct amph_gather *g);

/* Gathers len_bytes of each member into all[size * len_bytes], by rank; all NULL: the members only
 * wait for each other.  Collective over the group; blocks and runs handlers.  When it returns, no
 * message of this call is in flight to this process.  Errors: AMPH_ERR_NOMEM, AMPH_ERR_PEER (a
 * member died), AMPH_ERR_STATE (a call is in progress). */
enum amph_status amph_am_gather_run(struct amph_gather *g, const struct amph_gather_group *group,
                                    void *arg, const void *mine, size_t len_bytes, void *all);

/* Takes in a chunk: args are the AMPH_GATHER_ARGS arguments behind the route's, the payload is
 * am's.  A chunk that does not belong to the current or the next call, or lies outside its round,
 * is dropped and counted (DROP_MALFORMED). */
void amph_am_gather_deliver(struct amph_gather *g, const int32_t *args, const struct amph_am *am);

#endif
