/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of a transfer to and from memory that is not mapped here.  Long pieces are puts and gets of
 * their own.  Short ones are packed into messages: a put's with its data, which the target scatters; a
 * get's as a list, which the target answers with the data.  Packets are sent as they fill, so the
 * memory used is a packet's, and for gets the lists of those in flight.
 *
 * A packet begins with its records, one a row: address (8 bytes), bytes of a piece (4 bytes, of which
 * bit 31 says that more follows), number of pieces (4), distance from piece to piece (8).
 * Layer: extended.  Thread rule: a transfer is added to by one thread; its pieces come to an
 * end in any.
 */
#include <stdlib.h>

#include "am/am.h"
#include "am/check.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/conduit.h"
#include "extended/pending.h"
#include "extended/rma/vis.h"

#define SINGLE_BYTES 12              /* of a record of one piece */
#define ROW_BYTES 24                 /* of a record of several */
#define ROW_FLAG ((uint32_t)1 << 31) /* the record has number and distance */
#define PACKET_MAX ((size_t)60000)   /* records and data of a packet */
#define RECORDS_MAX ((uint32_t)(PACKET_MAX / SINGLE_BYTES))
#define ARGS 3

/* The pieces of a row on this side. */
struct local_row {
    char *base;
    ptrdiff_t step;
    uint32_t count, len;
};

/* Something in flight: a packet, or a put or get of its own.  The two callbacks of a put come in
 * either order, or in two threads at once, so the part is freed after the second. */
struct part {
    struct amph_op done, free_source;
    struct amph_rma_vis_remote *v;
    uint32_t callbacks; /* still to come; atomic */
    uint32_t nrows;
    struct local_row row[]; /* of a get's packet: where its data goes */
};

struct amph_rma_vis_remote {
    struct amph_gex *g;
    struct amph_dest dest;
    bool put;
    bool packs;   /* GASNET_VIS_AMPIPE */
    size_t alone; /* pieces of at least this size are sent without packing */
    struct amph_gex_op *op;
    uint32_t parts, sources; /* number in flight, plus one while pieces are added; atomic */
    uint32_t users;          /* parts that are not freed, plus one while pieces are added; atomic */
    bool has_leaf;
    /* the packet that is being filled */
    size_t record_bytes, data_bytes;
    uint32_t nrecords;
    struct {
        struct local_row local;
        uint64_t remote;
        int64_t remote_step;
    } * record;
    uint8_t *packet;
};

/* ---- counting ---- */

static void part_over(struct amph_rma_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->parts, 1, __ATOMIC_ACQ_REL) == 0)
        v->op->rc.done(&v->op->rc, AMPH_OK);
}

static void source_over(struct amph_rma_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->sources, 1, __ATOMIC_ACQ_REL) == 0 && v->has_leaf)
        v->op->lc.done(&v->op->lc, AMPH_OK);
}

static void release(struct amph_rma_vis_remote *v)
{
    if (__atomic_sub_fetch(&v->users, 1, __ATOMIC_ACQ_REL) == 0)
        free(v);
}

/* Called at the end of each callback of p. */
static void called_back(struct part *p)
{
    if (__atomic_sub_fetch(&p->callbacks, 1, __ATOMIC_ACQ_REL))
        return;

    release(p->v);
    free(p);
}

