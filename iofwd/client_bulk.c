/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes: small ones in one message, large ones in pieces through the slots of the transfer area, pipelined.
 * Layer: iofwd.  Thread rule: see client_int.h.
 *
 * A call takes all the slots it will use before its first piece, so that two calls never wait for each other's slots while the
 * server keeps one of them in line behind the other.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "iofwd/client_int.h"

struct piece {
    struct fwd_pend *pend;
    union amph_fwd_args args;  /* the call's record with this piece's offset */
    size_t at, len;            /* within the call */
    unsigned slot;
};

struct bulk_op {
    struct amph_fwd_client *cl;
    struct fwd_link *link;
    enum amph_fwd_id id;
    const void *record;
    bool out;                  /* read: data comes */
    uint8_t *data;
    size_t total, sent, done, piece;
    size_t *done_p;
    unsigned window, head, inflight; /* ring of pieces */
    uint64_t slots;            /* that this call has; 0: inline */
    uint32_t number;           /* of this call, the same in all its pieces */
    bool stopped, closed;      /* ended early; the last piece has been sent */
    bool judged, staged;       /* see choose_way */
    uint64_t start_ns;
    int error;
    struct piece ring[FWD_WINDOW];
};

static void describe(struct bulk_op *op, enum amph_fwd_id id, const void *args)
{
    const union amph_fwd_args *u = args;
    switch (id) {
    case AMPH_FWD_READ:
        op->out = true;
        op->data = u->read.buf;
        op->total = u->read.buf_cap;
        op->done_p = u->read.buf_len;
        break;
    case AMPH_FWD_PREAD:
        op->out = true;
        op->data = u->pread.buf;
        op->total = u->pread.buf_cap;
        op->done_p = u->pread.buf_len;
        break;
    case AMPH_FWD_WRITE:
        op->data = (uint8_t *)u->write.data;
        op->total = u->write.data_len;
        op->done_p = u->write.done;
        break;
    default:
        op->data = (uint8_t *)u->pwrite.data;
        op->total = u->pwrite.data_len;
        op->done_p = u->pwrite.done;
        break;
    }
}

/* The record of one piece. */
static void fill_record(const struct bulk_op *op, struct piece *pc)
{
    const union amph_fwd_args *u = op->record;
    switch (op->id) {
    case AMPH_FWD_READ: pc->args.read = u->read; break;
    case AMPH_FWD_WRITE:
        pc->args.write = u->write;
        pc->args.write.done = &pc->pend->got;
        break;
    case AMPH_FWD_PREAD:
        pc->args.pread = u->pread;
        pc->args.pread.off = (off_t)((uint64_t)u->pread.off + pc->at);
        break;
    default:
        pc->args.pwrite = u->pwrite;
        pc->args.pwrite.off = (off_t)((uint64_t)u->pwrite.off + pc->at);
        pc->args.pwrite.done = &pc->pend->got;
        break;
    }
}

/* Half of the slots at most, so that two calls fit; none at once is a wait. */
static void take_slots(struct bulk_op *op, unsigned most)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    for (;;) {
        uint64_t bits = atomic_load_explicit(&op->link->slots, memory_order_relaxed), mine = 0;
        unsigned n = 0;
        while (n < most && (bits & ~mine)) {
            mine |= (bits & ~mine) & -(bits & ~mine);
            n++;
        }
        if (n && atomic_compare_exchange_weak_explicit(&op->link->slots, &bits, bits & ~mine, memory_order_acquire,
                                                       memory_order_relaxed)) {
            op->slots = mine;
            op->window = n;
            for (unsigned i = 0; i < n; i++, mine &= mine - 1)
                op->ring[i].slot = (unsigned)__builtin_ctzll(mine);
            return;
        }
        if (!n)
            amph_am_wait_step(op->cl->ep, &w);
    }
}

/* Large reads from a server of the same host are fastest straight into the slots where its core shares a cache with ours, and streamed past
 * the caches where it does not.  Which it is shows only in the rate, and changes when either process moves: so both ways are timed,
 * the better is taken, and the other is tried again at times. */
#define READS_BETWEEN_TRIES 32u

static void choose_way(struct bulk_op *op)
{
    op->judged = op->out && op->slots && op->link->near && op->total >= 4 * op->piece && op->piece >= FWD_STREAM_LEAST;
    if (!op->judged)
        return;
    uint32_t direct = op->link->read_rate[0], staged = op->link->read_rate[1];
    bool better = staged > direct, other_way = !direct || !staged || op->link->large_reads % READS_BETWEEN_TRIES == 0;
    op->link->large_reads++;
    op->staged = direct && other_way ? !better : better;
    op->start_ns = amph_now_ns();
}

static void judge_way(struct bulk_op *op)
{
    if (!op->judged || op->done < op->total)
        return;
    uint64_t rate = op->done * AMPH_NS_PER_US / (amph_now_ns() - op->start_ns + 1) + 1;
    uint32_t old = op->link->read_rate[op->staged];
    op->link->read_rate[op->staged] = (uint32_t)(old ? (3 * (uint64_t)old + rate) / 4 : rate);
}

