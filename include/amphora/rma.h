/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get.  GASNet-EX spec, "Extended API".
 *
 * The remote range must lie in the bound segment of (tm, rank).  To a neighbour (a process that
 * shares memory) the transfer is made here by loads, stores and memcpy, and is complete on return;
 * everything else is the library's.  Blocking calls return when the data is in place, NB calls
 * return an event, NBI calls are completed by gex_NBI_Wait.  lc_opt says when the source may be
 * used again: GEX_EVENT_NOW, _DEFER (with the operation), _GROUP (NBI: GEX_EC_LC), or the address
 * of an event (NB). With GEX_FLAG_IMMEDIATE they may answer non-zero or GEX_EVENT_NO_OP: nothing
 * was started.  Not from handlers.
 *
 * Other flags: GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET make the address here, or at
 * the target, an offset in the bound segment.  GEX_FLAG_PEER_NEVER_NBRHD, as a constant, saves the
 * look for a neighbour; GEX_FLAG_PEER_NEVER_SELF, _SEG_BOUND, _SEG_SOME and _SEG_UNKNOWN state what
 * the library knows by itself; GEX_FLAG_LC_COPY_YES and _NO have no effect.
 */
#ifndef AMPHORA_RMA_H
#define AMPHORA_RMA_H

#include <stdint.h>
#include <string.h>

#include "amphora/team.h"

AMPHORA_BEGIN_C

int amphora_put_blocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                         gex_Flags_t flags);
int amphora_put_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                    gex_Event_t *lc_opt, gex_Flags_t flags);
gex_Event_t amphora_put_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                           gex_Event_t *lc_opt, gex_Flags_t flags);
int amphora_get_blocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                         gex_Flags_t flags);
int amphora_get_nbi(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                    gex_Flags_t flags);
gex_Event_t amphora_get_nb(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                           gex_Flags_t flags);
gex_RMA_Value_t amphora_get_val(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes,
                                gex_Flags_t flags);
int amphora_put_val(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                    gex_Flags_t flags);
int amphora_put_val_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                        size_t nbytes, gex_Flags_t flags);
gex_Event_t amphora_put_val_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                               size_t nbytes, gex_Flags_t flags);

/* Copies more than AMPHORA_SMALL_COPY bytes; the C library's memcpy is slow there on some processors. */
void amphora_copy_large(void *dest, const void *src, size_t nbytes);

#define AMPHORA_SMALL_COPY ((size_t)512 << 10)

/* Copies between this process and mapped memory, ordered against the accesses around it.  Words are
 * one access each. */
AMPHORA_INLINE void amphora_copy(void *dest, const void *src, size_t nbytes)
{
    uint64_t v8;
    uint32_t v4;

    AMPHORA_FENCE();
    if (nbytes == 8) {
        memcpy(&v8, src, 8);
        memcpy(dest, &v8, 8);
    } else if (nbytes == 4) {
        memcpy(&v4, src, 4);
        memcpy(dest, &v4, 4);
    } else if (nbytes <= AMPHORA_SMALL_COPY) {
        memcpy(dest, src, nbytes);
    } else {
        amphora_copy_large(dest, src, nbytes);
    }

    AMPHORA_FENCE();
}

/* Writes the nbytes low-order bytes (1 to SIZEOF_GEX_RMA_VALUE_T) of value as an integer of that
 * size. */
AMPHORA_INLINE void amphora_store_val(void *dest, gex_RMA_Value_t value, size_t nbytes)
{
    const uint8_t v1 = (uint8_t)value;
    const uint16_t v2 = (uint16_t)value;
    const uint32_t v4 = (uint32_t)value;

    if (nbytes == sizeof value)
        memcpy(dest, &value, sizeof value);
    else if (nbytes == 4)
        memcpy(dest, &v4, 4);
    else if (nbytes == 2)
        memcpy(dest, &v2, 2);
    else if (nbytes == 1)
        memcpy(dest, &v1, 1);
    else if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        memcpy(dest, &value, nbytes);
    else
        memcpy(dest, (const char *)&value + (sizeof value - nbytes), nbytes);
}

/* The counterpart: reads an integer of nbytes bytes, zero-extended. */
AMPHORA_INLINE gex_RMA_Value_t amphora_load_val(const void *src, size_t nbytes)
{
    gex_RMA_Value_t value = 0;
    uint8_t v1;
    uint16_t v2;
    uint32_t v4;

    if (nbytes == sizeof value) {
        memcpy(&value, src, sizeof value);
        return value;
    }

    if (nbytes == 4) {
        memcpy(&v4, src, 4);
        return v4;
    }

    if (nbytes == 2) {
        memcpy(&v2, src, 2);
        return v2;
    }

    if (nbytes == 1) {
        memcpy(&v1, src, 1);
        return v1;
    }

    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        memcpy(&value, src, nbytes);
    else
        memcpy((char *)&value + (sizeof value - nbytes), src, nbytes);

    return value;
}

