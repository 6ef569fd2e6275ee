/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of a transfer to and from memory that is not mapped here.  Long ones are puts and gets of
 * their own; short ones are packed, a packet as full as a message can be: a put's with its data,
 * which the target scatters; a get's as a list, which the target answers with the data.  Packets
 * are sent as they fill, so the memory used is a packet's, and for gets the lists of those under
 * way.
 * Layer: extended.  Thread rule: a transfer is added to by one thread; its pieces come to an
 * end in any.
 */
#include <stdlib.h>

#include "am/check.h"
#include "base/counters.h"
#include "base/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "extended/pending.h"
#include "extended/rma/vis.h"

enum {
    RUN_BYTES = 12,
    ARGS = 3
};                                /* of a run in a packet: address, length */
#define PACK_MOST ((size_t)60000) /* data of a packet, with its runs */

struct local_run {
    char *at;
    uint32_t nbytes;
};

/* Something under way: a packet, or a put or get of its own.  The two callbacks of a put come in
 * either order, or in two threads at once, so the part is freed after the second. */
struct part {
    struct amph_op done, free_source;
    struct amph_vis_remote *v;
    uint32_t callbacks; /* still to come; atomic */
    uint32_t nruns;
    struct local_run run[]; /* of a get's packet: where its data goes */
};

struct amph_vis_remote {
    struct amph_gex *g;
    struct amph_dest dest;
    bool put;
    bool packs;   /* GASNET_VIS_AMPIPE */
    size_t alone; /* runs of this size travel by themselves */
    struct amph_gex_op *op;
    uint32_t parts, sources; /* under way, and one for the adding; atomic */
    uint32_t users;          /* parts that are not freed, and one for the adding; atomic */
    bool has_leaf;
    /* the packet that is being filled */
    size_t room, data_bytes;
    uint32_t nruns, runs_most;
    struct {
        uint64_t remote;
        char *local;
        uint32_t nbytes;
    } * run;
    uint8_t *packet;
};

/* ---- counting ---- */

static void part_over(struct amph_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->parts, 1, __ATOMIC_ACQ_REL) == 0)
        v->op->rc.done(&v->op->rc, AMPH_OK);
}

static void source_over(struct amph_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->sources, 1, __ATOMIC_ACQ_REL) == 0 && v->has_leaf)
        v->op->lc.done(&v->op->lc, AMPH_OK);
}

static void release(struct amph_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->users, 1, __ATOMIC_ACQ_REL) == 0)
        free(v);
}

/* A callback of p is over. */
static void called_back(struct part *p)
{
    if (__atomic_sub_fetch(&p->callbacks, 1, __ATOMIC_ACQ_REL))
        return;

    release(p->v);
    free(p);
}

static void check_status(const struct amph_vis_remote *v, enum amph_status st)
{
    if (st != AMPH_OK && !amph_job.exiting)
        amph_fatal("gex_VIS: process %u cannot be reached: %s", v->dest.peer, amph_status_text(st));
}

static void on_part_done(struct amph_op *op, enum amph_status st)
{
    struct part *p = AMPH_CONTAINER_OF(op, struct part, done);

    check_status(p->v, st);
    part_over(p->v);
    called_back(p);
}

static void on_source_free(struct amph_op *op, enum amph_status st)
{
    struct part *p = AMPH_CONTAINER_OF(op, struct part, free_source);

    check_status(p->v, st);
    source_over(p->v);
    called_back(p);
}

static struct part *make_part(struct amph_vis_remote *v, uint32_t nruns, uint32_t callbacks)
{
    struct part *p = malloc(sizeof *p + nruns * sizeof p->run[0]);

    if (!p)
        amph_fatal("gex_VIS: no memory");

    p->done.done = on_part_done;
    p->free_source.done = on_source_free;
    p->v = v;
    p->callbacks = callbacks;
    p->nruns = nruns;
    __atomic_add_fetch(&v->parts, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&v->users, 1, __ATOMIC_RELAXED);

    return p;
}

/* ---- long runs ---- */

