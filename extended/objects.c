/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries on clients, endpoints and teams, and the naming of members by team and rank.  Layer: extended.
 * Thread rule: any thread, also handlers; client data is the client's to guard.
 */
#include "base/log.h"
#include "extended/gex.h"

/* A gex_TM_t with its lowest bit set is a pair: the local endpoint's index from bit 16, the peer's from bit 1.  There is one endpoint
 * in a process, so a pair names the primordial team. */
static bool is_pair(gex_TM_t tm)
{
    return (uintptr_t)tm & 1;
}

struct amph_team *amph_team_of(gex_TM_t tm, const char *call)
{
    struct amph_gex *g = amph_gex_need(call);
    if (is_pair(tm)) {
        if ((uintptr_t)tm >> 1)
            amph_fatal("%s: the pair names an endpoint that does not exist", call);
        return &g->team;
    }
    if (AMPH_UNLIKELY(tm == GEX_TM_INVALID || tm->size == 0))
        amph_fatal("%s: the team is not valid", call);
    return AMPH_CONTAINER_OF(tm, struct amph_team, pub);
}

struct amph_team *amph_team_find(uint64_t id)
{
    struct amph_gex *g = amph_gex();
    return g && id == g->team.id ? &g->team : NULL;
}

uint32_t amph_team_peer(gex_TM_t tm, gex_Rank_t rank, const char *call)
{
    const struct amph_gex *g = amph_gex();
    if (AMPH_LIKELY(g && tm == &g->team.pub && rank < g->team.pub.size))
        return rank;
    const struct amph_team *team = amph_team_of(tm, call);
    if (rank >= team->pub.size)
        amph_fatal("%s: rank %u is out of range; the team has %u members", call, rank, team->pub.size);
    return amph_team_member(team, rank);
}

/* ---- clients ---- */

gex_Flags_t gex_Client_QueryFlags(gex_Client_t client)
{
    return client->flags;
}
const char *gex_Client_QueryName(gex_Client_t client)
{
    return client->name;
}
void gex_Client_SetCData(gex_Client_t client, const void *val)
{
    client->cdata = val;
}
void *gex_Client_QueryCData(gex_Client_t client)
{
    return (void *)client->cdata;
}

/* ---- endpoints ---- */

gex_Client_t gex_EP_QueryClient(gex_EP_t ep)
{
    return ep->client;
}
gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep)
{
    return 0;
}
gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep)
{
    return ep->segment;
}
gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep)
{
    return ep->index;
}
void gex_EP_SetCData(gex_EP_t ep, const void *val)
{
    ep->cdata = val;
}
void *gex_EP_QueryCData(gex_EP_t ep)
{
    return (void *)ep->cdata;
}

/* ---- teams ---- */

gex_Client_t gex_TM_QueryClient(gex_TM_t tm)
{
    return amph_team_of(tm, "gex_TM_QueryClient")->ep->client;
}
gex_EP_t gex_TM_QueryEP(gex_TM_t tm)
{
    return amph_team_of(tm, "gex_TM_QueryEP")->ep;
}
gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm)
{
    return amph_team_of(tm, "gex_TM_QueryFlags")->flags;
}
gex_Rank_t gex_TM_QueryRank(gex_TM_t tm)
{
    return amph_team_of(tm, "gex_TM_QueryRank")->pub.rank;
}
gex_Rank_t gex_TM_QuerySize(gex_TM_t tm)
{
    return amph_team_of(tm, "gex_TM_QuerySize")->pub.size;
}
void gex_TM_SetCData(gex_TM_t tm, const void *val)
{
    amph_team_of(tm, "gex_TM_SetCData")->cdata = val;
}
void *gex_TM_QueryCData(gex_TM_t tm)
{
    return (void *)amph_team_of(tm, "gex_TM_QueryCData")->cdata;
}

gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank)
{
    return amph_team_peer(tm, rank, "gex_TM_TranslateRankToJobrank");
}
gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank)
{
    return jobrank < amph_team_of(tm, "gex_TM_TranslateJobrankToRank")->pub.size ? jobrank : GEX_RANK_INVALID;
}
gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags)
{
    return (gex_EP_Location_t){ .gex_rank = amph_team_peer(tm, rank, "gex_TM_TranslateRankToEP"), .gex_ep_index = 0 };
}

gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index)
{
    if (!local_ep || remote_ep_index >= GASNET_MAXEPS)
        amph_fatal("gex_TM_Pair: endpoint index %u is out of range; a process has at most %d", remote_ep_index, GASNET_MAXEPS);
    return (gex_TM_t)(((uintptr_t)local_ep->index << 16) | ((uintptr_t)remote_ep_index << 1) | 1);
}
