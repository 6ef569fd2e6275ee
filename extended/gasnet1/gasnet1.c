/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of GASNet-1 that are not inline in the header: attach, value gets, try calls.
 * Layer: extended.  Thread rule: GASNet-1 spec.
 */
#include "amphora/gasnet1.h"
#include "conduits/conduit.h"

#include <stdlib.h>

#include "base/log.h"
#include "boot/boot.h"
#include "extended/event.h"

/* ---- job ---- */

/* Registers handlers of GASNet-1, which declare neither category nor number of arguments. */
static int register_table(struct amph_gex *g, gasnet_handlerentry_t *table, int numentries)
{
    if (numentries < 0 || (numentries && !table)) {
        amph_gex_complain("gasnet_attach: a table of %d handlers at %p is none", numentries,
                          (void *)table);
        return GASNET_ERR_BAD_ARG;
    }

    gex_AM_Entry_t *entries = calloc((size_t)numentries + 1, sizeof *entries);
    if (!entries)
        return GASNET_ERR_RESOURCE;

    for (int i = 0; i < numentries; i++)
        entries[i] = (gex_AM_Entry_t){ .gex_index = table[i].index,
                                       .gex_fnptr = table[i].fnptr,
                                       .gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG |
                                                    GEX_FLAG_AM_REQREP };

    int err = amph_gex_handlers_register(&g->ep, entries, (size_t)numentries, true);

    for (int i = 0; i < numentries && !err; i++)
        table[i].index = entries[i].gex_index;

    free(entries);
    return err;
}

int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize,
                  uintptr_t minheapoffset)
{
    struct amph_gex *g = amph_gex();

    if (!g) {
        amph_gex_complain("gasnet_attach was called before gasnet_init");
        return GASNET_ERR_NOT_INIT;
    }

    int err = g->attached ? GASNET_OK : register_table(g, table, numentries);

    return amph_gex_segment_attach(g, segsize, err);
}

int gasnet_getSegmentInfo(gasnet_seginfo_t *seginfo_table, int numentries)
{
    const struct amph_gex *g = amph_gex();

    if (!g || !g->attached)
        return GASNET_ERR_NOT_INIT;
    if (numentries < 0 || (numentries && !seginfo_table))
        return GASNET_ERR_BAD_ARG;

    for (uint32_t i = 0; i < (uint32_t)numentries && i < g->team.pub.size; i++)
        seginfo_table[i] = (gasnet_seginfo_t){ .addr = (void *)(uintptr_t)g->rmem[i].base,
                                               .size = (uintptr_t)g->rmem[i].len_bytes };

    return GASNET_OK;
}

int gasnet_getNodeInfo(gasnet_nodeinfo_t *nodeinfo_table, int numentries)
{
    const struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;
    if (numentries < 0 || (numentries && !nodeinfo_table))
        return GASNET_ERR_BAD_ARG;

    const struct amph_proc *proc = &amph_boot_job(amph_job.boot)->proc[amph_job.first];
    const uint32_t n = (uint32_t)numentries < g->team.pub.size ? (uint32_t)numentries
                                                               : g->team.pub.size;
    uint32_t hosts = 0;
    uint32_t supernodes = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct amph_rmem *rmem = &g->rmem[i];
        uintptr_t delta = (uintptr_t)rmem->local - (uintptr_t)rmem->base;
        uint32_t first = 0;

        while (proc[first].host != proc[i].host)
            first++;

        nodeinfo_table[i] = (gasnet_nodeinfo_t){
            .host = first < i ? nodeinfo_table[first].host : hosts++,
            .supernode = g->leader[i] < i ? nodeinfo_table[g->leader[i]].supernode : supernodes++,
            .offset = rmem->local && rmem->len_bytes ? delta : 0,
        };
    }

    return GASNET_OK;
}

void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p,
                            gex_Segment_t *segment_p)
{
    struct amph_gex *g = amph_gex_need("gasnet_QueryGexObjects");

    if (client_p)
        *client_p = &g->client;

    if (endpoint_p)
        *endpoint_p = &g->ep;

    if (tm_p)
        *tm_p = &g->team.pub;

    if (segment_p)
        *segment_p = g->ep.segment;
}

/* ---- messages ---- */

int amphora_refuse(gasnet_node_t dest, size_t nbytes, int is_long)
{
    const struct amph_gex *g = amph_gex();

    if (!g) {
        amph_gex_complain("an active message was sent before gasnet_init");
        return GASNET_ERR_NOT_INIT;
    }

    if (dest >= g->team.pub.size) {
        amph_gex_complain("an active message was sent to node %u; the job has %u nodes, from 0",
                          dest, g->team.pub.size);
        return GASNET_ERR_BAD_ARG;
    }

    size_t max = is_long ? amph_am_max_long(g->ep.am, dest) : amph_am_max_medium(g->ep.am, dest);

    if (nbytes > max) {
        amph_gex_complain("a%s of %zu bytes to node %u is too large; %s() says %zu",
                          is_long ? " long message" : " medium message", nbytes, dest,
                          is_long ? "gasnet_AMMaxLongRequest" : "gasnet_AMMaxMedium", max);
        return GASNET_ERR_BAD_ARG;
    }

    return GASNET_OK;
}

/* ---- completion ---- */

int gasnet_try_syncnb(gasnet_handle_t handle)
{
    if (handle == GASNET_INVALID_HANDLE)
        return GASNET_OK;

    gasnet_AMPoll();
    return gex_Event_Test(handle);
}

int gasnet_try_syncnb_some(gasnet_handle_t *handles, size_t numhandles)
{
    gasnet_AMPoll();
    return gex_Event_TestSome(handles, numhandles, 0);
}

int gasnet_try_syncnb_all(gasnet_handle_t *handles, size_t numhandles)
{
    gasnet_AMPoll();
    return gex_Event_TestAll(handles, numhandles, 0);
}

int amphora_try_nbi(gex_EC_t mask)
{
    gasnet_AMPoll();
    return gex_NBI_Test(mask, 0);
}

/* ---- value gets: the handle is the operation, which holds the value ---- */

gasnet_valget_handle_t gasnet_get_nb_val(gasnet_node_t node, void *src, size_t nbytes)
{
    void *at = amphora_reach_addr_unless_own(amphora_team0, node, src, nbytes);

    if (nbytes - 1 >= sizeof(gasnet_register_value_t))
        amph_fatal("gasnet_get_nb_val: a value has 1 to %zu bytes, not %zu",
                   sizeof(gasnet_register_value_t), nbytes);

    struct amph_gex_op *op = amph_gex_op_get();

    op->nbytes = (uint8_t)nbytes;
    if (at)
        amphora_copy(&op->value, at, nbytes);
    else
        amph_rma_get_into_op(op, amphora_team0, node, src, nbytes);

    return (gasnet_valget_handle_t)op;
}

gasnet_register_value_t gasnet_wait_syncnb_valget(gasnet_valget_handle_t handle)
{
    struct amph_gex_op *op = (struct amph_gex_op *)handle;
    struct amph_waiter w = AMPH_WAITER_INIT;

    while (!amph_event_done(&op->root))
        amph_gex_wait_step(&w);

    gasnet_register_value_t value = amphora_load_val(&op->value, op->nbytes);

    amph_gex_op_put(op);
    return value;
}