static void carry_alone(struct amph_vis_remote *v, uint64_t remote, char *local, size_t nbytes)
{
    struct part *p = make_part(v, 0, v->put ? 2 : 1);
    uint64_t off = remote - v->dest.rmem->base;
    enum amph_status st;

    if (v->put) {
        __atomic_add_fetch(&v->sources, 1, __ATOMIC_RELAXED);
        st = amph_am_put(v->g->ep.am, v->dest.peer, v->dest.rmem, off, local, nbytes, 0,
                         &p->free_source, &p->done);
    } else
        st = amph_am_get(v->g->ep.am, v->dest.peer, v->dest.rmem, off, local, nbytes, 0, &p->done);

    check_status(v, st);
}

/* ---- packets ---- */

static void send_packet(struct amph_vis_remote *v)
{
    struct amph_wr w;

    if (!v->nruns)
        return;

    struct part *p = make_part(v, v->put ? 0 : v->nruns, 1);

    amph_wr_init(&w, v->packet, PACK_MOST);
    for (uint32_t i = 0; i < v->nruns; i++) {
        amph_wr_u64(&w, v->run[i].remote);
        amph_wr_u32(&w, v->run[i].nbytes);
        if (!v->put)
            p->run[i] = (struct local_run){ v->run[i].local, v->run[i].nbytes };
    }

    for (uint32_t i = 0; v->put && i < v->nruns; i++)
        amph_wr_bytes(&w, v->run[i].local, v->run[i].nbytes);

    const int32_t args[ARGS] = { (int32_t)amph_gex_pending_take(v->g, AMPH_PENDING_VIS, &p->done),
                                 (int32_t)v->dest.index, (int32_t)v->nruns };
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = v->put ? AMPH_GEX_VIS_PUT : AMPH_GEX_VIS_GET,
                                .nargs = ARGS,
                                .nbytes = (uint32_t)amph_wr_len(&w),
                                .args = args,
                                .payload = v->packet };

    check_status(v, amph_am_request(v->g->ep.am, v->dest.peer, &am, 0, NULL));
    v->nruns = 0;
    v->data_bytes = 0;
}

void amph_rma_vis_add(struct amph_vis_remote *v, uint64_t remote, char *local, size_t nbytes)
{
    while (nbytes) {
        if (!v->packs || nbytes >= v->alone) {
            size_t n = nbytes < (size_t)1 << 30 ? nbytes : (size_t)1 << 30;

            carry_alone(v, remote, local, n);
            remote += n;
            local += n;
            nbytes -= n;
            continue;
        }

        if (v->nruns == v->runs_most ||
            v->data_bytes + nbytes + ((size_t)v->nruns + 1) * RUN_BYTES > PACK_MOST)
            send_packet(v);

        v->run[v->nruns].remote = remote;
        v->run[v->nruns].local = local;
        v->run[v->nruns++].nbytes = (uint32_t)nbytes;
        v->data_bytes += nbytes;
        return;
    }
}

struct amph_vis_remote *amph_rma_vis_begin(const struct amph_dest *dest, bool put,
                                           struct amph_gex_op *op)
{
    struct amph_vis_remote *v = calloc(1, sizeof *v);

    if (!v)
        amph_fatal("gex_VIS: no memory");

    v->g = amph_gex();
    v->dest = *dest;
    v->put = put;
    v->op = op;
    v->parts = v->sources = v->users = 1;
    v->has_leaf = op->leaf.pending != 0;
    v->packs = amph_env_bool(AMPH_ENV_VIS_AMPIPE);
    v->alone = (size_t)amph_env_size(AMPH_ENV_VIS_MAXCHUNK);
    if (v->alone > PACK_MOST - RUN_BYTES)
        v->alone = PACK_MOST - RUN_BYTES;

    v->runs_most = (uint32_t)(PACK_MOST / RUN_BYTES);
    v->run = malloc(v->runs_most * sizeof *v->run);
    v->packet = malloc(PACK_MOST);
    if (!v->run || !v->packet)
        amph_fatal("gex_VIS: no memory");

    return v;
}

void amph_rma_vis_end(struct amph_vis_remote *v)
{
    send_packet(v);
    free(v->run);
    free(v->packet);

    source_over(v);
    part_over(v);
    release(v);
}

/* ---- at the target ---- */

