/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector, indexed and strided put and get: checks the arguments, and copies if the memory is mapped
 * here.  Layer: extended.  Thread rule: any thread of the client.
 */
#include "am/am.h"
#include "conduits/conduit.h"
#include "extended/rma/vis.h"

#include "base/log.h"
#include "extended/check.h"

enum sync {
    SYNC_Blocking,
    SYNC_NB,
    SYNC_NBI
};

/* A call: its remote side, and how it completes. */
struct call {
    const char *name;
    bool put;
    enum sync sync;
    gex_TM_t tm;
    gex_Rank_t rank;
    gex_Flags_t flags;
    struct amph_rma_vis_side dst, src;
    uint64_t bytes;
};

/* ---- the handler that the next put is to run at its target ---- */

void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *source_addr,
                                      size_t nbytes, gex_Flags_t flags)
{
    if (nbytes > GEX_VIS_MAX_PEERCOMPLETION || flags || (nbytes && !source_addr))
        amph_fatal(
            "gex_VIS_SetPeerCompletionHandler: at most %zu bytes, not %zu, and flags 0 are allowed",
            GEX_VIS_MAX_PEERCOMPLETION, nbytes);

    struct amph_gex_thread *t = amph_gex_thread();

    t->peer_completion.handler = handler;
    t->peer_completion.data = source_addr;
    t->peer_completion.nbytes = nbytes;
}

/* ---- rows of both sides ---- */

/* The receiver of a call's rows. */
struct sink {
    const struct call *call;
    const struct amph_dest *dest;
    ptrdiff_t mapping; /* difference between the target's address and its mapping here, if mapped */
    struct amph_rma_vis_remote *remote; /* if not mapped */
};

static bool inside(const struct amph_rmem *rmem, const char *at, size_t len)
{
    uint64_t off = (uint64_t)(uintptr_t)at - rmem->base;

    return off < rmem->len_bytes && len <= rmem->len_bytes - off;
}

static bool list_inside(const struct amph_rmem *rmem, const struct amph_rma_vis_row *row,
                        size_t count, size_t len)
{
    if (len > rmem->len_bytes)
        return false;

    uint64_t max_offset = rmem->len_bytes - len;
    bool outside = false;

    for (size_t i = 0; i < count; i++)
        outside |= (uint64_t)(uintptr_t)amph_rma_vis_listed(row, i) - rmem->base > max_offset;

    return !outside;
}

static bool row_inside(const struct amph_rmem *rmem, const struct amph_rma_vis_row *row,
                       size_t count, size_t len)
{
    ptrdiff_t span;

    if (row->list)
        return list_inside(rmem, row, count, len);

    return !__builtin_mul_overflow((ptrdiff_t)(count - 1), row->step, &span) &&
           inside(rmem, row->base, len) && inside(rmem, row->base + span, len);
}

/* Ends the job if a piece of the remote row lies outside the segment. */
static void check_row(const struct call *c, const struct amph_dest *d,
                      const struct amph_rma_vis_row *row, size_t count, size_t len)
{
    if (AMPH_LIKELY(row_inside(d->rmem, row, count, len)))
        return;

    size_t i = 0;

    while (i + 1 < count && inside(d->rmem, amph_rma_vis_piece(row, i), len))
        i++;

    amph_fatal("%s: %zu bytes at %p lie outside the segment of process %u, which is %llu bytes at "
               "%#llx",
               c->name, len, (const void *)amph_rma_vis_piece(row, i), d->peer,
               (unsigned long long)d->rmem->len_bytes, (unsigned long long)d->rmem->base);
}

/* Returns the pieces of a row from `first` on. */
static struct amph_rma_vis_row row_from(const struct amph_rma_vis_row *row, size_t first)
{
    struct amph_rma_vis_row rest = *row;

    if (row->list)
        rest.list += (ptrdiff_t)first * row->step;
    else
        rest.base += (ptrdiff_t)first * row->step;

    return rest;
}

/* Adds an offset to all addresses of a row.  Computed with integers, because a row with a list
 * begins at NULL. */
static void move_row(struct amph_rma_vis_row *row, ptrdiff_t by_bytes)
{
    row->base = (char *)((uintptr_t)row->base + (uintptr_t)by_bytes);
}

