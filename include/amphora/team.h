/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public part of a team: enough to reach a neighbour's memory from the header with plain loads
 * and stores.
 */
#ifndef AMPHORA_TEAM_H
#define AMPHORA_TEAM_H

#include <stdint.h>

#include "amphora/types.h"

AMPHORA_BEGIN_C

/* How the segment of one member is reached.  len 0: not mapped here, the library carries the
 * transfer. */
struct amphora_reach {
    uintptr_t base;  /* address of the segment in its owner */
    uintptr_t len;   /* bytes that are mapped here */
    uintptr_t delta; /* owner's address + delta = address here (modulo 2^n) */
};

/* The library's team begins with this; nothing changes after the segments have been attached. */
struct amphora_team {
    const struct amphora_reach *reach; /* [size] */
    gex_Rank_t size;
    gex_Rank_t rank;
};

/* The team that GASNet-1 calls use; before initialisation an empty one. */
extern struct amphora_team *amphora_team0;

/* Messages that this process has sent to itself and that have not been handled yet.  While there are
 * any, transfers that no later call completes go through the library, which handles them.  NBI
 * transfers do not read it: gex_NBI_Wait and gex_NBI_Test handle such messages. */
extern uint32_t amphora_own_messages;

/* The address of [addr, addr+nbytes) of member rank in this process, or NULL: the library must carry
 * the transfer (another host, an empty transfer, a pair, or an address or a rank that is not
 * allowed). */
AMPHORA_INLINE void *amphora_reach_addr(gex_TM_t tm, gex_Rank_t rank, const void *addr,
                                        size_t nbytes)
{
    const struct amphora_reach *r;
    uintptr_t off;

    if (AMPHORA_UNLIKELY(((uintptr_t)tm & 1) || rank >= tm->size))
        return NULL;

    r = &tm->reach[rank];
    off = (uintptr_t)addr - r->base;

    if (AMPHORA_UNLIKELY(off >= r->len || nbytes > r->len - off))
        return NULL;

    return (void *)((uintptr_t)addr + r->delta);
}

/* The same; NULL also while own messages are queued. */
AMPHORA_INLINE void *amphora_reach_addr_unless_own(gex_TM_t tm, gex_Rank_t rank, const void *addr,
                                                   size_t nbytes)
{
    if (AMPHORA_UNLIKELY(__atomic_load_n(&amphora_own_messages, __ATOMIC_RELAXED)))
        return NULL;

    return amphora_reach_addr(tm, rank, addr, nbytes);
}

AMPHORA_END_C

#endif