static char *own_memory(struct amph_gex *g, gex_EP_Index_t index, uint64_t addr, uint64_t nbytes)
{
    const struct amphora_ep *ep = amph_ep_find(g, index);

    if (amph_job.built_anywhere && index == 0 && addr <= UINTPTR_MAX)
        return (char *)(uintptr_t)addr;
    if (!ep || !ep->segment)
        return NULL;

    uint64_t off = addr - (uintptr_t)ep->segment->base;

    return off < ep->segment->len_bytes && nbytes <= ep->segment->len_bytes - off
               ? (char *)ep->segment->base + off
               : NULL;
}

/* Looks at all runs of a packet before any is touched.  The sum of their bytes, or UINT64_MAX: not
 * allowed. */
static uint64_t check_runs(struct amph_gex *g, const struct amph_am *am)
{
    struct amph_rd r;
    uint64_t sum = 0;
    uint64_t nruns = (uint32_t)am->args[2];

    amph_rd_init(&r, am->payload, am->nbytes);
    for (uint64_t i = 0; i < nruns; i++) {
        uint64_t addr = amph_rd_u64(&r);
        uint64_t nbytes = amph_rd_u32(&r);

        if (r.bad || !own_memory(g, (gex_EP_Index_t)am->args[1], addr, nbytes))
            return UINT64_MAX;

        sum += nbytes;
    }

    return sum;
}

static void answer(struct amph_token *token, const struct amph_am *request, uint8_t handler,
                   const void *data, size_t nbytes)
{
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = handler,
                                .nargs = 1,
                                .nbytes = (uint32_t)nbytes,
                                .args = request->args,
                                .payload = data };

    amph_am_reply(token, &am, 0, NULL);
}

static void on_put(struct amph_token *token, const struct amph_am *am)
{
    struct amph_gex *g = amph_gex();
    uint64_t nruns = (uint32_t)am->args[2];
    uint64_t sum = g ? check_runs(g, am) : UINT64_MAX;
    struct amph_rd runs;

    if (sum == UINT64_MAX || sum + nruns * RUN_BYTES != am->nbytes) {
        amph_count(DROP_MALFORMED);
        return;
    }

    const char *data = (const char *)am->payload + nruns * RUN_BYTES;

    amph_rd_init(&runs, am->payload, am->nbytes);
    for (uint64_t i = 0; i < nruns; i++) {
        uint64_t addr = amph_rd_u64(&runs);
        uint32_t nbytes = amph_rd_u32(&runs);

        memcpy(own_memory(g, (gex_EP_Index_t)am->args[1], addr, nbytes), data, nbytes);
        data += nbytes;
    }

    answer(token, am, AMPH_GEX_VIS_DONE, NULL, 0);
}

static void on_get(struct amph_token *token, const struct amph_am *am)
{
    static __thread uint8_t *packet;

    struct amph_gex *g = amph_gex();
    uint64_t nruns = (uint32_t)am->args[2];
    uint64_t sum = g ? check_runs(g, am) : UINT64_MAX;
    struct amph_rd runs;

    if (sum > PACK_MOST || nruns * RUN_BYTES != am->nbytes ||
        (!packet && !(packet = malloc(PACK_MOST)))) {
        amph_count(DROP_MALFORMED);
        return;
    }

    amph_rd_init(&runs, am->payload, am->nbytes);

    size_t at = 0;

    for (uint64_t i = 0; i < nruns; i++) {
        uint64_t addr = amph_rd_u64(&runs);
        uint32_t nbytes = amph_rd_u32(&runs);

        memcpy(packet + at, own_memory(g, (gex_EP_Index_t)am->args[1], addr, nbytes), nbytes);
        at += nbytes;
    }

    answer(token, am, AMPH_GEX_VIS_DATA, packet, at);
}

/* ---- back at the caller ---- */

static void on_done(struct amph_token *token, const struct amph_am *am)
{
    struct amph_op *op = amph_gex() ? amph_gex_pending_release(amph_gex(), AMPH_PENDING_VIS,
                                                               (uint32_t)am->args[0])
                                    : NULL;

    if (op)
        op->done(op, AMPH_OK);
    else
        amph_count(DROP_MALFORMED);
}

