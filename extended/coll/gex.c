/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of GASNet-EX: check arguments and start the operation.  Layer: extended.  Thread
 * rule: coll.h. */
#include "amphora/coll.h"

#include "base/log.h"
#include "extended/check.h"
#include "extended/coll/coll.h"

#define FLAGS_SEG \
    (GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND | \
     GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_SOME | GEX_FLAG_PEER_SEG_BOUND)
#define FLAGS_KNOWN \
    (GEX_FLAG_IMMEDIATE | GEX_FLAG_LC_COPY_YES | GEX_FLAG_LC_COPY_NO | GEX_FLAG_ENABLE_LEAF_LC | \
     FLAGS_SEG)

static struct amph_team *team_for(gex_TM_t tm, gex_Flags_t flags, gex_Flags_t known,
                                  const char *call)
{
    amph_check_call(call);

    struct amph_team *team = amph_gex_team_of(tm, call);

    if (AMPH_UNLIKELY(flags & ~known))
        amph_fatal("%s: flags %#x are not for collectives", call, (unsigned)(flags & ~known));

    return team;
}

static void check_root(const struct amph_team *team, gex_Rank_t root, const char *call)
{
    if (AMPH_UNLIKELY(root >= team->pub.size))
        amph_fatal("%s: root %u is out of range; the team has %u members", call, root,
                   team->pub.size);
}

gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags)
{
    struct amph_team *team = team_for(tm, flags, 0, "gex_Coll_BarrierNB");
    struct amph_gex_op *op = amph_gex_op_get();

    struct amph_barrier *barrier = &team->coll->barrier[AMPH_BARRIER_TEAM];

    amph_coll_barrier_enqueue(barrier, op);
    if (amph_event_done(&op->root))
        amph_gex_found_done(amph_gex(), amph_coll_barrier_woke(barrier));

    return amph_gex_op_event(op);
}

int gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, flags));
    return 0;
}

gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                 size_t nbytes, gex_Flags_t flags)
{
    struct amph_team *team = team_for(tm, flags, FLAGS_KNOWN, "gex_Coll_BroadcastNB");

    check_root(team, root, "gex_Coll_BroadcastNB");

    const struct amph_coll_args args = { .kind = AMPH_COLL_BROADCAST,
                                         .root = root,
                                         .dst = dst,
                                         .src = src,
                                         .block = nbytes,
                                         .src_leaf = flags & GEX_FLAG_ENABLE_LEAF_LC };

    return amph_coll_start(team, &args);
}

/* ---- reductions ---- */

struct reduction {
    gex_DT_t dt;
    size_t dt_sz, dt_cnt;
    gex_OP_t op;
    gex_Coll_ReduceFn_t user_op;
    void *user_cdata;
};

static struct amph_fold user_fold(const struct reduction *r, const char *call)
{
    if (!r->user_op)
        amph_fatal("%s: GEX_OP_USER and GEX_OP_USER_NC need a function; user_op is NULL", call);

    return (struct amph_fold){ .fn = r->user_op,
                               .cdata = r->user_cdata,
                               .elem_bytes = r->dt_sz,
                               .commutes = r->op == GEX_OP_USER };
}

static struct amph_fold fold_of(const struct reduction *r, const char *call)
{
    size_t bytes;
    amph_fold_fn fn = amph_coll_fold_builtin(r->dt, r->op, &bytes);

    if (r->dt_sz == 0 || r->dt_cnt == 0 || r->dt_cnt > SIZE_MAX / r->dt_sz)
        amph_fatal("%s: %zu elements of %zu bytes are none that can be reduced; both numbers must "
                   "be at least 1",
                   call, r->dt_cnt, r->dt_sz);

    if (!bytes && r->dt != GEX_DT_USER)
        amph_fatal("%s: %#x is not one GEX_DT_ constant", call, (unsigned)r->dt);

    if (bytes && bytes != r->dt_sz)
        amph_fatal("%s: dt_sz is %zu, but an element of type %#x has %zu bytes", call, r->dt_sz,
                   (unsigned)r->dt, bytes);

    if (r->op == GEX_OP_USER || r->op == GEX_OP_USER_NC)
        return user_fold(r, call);

    if (!fn)
        amph_fatal("%s: operation %#x is not one for reductions of type %#x", call, (unsigned)r->op,
                   (unsigned)r->dt);

    return (struct amph_fold){ .fn = fn, .elem_bytes = bytes, .commutes = true, .typed = true };
}

gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                   gex_DT_t dt, size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags)
{
    static const char call[] = "gex_Coll_ReduceToOneNB";
    struct amph_team *team = team_for(tm, flags, FLAGS_KNOWN, call);

    check_root(team, root, call);

    const struct amph_fold fold = fold_of(
        &(struct reduction){ dt, dt_sz, dt_cnt, op, user_op, user_cdata }, call);
    const struct amph_coll_args args = { .kind = AMPH_COLL_REDUCE,
                                         .root = root,
                                         .dst = dst,
                                         .src = src,
                                         .block = dt_sz * dt_cnt,
                                         .fold = &fold,
                                         .src_leaf = flags & GEX_FLAG_ENABLE_LEAF_LC };

    return amph_coll_start(team, &args);
}

gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt,
                                   size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags)
{
    static const char call[] = "gex_Coll_ReduceToAllNB";
    struct amph_team *team = team_for(tm, flags, FLAGS_KNOWN, call);
    const struct amph_fold fold = fold_of(
        &(struct reduction){ dt, dt_sz, dt_cnt, op, user_op, user_cdata }, call);
    const struct amph_coll_args args = { .kind = AMPH_COLL_REDUCE_ALL,
                                         .dst = dst,
                                         .src = src,
                                         .block = dt_sz * dt_cnt,
                                         .fold = &fold,
                                         .src_leaf = flags & GEX_FLAG_ENABLE_LEAF_LC };

    return amph_coll_start(team, &args);
}