/* A list is checked and used in parts, so that the second pass finds it in the cache. */
static void copy_row(void *arg, const struct amph_rma_vis_row *dst,
                     const struct amph_rma_vis_row *src, size_t count, size_t len)
{
    const struct sink *sink = arg;
    bool put = sink->call->put;
    size_t part = dst->list || src->list ? 512 : count;

    for (size_t first = 0; first < count; first += part) {
        struct amph_rma_vis_row to = row_from(dst, first);
        struct amph_rma_vis_row from = row_from(src, first);
        size_t n = count - first < part ? count - first : part;

        check_row(sink->call, sink->dest, put ? &to : &from, n, len);
        move_row(put ? &to : &from, sink->mapping);
        amph_rma_vis_copy(&to, &from, n, len);
    }
}

static void carry_row(void *arg, const struct amph_rma_vis_row *dst,
                      const struct amph_rma_vis_row *src, size_t count, size_t len)
{
    const struct sink *sink = arg;
    const struct amph_rma_vis_row *remote = sink->call->put ? dst : src;
    const struct amph_rma_vis_row *local = sink->call->put ? src : dst;

    check_row(sink->call, sink->dest, remote, count, len);
    amph_rma_vis_add(sink->remote, remote, local, count, len);
}

static ptrdiff_t mapping_of(const struct amph_dest *d)
{
    uintptr_t here = d->rmem->local ? (uintptr_t)d->rmem->local : (uintptr_t)d->rmem->base;

    return (ptrdiff_t)(here - (uintptr_t)d->rmem->base);
}

/* Executes a call whose target memory is mapped here. */
static void copy_all(const struct call *c, const struct amph_dest *d)
{
    struct sink sink = { .call = c, .dest = d, .mapping = mapping_of(d) };

    AMPHORA_FENCE();
    if (c->bytes)
        amph_rma_vis_each_row(&c->dst, &c->src, copy_row, &sink);

    AMPHORA_FENCE();
}

/* ---- a list of short pieces on one side, one piece on the other ---- */

static size_t first_len(const struct amph_rma_vis_side *s)
{
    return s->shape == AMPH_VIS_VECTOR ? s->vec[0].gex_len : s->len;
}

static char *first_piece(const struct amph_rma_vis_side *s)
{
    return s->shape == AMPH_VIS_VECTOR ? s->vec[0].gex_addr : s->list[0];
}

/* Is a call of this kind, if all pieces of the list are as long as the first? */
static bool is_list(const struct call *c)
{
    const struct amph_rma_vis_side *many = c->dst.count > 1 ? &c->dst : &c->src;
    const struct amph_rma_vis_side *one = c->dst.count > 1 ? &c->src : &c->dst;
    size_t bytes;

    return many->shape != AMPH_VIS_STRIDED && many->count > 1 && one->count == 1 &&
           amph_rma_vis_is_quick(first_len(many)) &&
           !__builtin_mul_overflow(many->count, first_len(many), &bytes) && bytes == first_len(one);
}

/* Executes such a call whose target memory is mapped here, in one pass over the list.  Returns false if it is
 * wrong or of another kind; then some of its bytes may have been copied. */
static bool copy_list(const struct call *c, const struct amph_dest *d)
{
    const bool to_list = c->dst.count > 1;
    const bool remote_list = to_list == c->put;
    const struct amph_rma_vis_side *many = to_list ? &c->dst : &c->src;
    const size_t len = first_len(many);
    const uint64_t bytes = (uint64_t)many->count * len;
    char *solid = first_piece(to_list ? &c->src : &c->dst);

    if (bytes > d->rmem->len_bytes || (!remote_list && !inside(d->rmem, solid, bytes)))
        return false;

    struct amph_rma_vis_list list = {
        .entries = (const char *)many->list,
        .count = many->count,
        .max_offset = UINT64_MAX,
    };

    if (many->shape == AMPH_VIS_VECTOR) {
        list.vector = true;
        list.entries = (const char *)many->vec;
    }

    if (remote_list) {
        list.base = d->rmem->base;
        list.max_offset = d->rmem->len_bytes - len;
        list.mapping = mapping_of(d);
    } else {
        solid = (char *)((uintptr_t)solid + (uintptr_t)mapping_of(d));
    }

    AMPHORA_FENCE();

    bool all = amph_rma_vis_copy_list(&list, solid, len, to_list) == many->count;

    AMPHORA_FENCE();
    return all;
}

