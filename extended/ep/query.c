/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries of bound segments: answered from this process's table, or else by a request to the owner.
 * Layer: extended.  Thread rule: any thread; handlers with GEX_FLAG_IMMEDIATE.  Queries in flight
 * are guarded by amph_bounds.lock.
 */
#include <pthread.h>
#include <stdlib.h>

#include "am/am.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"
#include "extended/event.h"

/* A query in flight and the destination of its answer. */
struct amph_asked {
    struct amph_asked *next;
    uint64_t id;
    uint32_t peer;
    gex_EP_Index_t index;
    void **owneraddr_p, **localaddr_p;
    uintptr_t *size_p;
    struct amph_gex_op *op;
};

enum {
    ASK_NARGS = 3,
    ANSWER_NARGS = 2
};

/* The outputs of both queries; they may be NULL. */
static void put_bound(const struct amph_rmem *rmem, void **owneraddr_p, void **localaddr_p,
                      uintptr_t *size_p)
{
    if (owneraddr_p)
        *owneraddr_p = (void *)(uintptr_t)rmem->base;

    if (localaddr_p)
        *localaddr_p = rmem->local;

    if (size_p)
        *size_p = (uintptr_t)rmem->len_bytes;
}

/* Removes the query with this id from the list. */
static struct amph_asked *take(struct amph_bounds *b, uint64_t id, uint32_t peer)
{
    struct amph_asked *asked = NULL;

    pthread_mutex_lock(&b->lock);
    for (struct amph_asked **at = &b->asked; *at; at = &(*at)->next)
        if ((*at)->id == id && (*at)->peer == peer) {
            asked = *at;
            *at = asked->next;
            break;
        }

    pthread_mutex_unlock(&b->lock);
    return asked;
}

static gex_Event_t ask(struct amph_gex *g, const struct amph_asked *what)
{
    struct amph_asked *asked = malloc(sizeof *asked);
    struct amph_gex_op *op = amph_gex_op_get();

    if (!asked)
        amph_fatal("gex_EP_QueryBoundSegmentNB: no memory for a question");

    *asked = *what;
    asked->op = op;
    op->root.pending = 1;
    pthread_mutex_lock(&g->bounds->lock);
    asked->id = ++g->bounds->next_id;
    asked->next = g->bounds->asked;
    g->bounds->asked = asked;

    const int32_t args[ASK_NARGS] = { (int32_t)what->index, (int32_t)(uint32_t)asked->id,
                                      (int32_t)(asked->id >> 32) };

    pthread_mutex_unlock(&g->bounds->lock);

    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_BOUND_ASK, .nargs = ASK_NARGS, .args = args
    };
    enum amph_status st = amph_am_request(g->ep.am, what->peer, &am, 0, NULL);

    if (st != AMPH_OK)
        amph_fatal("gex_EP_QueryBoundSegmentNB: process %u cannot be reached: %s", what->peer,
                   amph_job_failure_text(st));

    return amph_gex_op_event(op);
}

gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p,
                                       void **localaddr_p, uintptr_t *size_p, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex_need("gex_EP_QueryBoundSegmentNB");
    const struct amph_dest d = amph_gex_team_dest(tm, rank, "gex_EP_QueryBoundSegmentNB");

    if (flags & ~GEX_FLAG_IMMEDIATE)
        amph_fatal("gex_EP_QueryBoundSegmentNB: flags are %#x; 0 or GEX_FLAG_IMMEDIATE is allowed",
                   (unsigned)flags);

    if (__atomic_load_n(&d.rmem->len_bytes, __ATOMIC_ACQUIRE) || d.peer == amph_job.rank) {
        put_bound(d.rmem, owneraddr_p, localaddr_p, size_p);
        return GEX_EVENT_INVALID;
    }

    if (flags & GEX_FLAG_IMMEDIATE)
        return GEX_EVENT_NO_OP;

    amph_check_call("gex_EP_QueryBoundSegmentNB");

    const struct amph_asked what = { .peer = d.peer,
                                     .index = d.index,
                                     .owneraddr_p = owneraddr_p,
                                     .localaddr_p = localaddr_p,
                                     .size_p = size_p };

    return ask(g, &what);
}

int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                           uintptr_t *size_p)
{
    void *owner = NULL;
    void *local = NULL;
    uintptr_t size = 0;

    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &owner, &local, &size, 0));
    if (!size)
        return 1;

    const struct amph_rmem found = { .base = (uintptr_t)owner, .len_bytes = size, .local = local };

    put_bound(&found, owneraddr_p, localaddr_p, size_p);
    return 0;
}

/* ---- messages ---- */

static void on_ask(struct amph_token *token, const struct amph_am *am)
{
    struct amph_gex *g = amph_gex();
    uint8_t record[AMPH_BOUND_BYTES];
    struct amph_wr w;

    if (!g)
        return;

    amph_wr_init(&w, record, sizeof record);
    amph_gex_bound_write(&w, amph_gex_ep_find(g, (gex_EP_Index_t)am->args[0]));

    const struct amph_am answer = { .kind = AMPH_AM_MEDIUM,
                                    .handler = AMPH_GEX_BOUND_IS,
                                    .nargs = ANSWER_NARGS,
                                    .nbytes = (uint32_t)amph_wr_len(&w),
                                    .args = am->args + 1,
                                    .payload = record };

    amph_am_reply(token, &answer, 0, NULL);
}

static void on_answer(struct amph_token *token, const struct amph_am *am)
{
    struct amph_gex *g = amph_gex();
    uint64_t id = (uint32_t)am->args[0] | (uint64_t)(uint32_t)am->args[1] << 32;
    struct amph_asked *asked = g ? take(g->bounds, id, token->peer) : NULL;
    struct amph_rd r;

    if (!asked) {
        amph_count_exact(DROP_MALFORMED, 1);
        return;
    }

    amph_rd_init(&r, am->payload, am->nbytes);

    enum amph_status st = amph_gex_bound_learn(g, asked->peer, asked->index, &r);

    if (st != AMPH_OK)
        amph_warn("the segment of process %u's endpoint %u cannot be reached: %s", asked->peer,
                  asked->index, amph_status_text(st));

    put_bound(amph_gex_ep_rmem(g, asked->peer, asked->index), asked->owneraddr_p,
              asked->localaddr_p, asked->size_p);
    asked->op->rc.done(&asked->op->rc, AMPH_OK);
    free(asked);
}

enum amph_status amph_gex_query_open(struct amph_gex *g)
{
    static const struct amph_am_entry ask_entry = { (void *)on_ask, false, 1,       1,
                                                    ASK_NARGS,      NULL,  "bound?" };
    static const struct amph_am_entry answer_entry = { (void *)on_answer, false, 2,      2,
                                                       ANSWER_NARGS,      NULL,  "bound" };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_BOUND_ASK, &ask_entry);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_BOUND_IS, &answer_entry) : st;
}
