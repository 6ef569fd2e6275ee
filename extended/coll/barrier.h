/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of a team: split-phase, with values that must match.
 *
 * A barrier has two stages.  Inside a neighbourhood each process writes its value into its own
 * cache line of a small shared object and reads the lines of the others.  Only the owner writes a
 * line, so an arrival costs each reader one transfer of a line.  Between neighbourhoods the leaders
 * (lowest ranks) exchange values by messages, and write the result for their neighbourhoods: by a
 * dissemination algorithm, or through the first leader if several of them share a host that has
 * more processes than cores.
 *
 * The process that completes a stage wakes the sleeping ones (coll/share.h).
 *
 * Layer: extended.
 * Thread rule: the caller serialises notify and the reading of a result (one thread at a time is
 * inside a barrier call); the progress function may be called by any thread.
 */
#ifndef AMPH_EXTENDED_BARRIER_H
#define AMPH_EXTENDED_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "base/status.h"
#include "extended/gex.h"

/* The value that a process brings to a barrier, or the combined value of several processes. */
enum amph_barrier_kind {
    AMPH_BARRIER_ANONYMOUS,
    AMPH_BARRIER_NAMED,
    AMPH_BARRIER_MISMATCH,
    AMPH_BARRIER_KINDS
};

struct amph_barrier_value {
    uint32_t kind;
    int32_t id; /* if the kind is NAMED */
};

/* Returns the combined value of two. */
struct amph_barrier_value amph_coll_barrier_combine(struct amph_barrier_value a,
                                                    struct amph_barrier_value b);

/* Slots of an inbox: one for each round of dissemination. */
enum {
    AMPH_BARRIER_ROUNDS = 32
};

/* One process's line in shared memory.  word[phase & 1] holds phase and value; see barrier.c. */
struct amph_barrier_line {
    uint64_t word[2];
} AMPH_ALIGN_LINE;

enum {
    AMPH_BARRIER_NAMED_ONE,
    AMPH_BARRIER_TEAM,
    AMPH_BARRIERS
};

struct amph_coll;
struct amph_gex_op;

struct amph_barrier {
    struct amph_coll *coll; /* its team and the neighbourhoods */
    uint32_t number;        /* which barrier of the team: AMPH_BARRIER_NAMED_ONE, ... */
    uint32_t state;         /* see the enum in barrier.c */
    uint32_t locked;        /* 1 while a thread makes progress on it */
    uint32_t phase;         /* of the barrier in progress, or of the last one */
    struct amph_barrier_value own, combined;
    struct amph_barrier_value last; /* result of the previous barrier; set by the callers */
    /* one for each member of the neighbourhood, and one for the result; NULL: a single member */
    struct amph_barrier_line *line;
    uint32_t seen;  /* number of lines that have been seen to arrive */
    uint32_t round; /* leaders only */
    bool sent;
    bool woke;          /* this process has woken others; atomic */
    bool tried_alone;   /* a try without a notify has been reported */
    uint64_t *inbox[2]; /* [slots] */
    uint32_t slots;
    /* operations of gex_Coll_BarrierNB in the order of the calls; the first is in progress */
    struct amph_gex_op *head, *tail;
};

/* Registers the handlers.  To be called before the exchange of facts, so that no message arrives
 * earlier. */
enum amph_status amph_coll_barriers_open(struct amph_gex *g);

/* Creates barrier `number` of c, whose neighbourhoods are known.  false: no memory. */
bool amph_coll_barrier_open(struct amph_coll *c, uint32_t number);
void amph_coll_barrier_close(struct amph_barrier *b);

/* Handles a message for a barrier of c; drops it if it cannot be one. */
void amph_coll_barrier_deliver(struct amph_coll *c, const int32_t *args);

/* Begins a barrier with this value.  The barrier must be idle or done. */
void amph_coll_barrier_notify(struct amph_barrier *b, struct amph_barrier_value value);
/* Enqueues an anonymous barrier behind the earlier ones.  op, which has nothing pending, is
 * completed when the barrier is done. */
void amph_coll_barrier_enqueue(struct amph_barrier *b, struct amph_gex_op *op);
/* Makes progress.  true: the barrier is done, and `combined` is the result. */
bool amph_coll_barrier_progress(struct amph_barrier *b);
/* Does the stage inside the neighbourhood await this member? */
bool amph_coll_barrier_awaits(struct amph_barrier *b, uint32_t member);
/* Has this process's arrival at the last barrier, or its result, woken others? */
static inline bool amph_coll_barrier_woke(const struct amph_barrier *b)
{
    return __atomic_load_n(&b->woke, __ATOMIC_RELAXED);
}
/* Waits until the barrier is done. */
void amph_coll_barrier_wait(struct amph_barrier *b);
/* Has notify been called without a reset afterwards? */
bool amph_coll_barrier_busy(const struct amph_barrier *b);
/* Makes a barrier that is done idle again. */
void amph_coll_barrier_reset(struct amph_barrier *b);

#endif
