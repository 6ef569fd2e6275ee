/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote atomics.  GASNet-EX spec, "Remote Atomic Operations".
 *
 * An atomic domain names a team, a data type and a set of operations.  Every operation is made by
 * the CPU of the host that has the target: from here, if the memory is mapped here, else by the target's
 * process on request; so all members' operations on one location are coherent, also with CPU
 * atomics that its neighbours use themselves.  An operation on mapped memory does not poll: who
 * spins on one calls gasnet_AMPoll, or others whose requests wait here never get on.  The target is
 * an aligned object in the bound segment of the target's endpoint.
 */
#ifndef AMPHORA_AD_H
#define AMPHORA_AD_H

#include <stdint.h>
#include <string.h>

#include "amphora/operators.h"
#include "amphora/rma.h"

AMPHORA_BEGIN_C

/* The library's domain begins with this; nothing changes after its creation. */
struct amphora_ad {
    gex_TM_t tm;
    gex_OP_t ops;
    gex_DT_t dt;
};

typedef struct amphora_ad *gex_AD_t;
#define GEX_AD_INVALID ((gex_AD_t)0)

/* Collective over tm; every argument is the same at all members.  dt: one GEX_DT_ but USER; ops:
 * one or more GEX_OP_ that the type has (floats have no bitwise ones), combined with |; flags: 0 or
 * one GEX_FLAG_AD_FAVOR_*, also with GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET, which
 * announce that operations will have them; each operation says so itself.  Others end the job with a
 * sentence. */
void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);
/* Collective over the domain's team, after all operations of it have been completed. */
void gex_AD_Destroy(gex_AD_t ad);
gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad);
gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
gex_OP_t gex_AD_QueryOps(gex_AD_t ad);
void gex_AD_SetCData(gex_AD_t ad, const void *val);
void *gex_AD_QueryCData(gex_AD_t ad);

/* Operations that give something back: GEX_OP_GET, SWAP, FCAS and all GEX_OP_F*. */
#define AMPHORA_OP_GIVES ((gex_OP_t)(GEX_OP_GET | 0xffff0000u))

/* What the header does not do itself.  result, operands: of the type dt. */
gex_Event_t amphora_ad_nb(gex_AD_t ad, gex_DT_t dt, void *result, gex_Rank_t rank, void *addr,
                          gex_OP_t op, const void *operand1, const void *operand2,
                          gex_Flags_t flags);
int amphora_ad_nbi(gex_AD_t ad, gex_DT_t dt, void *result, gex_Rank_t rank, void *addr, gex_OP_t op,
                   const void *operand1, const void *operand2, gex_Flags_t flags);

/* The target here, or NULL: the library looks at it. */
AMPHORA_INLINE void *amphora_ad_addr(gex_AD_t ad, gex_DT_t dt, gex_Rank_t rank, void *addr,
                                     size_t nbytes, gex_OP_t op, gex_Flags_t flags)
{
    if (AMPHORA_UNLIKELY(!(ad->ops & op) || (op & (op - 1)) || ad->dt != dt ||
                         ((uintptr_t)addr & (nbytes - 1))))
        return 0;

    return amphora_rma_addr(flags & GEX_FLAG_RANK_IS_JOBRANK ? amphora_team0 : ad->tm, rank, addr,
                            nbytes, flags);
}

/* The smaller and the larger value; T: their type. */
#define AMPHORA_AD_MIN(T, x, y) ((T)(x) < (T)(y) ? (T)(x) : (T)(y))
#define AMPHORA_AD_MAX(T, x, y) ((T)(x) > (T)(y) ? (T)(x) : (T)(y))

/* One operation on memory of this process; gives what was there.  U: the unsigned type of T's size,
 * in which sums wrap. */