static void carry_all(const struct call *c, const struct amph_dest *d, struct amph_gex_op *op)
{
    struct sink sink = { .call = c, .dest = d, .remote = amph_rma_vis_begin(d, c->put, op) };

    if (c->bytes)
        amph_rma_vis_each_row(&c->dst, &c->src, carry_row, &sink);

    amph_rma_vis_end(sink.remote);
}

/* ---- the end ---- */

static struct amph_gex_op *make_op(const struct call *c)
{
    struct amph_gex_op *op = amph_gex_op_get();

    op->root.pending = 1;
    op->leaf.pending = 0;
    if (c->sync == SYNC_NBI)
        amph_gex_op_detach(op, c->put ? AMPH_EC_PUT : AMPH_EC_GET);

    if (c->put && (c->flags & GEX_FLAG_ENABLE_LEAF_LC) && c->sync != SYNC_Blocking) {
        op->root.pending = 2;
        op->leaf.pending = 1;
        if (c->sync == SYNC_NBI)
            amph_gex_op_count_lc(op);
    }

    return op;
}

static gex_Event_t finish(const struct call *c, struct amph_gex_op *op)
{
    if (c->sync == SYNC_NBI)
        return GEX_EVENT_INVALID;

    gex_Event_t event = amph_gex_op_event(op);

    if (c->sync == SYNC_Blocking)
        gex_Event_Wait(event);

    return c->sync == SYNC_Blocking ? GEX_EVENT_INVALID : event;
}

/* Executes a put with a notification: the put is completed first, because the message must not
 * overtake its data. */
static void transfer_and_tell(const struct call *c, const struct amph_dest *d, bool mapped)
{
    struct amph_gex_thread *t = amph_gex_thread();
    const gex_AM_Index_t handler = t->peer_completion.handler;

    t->peer_completion.handler = 0;
    if (mapped)
        copy_all(c, d);
    else {
        struct amph_gex_op *op = amph_gex_op_get();

        op->root.pending = 1;
        op->leaf.pending = 0;
        carry_all(c, d, op);
        gex_Event_Wait(amph_gex_op_event(op));
    }

    amph_rma_vis_notify(d, handler, t->peer_completion.data, t->peer_completion.nbytes);
}

static bool is_mapped(const struct amph_dest *d)
{
    return d->rmem->local || (amph_job.built_anywhere && d->peer == amph_job.rank);
}

static gex_Event_t transfer(struct call *c)
{
    amph_check_call(c->name);

    bool armed = c->put && amph_gex_thread()->peer_completion.handler;

    if (is_list(c) && !armed) {
        const struct amph_dest list_dest = amph_gex_team_dest(c->tm, c->rank, c->name);

        if (is_mapped(&list_dest) && copy_list(c, &list_dest))
            return GEX_EVENT_INVALID;
    }

    c->bytes = amph_rma_vis_bytes(&c->dst);

    uint64_t src_bytes = amph_rma_vis_bytes(&c->src);

    if (c->bytes != src_bytes)
        amph_fatal("%s: the destination has %llu bytes, the source %llu; they must be the same",
                   c->name, (unsigned long long)c->bytes, (unsigned long long)src_bytes);

    if (c->bytes == 0 && !armed)
        return GEX_EVENT_INVALID;

    const struct amph_dest d = amph_gex_team_dest(c->tm, c->rank, c->name);
    bool mapped = is_mapped(&d);

    if (AMPH_UNLIKELY(armed)) {
        transfer_and_tell(c, &d, mapped);
        return GEX_EVENT_INVALID;
    }

    if (mapped) {
        copy_all(c, &d);
        return GEX_EVENT_INVALID;
    }

    struct amph_gex_op *op = make_op(c);

    carry_all(c, &d, op);
    return finish(c, op);
}

/* ---- the calls: each shape, put and get, in three forms of synchronisation ---- */

static struct amph_rma_vis_side vector(size_t count, const gex_Memvec_t *list)
{
    return (struct amph_rma_vis_side){ .shape = AMPH_VIS_VECTOR, .count = count, .vec = list };
}

