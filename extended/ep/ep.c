/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints other than the first, and the table of segments that are bound to other processes'
 * endpoints.  Layer: extended.  Thread rule: see endpoint.h.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/log.h"
#include "boot/boot.h"
#include "conduits/conduit.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"

/* ---- this process's endpoints ---- */

static int check_create(const struct amph_gex *g, gex_EP_t *ep_p, gex_Client_t client,
                        gex_EP_Capabilities_t caps, gex_Flags_t flags)
{
    if (!ep_p || client != &g->client || (flags & ~GEX_FLAG_HINT_ACCEL_ALL)) {
        amph_gex_complain("gex_EP_Create: ep_p must not be NULL, client be that of "
                          "gex_Client_Init, and flags (%#x) 0",
                          (unsigned)flags);
        return GASNET_ERR_BAD_ARG;
    }

    if (!caps || (caps & ~GEX_EP_CAPABILITY_ALL)) {
        amph_gex_complain(
            "gex_EP_Create: the capabilities are %#x; give at least one of GEX_EP_CAPABILITY_*",
            (unsigned)caps);
        return GASNET_ERR_BAD_ARG;
    }

    return GASNET_OK;
}

/* Finds a free index for ep and publishes it; locked. */
static int assign_index(struct amph_gex *g, struct amphora_ep *ep)
{
    bool messages = ep->capabilities & GEX_EP_CAPABILITY_AM;
    const unsigned max = messages ? AMPH_AM_CONTEXTS : GASNET_MAXEPS;
    unsigned index = 1;

    while (index < max && g->eps[index])
        index++;

    if (index == max) {
        amph_gex_complain("gex_EP_Create: no index is left; a process has %d endpoints, those with "
                          "an index below %u can have "
                          "GEX_EP_CAPABILITY_AM",
                          GASNET_MAXEPS, AMPH_AM_CONTEXTS);
        return GASNET_ERR_RESOURCE;
    }

    enum amph_status st = messages ? amph_am_context_open(g->ep.am, index) : AMPH_OK;
    if (st != AMPH_OK)
        return amph_gex_error(st);

    ep->index = index;
    __atomic_store_n(&g->eps[index], ep, __ATOMIC_RELEASE);
    return GASNET_OK;
}

int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities,
                  gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    amph_check_call("gex_EP_Create");

    int err = check_create(g, ep_p, client, capabilities, flags);
    if (err)
        return err;

    struct amphora_ep *ep = calloc(1, sizeof *ep);
    if (!ep)
        return GASNET_ERR_RESOURCE;

    ep->client = client;
    ep->flags = flags;
    ep->capabilities = capabilities;
    ep->am = g->ep.am;
    pthread_mutex_lock(&g->bounds->lock);
    err = assign_index(g, ep);
    pthread_mutex_unlock(&g->bounds->lock);

    if (err)
        free(ep);
    else
        *ep_p = ep;

    return err;
}

/* ---- segments of other processes' endpoints ---- */

/* Returns the row of a peer's endpoint, which it creates if necessary.  NULL: no memory.
 * Locked. */
static struct amph_rmem *row(struct amph_gex *g, uint32_t peer, gex_EP_Index_t index)
{
    if (index == 0)
        return &g->rmem[peer];

    if (!g->others[index])
        __atomic_store_n(&g->others[index], calloc(amph_job.size, sizeof *g->others[index]),
                         __ATOMIC_RELEASE);

    return g->others[index] ? &g->others[index][peer] : NULL;
}

/* Replaces the entry `known` by `now`; the old entry's mapping is released. */
static void replace(struct amph_gex *g, uint32_t peer, gex_EP_Index_t index, struct amph_rmem *at,
                    const struct amph_rmem *now)
{
    struct amph_rmem old = *at;

    __atomic_store_n(&at->len_bytes, 0, __ATOMIC_RELEASE);
    at->base = now->base;
    at->local = now->local;
    at->rkey = now->rkey;
    at->rbase = now->rbase;
    __atomic_store_n(&at->len_bytes, now->len_bytes, __ATOMIC_RELEASE);
    if (index == 0)
        amph_am_set_peer_segment(g->ep.am, peer, at);

    if (old.len_bytes && (old.local != now->local || old.base != now->base) &&
        peer != amph_job.rank)
        amph_am_mem_forget(g->ep.am, peer, &old);
}

