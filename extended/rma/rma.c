/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets that the header's inline functions cannot execute: over a network, empty ones, by
 * offset, and all those of checked clients (GASNET_DEBUG).  Layer: extended.  Thread rule: any
 * thread of the client; state is per operation.
 */
#include "am/am.h"
#include "amphora/rma.h"
#include "base/copy.h"
#include "base/status.h"
#include "conduits/conduit.h"

#include "base/log.h"
#include "extended/check.h"
#include "extended/event.h"

_Static_assert(AMPHORA_SMALL_COPY == AMPH_COPY_PIECE, "the header's copies are whole up to a piece");

void amphora_copy_large(void *dest, const void *src, size_t nbytes)
{
    amph_copy(dest, src, nbytes);
}

/* The facts of a transfer. */
struct target {
    const char *call;
    void *own; /* the local memory; an offset until own_side has converted it */
    size_t nbytes;
    gex_Flags_t flags;
    struct amph_gex *g;
    uint32_t peer;
    gex_EP_Index_t index; /* of its endpoint */
    const struct amph_rmem *rmem;
    uint64_t offset;
    void *local; /* the target's memory as mapped here */
};

static struct target transfer(const char *call, const void *own, size_t nbytes, gex_Flags_t flags)
{
    return (struct target){
        .call = call, .own = (void *)(uintptr_t)own, .nbytes = nbytes, .flags = flags
    };
}

static void refuse_range(const struct target *t, const void *addr)
{
    if (!t->rmem->len_bytes)
        amph_fatal("%s: no segment of process %u's endpoint %u is known here; it must attach one, "
                   "or bind and publish it",
                   t->call, t->peer, t->index);

    if (t->flags & GEX_FLAG_PEER_SEG_OFFSET)
        amph_fatal("%s: %zu bytes at offset %zu lie outside the segment of process %u, which has "
                   "%llu bytes",
                   t->call, t->nbytes, (size_t)(uintptr_t)addr, t->peer,
                   (unsigned long long)t->rmem->len_bytes);

    amph_fatal(
        "%s: %zu bytes at %p lie outside the segment of process %u, which is %llu bytes at %#llx",
        t->call, t->nbytes, addr, t->peer, (unsigned long long)t->rmem->len_bytes,
        (unsigned long long)t->rmem->base);
}

/* Locates the target's memory.  Also in this process memory outside of the segment is not a
 * target. */
static void locate(struct target *t, const void *addr)
{
    t->offset = (uint64_t)(uintptr_t)addr;
    if (!(t->flags & GEX_FLAG_PEER_SEG_OFFSET))
        t->offset -= t->rmem->base;

    if (t->offset >= t->rmem->len_bytes || t->nbytes > t->rmem->len_bytes - t->offset)
        refuse_range(t, addr);
}

/* Computes the local address of a transfer. */
static void *own_side(const struct amphora_ep *from, const void *addr, gex_Flags_t flags)
{
    if (AMPH_UNLIKELY(flags & GEX_FLAG_SELF_SEG_OFFSET))
        return (char *)(from->segment ? from->segment->base : NULL) + (uintptr_t)addr;

    return (void *)(uintptr_t)addr;
}

/* Checks a call; own, nbytes, flags and call are set.  Fills in the rest and returns true if a
 * conduit must carry the transfer.  Otherwise the caller completes it by copying to or from
 * t->local, the range as mapped here; NULL: nothing to copy. */
static bool is_remote(struct target *t, gex_TM_t tm, gex_Rank_t rank, const void *addr)
{
    const struct amph_dest d = amph_gex_team_dest(tm, rank, t->call);

    t->peer = d.peer;
    t->index = d.index;
    t->rmem = d.rmem;
    t->g = amph_gex();
    amph_check_call(t->call);
    amph_check_transfer(t->peer, t->own, t->nbytes, t->flags, t->call);
    t->local = NULL;
    amph_gex_handle_own();
    if (t->nbytes == 0)
        return false;

    t->own = own_side(d.from, t->own, t->flags);
    locate(t, addr);

    if (t->rmem->local || (amph_job.built_anywhere && t->peer == amph_job.rank))
        /* memory may begin at address 0 */
        t->local = (void *)((uintptr_t)t->rmem->local + t->offset);

    return !t->local;
}

static void copy_to_target(const struct target *t)
{
    if (t->local)
        amphora_copy(t->local, t->own, t->nbytes);
}

static void copy_from_target(const struct target *t)
{
    if (t->local)
        amphora_copy(t->own, t->local, t->nbytes);
}

static unsigned am_flags(gex_Flags_t flags)
{
    return flags & GEX_FLAG_IMMEDIATE ? AMPH_AM_IMMEDIATE : 0;
}

