/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A team's queue of collectives, and how each kind is composed of a stage inside neighbourhoods and
 * one between them.  Layer: extended.  Thread rule: the team is locked.
 *
 * Each neighbourhood has one participant in the stage between them: its lowest rank, or, in the
 * root's neighbourhood, the root.  Small data is copied by messages, so a segment completes here
 * when its own parts are done; members wait for data, not for each other.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/log.h"
#include "extended/coll/coll.h"

enum {
    SPARE_MAX = 64
};
#define MESSAGE_BYTES (64u << 10)

/* The progress of a segment's stages; bits of op->stage. */
enum {
    NET_DONE = 1,
    LOCAL_BEGUN = 2,
    LOCAL_DONE = 4,
    NET_BEGUN = 8,
    RESULT_BEGUN = 16,
    COPIED = 32
};

/* ---- the stage between neighbourhoods ---- */

uint32_t amph_coll_net_rank(const struct amph_coll_op *op, uint32_t i)
{
    const struct amph_coll *c = op->coll;
    if (op->flat)
        return i;

    return i == c->nbrhd[op->root] ? op->root : c->first[i];
}

/* Does this process take part in it? */
static bool takes_part(const struct amph_coll_op *op)
{
    const struct amph_coll *c = op->coll;
    return op->flat || (c->count > 1 && amph_coll_net_rank(op, c->mine) == c->team->pub.rank);
}

static void need_scratch(struct amph_coll_op *op, size_t bytes)
{
    if (bytes <= op->scratch_bytes)
        return;

    if (op->scratch != op->small)
        amph_coll_pool_put(op->scratch, op->scratch_bytes);

    op->scratch = amph_coll_pool_get(bytes);
    op->scratch_bytes = bytes;
}

/* Returns the payload of a message in bytes: as many whole elements as fit, at least one. */
static uint32_t message_bytes(const struct amph_coll_op *op)
{
    size_t max = amph_gex()->max_medium < MESSAGE_BYTES ? amph_gex()->max_medium : MESSAGE_BYTES;
    size_t elem = op->fold.elem_bytes;

    return (uint32_t)(elem && elem <= max ? max - max % elem : max);
}

/* own: further bytes of scratch for the caller, in front of the algorithm's. */
static uint8_t *plan_net(struct amph_coll_op *op, size_t own)
{
    const struct amph_coll *c = op->coll;
    struct amph_net *net = &op->net;

    *net = (struct amph_net){ .piece = message_bytes(op) };
    net->count = op->flat ? c->team->pub.size : c->count;
    net->me = op->flat ? c->team->pub.rank : c->mine;
    net->root = op->flat ? op->root : c->nbrhd[op->root];
    net->len = op->len;
    own = amph_align_up(own, AMPH_CACHE_LINE);

    const struct amph_coll_choice *choice = amph_coll_choose(op, net->count, op->len, net->piece);
    size_t swapped = amph_coll_fold_swaps(&op->fold) ? amph_align_up(op->len, AMPH_CACHE_LINE) : 0;

    need_scratch(op, own + swapped + amph_coll_scratch(choice, net->count, op->len));
    net->swapped = swapped ? op->scratch + own : NULL;
    net->scratch = op->scratch + own + swapped;

    return op->scratch;
}

static bool net_step(struct amph_coll_op *op, const void *src, void *dst)
{
    struct amph_net *net = &op->net;

    if (op->stage & NET_DONE)
        return true;

    if (!(op->stage & NET_BEGUN)) {
        op->stage |= NET_BEGUN;
        net->src = net->swapped ? net->swapped : src;
        net->dst = dst;
        if (net->swapped)
            amph_coll_fold_swap(&op->fold, net->swapped, src, op->len);

        amph_coll_choose(op, net->count, op->len, net->piece)->begin(op);
    }

    if (!net->step(op))
        return false;

    amph_coll_mail_end(op->coll);
    if (net->swapped && (op->kind != AMPH_COLL_REDUCE || net->me == net->root))
        amph_coll_fold_swap(&op->fold, dst, dst, op->len);

    op->stage |= NET_DONE;
    return true;
}

/* ---- the stage inside this process's neighbourhood ---- */

/* Returns the slot of this neighbourhood's participant. */
static uint32_t participant_slot(const struct amph_coll_op *op)
{
    const struct amph_coll *c = op->coll;
    const uint32_t rank = amph_coll_net_rank(op, c->mine);
    uint32_t i = 0;

    if (c->count == 1)
        return rank;

    while (c->local[i] != rank)
        i++;

    return i;
}

