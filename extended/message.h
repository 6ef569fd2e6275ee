/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What message.c and prepare.c share: sending a message whose target is known.  Layer: extended.
 * Thread rule: as am/am.h.
 */
#ifndef AMPH_EXTENDED_MESSAGE_H
#define AMPH_EXTENDED_MESSAGE_H

#include "extended/gex.h"

/* Sends am to peer as a request, or as the reply of token, with local completion as lc_opt says
 * (ignored for shorts).  flags: those of the call.  Returns 0, or 1 with GEX_FLAG_IMMEDIATE:
 * nothing was sent; a fatal sentence for anything else. */
int amph_message_request(uint32_t peer, const struct amph_am *am, gex_Event_t *lc_opt,
                         gex_Flags_t flags);
int amph_message_reply(gex_Token_t token, const struct amph_am *am, gex_Event_t *lc_opt,
                       gex_Flags_t flags);

/* 0 or 1 for what am/ answered, or a fatal sentence.  call: "gex_AM_Request" or the like, to stand
 * before the kind. */
int amph_message_answer(enum amph_status st, uint32_t peer, const struct amph_am *am,
                        const char *call);

/* Largest payload to peer in a message of this kind with these flags, GEX_FLAG_AM_PREPARE_LEAST_*
 * among them. */
size_t amph_message_limit(const struct amph_gex *g, uint32_t peer, bool is_long, gex_Flags_t flags);

/* Who a message over (tm, rank) goes to; *route_p: between which endpoints, for am->flags. */
uint32_t amph_message_peer_of(gex_TM_t tm, gex_Rank_t rank, const char *call, uint8_t *route_p);
static inline uint32_t amph_message_peer(gex_TM_t tm, gex_Rank_t rank, const char *call,
                                         uint8_t *route_p)
{
    const struct amph_gex *g = amph_gex();

    *route_p = 0;
    if (AMPH_LIKELY(g && tm == &g->team.pub && rank < g->team.pub.size))
        return rank;

    return amph_message_peer_of(tm, rank, call, route_p);
}

/* The route of a reply. */
static inline uint8_t amph_message_back(const struct amph_token *token)
{
    return AMPH_AM_ROUTE_BACK(token->am->flags);
}

/* The address in the segment at the route's end that a call's destination means, an offset where
 * flags say so. */
static inline uint64_t amph_message_dest(const struct amph_gex *g, uint32_t peer, uint8_t route,
                                         const void *dest, gex_Flags_t flags)
{
    uint64_t addr = (uintptr_t)dest;
    return AMPH_UNLIKELY(flags & GEX_FLAG_PEER_SEG_OFFSET)
               ? addr + amph_ep_rmem(g, peer, AMPH_AM_ROUTE_TO(route))->base
               : addr;
}

/* The source that a call's address means, likewise. */
static inline const void *amph_message_source(struct amph_gex *g, uint8_t route, const void *src,
                                              gex_Flags_t flags)
{
    if (AMPH_LIKELY(!(flags & GEX_FLAG_SELF_SEG_OFFSET)))
        return src;

    const struct amphora_ep *from = g->eps[AMPH_AM_ROUTE_TO(AMPH_AM_ROUTE_BACK(route))];

    return (const void *)((uintptr_t)(from && from->segment ? from->segment->base : NULL) +
                          (uintptr_t)src);
}

#endif