/* false: no room now (only with IMMEDIATE). */
static bool started(enum amph_status st, const struct target *t)
{
    if (AMPH_LIKELY(st == AMPH_OK))
        return true;

    if (st != AMPH_AGAIN)
        amph_fatal("%s: process %u cannot be reached: %s", t->call, t->peer,
                   amph_job_failure_text(st));

    return false;
}

static bool put(const struct target *t, struct amph_op *lc, struct amph_op *rc)
{
    return started(amph_am_put(t->g->ep.am, t->peer, t->rmem, t->offset, t->own, t->nbytes,
                               am_flags(t->flags), lc, rc),
                   t);
}

static bool get(const struct target *t, struct amph_op *done)
{
    return started(amph_am_get(t->g->ep.am, t->peer, t->rmem, t->offset, t->own, t->nbytes,
                               am_flags(t->flags), done),
                   t);
}

/* ---- put ---- */

int amphora_put_blocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                         gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_PutBlocking", src, nbytes, flags);
    struct amph_stack_op rc;

    if (!is_remote(&t, tm, rank, dest)) {
        copy_to_target(&t);
        return 0;
    }

    amph_gex_stack_op_init(&rc);
    if (!put(&t, NULL, &rc.op))
        return 1;

    amph_gex_stack_op_wait(&rc);
    return 0;
}

/* Starts op's put; lc_opt selects local completion. false: no room, and op has been released. */
static bool put_op(const struct target *t, struct amph_gex_op *op, gex_Event_t *lc_opt)
{
    struct amph_stack_op now;
    struct amph_op *lc = NULL;

    op->root.pending = 1;
    if (AMPH_CHECKS)
        op->no_leaf = lc_opt == GEX_EVENT_NOW || lc_opt == GEX_EVENT_DEFER;

    if (lc_opt == GEX_EVENT_NOW) {
        amph_gex_stack_op_init(&now);
        lc = &now.op;
    } else if (lc_opt != GEX_EVENT_DEFER) {
        op->root.pending = 2;
        op->leaf.pending = 1;
        lc = &op->lc;
    }

    if (!put(t, lc, &op->rc)) {
        amph_gex_op_retract(op);
        return false;
    }

    if (lc_opt == GEX_EVENT_NOW)
        amph_gex_stack_op_wait(&now);

    return true;
}

static void check_lc(const char *call, gex_Event_t *lc_opt, bool event)
{
    if (lc_opt == GEX_EVENT_NOW || lc_opt == GEX_EVENT_DEFER)
        return;

    if (event ? !AMPHORA_LC_IS_ADDRESS(lc_opt) : lc_opt != GEX_EVENT_GROUP)
        amph_fatal("%s: lc_opt must be GEX_EVENT_NOW, GEX_EVENT_DEFER or %s", call,
                   event ? "the address of an event" : "GEX_EVENT_GROUP");
}

int amphora_put_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                    gex_Event_t *lc_opt, gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_PutNBI", src, nbytes, flags);

    check_lc(t.call, lc_opt, false);
    if (!is_remote(&t, tm, rank, dest)) {
        copy_to_target(&t);
        return 0;
    }

    struct amph_gex_op *op = amph_gex_op_get();

    amph_gex_op_detach(op, AMPH_EC_PUT);
    if (lc_opt == GEX_EVENT_GROUP)
        amph_gex_op_count_lc(op);

    return put_op(&t, op, lc_opt) ? 0 : 1;
}

gex_Event_t amphora_put_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                           gex_Event_t *lc_opt, gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_PutNB", src, nbytes, flags);
    bool wants_leaf = AMPHORA_LC_IS_ADDRESS(lc_opt);

    check_lc(t.call, lc_opt, true);
    if (!is_remote(&t, tm, rank, dest)) {
        copy_to_target(&t);
        if (wants_leaf)
            *lc_opt = GEX_EVENT_INVALID;

        return GEX_EVENT_INVALID;
    }

    struct amph_gex_op *op = amph_gex_op_get();
    if (!put_op(&t, op, lc_opt))
        return GEX_EVENT_NO_OP;

    /* Gets the root first: if it is complete, the operation has been freed together with its
     * leaf. */
    gex_Event_t root = amph_gex_op_event(op);

    if (wants_leaf)
        *lc_opt = root == GEX_EVENT_INVALID || amph_event_done(&op->leaf) ? GEX_EVENT_INVALID
                                                                          : &op->leaf;

    return root;
}

/* ---- get ---- */