void amph_gex_bound_write(struct amph_wr *w, const struct amphora_ep *ep)
{
    const struct amphora_segment *seg = ep ? ep->segment : NULL;

    amph_wr_u64(w, seg ? (uintptr_t)seg->base : 0);
    amph_wr_u64(w, seg ? seg->len_bytes : 0);
    amph_wr_blob(w, seg ? seg->mem.key : NULL, seg ? seg->mem.key_len : 0);
}

enum amph_status amph_gex_bound_learn(struct amph_gex *g, uint32_t peer, gex_EP_Index_t index,
                                      struct amph_rd *r)
{
    struct amph_rmem rmem = { 0 };
    uint64_t base = amph_rd_u64(r);
    uint64_t len = amph_rd_u64(r);
    size_t key_len;
    const void *key = amph_rd_blob(r, &key_len);

    if (r->bad || peer >= amph_job.size || index >= GASNET_MAXEPS || len > UINTPTR_MAX ||
        base > UINTPTR_MAX - len)
        return AMPH_ERR_PROTO;
    if (!len || peer == amph_job.rank)
        return AMPH_OK;

    enum amph_status st = amph_am_mem_import(g->ep.am, peer, key, key_len, &rmem);
    if (st != AMPH_OK)
        return st;

    rmem.base = base;
    rmem.len_bytes = len;

    if (!rmem.local)
        amph_am_set_peer_process(
            g->ep.am, peer, (int32_t)amph_boot_job(amph_job.boot)->proc[amph_job.first + peer].pid);

    pthread_mutex_lock(&g->bounds->lock);

    struct amph_rmem *at = row(g, peer, index);

    if (at)
        replace(g, peer, index, at, &rmem);

    pthread_mutex_unlock(&g->bounds->lock);
    return at ? AMPH_OK : AMPH_ERR_NOMEM;
}

enum amph_status amph_gex_bound_own(struct amph_gex *g, struct amphora_ep *ep,
                                    const struct amphora_segment *seg)
{
    struct amph_rmem rmem = { 0 };

    if (seg)
        rmem = (struct amph_rmem){ .base = (uintptr_t)seg->base,
                                   .len_bytes = seg->len_bytes,
                                   .local = seg->base };

    pthread_mutex_lock(&g->bounds->lock);

    struct amph_rmem *at = row(g, amph_job.rank, ep->index);

    if (at) {
        replace(g, amph_job.rank, ep->index, at, &rmem);
        if (ep->capabilities & GEX_EP_CAPABILITY_AM)
            amph_am_context_segment(g->ep.am, ep->index, seg ? seg->base : NULL,
                                    seg ? seg->len_bytes : 0);
    }

    pthread_mutex_unlock(&g->bounds->lock);
    return at ? AMPH_OK : AMPH_ERR_NOMEM;
}

/* Returns the segment of a peer's endpoint, for long messages to it. */
static const struct amph_rmem *segment_of(struct amph_am_ep *ep, uint32_t peer, unsigned context)
{
    const struct amph_rmem *rmem = amph_gex_ep_rmem(amph_gex(), peer, context);
    return rmem->len_bytes ? rmem : NULL;
}

enum amph_status amph_gex_bounds_open(struct amph_gex *g)
{
    g->bounds = calloc(1, sizeof *g->bounds);

    struct amphora_mk *host = calloc(1, sizeof *host);

    if (!g->bounds || !host) {
        free(host);
        return AMPH_ERR_NOMEM;
    }

    pthread_mutex_init(&g->bounds->lock, NULL);
    g->bounds->host = host;
    amph_am_context_lookup(g->ep.am, segment_of);

    enum amph_status st = amph_job.built_anywhere ? AMPH_OK : amph_am_carry_open(g->ep.am);

    return st == AMPH_OK ? amph_gex_query_open(g) : st;
}
