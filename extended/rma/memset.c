/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_memset on other hosts: a request that the target executes, and its reply.  Layer:
 * extended.  Thread rule: any thread.
 */
#include <string.h>

#include "am/am.h"
#include "amphora/gasnet1.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "extended/event.h"
#include "extended/pending.h"

/* ---- request: slot, address, value, length; reply: slot ---- */

static uint64_t join(const int32_t *args)
{
    return (uint64_t)(uint32_t)args[0] << 32 | (uint32_t)args[1];
}

static void on_memset(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_gex *g = amph_gex();
    uint64_t dest = join(am->args + 1);
    uint64_t nbytes = join(am->args + 4);
    uint64_t offset = g ? dest - (uintptr_t)g->segment.base : 0;

    if (!g || !g->segment.len_bytes || offset > g->segment.len_bytes ||
        nbytes > g->segment.len_bytes - offset) {
        amph_count(DROP_MALFORMED);
        return;
    }

    memset((void *)((uintptr_t)g->segment.base + offset), am->args[3], nbytes);

    const struct amph_am done = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_MEMSET_DONE, .nargs = 1, .args = am->args
    };

    amph_am_reply(token, &done, 0, NULL);
}

static void on_memset_done(struct amph_token *token, const struct amph_am *am)
{
    struct amph_op *op = amph_gex() ? amph_gex_pending_release(amph_gex(), AMPH_PENDING_MEMSET,
                                                               (uint32_t)am->args[0])
                                    : NULL;

    if (!op)
        amph_count(DROP_MALFORMED);
    else
        op->done(op, AMPH_OK);
}

enum amph_status amph_rma_memset_open(struct amph_gex *g)
{
    static const struct amph_am_entry entry[] = {
        { (void *)on_memset, false, 1, 1, 6, NULL, "memset" },
        { (void *)on_memset_done, false, 1, 2, 1, NULL, "memset_done" },
    };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_MEMSET, &entry[0]);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_MEMSET_DONE, &entry[1]) : st;
}

/* ---- calls ---- */

/* Sends the request for op, or does the work here and returns false. */
static bool begin(struct amph_gex_op *op, gex_TM_t tm, gex_Rank_t rank, void *dest, int val,
                  size_t nbytes)
{
    struct amph_gex *g = amph_gex();
    uint32_t peer = amph_gex_team_peer(tm, rank, "gasnet_memset");
    const struct amph_rmem *rmem = &g->rmem[peer];
    uint64_t offset = (uintptr_t)dest - rmem->base;
    uint64_t pending;

    if (nbytes && peer != amph_job.rank &&
        (offset >= rmem->len_bytes || nbytes > rmem->len_bytes - offset))
        amph_fatal("gasnet_memset: %zu bytes at %p lie outside the segment of process %u", nbytes,
                   dest, peer);

    if (!nbytes || peer == amph_job.rank) {
        amph_gex_handle_own();
        if (nbytes)
            memset(dest, val, nbytes);

        return false;
    }

    op->root.pending = 1;
    pending = amph_gex_pending_take(g, AMPH_PENDING_MEMSET, &op->rc);

    const uint64_t to = (uintptr_t)dest;
    const uint64_t len = nbytes;
    const int32_t args[] = { (int32_t)pending,     (int32_t)(to >> 32), (int32_t)to, val,
                             (int32_t)(len >> 32), (int32_t)len };
    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_MEMSET, .nargs = 6, .args = args
    };
    enum amph_status st = amph_am_request(g->ep.am, peer, &am, 0, NULL);

    if (st != AMPH_OK)
        amph_fatal("gasnet_memset: process %u cannot be reached: %s", peer,
                   amph_job_failure_text(st));

    return true;
}

gex_Event_t amphora_memset_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes)
{
    struct amph_gex_op *op = amph_gex_op_get();

    begin(op, tm, rank, dest, val, nbytes);
    return amph_gex_op_event(op);
}

void amphora_memset_blocking(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes)
{
    gex_Event_Wait(amphora_memset_nb(tm, rank, dest, val, nbytes));
}

void amphora_memset_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes)
{
    struct amph_gex_op *op = amph_gex_op_get();

    amph_gex_op_detach(op, AMPH_EC_PUT);
    if (!begin(op, tm, rank, dest, val, nbytes))
        amph_gex_op_retract(op);
}