static void on_data(struct amph_token *token, const struct amph_am *am)
{
    struct amph_op *op = amph_gex() ? amph_gex_pending_release(amph_gex(), AMPH_PENDING_VIS,
                                                               (uint32_t)am->args[0])
                                    : NULL;

    if (!op || op->done != on_part_done) {
        amph_count(DROP_MALFORMED);
        return;
    }

    const struct part *p = AMPH_CONTAINER_OF(op, struct part, done);
    const char *data = am->payload;
    size_t left = am->nbytes;

    for (uint32_t i = 0; i < p->nruns && p->run[i].nbytes <= left; i++) {
        memcpy(p->run[i].at, data, p->run[i].nbytes);
        data += p->run[i].nbytes;
        left -= p->run[i].nbytes;
    }

    op->done(op, AMPH_OK);
}

/* ---- telling the target ---- */

/* The client's handler sees a reply of the process that made the put. */
static void on_notify(struct amph_token *token, const struct amph_am *am)
{
    uint8_t index = (uint8_t)am->args[1];
    const struct amph_am_entry *entry = index >= GEX_AM_INDEX_BASE
                                            ? amph_am_handler(token->ep, index)
                                            : NULL;

    if (!entry || !entry->client_form || (entry->nargs > 0)) {
        if (amph_gex())
            amph_fatal("a peer completion of process %u names handler %u, which is not registered "
                       "here without arguments",
                       token->peer, index);

        return;
    }

    struct amph_am seen = *am;
    struct amph_token as_reply = *token;

    seen.handler = index;
    seen.nargs = 0;
    as_reply.am = &seen;
    as_reply.entry = entry;
    as_reply.is_request = false;
    as_reply.replied = true;
    if (AMPH_CHECKS)
        amph_am_context_enter(&as_reply);

    ((void (*)(struct amph_token *, void *, size_t))entry->fn)(
        &as_reply, (void *)(uintptr_t)am->payload, am->nbytes);
    if (AMPH_CHECKS)
        amph_am_context_leave(&as_reply);

    answer(token, am, AMPH_GEX_VIS_DONE, NULL, 0);
}

void amph_rma_vis_notify(const struct amph_dest *dest, gex_AM_Index_t handler, const void *data,
                         size_t nbytes)
{
    struct amph_gex *g = amph_gex();
    struct amph_stack_op told;

    amph_gex_stack_op_init(&told);

    const int32_t args[ARGS] = { (int32_t)amph_gex_pending_take(g, AMPH_PENDING_VIS, &told.op),
                                 handler, 0 };
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = AMPH_GEX_VIS_NOTIFY,
                                .nargs = ARGS,
                                .nbytes = (uint32_t)nbytes,
                                .args = args,
                                .payload = data };
    enum amph_status st = amph_am_request(g->ep.am, dest->peer, &am, 0, NULL);

    if (st != AMPH_OK)
        amph_fatal("gex_VIS: process %u cannot be reached: %s", dest->peer, amph_status_text(st));

    amph_gex_stack_op_wait(&told);
}

enum amph_status amph_rma_vis_open(struct amph_gex *g)
{
    static const struct {
        unsigned index;
        struct amph_am_entry entry;
    } rows[] = {
        { AMPH_GEX_VIS_PUT, { (void *)on_put, false, 2, 1, ARGS, NULL, "vis_put" } },
        { AMPH_GEX_VIS_DONE, { (void *)on_done, false, 2, 2, 1, NULL, "vis_done" } },
        { AMPH_GEX_VIS_GET, { (void *)on_get, false, 2, 1, ARGS, NULL, "vis_get" } },
        { AMPH_GEX_VIS_DATA, { (void *)on_data, false, 2, 2, 1, NULL, "vis_data" } },
        { AMPH_GEX_VIS_NOTIFY, { (void *)on_notify, false, 2, 1, ARGS, NULL, "vis_notify" } },
    };

    enum amph_status st = AMPH_OK;

    for (size_t i = 0; i < AMPH_COUNTOF(rows) && st == AMPH_OK; i++)
        st = amph_am_register(g->ep.am, rows[i].index, &rows[i].entry);

    return st;
}