static void check_status(const struct amph_rma_vis_remote *v, enum amph_status st)
{
    if (st != AMPH_OK && !amph_job.exiting)
        amph_fatal("gex_VIS: process %u cannot be reached: %s", v->dest.peer,
                   amph_job_failure_text(st));
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

static struct part *make_part(struct amph_rma_vis_remote *v, uint32_t nrows, uint32_t callbacks)
{
    struct part *p = malloc(sizeof *p + nrows * sizeof p->row[0]);

    if (!p)
        amph_fatal("gex_VIS: no memory");

    p->done.done = on_part_done;
    p->free_source.done = on_source_free;
    p->v = v;
    p->callbacks = callbacks;
    p->nrows = nrows;
    __atomic_add_fetch(&v->parts, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&v->users, 1, __ATOMIC_RELAXED);

    return p;
}

/* ---- long pieces ---- */

static void carry_alone(struct amph_rma_vis_remote *v, uint64_t remote, char *local, size_t nbytes)
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

/* Writes the records and, for a put, the data to the packet.  Returns its length. */
static size_t fill_packet(struct amph_rma_vis_remote *v)
{
    struct amph_wr w;

    amph_wr_init(&w, v->packet, PACKET_MAX);
    for (uint32_t i = 0; i < v->nrecords; i++) {
        const struct local_row *local = &v->record[i].local;

        amph_wr_u64(&w, v->record[i].remote);
        amph_wr_u32(&w, local->len | (local->count > 1 ? ROW_FLAG : 0));
        if (local->count > 1) {
            amph_wr_u32(&w, local->count);
            amph_wr_u64(&w, (uint64_t)v->record[i].remote_step);
        }
    }

    size_t at = amph_wr_len(&w);

    for (uint32_t i = 0; v->put && i < v->nrecords; i++) {
        const struct local_row *local = &v->record[i].local;
        const struct amph_rma_vis_row src = { .base = local->base, .step = local->step };
        const struct amph_rma_vis_row dst = { .base = (char *)v->packet + at, .step = local->len };

        amph_rma_vis_copy(&dst, &src, local->count, local->len);
        at += (size_t)local->count * local->len;
    }

    return at;
}

static void send_packet(struct amph_rma_vis_remote *v)
{
    if (!v->nrecords)
        return;

    struct part *p = make_part(v, v->put ? 0 : v->nrecords, 1);

    for (uint32_t i = 0; i < p->nrows; i++)
        p->row[i] = v->record[i].local;

    size_t nbytes = fill_packet(v);
    const int32_t args[ARGS] = { (int32_t)amph_gex_pending_take(v->g, AMPH_PENDING_VIS, &p->done),
                                 (int32_t)v->dest.index, (int32_t)v->nrecords };
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = v->put ? AMPH_GEX_VIS_PUT : AMPH_GEX_VIS_GET,
                                .nargs = ARGS,
                                .nbytes = (uint32_t)nbytes,
                                .args = args,
                                .payload = v->packet };

    check_status(v, amph_am_request(v->g->ep.am, v->dest.peer, &am, 0, NULL));
    v->nrecords = 0;
    v->record_bytes = 0;
    v->data_bytes = 0;
}

/* Returns how many pieces of len bytes fit into the packet, in addition to the record of their
 * row. */
static size_t room(const struct amph_rma_vis_remote *v, size_t len)
{
    size_t used = v->record_bytes + ROW_BYTES + v->data_bytes;

    return v->nrecords == RECORDS_MAX || used > PACKET_MAX ? 0 : (PACKET_MAX - used) / len;
}

static void add_record(struct amph_rma_vis_remote *v, const char *remote, ptrdiff_t remote_step,
                       char *local, ptrdiff_t local_step, size_t count, size_t len)
{
    uint32_t i = v->nrecords++;

    v->record[i].remote = (uintptr_t)remote;
    v->record[i].remote_step = remote_step;
    v->record[i].local = (struct local_row){
        .base = local, .step = local_step, .count = (uint32_t)count, .len = (uint32_t)len
    };

    v->record_bytes += count > 1 ? ROW_BYTES : SINGLE_BYTES;
    v->data_bytes += count * len;
}

/* Packs a row without lists. */
static void pack_row(struct amph_rma_vis_remote *v, char *remote, ptrdiff_t remote_step,
                     char *local, ptrdiff_t local_step, size_t count, size_t len)
{
    while (count) {
        size_t n = room(v, len);

        if (n == 0) {
            send_packet(v);
            continue;
        }

        if (n > count)
            n = count;

        add_record(v, remote, remote_step, local, local_step, n, len);
        remote += (ptrdiff_t)n * remote_step;
        local += (ptrdiff_t)n * local_step;
        count -= n;
    }
}

static void add_piece(struct amph_rma_vis_remote *v, char *remote, char *local, size_t len)
{
    const size_t put_max = (size_t)1 << 30;

    if (v->packs && len < v->alone) {
        pack_row(v, remote, 0, local, 0, 1, len);
        return;
    }

    for (size_t n; len; remote += n, local += n, len -= n) {
        n = len < put_max ? len : put_max;
        carry_alone(v, (uintptr_t)remote, local, n);
    }
}