static struct amph_rma_vis_side indexed(size_t count, void *const *list, size_t len)
{
    return (struct amph_rma_vis_side){
        .shape = AMPH_VIS_INDEXED, .count = len ? count : 0, .list = list, .len = len
    };
}

static struct amph_rma_vis_side strided(void *base, const ptrdiff_t *strides, size_t elemsz,
                                        const size_t *box, size_t levels)
{
    return (struct amph_rma_vis_side){ .shape = AMPH_VIS_STRIDED,
                                       .base = base,
                                       .strides = strides,
                                       .len = elemsz,
                                       .box = box,
                                       .levels = elemsz ? levels : 0 };
}

#define CALL(NAME, PUT, SYNC, RANK) \
    .name = NAME, .put = PUT, .sync = SYNC, .tm = tm, .rank = RANK, .flags = flags

#define DEFINE_VIS(TYPE, FORM, GIVES) \
    TYPE gex_VIS_VectorPut##FORM(gex_TM_t tm, gex_Rank_t rank, size_t dstcount, \
                                 gex_Memvec_t const dstlist[], size_t srccount, \
                                 gex_Memvec_t const srclist[], gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_VectorPut" #FORM, true, SYNC_##FORM, rank), \
                          .dst = vector(dstcount, dstlist), .src = vector(srccount, srclist) }; \
        return GIVES(transfer(&c)); \
    } \
    TYPE gex_VIS_VectorGet##FORM(gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[], \
                                 gex_Rank_t rank, size_t srccount, gex_Memvec_t const srclist[], \
                                 gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_VectorGet" #FORM, false, SYNC_##FORM, rank), \
                          .dst = vector(dstcount, dstlist), .src = vector(srccount, srclist) }; \
        return GIVES(transfer(&c)); \
    } \
    TYPE gex_VIS_IndexedPut##FORM(gex_TM_t tm, gex_Rank_t rank, size_t dstcount, \
                                  void *const dstlist[], size_t dstlen, size_t srccount, \
                                  void *const srclist[], size_t srclen, gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_IndexedPut" #FORM, true, SYNC_##FORM, rank), \
                          .dst = indexed(dstcount, dstlist, dstlen), \
                          .src = indexed(srccount, srclist, srclen) }; \
        return GIVES(transfer(&c)); \
    } \
    TYPE gex_VIS_IndexedGet##FORM(gex_TM_t tm, size_t dstcount, void *const dstlist[], \
                                  size_t dstlen, gex_Rank_t rank, size_t srccount, \
                                  void *const srclist[], size_t srclen, gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_IndexedGet" #FORM, false, SYNC_##FORM, rank), \
                          .dst = indexed(dstcount, dstlist, dstlen), \
                          .src = indexed(srccount, srclist, srclen) }; \
        return GIVES(transfer(&c)); \
    } \
    TYPE gex_VIS_StridedPut##FORM(gex_TM_t tm, gex_Rank_t rank, void *dstaddr, \
                                  const ptrdiff_t dststrides[], void *srcaddr, \
                                  const ptrdiff_t srcstrides[], size_t elemsz, \
                                  const size_t count[], size_t stridelevels, gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_StridedPut" #FORM, true, SYNC_##FORM, rank), \
                          .dst = strided(dstaddr, dststrides, elemsz, count, stridelevels), \
                          .src = strided(srcaddr, srcstrides, elemsz, count, stridelevels) }; \
        return GIVES(transfer(&c)); \
    } \
    TYPE gex_VIS_StridedGet##FORM(gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], \
                                  gex_Rank_t rank, void *srcaddr, const ptrdiff_t srcstrides[], \
                                  size_t elemsz, const size_t count[], size_t stridelevels, \
                                  gex_Flags_t flags) \
    { \
        struct call c = { CALL("gex_VIS_StridedGet" #FORM, false, SYNC_##FORM, rank), \
                          .dst = strided(dstaddr, dststrides, elemsz, count, stridelevels), \
                          .src = strided(srcaddr, srcstrides, elemsz, count, stridelevels) }; \
        return GIVES(transfer(&c)); \
    }

#define EVENT(event) (event)
#define ZERO(event) ((void)(event), 0)
/* clang-format off */
DEFINE_VIS(gex_Event_t, NB, EVENT)
DEFINE_VIS(int, NBI, ZERO)
DEFINE_VIS(int, Blocking, ZERO)
/* clang-format on */
