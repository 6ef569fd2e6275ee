/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending a message to a known target; shared by message.c and prepare.c.
 *
 * Layer: extended.  Thread rule: as am/am.h.
 */
#ifndef AMPH_EXTENDED_MESSAGE_H
#define AMPH_EXTENDED_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "base/status.h"
#include "extended/gex.h"

/* Sends am to peer as a request, or as the reply of token, with the local completion of lc_opt
 * (ignored for shorts).  flags: those of the call.  Returns 0, or 1 if nothing was sent
 * (GEX_FLAG_IMMEDIATE only); other errors are fatal. */
int amph_gex_message_request(uint32_t peer, const struct amph_am *am, gex_Event_t *lc_opt,
                             gex_Flags_t flags);
int amph_gex_message_reply(gex_Token_t token, const struct amph_am *am, gex_Event_t *lc_opt,
                           gex_Flags_t flags);

/* Returns 0 or 1 for a status of am/; other errors are fatal.  call: the first part of the
 * call's name ("gex_AM_Request"); the message adds the kind. */
int amph_gex_message_answer(enum amph_status st, uint32_t peer, const struct amph_am *am,
                            const char *call);

/* Largest payload to peer in a message of this kind with these flags, GEX_FLAG_AM_PREPARE_LEAST_*
 * among them. */
size_t amph_gex_message_limit(const struct amph_gex *g, uint32_t peer, bool is_long,
                              gex_Flags_t flags);

/* Returns the peer of a message to (tm, rank); *route_p: its endpoints, for am->flags. */
uint32_t amph_gex_message_peer_of(gex_TM_t tm, gex_Rank_t rank, const char *call, uint8_t *route_p);
static inline uint32_t amph_gex_message_peer(gex_TM_t tm, gex_Rank_t rank, const char *call,
                                             uint8_t *route_p)
{
    const struct amph_gex *g = amph_gex();

    *route_p = 0;
    if (AMPH_LIKELY(g && tm == &g->team.pub && rank < g->team.pub.size))
        return rank;

    return amph_gex_message_peer_of(tm, rank, call, route_p);
}

/* The route of a reply. */
static inline uint8_t amph_gex_message_back(const struct amph_token *token)
{
    return AMPH_AM_ROUTE_BACK(token->am->flags);
}

/* The address of a call's destination in the target's segment; dest is an offset if the flags say
 * so. */
static inline uint64_t amph_gex_message_dest(const struct amph_gex *g, uint32_t peer, uint8_t route,
                                             const void *dest, gex_Flags_t flags)
{
    uint64_t addr = (uintptr_t)dest;
    return AMPH_UNLIKELY(flags & GEX_FLAG_PEER_SEG_OFFSET)
               ? addr + amph_gex_ep_rmem(g, peer, AMPH_AM_ROUTE_TO(route))->base
               : addr;
}

/* The source address; src is an offset if the flags say so. */
static inline const void *amph_gex_message_source(struct amph_gex *g, uint8_t route,
                                                  const void *src, gex_Flags_t flags)
{
    if (AMPH_LIKELY(!(flags & GEX_FLAG_SELF_SEG_OFFSET)))
        return src;

    const struct amphora_ep *from = g->eps[AMPH_AM_ROUTE_TO(AMPH_AM_ROUTE_BACK(route))];

    return (const void *)((uintptr_t)(from && from->segment ? from->segment->base : NULL) +
                          (uintptr_t)src);
}

#endif