/* Whether the library carries a transfer because of its flags: its addresses are offsets, or the
 * caller says by a constant that they belong to no neighbour.  In a client that is checked
 * (GASNET_DEBUG) it carries all. */
AMPHORA_INLINE int amphora_rma_is_library(gex_Flags_t flags)
{
#ifdef GASNET_DEBUG
    (void)flags;
    return 1;
#else
    if (__builtin_constant_p(flags) && (flags & GEX_FLAG_PEER_NEVER_NBRHD))
        return 1;

    return AMPHORA_UNLIKELY(flags & (GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET)) != 0;
#endif
}

/* The address in this process of a transfer's target, or NULL: the library carries the transfer. */
AMPHORA_INLINE void *amphora_rma_addr(gex_TM_t tm, gex_Rank_t rank, const void *addr, size_t nbytes,
                                      gex_Flags_t flags)
{
    return amphora_rma_is_library(flags) ? 0
                                         : amphora_reach_addr_unless_own(tm, rank, addr, nbytes);
}

/* The same for an NBI transfer. */
AMPHORA_INLINE void *amphora_rma_addr_nbi(gex_TM_t tm, gex_Rank_t rank, const void *addr,
                                          size_t nbytes, gex_Flags_t flags)
{
    return amphora_rma_is_library(flags) ? 0 : amphora_reach_addr(tm, rank, addr, nbytes);
}

AMPHORA_INLINE int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                                       size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, dest, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_put_blocking(tm, rank, dest, src, nbytes, flags);

    amphora_copy(at, src, nbytes);
    return 0;
}

AMPHORA_INLINE int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                                  size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags)
{
    void *at = amphora_rma_addr_nbi(tm, rank, dest, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_put_nbi(tm, rank, dest, src, nbytes, lc_opt, flags);

    amphora_copy(at, src, nbytes);
    return 0;
}

AMPHORA_INLINE gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src,
                                         size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, dest, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_put_nb(tm, rank, dest, src, nbytes, lc_opt, flags);

    amphora_copy(at, src, nbytes);
    if (AMPHORA_LC_IS_ADDRESS(lc_opt))
        *lc_opt = GEX_EVENT_INVALID;

    return GEX_EVENT_INVALID;
}

AMPHORA_INLINE int gex_RMA_GetBlocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src,
                                       size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, src, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_get_blocking(tm, dest, rank, src, nbytes, flags);

    amphora_copy(dest, at, nbytes);
    return 0;
}

AMPHORA_INLINE int gex_RMA_GetNBI(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src,
                                  size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr_nbi(tm, rank, src, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_get_nbi(tm, dest, rank, src, nbytes, flags);

    amphora_copy(dest, at, nbytes);
    return 0;
}

AMPHORA_INLINE gex_Event_t gex_RMA_GetNB(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src,
                                         size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, src, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at))
        return amphora_get_nb(tm, dest, rank, src, nbytes, flags);

    amphora_copy(dest, at, nbytes);
    return GEX_EVENT_INVALID;
}

/* Values of 1 to SIZEOF_GEX_RMA_VALUE_T bytes, in a register. */

AMPHORA_INLINE gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *src,
                                                      size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, src, nbytes, flags);
    gex_RMA_Value_t value;

    if (AMPHORA_UNLIKELY(!at || nbytes - 1 >= sizeof value))
        return amphora_get_val(tm, rank, src, nbytes, flags);

    AMPHORA_FENCE();
    value = amphora_load_val(at, nbytes);
    AMPHORA_FENCE();

    return value;
}

AMPHORA_INLINE int gex_RMA_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *dest,
                                          gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr(tm, rank, dest, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at || nbytes - 1 >= sizeof value))
        return amphora_put_val(tm, rank, dest, value, nbytes, flags);

    AMPHORA_FENCE();
    amphora_store_val(at, value, nbytes);
    AMPHORA_FENCE();

    return 0;
}

AMPHORA_INLINE int gex_RMA_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void *dest,
                                     gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    void *at = amphora_rma_addr_nbi(tm, rank, dest, nbytes, flags);

    if (AMPHORA_UNLIKELY(!at || nbytes - 1 >= sizeof value))
        return amphora_put_val_nbi(tm, rank, dest, value, nbytes, flags);

    AMPHORA_FENCE();
    amphora_store_val(at, value, nbytes);
    AMPHORA_FENCE();

    return 0;
}

AMPHORA_INLINE gex_Event_t gex_RMA_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void *dest,
                                            gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags)
{
    if (AMPHORA_UNLIKELY(!amphora_rma_addr(tm, rank, dest, nbytes, flags)))
        return amphora_put_val_nb(tm, rank, dest, value, nbytes, flags);

    (void)gex_RMA_PutBlockingVal(tm, rank, dest, value, nbytes, flags);
    return GEX_EVENT_INVALID;
}

AMPHORA_END_C

#endif
