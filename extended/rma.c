/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get that the header could not make itself: over a network, to the own process outside its segment, empty ones.
 * Layer: extended.  Thread rule: any thread of the client; state is per operation.
 */
#include "amphora/rma.h"

#include "base/log.h"
#include "extended/event.h"

/* What a transfer is about. */
struct target {
    struct amph_gex *g;
    uint32_t peer;
    const struct amph_rmem *rmem;
    uint64_t offset;
};

static void refuse_range(const struct target *t, const void *addr, size_t nbytes, const char *call)
{
    if (!t->rmem->len_bytes)
        amph_fatal("%s: process %u has no segment; it must attach one first", call, t->peer);
    amph_fatal("%s: %zu bytes at %p lie outside the segment of process %u, which is %llu bytes at %#llx", call, nbytes, addr, t->peer,
               (unsigned long long)t->rmem->len_bytes, (unsigned long long)t->rmem->base);
}

/* Fills *t_p and returns true where a conduit must carry the transfer.  Else it is over when *local_p, the place of the range here,
 * has been copied; NULL: there is nothing to copy. */
static bool is_remote(gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes, const char *call, struct target *t_p,
                      void **local_p)
{
    struct target t = { .g = amph_gex(), .peer = amph_team_peer(tm, rank, call) };
    *local_p = NULL;
    if (nbytes == 0)
        return false;
    if (t.peer == amph_job.rank) {
        *local_p = (void *)(uintptr_t)addr; /* the own process: any address */
        return false;
    }
    t.rmem = &t.g->rmem[t.peer];
    t.offset = (uint64_t)(uintptr_t)addr - t.rmem->base;
    if (t.offset >= t.rmem->len_bytes || nbytes > t.rmem->len_bytes - t.offset)
        refuse_range(&t, addr, nbytes, call);
    if (t.rmem->local) {
        *local_p = (char *)t.rmem->local + t.offset;
        return false;
    }
    *t_p = t;
    return true;
}

static void copy_if(void *dest, const void *src, size_t nbytes)
{
    if (dest && src)
        amphora_copy(dest, src, nbytes);
}

static unsigned am_flags(gex_Flags_t flags)
{
    return flags & GEX_FLAG_IMMEDIATE ? AMPH_AM_IMMEDIATE : 0;
}

/* false: no room now (only with IMMEDIATE). */
static bool started(enum amph_status st, const struct target *t, const char *call)
{
    if (AMPH_LIKELY(st == AMPH_OK))
        return true;
    if (st != AMPH_AGAIN)
        amph_fatal("%s: process %u cannot be reached: %s", call, t->peer, amph_status_text(st));
    return false;
}

static bool put(const struct target *t, const void *src, size_t nbytes, gex_Flags_t flags, struct amph_op *lc, struct amph_op *rc)
{
    return started(amph_am_put(t->g->ep.am, t->peer, t->rmem, t->offset, src, nbytes, am_flags(flags), lc, rc), t, "gex_RMA_Put");
}

static bool get(const struct target *t, void *dest, size_t nbytes, gex_Flags_t flags, struct amph_op *done)
{
    return started(amph_am_get(t->g->ep.am, t->peer, t->rmem, t->offset, dest, nbytes, am_flags(flags), done), t, "gex_RMA_Get");
}

/* ---- put ---- */

int amphora_put_blocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    struct amph_stack_op rc;
    void *local;
    if (!is_remote(tm, rank, dest, nbytes, "gex_RMA_PutBlocking", &t, &local)) {
        copy_if(local, src, nbytes);
        return 0;
    }
    amph_stack_op_init(&rc);
    if (!put(&t, src, nbytes, flags, NULL, &rc.op))
        return 1;
    amph_stack_op_wait(&rc);
    return 0;
}

/* Starts op's put with local completion as lc_opt says; false: no room, op has been given back. */
static bool put_op(const struct target *t, struct amph_gex_op *op, const void *src, size_t nbytes, gex_Event_t *lc_opt,
                   gex_Flags_t flags)
{
    struct amph_stack_op now;
    struct amph_op *lc = NULL;
    op->root.pending = 1;
    if (lc_opt == GEX_EVENT_NOW) {
        amph_stack_op_init(&now);
        lc = &now.op;
    } else if (lc_opt != GEX_EVENT_DEFER) {
        op->root.pending = 2;
        op->leaf.pending = 1;
        lc = &op->lc;
    }
    if (!put(t, src, nbytes, flags, lc, &op->rc)) {
        amph_op_retract(op);
        return false;
    }
    if (lc_opt == GEX_EVENT_NOW)
        amph_stack_op_wait(&now);
    return true;
}

int amphora_put_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags)
{
    struct target t;
    void *local;
    if (!is_remote(tm, rank, dest, nbytes, "gex_RMA_PutNBI", &t, &local)) {
        copy_if(local, src, nbytes);
        return 0;
    }
    if (AMPHORA_LC_IS_ADDRESS(lc_opt))
        amph_fatal("gex_RMA_PutNBI: lc_opt must be GEX_EVENT_NOW, GEX_EVENT_DEFER or GEX_EVENT_GROUP");
    struct amph_gex_op *op = amph_op_get();
    amph_op_detach(op, AMPH_EC_PUT);
    if (lc_opt == GEX_EVENT_GROUP)
        amph_op_count_lc(op);
    return put_op(&t, op, src, nbytes, lc_opt, flags) ? 0 : 1;
}