static bool local_step(struct amph_coll_op *op, enum amph_local_kind kind, uint32_t root,
                       const void *src, void *dst, uint32_t begun)
{
    if (op->stage & LOCAL_DONE)
        return true;

    if (!(op->stage & begun)) {
        op->stage |= begun;
        amph_coll_local_begin(op, kind, root, src, dst, op->len, op->block);
    }

    if (!amph_coll_local_step(op))
        return false;

    op->stage |= LOCAL_DONE;
    return true;
}

static bool has_local(const struct amph_coll_op *op)
{
    return !op->flat && op->coll->nlocal > 1;
}

/* ---- kinds: begin a segment, advance it ---- */

static void begin_plain(struct amph_coll_op *op)
{
    if (takes_part(op))
        plan_net(op, 0);
}

static bool step_broadcast(struct amph_coll_op *op)
{
    bool root = op->coll->team->pub.rank == op->root;
    bool net = true;
    bool local = true;
    const uint8_t *src = root ? op->src + op->off : op->dst + op->off;

    if (takes_part(op))
        net = net_step(op, src, op->dst + op->off);

    if (has_local(op) && (net || root))
        local = local_step(op, AMPH_LOCAL_BROADCAST, op->participant, src, op->dst + op->off,
                           LOCAL_BEGUN);

    if (root && net && !(op->stage & COPIED)) { /* while the other members process their parts */
        op->stage |= COPIED;
        if (op->dst != op->src)
            amph_copy(op->dst + op->off, src, op->len);
    }

    return net && local;
}

static void begin_reduce(struct amph_coll_op *op)
{
    if (takes_part(op))
        plan_net(op, has_local(op) ? op->len : 0);
}

static bool step_reduce(struct amph_coll_op *op)
{
    bool part = takes_part(op);
    const uint8_t *src = op->src + op->off;
    uint8_t *dst = op->dst + op->off;

    if (has_local(op)) {
        if (!local_step(op, AMPH_LOCAL_REDUCE, op->participant, src, part ? op->scratch : dst,
                        LOCAL_BEGUN))
            return false;

        src = op->scratch;
    }

    return !part || net_step(op, src, dst);
}

static bool step_reduce_all(struct amph_coll_op *op)
{
    const uint8_t *src = op->src + op->off;
    uint8_t *dst = op->dst + op->off;

    if (!has_local(op))
        return net_step(op, src, dst);
    if (op->coll->count == 1)
        return local_step(op, AMPH_LOCAL_REDUCE_ALL, 0, src, dst, LOCAL_BEGUN);

    if (!(op->stage & RESULT_BEGUN)) {
        if (!local_step(op, AMPH_LOCAL_REDUCE, 0, src, dst, LOCAL_BEGUN))
            return false;
        if (op->coll->self == 0 && !net_step(op, dst, dst))
            return false;

        op->stage &= ~(uint32_t)LOCAL_DONE;
    }

    return local_step(op, AMPH_LOCAL_BROADCAST, 0, dst, dst, RESULT_BEGUN);
}

static bool step_scan(struct amph_coll_op *op)
{
    if (op->flat)
        return net_step(op, op->src + op->off, op->dst + op->off);

    return local_step(op, AMPH_LOCAL_SCAN, 0, op->src + op->off, op->dst + op->off, LOCAL_BEGUN);
}

/* Advances kinds with a block for each pair: everything by messages, or everything in the only
 * neighbourhood. */
static bool step_blocks(struct amph_coll_op *op, enum amph_local_kind kind)
{
    if (op->flat)
        return net_step(op, NULL, NULL);

    return local_step(op, kind, op->root, op->src + op->off, op->dst + op->off, LOCAL_BEGUN);
}

static bool step_scatter(struct amph_coll_op *op)
{
    return step_blocks(op, AMPH_LOCAL_SCATTER);
}

static bool step_gather(struct amph_coll_op *op)
{
    return step_blocks(op, AMPH_LOCAL_GATHER);
}

static bool step_gather_all(struct amph_coll_op *op)
{
    return step_blocks(op, AMPH_LOCAL_GATHER_ALL);
}

static bool step_exchange(struct amph_coll_op *op)
{
    return step_blocks(op, AMPH_LOCAL_EXCHANGE);
}

/* The stages of a kind: by neighbourhoods, or inside the only one (else flat). */
enum scope {
    HIERARCHY,
    IN_ONE,
    IN_ONE_PARTS
};