#define AMPHORA_DEFINE_APPLY_INTEGER(NAME, T, U) \
    AMPHORA_INLINE T amphora_apply_##NAME(void *addr, gex_OP_t op, T a, T b) \
    { \
        U *at = (U *)addr; \
        U old, to; \
        switch (op & 0xffffu ? op & 0xffffu : op >> 16) { \
        case GEX_OP_ADD: \
            return (T)__atomic_fetch_add(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_SUB: \
            return (T)__atomic_fetch_sub(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_INC: \
            return (T)__atomic_fetch_add(at, (U)1, __ATOMIC_RELAXED); \
        case GEX_OP_DEC: \
            return (T)__atomic_fetch_sub(at, (U)1, __ATOMIC_RELAXED); \
        case GEX_OP_AND: \
            return (T)__atomic_fetch_and(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_OR: \
            return (T)__atomic_fetch_or(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_XOR: \
            return (T)__atomic_fetch_xor(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_GET: \
            return (T)__atomic_load_n(at, __ATOMIC_RELAXED); \
        case GEX_OP_SET: /* and SWAP */ \
            if (op == GEX_OP_SET) { \
                __atomic_store_n(at, (U)a, __ATOMIC_RELAXED); \
                return a; \
            } \
            return (T)__atomic_exchange_n(at, (U)a, __ATOMIC_RELAXED); \
        case GEX_OP_CAS: \
            old = (U)a; \
            __atomic_compare_exchange_n(at, &old, (U)b, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
            return (T)old; \
        default: \
            old = __atomic_load_n(at, __ATOMIC_RELAXED); \
            do { \
                if (op & (GEX_OP_MIN | GEX_OP_FMIN)) \
                    to = (U)AMPHORA_AD_MIN(T, old, a); \
                else if (op & (GEX_OP_MAX | GEX_OP_FMAX)) \
                    to = (U)AMPHORA_AD_MAX(T, old, a); \
                else \
                    to = (U)(old * (U)a); \
            } while (!__atomic_compare_exchange_n(at, &old, to, 1, __ATOMIC_RELAXED, \
                                                  __ATOMIC_RELAXED)); \
            return (T)old; \
        } \
    }

/* The arithmetic operations on floating point: the new value. */
#define AMPHORA_DEFINE_COMBINE_FLOAT(NAME, T) \
    AMPHORA_INLINE T amphora_combine_##NAME(gex_OP_t op, T old, T a) \
    { \
        switch (op) { \
        case GEX_OP_ADD: \
            return old + a; \
        case GEX_OP_SUB: \
            return old - a; \
        case GEX_OP_MULT: \
            return old * a; \
        case GEX_OP_MIN: \
            return old < a ? old : a; \
        case GEX_OP_MAX: \
            return old > a ? old : a; \
        case GEX_OP_INC: \
            return old + 1; \
        default: /* DEC */ \
            return old - 1; \
        } \
    }

/* One operation on floating point in memory of this process, on the bits; CAS compares bits. */
#define AMPHORA_DEFINE_APPLY_FLOAT(NAME, T, U) \
    AMPHORA_INLINE T amphora_apply_##NAME(void *addr, gex_OP_t op, T a, T b) \
    { \
        U *at = (U *)addr; \
        U old, to, bits; \
        T v, w; \
        gex_OP_t plain = op & 0xffffu ? op & 0xffffu : op >> 16; \
        memcpy(&bits, &a, sizeof bits); \
        if (plain == GEX_OP_CAS) { \
            memcpy(&to, &b, sizeof to); \
            old = bits; \
            __atomic_compare_exchange_n(at, &old, to, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        } else if (plain == GEX_OP_SET) { \
            old = __atomic_exchange_n(at, bits, __ATOMIC_RELAXED); \
        } else { \
            old = __atomic_load_n(at, __ATOMIC_RELAXED); \
            while (plain != GEX_OP_GET) { \
                memcpy(&v, &old, sizeof v); \
                w = amphora_combine_##NAME(plain, v, a); \
                memcpy(&to, &w, sizeof to); \
                if (__atomic_compare_exchange_n(at, &old, to, 1, __ATOMIC_RELAXED, \
                                                __ATOMIC_RELAXED)) \
                    break; \
            } \
        } \
        memcpy(&v, &old, sizeof v); \
        return v; \
    }

/* clang-format off */
AMPHORA_DEFINE_APPLY_INTEGER(I32, int32_t, uint32_t)
AMPHORA_DEFINE_APPLY_INTEGER(U32, uint32_t, uint32_t)
AMPHORA_DEFINE_APPLY_INTEGER(I64, int64_t, uint64_t)
AMPHORA_DEFINE_APPLY_INTEGER(U64, uint64_t, uint64_t)
AMPHORA_DEFINE_COMBINE_FLOAT(FLT, float)
AMPHORA_DEFINE_COMBINE_FLOAT(DBL, double)
AMPHORA_DEFINE_APPLY_FLOAT(FLT, float, uint32_t)
AMPHORA_DEFINE_APPLY_FLOAT(DBL, double, uint64_t)
/* clang-format on */

AMPHORA_INLINE void amphora_ad_fence(gex_Flags_t flags, gex_Flags_t which)
{
    if (flags & which)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        AMPHORA_FENCE();
}

/* gex_AD_OpNB_T(ad, result_p, rank, addr, op, operand1, operand2, flags): an event,
 * GEX_EVENT_INVALID where it is done, GEX_EVENT_NO_OP with GEX_FLAG_IMMEDIATE; gex_AD_OpNBI_T: 0,
 * or non-zero with IMMEDIATE.  gex_NBI_Wait waits for GET with GEX_EC_GET, for SET with GEX_EC_PUT,
 * and for all others with GEX_EC_RMW.  *result_p is set at completion by operations that give
 * something back.  CAS and FCAS compare with operand1 and set operand2. */
#define AMPHORA_DEFINE_AD(NAME, T) \
    AMPHORA_INLINE int amphora_ad_here_##NAME(gex_AD_t ad, T *result_p, gex_Rank_t rank, \
                                              void *addr, gex_OP_t op, T a, T b, \
                                              gex_Flags_t flags) \
    { \
        void *at = amphora_ad_addr(ad, GEX_DT_##NAME, rank, addr, sizeof(T), op, flags); \
        T old; \
        if (AMPHORA_UNLIKELY(!at)) \
            return 0; \
        amphora_ad_fence(flags, GEX_FLAG_AD_REL); \
        old = amphora_apply_##NAME(at, op, a, b); \
        amphora_ad_fence(flags, GEX_FLAG_AD_ACQ); \
        if (op & AMPHORA_OP_GIVES) \
            *result_p = old; \
        return 1; \
    } \
    AMPHORA_INLINE gex_Event_t gex_AD_OpNB_##NAME(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, \
                                                  void *tgt_addr, gex_OP_t opcode, T operand1, \
                                                  T operand2, gex_Flags_t flags) \
    { \
        if (amphora_ad_here_##NAME(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, \
                                   flags)) \
            return GEX_EVENT_INVALID; \
        return amphora_ad_nb(ad, GEX_DT_##NAME, result_p, tgt_rank, tgt_addr, opcode, &operand1, \
                             &operand2, flags); \
    } \
    AMPHORA_INLINE int gex_AD_OpNBI_##NAME(gex_AD_t ad, T *result_p, gex_Rank_t tgt_rank, \
                                           void *tgt_addr, gex_OP_t opcode, T operand1, \
                                           T operand2, gex_Flags_t flags) \
    { \
        if (amphora_ad_here_##NAME(ad, result_p, tgt_rank, tgt_addr, opcode, operand1, operand2, \
                                   flags)) \
            return 0; \
        return amphora_ad_nbi(ad, GEX_DT_##NAME, result_p, tgt_rank, tgt_addr, opcode, &operand1, \
                              &operand2, flags); \
    }

/* clang-format off */
AMPHORA_DEFINE_AD(I32, int32_t)
AMPHORA_DEFINE_AD(U32, uint32_t)
AMPHORA_DEFINE_AD(I64, int64_t)
AMPHORA_DEFINE_AD(U64, uint64_t)
AMPHORA_DEFINE_AD(FLT, float)
AMPHORA_DEFINE_AD(DBL, double)
/* clang-format on */

AMPHORA_END_C

#endif
