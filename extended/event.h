/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events and their operations.
 *
 * Layer: extended.
 *
 * Thread rule: an operation is made, tested and waited for by one thread and completed by whichever
 * thread polls; in between only `pending` is shared.  Free lists are per thread.  A client with one
 * thread never uses an atomic read-modify-write here.
 */
#ifndef AMPH_EXTENDED_EVENT_H
#define AMPH_EXTENDED_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amphora/event.h"
#include "extended/gex.h"

/* GONE: consumed (checked builds) */
enum amph_event_kind {
    AMPH_EVENT_OP,
    AMPH_EVENT_LEAF,
    AMPH_EVENT_REGION,
    AMPH_EVENT_GONE
};

struct amphora_event {
    uint32_t pending; /* completions still to come; 0: complete */
    uint8_t kind;
};

/* One operation in flight.  Explicit: the client holds root.  Implicit (detached): it is counted
 * in a region and frees itself. */
struct amph_gex_op {
    struct amphora_event root; /* first: an event of kind OP is its operation */
    struct amphora_event leaf; /* local completion */
    bool detached;
    bool neighbours;       /* a collective, completed by stores of this process's neighbours */
    bool no_leaf;          /* local completion was not asked for as an event (checked builds) */
    uint8_t nbytes;        /* of value */
    gex_RMA_Value_t value; /* of value puts and gets: the transfer's memory here */
    void *result;          /* of atomics: receives nbytes; or NULL */
    struct amph_op rc, lc; /* complete; source reusable */
    struct amphora_event *rc_count, *lc_count; /* counters of an implicit operation; or NULL */
    struct amph_gex_op *next;
};

/* Implicit operations of a thread outside access regions, or those of one region, by category
 * (index of the GEX_EC_ bit). */
enum {
    AMPH_EC_GET,
    AMPH_EC_PUT,
    AMPH_EC_AM,
    AMPH_EC_LC,
    AMPH_EC_RMW,
    AMPH_NEC
};

struct amph_region {
    struct amphora_event root;
    struct amphora_event leaf[AMPH_NEC];
    struct amph_region *next;
};

struct amph_np_buffer;
struct amph_srcdesc;

/* The state of a thread. */
struct amph_gex_thread {
    struct amph_gex_op *ops, *last_op; /* free list; last_op in debug builds only */
    unsigned nops;
    struct amph_region *regions, *last_region; /* the same for regions */
    unsigned nregions;
    struct amph_region implicit; /* outside access regions */
    struct amph_region *current; /* region in which implicit operations are counted now */
    /* prepare.c: the request and the reply that are being prepared */
    struct amph_srcdesc *srcdesc[AMPH_NLANES];
    struct amph_np_buffer *spares; /* prepare.c: free buffers */
    size_t spare_bytes;
    /* rma/vis.c: the handler that the next put runs at its target; 0: none */
    struct {
        gex_AM_Index_t handler;
        const void *data;
        size_t nbytes;
    } peer_completion;
    char *vis_answer; /* rma/vis_remote.c: the packet that answers a get, or NULL; owned */
};

struct amph_gex_thread *amph_gex_thread(void);

/* prepare.c: frees its state of a thread that ends. */
void amph_gex_prepare_thread_end(struct amph_gex_thread *t);

/* Returns an operation without pending completions; never NULL (fatal without memory). */
struct amph_gex_op *amph_gex_op_get(void);
void amph_gex_op_put(struct amph_gex_op *op);

/* Makes op implicit: it is counted in category ec until it is complete, and frees itself then. */
void amph_gex_op_detach(struct amph_gex_op *op, int ec);
/* Counts its local completion, too. */
void amph_gex_op_count_lc(struct amph_gex_op *op);
/* Undoes both and frees op, of which nothing was started. */
void amph_gex_op_retract(struct amph_gex_op *op);

/* rma.c: starts a get into op->value. */
void amph_rma_get_into_op(struct amph_gex_op *op, gex_TM_t tm, gex_Rank_t rank, void *src,
                          size_t nbytes);

/* The event of a started operation.  If it is already complete: frees it and returns
 * GEX_EVENT_INVALID. */
gex_Event_t amph_gex_op_event(struct amph_gex_op *op);

/* An operation on the stack of a function that waits for it. */
struct amph_stack_op {
    struct amph_op op;
    uint32_t done;
};

void amph_gex_stack_op_init(struct amph_stack_op *op);
void amph_gex_stack_op_wait(struct amph_stack_op *op);

static inline bool amph_event_done(const struct amphora_event *e)
{
    return __atomic_load_n(&e->pending, __ATOMIC_ACQUIRE) == 0;
}

static inline void amph_event_add(struct amphora_event *e, uint32_t n)
{
    if (!amph_gex()->threaded)
        e->pending += n;
    else
        __atomic_add_fetch(&e->pending, n, __ATOMIC_RELAXED);
}

/* Returns the number still pending. */
static inline uint32_t amph_event_sub(struct amphora_event *e)
{
    if (!amph_gex()->threaded)
        return --e->pending;

    return __atomic_sub_fetch(&e->pending, 1, __ATOMIC_ACQ_REL);
}

#endif