static const struct {
    enum scope scope;
    bool folds;
    void (*begin)(struct amph_coll_op *op);
    bool (*step)(struct amph_coll_op *op);
} kinds[AMPH_COLL_KINDS] = {
    [AMPH_COLL_SYNC] = { HIERARCHY, false, begin_plain, step_reduce_all },
    [AMPH_COLL_BROADCAST] = { HIERARCHY, false, begin_plain, step_broadcast },
    [AMPH_COLL_REDUCE] = { HIERARCHY, true, begin_reduce, step_reduce },
    [AMPH_COLL_REDUCE_ALL] = { HIERARCHY, true, begin_plain, step_reduce_all },
    [AMPH_COLL_SCAN] = { IN_ONE, true, begin_plain, step_scan },
    [AMPH_COLL_SCATTER] = { IN_ONE_PARTS, false, begin_plain, step_scatter },
    [AMPH_COLL_GATHER] = { IN_ONE, false, begin_plain, step_gather },
    [AMPH_COLL_GATHER_ALL] = { IN_ONE, false, begin_plain, step_gather_all },
    [AMPH_COLL_EXCHANGE] = { IN_ONE_PARTS, false, begin_plain, step_exchange },
};

/* Must every member take part by messages?  The answer is the same at all members. */
static bool is_flat(const struct amph_coll *c, const struct amph_coll_args *args)
{
    const struct amph_fold *fold = args->fold;
    bool one = c->count == 1;

    if (c->count == c->team->pub.size)
        return true;
    if (kinds[args->kind].folds &&
        (fold->elem_bytes > AMPH_SHARE_CELL_BYTES || (!fold->commutes && !c->in_blocks)))
        return true;
    if (kinds[args->kind].scope == IN_ONE_PARTS)
        return !one || args->block > amph_coll_local_max_block(c, args->kind == AMPH_COLL_EXCHANGE);

    return kinds[args->kind].scope == IN_ONE && !one;
}

/* ---- the queue ---- */

static void begin_segment(struct amph_coll_op *op)
{
    op->seq = op->coll->seq++;
    op->len = op->block - op->off < op->segment ? op->block - op->off : op->segment;
    op->stage = 0;
    op->participant = has_local(op) ? participant_slot(op) : 0;
    kinds[op->kind].begin(op);
}

/* Makes progress on an operation.  true: it is done. */
static bool advance(struct amph_coll_op *op)
{
    if (!op->begun) {
        op->begun = true;
        begin_segment(op);
    }

    while (kinds[op->kind].step(op)) {
        op->off += op->len;
        if (op->off >= op->block)
            return true;

        begin_segment(op);
    }

    return false;
}

static void release(struct amph_coll *c, struct amph_coll_op *op)
{
    if (op->scratch != op->small)
        amph_coll_pool_put(op->scratch, op->scratch_bytes);

    if (op->fold.owned)
        free((void *)(uintptr_t)op->fold.cdata);

    if (c->nspare < SPARE_MAX) {
        op->next = c->spare;
        c->spare = op;
        c->nspare++;
    } else {
        free(op);
    }
}

/* Ends the first operation of the queue. */
static void finish(struct amph_coll *c)
{
    struct amph_gex *g = amph_gex();
    struct amph_coll_op *op = c->head;
    struct amph_gex_op *event = op->event;

    __atomic_store_n(&c->head, op->next, __ATOMIC_RELAXED);
    release(c, op);

    amph_coll_count(c, -1u);
    if (event) {
        if (event->leaf.pending)
            amph_event_sub(&event->leaf);

        amph_event_sub(&event->root);
    }

    if (g->threaded)
        amph_am_kick(g->ep.am); /* the waiting thread may be another */
}

void amph_coll_run(struct amph_coll *c)
{
    while (c->head && advance(c->head))
        finish(c);
}

/* The bytes of a segment. */
static size_t segment_bytes(const struct amph_coll_op *op)
{
    const size_t elem = op->fold.elem_bytes;

    if (!elem || op->block <= AMPH_COLL_SEGMENT)
        return AMPH_COLL_SEGMENT;

    return elem > AMPH_COLL_SEGMENT ? elem : AMPH_COLL_SEGMENT - AMPH_COLL_SEGMENT % elem;
}