/* Returns how many pieces from the first on are contiguous in memory on both sides. */
static size_t solid_pieces(const struct amph_rma_vis_row *remote,
                           const struct amph_rma_vis_row *local, size_t first, size_t count,
                           size_t len)
{
    const char *remote_at = amph_rma_vis_piece(remote, first);
    const char *local_at = amph_rma_vis_piece(local, first);
    size_t n = 1;

    while (first + n < count && amph_rma_vis_piece(remote, first + n) == remote_at + n * len &&
           amph_rma_vis_piece(local, first + n) == local_at + n * len)
        n++;

    return n;
}

void amph_rma_vis_add(struct amph_rma_vis_remote *v, const struct amph_rma_vis_row *remote,
                      const struct amph_rma_vis_row *local, size_t count, size_t len)
{
    bool solid = remote->step == (ptrdiff_t)len && local->step == (ptrdiff_t)len;

    if (!remote->list && !local->list && !solid && v->packs && len < v->alone) {
        pack_row(v, remote->base, remote->step, local->base, local->step, count, len);
        return;
    }

    for (size_t i = 0, n; i < count; i += n) {
        n = solid_pieces(remote, local, i, count, len);
        add_piece(v, amph_rma_vis_piece(remote, i), amph_rma_vis_piece(local, i), n * len);
    }
}

struct amph_rma_vis_remote *amph_rma_vis_begin(const struct amph_dest *dest, bool put,
                                               struct amph_gex_op *op)
{
    struct amph_rma_vis_remote *v = calloc(1, sizeof *v);

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
    if (v->alone > PACKET_MAX - ROW_BYTES)
        v->alone = PACKET_MAX - ROW_BYTES;

    v->record = malloc(RECORDS_MAX * sizeof *v->record);
    v->packet = malloc(PACKET_MAX);
    if (!v->record || !v->packet)
        amph_fatal("gex_VIS: no memory");

    return v;
}

void amph_rma_vis_end(struct amph_rma_vis_remote *v)
{
    send_packet(v);
    free(v->record);
    free(v->packet);

    source_over(v);
    part_over(v);
    release(v);
}

/* ---- at the target ---- */

static char *own_memory(struct amph_gex *g, gex_EP_Index_t index, uint64_t addr, uint64_t nbytes)
{
    const struct amphora_ep *ep = amph_gex_ep_find(g, index);

    if (amph_job.built_anywhere && index == 0 && addr <= UINTPTR_MAX)
        return (char *)(uintptr_t)addr;
    if (!ep || !ep->segment)
        return NULL;

    uint64_t off = addr - (uintptr_t)ep->segment->base;

    return off < ep->segment->len_bytes && nbytes <= ep->segment->len_bytes - off
               ? (char *)ep->segment->base + off
               : NULL;
}

/* A row of this process's memory, from a packet's record. */
struct named_row {
    struct amph_rma_vis_row row;
    size_t count, len;
};

/* Reads the next record; false: malformed, or its row is not inside the segment. */
static bool read_record(struct amph_gex *g, gex_EP_Index_t index, struct amph_rd *r,
                        struct named_row *named_p)
{
    uint64_t addr = amph_rd_u64(r);
    uint32_t len = amph_rd_u32(r);
    uint32_t count = len & ROW_FLAG ? amph_rd_u32(r) : 1;
    int64_t step = len & ROW_FLAG ? (int64_t)amph_rd_u64(r) : 0;
    int64_t span;

    len &= ~ROW_FLAG;
    if (r->bad || len == 0 || count == 0 || __builtin_mul_overflow((int64_t)count - 1, step, &span))
        return false;

    char *first = own_memory(g, index, addr, len);

    if (!first || !own_memory(g, index, addr + (uint64_t)span, len))
        return false;

    *named_p = (struct named_row){ .row = { .base = first, .step = (ptrdiff_t)step },
                                   .count = count,
                                   .len = len };

    return true;
}

/* Reads all records of a packet before any memory is touched.  Returns the sum of their bytes, or
 * UINT64_MAX if one of them is refused; *data_p is where the records end. */