static int send_piece(struct bulk_op *op, size_t len, bool last)
{
    struct piece *pc = &op->ring[(op->head + op->inflight) % op->window];
    struct fwd_bulk b = { .where = op->slots && len ? FWD_AREA : FWD_INLINE, .op = op->number, .len = (uint32_t)len };
    uint8_t *slot = NULL;
    pc->pend = fwd_pend_take(op->cl);
    pc->at = op->sent;
    pc->len = len;
    if (op->staged && len >= FWD_STREAM_LEAST)
        b.flags |= FWD_PIECE_STAGED;
    fill_record(op, pc);
    if (op->sent == 0)
        b.flags |= FWD_PIECE_FIRST;
    if (last)
        b.flags |= FWD_PIECE_LAST;
    if (op->sent == 0)
        b.op = op->number = (uint32_t)pc->pend->seq;
    if (b.where == FWD_AREA) {
        b.at = (uint64_t)pc->slot * op->cl->piece;
        slot = op->link->part + b.at;
        if (!op->out && op->link->near && len >= FWD_STREAM_LEAST)
            amph_copy_stream(slot, op->data + op->sent, len);
        else if (!op->out)
            memcpy(slot, op->data + op->sent, len);
    } else if (op->out)
        pc->pend->data = op->data + op->sent;
    pc->pend->desc = &fwd_calls[op->id];
    pc->pend->args = &pc->args;
    pc->pend->want = len;
    int err = fwd_pend_send(op->cl, op->link, pc->pend, &b, op->out || slot ? NULL : op->data + op->sent);
    if (err) {
        fwd_pend_give(op->cl, pc->pend);
        return err;
    }
    op->sent += len;
    op->inflight++;
    op->closed = last;
    return 0;
}

/* Waits for the oldest piece and takes what it brought. */
static void take_piece(struct bulk_op *op, struct fwd_guard *g)
{
    struct piece *pc = &op->ring[op->head];
    int err = fwd_pend_wait(op->cl, op->link, pc->pend, op->closed ? g : NULL);
    size_t n = err || pc->pend->got > pc->len ? 0 : pc->pend->got;
    if (!op->stopped) {
        if (n && op->out && op->slots)
            memcpy(op->data + pc->at, op->link->part + (size_t)pc->slot * op->cl->piece, n);
        op->done += n;
        op->error = err;
        op->stopped = err || n < pc->len;
    }
    fwd_pend_give(op->cl, pc->pend);
    op->head = (op->head + 1) % op->window;
    op->inflight--;
}

static void run(struct bulk_op *op, struct fwd_guard *g)
{
    int err = 0;
    do {
        while (!err && !op->stopped && op->inflight < op->window && (op->sent < op->total || op->sent == 0) && !op->closed) {
            size_t left = op->total - op->sent, len = left < op->piece ? left : op->piece;
            err = send_piece(op, len, len == left);
        }
        /* Ended early: the server must know that no more pieces come. */
        if (!err && op->stopped && !op->closed && op->inflight < op->window)
            err = send_piece(op, 0, true);
        if (op->inflight)
            take_piece(op, g);
    } while (op->inflight || (!err && !op->closed));
    if (err && op->done == 0)
        op->error = err;
}

int fwd_client_bulk(struct amph_fwd_client *cl, struct fwd_link *link, enum amph_fwd_id id, void *args)
{
    struct bulk_op op;
    struct fwd_guard g;
    memset(&op, 0, offsetof(struct bulk_op, ring));
    op.cl = cl;
    op.link = link;
    op.id = id;
    op.record = args;
    describe(&op, id, args);
    if (op.total > SSIZE_MAX)
        return EINVAL;
    if (op.total > 0x7ffff000)
        op.total = 0x7ffff000; /* as Linux does */
    fwd_guard_enter(&g);
    size_t small = link->near ? FWD_INLINE_NEAR : FWD_INLINE_FAR;
    op.piece = small;
    op.window = 2;
    if (op.total > small && link->part) {
        size_t npieces = (op.total + cl->piece - 1) / cl->piece;
        unsigned half = cl->nslots / 2 < FWD_WINDOW ? cl->nslots / 2 : FWD_WINDOW;
        op.piece = cl->piece;
        take_slots(&op, npieces < half ? (unsigned)npieces : half);
    }
    choose_way(&op);
    run(&op, &g);
    judge_way(&op);
    if (op.slots)
        atomic_fetch_or_explicit(&link->slots, op.slots, memory_order_release);
    fwd_guard_leave(&g);
    if (op.done == 0 && op.error)
        return op.error;
    amph_count_n(op.out ? AMPH_COUNTER_IOFWD_BYTES_IN : AMPH_COUNTER_IOFWD_BYTES_OUT, op.done);
    *op.done_p = op.done;
    return 0;
}
