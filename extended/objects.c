/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries on clients and endpoints.  Layer: extended.  Thread rule: any thread, also handlers;
 * clients guard their client data.
 */
#include <stddef.h>

#include "base/platform.h"
#include "conduits/conduit.h"
#include "extended/gex.h"

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

const struct amph_rmem *amph_gex_ep_rmem(const struct amph_gex *g, uint32_t peer,
                                         gex_EP_Index_t index)
{
    static const struct amph_rmem nothing;

    if (AMPH_LIKELY(index == 0))
        return &g->rmem[peer];

    const struct amph_rmem *table = __atomic_load_n(&g->others[index], __ATOMIC_ACQUIRE);

    return table ? &table[peer] : &nothing;
}

struct amphora_ep *amph_gex_ep_find(struct amph_gex *g, gex_EP_Index_t index)
{
    return index < GASNET_MAXEPS ? __atomic_load_n(&g->eps[index], __ATOMIC_ACQUIRE) : NULL;
}

gex_Client_t gex_EP_QueryClient(gex_EP_t ep)
{
    return ep->client;
}

gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep)
{
    return ep->flags;
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