static uint64_t check_records(struct amph_gex *g, const struct amph_am *am, size_t *data_p)
{
    struct amph_rd r;
    uint64_t sum = 0;
    uint32_t nrecords = (uint32_t)am->args[2];

    amph_rd_init(&r, am->payload, am->nbytes);
    for (uint32_t i = 0; i < nrecords; i++) {
        struct named_row named;

        if (!read_record(g, (gex_EP_Index_t)am->args[1], &r, &named))
            return UINT64_MAX;

        sum += (uint64_t)named.count * named.len;
        if (sum > PACKET_MAX)
            return UINT64_MAX;
    }

    *data_p = am->nbytes - amph_rd_left(&r);

    return sum;
}

/* Copies between the rows of a packet's records and contiguous data. */
static void copy_records(struct amph_gex *g, const struct amph_am *am, char *data, bool scatter)
{
    struct amph_rd r;

    amph_rd_init(&r, am->payload, am->nbytes);
    for (uint32_t i = 0; i < (uint32_t)am->args[2]; i++) {
        struct named_row named;

        if (!read_record(g, (gex_EP_Index_t)am->args[1], &r, &named))
            return;

        const struct amph_rma_vis_row packed = { .base = data, .step = (ptrdiff_t)named.len };

        if (scatter)
            amph_rma_vis_copy(&named.row, &packed, named.count, named.len);
        else
            amph_rma_vis_copy(&packed, &named.row, named.count, named.len);

        data += named.count * named.len;
    }
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
    size_t at = 0;
    uint64_t sum = g ? check_records(g, am, &at) : UINT64_MAX;

    if (sum == UINT64_MAX || at + sum != am->nbytes) {
        amph_count(DROP_MALFORMED);
        return;
    }

    copy_records(g, am, (char *)(uintptr_t)am->payload + at, true);
    answer(token, am, AMPH_GEX_VIS_DONE, NULL, 0);
}

static void on_get(struct amph_token *token, const struct amph_am *am)
{
    struct amph_gex *g = amph_gex();
    struct amph_gex_thread *t = amph_gex_thread();
    size_t at = 0;
    uint64_t sum = g ? check_records(g, am, &at) : UINT64_MAX;

    if (sum == UINT64_MAX || at != am->nbytes ||
        (!t->vis_answer && !(t->vis_answer = malloc(PACKET_MAX)))) {
        amph_count(DROP_MALFORMED);
        return;
    }

    copy_records(g, am, t->vis_answer, false);
    answer(token, am, AMPH_GEX_VIS_DATA, t->vis_answer, (size_t)sum);
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
    char *data = (char *)(uintptr_t)am->payload;
    size_t left = am->nbytes;

    for (uint32_t i = 0; i < p->nrows; i++) {
        const struct local_row *local = &p->row[i];
        const struct amph_rma_vis_row dst = { .base = local->base, .step = local->step };
        const struct amph_rma_vis_row src = { .base = data, .step = (ptrdiff_t)local->len };
        size_t nbytes = (size_t)local->count * local->len;

        if (nbytes > left)
            break;

        amph_rma_vis_copy(&dst, &src, local->count, local->len);
        data += nbytes;
        left -= nbytes;
    }

    op->done(op, AMPH_OK);
}

/* ---- notification of the target ---- */

/* Runs the client's handler, to which the message is a reply of the process that made the put. */
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
    struct amph_stack_op target_done;

    amph_gex_stack_op_init(&target_done);

    const int32_t args[ARGS] = {
        (int32_t)amph_gex_pending_take(g, AMPH_PENDING_VIS, &target_done.op), handler, 0
    };
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = AMPH_GEX_VIS_NOTIFY,
                                .nargs = ARGS,
                                .nbytes = (uint32_t)nbytes,
                                .args = args,
                                .payload = data };
    enum amph_status st = amph_am_request(g->ep.am, dest->peer, &am, 0, NULL);

    if (st != AMPH_OK)
        amph_fatal("gex_VIS: process %u cannot be reached: %s", dest->peer,
                   amph_job_failure_text(st));

    amph_gex_stack_op_wait(&target_done);
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