int amphora_get_blocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                         gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_GetBlocking", dest, nbytes, flags);
    struct amph_stack_op done;

    if (!is_remote(&t, tm, rank, src)) {
        copy_from_target(&t);
        return 0;
    }

    amph_gex_stack_op_init(&done);
    if (!get(&t, &done.op))
        return 1;

    amph_gex_stack_op_wait(&done);
    return 0;
}

static bool get_op(const struct target *t, struct amph_gex_op *op)
{
    op->root.pending = 1;
    if (AMPH_CHECKS)
        op->no_leaf = true;

    if (get(t, &op->rc))
        return true;

    amph_gex_op_retract(op);
    return false;
}

int amphora_get_nbi(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                    gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_GetNBI", dest, nbytes, flags);

    if (!is_remote(&t, tm, rank, src)) {
        copy_from_target(&t);
        return 0;
    }

    struct amph_gex_op *op = amph_gex_op_get();

    amph_gex_op_detach(op, AMPH_EC_GET);
    return get_op(&t, op) ? 0 : 1;
}

gex_Event_t amphora_get_nb(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                           gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_GetNB", dest, nbytes, flags);

    if (!is_remote(&t, tm, rank, src)) {
        copy_from_target(&t);
        return GEX_EVENT_INVALID;
    }

    struct amph_gex_op *op = amph_gex_op_get();

    return get_op(&t, op) ? amph_gex_op_event(op) : GEX_EVENT_NO_OP;
}

void amph_rma_get_into_op(struct amph_gex_op *op, gex_TM_t tm, gex_Rank_t rank, void *src,
                          size_t nbytes)
{
    struct target t = transfer("gasnet_get_nb_val", &op->value, nbytes, 0);

    if (is_remote(&t, tm, rank, src))
        get_op(&t, op);
    else
        copy_from_target(&t);
}

/* ---- values: flags about local memory refer to the client's, and a value has none ---- */

#define NOT_OF_VALUES \
    (GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND | \
     GEX_FLAG_SELF_SEG_OFFSET)

static void check_value(size_t nbytes, const char *call)
{
    if (nbytes - 1 >= sizeof(gex_RMA_Value_t))
        amph_fatal("%s: a value has 1 to %zu bytes, not %zu", call, sizeof(gex_RMA_Value_t),
                   nbytes);
}

gex_RMA_Value_t amphora_get_val(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes,
                                gex_Flags_t flags)
{
    gex_RMA_Value_t memory = 0;

    check_value(nbytes, "gex_RMA_GetBlockingVal");
    amphora_get_blocking(tm, &memory, rank, src, nbytes,
                         flags & ~(NOT_OF_VALUES | GEX_FLAG_IMMEDIATE));
    return amphora_load_val(&memory, nbytes);
}

int amphora_put_val(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                    gex_Flags_t flags)
{
    gex_RMA_Value_t memory;

    check_value(nbytes, "gex_RMA_PutBlockingVal");
    amphora_store_val(&memory, value, nbytes);
    return amphora_put_blocking(tm, rank, dest, &memory, nbytes, flags & ~NOT_OF_VALUES);
}

/* Returns the operation whose memory holds the value for the conduit; NULL: the value is already
 * at its destination. */
static struct amph_gex_op *value_op(struct target *t, gex_TM_t tm, gex_Rank_t rank, void *dest,
                                    gex_RMA_Value_t value)
{
    check_value(t->nbytes, t->call);
    if (!is_remote(t, tm, rank, dest)) {
        AMPHORA_FENCE();
        amphora_store_val(t->local, value, t->nbytes);
        AMPHORA_FENCE();
        return NULL;
    }

    struct amph_gex_op *op = amph_gex_op_get();

    amphora_store_val(&op->value, value, t->nbytes);
    t->own = &op->value;
    return op;
}

int amphora_put_val_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                        size_t nbytes, gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_PutNBIVal", &value, nbytes, flags & ~NOT_OF_VALUES);
    struct amph_gex_op *op = value_op(&t, tm, rank, dest, value);

    if (!op)
        return 0;

    amph_gex_op_detach(op, AMPH_EC_PUT);
    return put_op(&t, op, GEX_EVENT_DEFER) ? 0 : 1;
}

gex_Event_t amphora_put_val_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                               size_t nbytes, gex_Flags_t flags)
{
    struct target t = transfer("gex_RMA_PutNBVal", &value, nbytes, flags & ~NOT_OF_VALUES);
    struct amph_gex_op *op = value_op(&t, tm, rank, dest, value);

    if (!op)
        return GEX_EVENT_INVALID;

    return put_op(&t, op, GEX_EVENT_DEFER) ? amph_gex_op_event(op) : GEX_EVENT_NO_OP;
}
