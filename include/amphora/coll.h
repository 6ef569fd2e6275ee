/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over a team, split-phase.  GASNet-EX spec, "Collectives".
 *
 * All members of tm make the same collective calls on it in the same order; the arguments are the
 * same at all members except where it says own.  Any number may be under way, on one team or
 * several; those of one team are carried out in the order of the calls. A call may return before
 * other members have made it; the event is that of a root, GEX_EVENT_INVALID: complete already.
 * src and dst stay the library's until the event is synchronised; then dst may be read and src used
 * again.  Progress is made in any call that polls or waits.  Not from handlers.  flags: 0, or
 * GEX_FLAG_IMMEDIATE (which changes nothing: a call never waits), the GEX_FLAG_LC_COPY_ and _SEG_
 * flags that say what src and dst are (but not the OFFSET ones), and GEX_FLAG_ENABLE_LEAF_LC: then
 * gex_Event_QueryLeaf(event, GEX_EC_LC) gives the event of src.  Misuse ends the job with a
 * sentence.
 */
#ifndef AMPHORA_COLL_H
#define AMPHORA_COLL_H

#include "amphora/operators.h"
#include "amphora/team.h"

AMPHORA_BEGIN_C

/* An operator of the client's: arg2_and_out[i] = arg1[i] (+) arg2_and_out[i] for count elements.
 * It may be called in any call that makes progress, with any count, also with elements of several
 * members together; it must not communicate. */
typedef void (*gex_Coll_ReduceFn_t)(const void *arg1, void *arg2_and_out, size_t count,
                                    const void *cdata);

/* Nobody's event is complete before all members have made the call.  flags must be 0. */
gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags);
/* The same, returning when it is complete; 0. */
int gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags);

/* Copies nbytes from src (own; only the root's counts) to dst (own) of all members, the root's
 * included unless it equals src. */
gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                 size_t nbytes, gex_Flags_t flags);

/* Elementwise: dst = src of rank 0 (+) src of rank 1 (+) ..., dt_cnt elements of dt_sz bytes each,
 * at the root or at all members. dst (own; the root's counts, or all) and src (own) may be equal.
 * dt: one GEX_DT_; op: one of GEX_OP_ADD, MULT, MIN, MAX, for integers also AND, OR, XOR, or
 * GEX_OP_USER, USER_NC (not commutative; the order of ranks is kept) with user_op (own) and
 * user_cdata (own).  dt GEX_DT_USER goes with a user operator only.  dt_sz and dt_cnt must not be
 * 0. */
gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src,
                                   gex_DT_t dt, size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                   gex_Flags_t flags);
gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt,
                                   size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                   gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                   gex_Flags_t flags);

AMPHORA_END_C

#endif
