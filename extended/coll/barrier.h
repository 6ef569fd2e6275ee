/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of a team: split-phase, with values that must match.  Layer: extended.
 *
 * Two stages.  Inside a neighbourhood each process writes its value into a line of its own of a
 * small shared object and looks at the lines of the others; nobody but the writer ever writes a
 * line, so two processes meet in one transfer of a line.  Between neighbourhoods their leaders
 * (lowest ranks) exchange values by dissemination, over messages, and write the result for the
 * rest.
 *
 * Who completes a stage wakes those that sleep (coll/share.h).
 *
 * Thread rule: notify and the taking of a result are serialised by the caller (one thread at a time
 * is inside a barrier call); the progress function may be called by any thread.
 */
#ifndef AMPH_EXTENDED_BARRIER_H
#define AMPH_EXTENDED_BARRIER_H

#include "extended/gex.h"

/* What a process, or a set of them, brings to a barrier. */
enum amph_barrier_kind {
    AMPH_BARRIER_ANONYMOUS,
    AMPH_BARRIER_NAMED,
    AMPH_BARRIER_MISMATCH,
    AMPH_BARRIER_KINDS
};

struct amph_barrier_value {
    uint32_t kind;
    int32_t id; /* of a named one */
};

/* The two values in one. */
struct amph_barrier_value amph_coll_barrier_combine(struct amph_barrier_value a,
                                                    struct amph_barrier_value b);

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
    struct amph_coll *coll; /* its team, with the neighbourhoods */
    uint32_t number;        /* in the team: AMPH_BARRIER_... */
    uint32_t state;         /* enum in barrier.c */
    uint32_t locked;        /* threaded: one thread moves it on */
    uint32_t phase;         /* of the one that is under way, or the last */
    struct amph_barrier_value own, combined;
    struct amph_barrier_value last; /* the result of the one before; kept by its users */
    /* [members in the neighbourhood], and one more for the result; NULL: there is one member */
    struct amph_barrier_line *line;
    uint32_t seen;  /* how many lines are known to have arrived */
    uint32_t round; /* leaders only */
    bool sent;
    uint64_t inbox[2][AMPH_BARRIER_ROUNDS];
    /* gex_Coll_BarrierNB: those that have been asked for, in order; the first is under way */
    struct amph_gex_op *head, *tail;
};

/* Registers the handlers: before any process can be beyond the exchange of facts. */
enum amph_status amph_coll_barriers_open(struct amph_gex *g);

/* Takes in a message for barriers of c, if it is one that can be. */
void amph_coll_barrier_deliver(struct amph_coll *c, const int32_t *args);

/* Brings a value.  Allowed when idle or done. */
void amph_coll_barrier_notify(struct amph_barrier *b, struct amph_barrier_value value);
/* Asks for an anonymous one behind those asked for before; op (nothing pending) is completed when
 * it is done. */
void amph_coll_barrier_enqueue(struct amph_barrier *b, struct amph_gex_op *op);
/* Moves it on; true: done, combined is the result. */
bool amph_coll_barrier_progress(struct amph_barrier *b);
/* Waits until done. */
void amph_coll_barrier_wait(struct amph_barrier *b);
/* Was notify called, and not yet reset? */
bool amph_coll_barrier_busy(const struct amph_barrier *b);
/* After done: idle again. */
void amph_coll_barrier_reset(struct amph_barrier *b);

#endif