static struct amph_coll_op *new_op(struct amph_coll *c, const struct amph_coll_args *args,
                                   bool flat)
{
    struct amph_coll_op *op = c->spare;

    if (op) {
        c->spare = op->next;
        c->nspare--;
    } else if (!(op = aligned_alloc(AMPH_CACHE_LINE, amph_align_up(sizeof *op, AMPH_CACHE_LINE)))) {
        amph_fatal("no memory for another collective");
    }

    memset(op, 0, offsetof(struct amph_coll_op, net));
    op->coll = c;
    op->kind = args->kind;
    op->root = args->root;
    op->dst = args->dst;
    op->src = args->src;
    op->block = args->block;
    if (args->fold)
        op->fold = *args->fold;

    op->segment = segment_bytes(op);
    op->flat = flat;
    op->scratch = op->small;
    op->scratch_bytes = sizeof op->small;

    return op;
}

static void append(struct amph_coll *c, struct amph_coll_op *op, struct amph_gex_op *event)
{
    op->event = event;
    amph_coll_count(c, 1);

    if (c->head)
        c->tail->next = op;
    else
        __atomic_store_n(&c->head, op, __ATOMIC_RELAXED);

    c->tail = op;
}

static void enqueue(struct amph_coll *c, const struct amph_coll_args *args, bool flat,
                    struct amph_gex_op *event)
{
    append(c, new_op(c, args, flat), event);
}

/* Executes a collective over a team of one member: only copies. */
static void run_single_member(const struct amph_coll_args *args)
{
    if (args->fold && args->fold->owned)
        free((void *)(uintptr_t)args->fold->cdata);

    if (args->block && args->dst != args->src)
        memmove(args->dst, args->src, args->block);
}

static struct amph_gex_op *new_event(const struct amph_coll *c, const struct amph_coll_args *args)
{
    struct amph_gex_op *event = amph_gex_op_get();

    event->root.pending = 1;
    event->neighbours = c->nlocal > 1;
    event->leaf.pending = args->src_leaf;

    return event;
}

/* An operation through shared memory alone: a member that only writes, or for which the others have written, is done
 * at once, and needs no event. */
static gex_Event_t start_local(struct amph_coll *c, const struct amph_coll_args *args)
{
    struct amph_gex_op *event = NULL;

    amph_coll_spin_lock(&c->locked);

    struct amph_coll_op *op = new_op(c, args, false);
    const bool first = !c->head;
    const bool done = first && advance(op);

    if (done) {
        release(c, op);
    } else {
        event = new_event(c, args);
        append(c, op, event);
        if (!first)
            amph_coll_run(c);
    }

    amph_coll_spin_unlock(&c->locked);
    if (done || amph_event_done(&event->root))
        amph_gex_found_done(amph_gex(), false);

    return done ? GEX_EVENT_INVALID : amph_gex_op_event(event);
}

/* Any operation, with its synchronisations. */
static gex_Event_t start(struct amph_coll *c, const struct amph_coll_args *args, bool flat)
{
    static const struct amph_coll_args sync = { .kind = AMPH_COLL_SYNC };
    const bool works = args->block > 0;
    struct amph_gex_op *event = new_event(c, args);

    amph_coll_spin_lock(&c->locked);

    /* a member ahead of the others sends them data that they must keep */
    c->since += c->count > 1 || flat;
    if (args->sync_first || c->since >= AMPH_COLL_FLOW) {
        c->since = 0;
        enqueue(c, &sync, is_flat(c, &sync), works || args->sync_last ? NULL : event);
    }

    if (works)
        enqueue(c, args, flat, args->sync_last ? NULL : event);

    if (args->sync_last) {
        c->since = 0;
        enqueue(c, &sync, is_flat(c, &sync), event);
    }

    amph_coll_run(c);
    amph_coll_spin_unlock(&c->locked);
    if (amph_event_done(&event->root))
        amph_gex_found_done(amph_gex(), false);

    return amph_gex_op_event(event);
}

gex_Event_t amph_coll_start(struct amph_team *team, const struct amph_coll_args *args)
{
    struct amph_coll *c = team->coll;
    const bool works = args->block > 0;
    const bool synchronises = args->sync_first || args->sync_last;

    if (team->pub.size == 1) {
        run_single_member(args);
        return GEX_EVENT_INVALID;
    }

    if (!works && args->fold && args->fold->owned)
        free((void *)(uintptr_t)args->fold->cdata);

    if (!works && !synchronises)
        return GEX_EVENT_INVALID;

    const bool flat = is_flat(c, args);

    if (c->count == 1 && !flat && works && !synchronises && !args->src_leaf)
        return start_local(c, args);

    return start(c, args, flat);
}