gex_Event_t amphora_put_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes, gex_Event_t *lc_opt,
                           gex_Flags_t flags)
{
    struct target t;
    void *local;
    bool wants_leaf = AMPHORA_LC_IS_ADDRESS(lc_opt);
    if (!is_remote(tm, rank, dest, nbytes, "gex_RMA_PutNB", &t, &local)) {
        copy_if(local, src, nbytes);
        if (wants_leaf)
            *lc_opt = GEX_EVENT_INVALID;
        return GEX_EVENT_INVALID;
    }
    if (lc_opt == GEX_EVENT_GROUP || !lc_opt)
        amph_fatal("gex_RMA_PutNB: lc_opt must be GEX_EVENT_NOW, GEX_EVENT_DEFER or the address of an event");
    struct amph_gex_op *op = amph_op_get();
    if (!put_op(&t, op, src, nbytes, lc_opt, flags))
        return GEX_EVENT_NO_OP;
    if (wants_leaf)
        *lc_opt = amph_event_done(&op->leaf) ? GEX_EVENT_INVALID : &op->leaf;
    return amph_op_event(op);
}

/* ---- get ---- */

int amphora_get_blocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    struct amph_stack_op done;
    void *local;
    if (!is_remote(tm, rank, src, nbytes, "gex_RMA_GetBlocking", &t, &local)) {
        copy_if(dest, local, nbytes);
        return 0;
    }
    amph_stack_op_init(&done);
    if (!get(&t, dest, nbytes, flags, &done.op))
        return 1;
    amph_stack_op_wait(&done);
    return 0;
}

static bool get_op(const struct target *t, struct amph_gex_op *op, void *dest, size_t nbytes, gex_Flags_t flags)
{
    op->root.pending = 1;
    if (get(t, dest, nbytes, flags, &op->rc))
        return true;
    amph_op_retract(op);
    return false;
}

int amphora_get_nbi(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    void *local;
    if (!is_remote(tm, rank, src, nbytes, "gex_RMA_GetNBI", &t, &local)) {
        copy_if(dest, local, nbytes);
        return 0;
    }
    struct amph_gex_op *op = amph_op_get();
    amph_op_detach(op, AMPH_EC_GET);
    return get_op(&t, op, dest, nbytes, flags) ? 0 : 1;
}

gex_Event_t amphora_get_nb(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    void *local;
    if (!is_remote(tm, rank, src, nbytes, "gex_RMA_GetNB", &t, &local)) {
        copy_if(dest, local, nbytes);
        return GEX_EVENT_INVALID;
    }
    struct amph_gex_op *op = amph_op_get();
    return get_op(&t, op, dest, nbytes, flags) ? amph_op_event(op) : GEX_EVENT_NO_OP;
}

void amph_get_into_op(struct amph_gex_op *op, gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes)
{
    struct target t;
    void *local;
    if (is_remote(tm, rank, src, nbytes, "gasnet_get_nb_val", &t, &local))
        get_op(&t, op, &op->value, nbytes, 0);
    else
        copy_if(&op->value, local, nbytes);
}

/* ---- values ---- */

static void check_value(size_t nbytes, const char *call)
{
    if (nbytes - 1 >= sizeof(gex_RMA_Value_t))
        amph_fatal("%s: a value has 1 to %zu bytes, not %zu", call, sizeof(gex_RMA_Value_t), nbytes);
}

gex_RMA_Value_t amphora_get_val(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags)
{
    gex_RMA_Value_t memory = 0;
    check_value(nbytes, "gex_RMA_GetBlockingVal");
    amphora_get_blocking(tm, &memory, rank, src, nbytes, 0);
    return amphora_load_val(&memory, nbytes);
}

int amphora_put_val(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    gex_RMA_Value_t memory;
    check_value(nbytes, "gex_RMA_PutBlockingVal");
    amphora_store_val(&memory, value, nbytes);
    return amphora_put_blocking(tm, rank, dest, &memory, nbytes, flags);
}

/* The operation that carries the value to a conduit in its own memory, or NULL: the value is in place. */
static struct amph_gex_op *value_op(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes, const char *call,
                                    struct target *t)
{
    void *local;
    check_value(nbytes, call);
    if (!is_remote(tm, rank, dest, nbytes, call, t, &local)) {
        AMPHORA_FENCE();
        amphora_store_val(local, value, nbytes);
        AMPHORA_FENCE();
        return NULL;
    }
    struct amph_gex_op *op = amph_op_get();
    amphora_store_val(&op->value, value, nbytes);
    return op;
}

int amphora_put_val_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    struct amph_gex_op *op = value_op(tm, rank, dest, value, nbytes, "gex_RMA_PutNBIVal", &t);
    if (!op)
        return 0;
    amph_op_detach(op, AMPH_EC_PUT);
    return put_op(&t, op, &op->value, nbytes, GEX_EVENT_DEFER, flags) ? 0 : 1;
}

gex_Event_t amphora_put_val_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    struct target t;
    struct amph_gex_op *op = value_op(tm, rank, dest, value, nbytes, "gex_RMA_PutNBVal", &t);
    if (!op)
        return GEX_EVENT_INVALID;
    return put_op(&t, op, &op->value, nbytes, GEX_EVENT_DEFER, flags) ? amph_op_event(op) : GEX_EVENT_NO_OP;
}
