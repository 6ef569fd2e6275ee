/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes reads and writes: small ones in one message, large ones in pieces that are pipelined
 * through the slots of the transfer area.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * A call acquires all its slots before it sends its first piece.  Otherwise two calls could wait
 * for each other's slots while the server queues one call behind the other (deadlock).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "base/os/arena.h"
#include "base/platform.h"
#include "base/settings/counters.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/data/pipes.h"
#include "iofwd/client/data/receive_area.h"
#include "iofwd/client/data/stripe.h"
#include "iofwd/client/data/tuning.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#define CALL_MAX ((size_t)0x7ffff000) /* the maximum that Linux transfers in one call */
#define SPREAD_PIECES 40u             /* in flight of a call to several servers */
#define OVERSUBSCRIBED_PIECES 2u      /* of each server, if there are more servers than cores */
#define PIECE_MIN ((size_t)64 << 10)
#define SEGMENT_MIN ((size_t)16 << 10) /* minimum size for access in place */
#define SEGMENT_PIECE \
    ((size_t)512 << 10) /* no copy to overlap with, so few messages; each takes far less than \
                           AMPH_SERVER_SLOW_NS */

struct piece {
    struct amph_client_pending *pend;
    union amph_fwd_args args; /* the call's record with this piece's offset */
    size_t at, len;           /* within the call */
    unsigned slot;
    const uint8_t *source; /* of what is put to the server: the program's memory, or a copy */
};

/* A call and its progress. */
struct bulk_call {
    struct amph_fwd_client *cl;
    struct amph_client_data *d;
    size_t end;        /* all bytes before it have been transferred, as far as is known */
    int error;         /* why the call ended there */
    unsigned inflight; /* pieces in flight, of all ops */
};

/* One server's share of a call: all of it, or its stripes of a striped file. */
struct bulk_op {
    struct bulk_call *call;
    struct amph_fwd_client *cl;
    struct amph_client_link *link;
    struct amph_client_stripe_cursor deal; /* position of the next piece */
    size_t moved, piece;
    unsigned window, head, inflight; /* ring of pieces */
    uint64_t slots;                  /* slots that this call holds; 0: data travels inline */
    unsigned put_slots;              /* the data of slots below this is put to the server */
    uint32_t number;                 /* of the op; all its pieces carry it */
    bool begun, closed;              /* the first and the last piece were sent */
    bool answered;                   /* the first piece was */
    bool counted;                    /* a reply has reported the number of offset moves */
    /* the server accesses the caller's buffer in place, from segment_at on */
    bool segment;
    uint64_t segment_at;
    struct amph_client_pipe *pipe; /* through which the data travels, or NULL */
    size_t filled;                 /* bytes of the next piece that are in it */
    bool pipe_failed;              /* the memory cannot be put into it: the rest travels inline */
    bool sampled, stream;          /* see choose_way */
    unsigned way;
    uint64_t start_ns;
    struct piece ring[AMPH_CLIENT_WINDOW];
};

/* Fills the call record of one piece; its data travels separately. */
static void fill_record(const struct bulk_call *c, struct piece *pc)
{
    struct amph_client_data d = { .file = c->d->file,
                                  .off = (off_t)((uint64_t)c->d->off + pc->at),
                                  .done_p = &pc->pend->got,
                                  .reads = c->d->reads,
                                  .placed = c->d->placed };

    pc->pend->desc = &amph_fwd_calls[amph_client_data_record(&d, &pc->args)];
    pc->pend->args = &pc->args;
}

/* Acquires at most half of the slots, so that two calls can run.  Waits if none is free. */
static void take_slots(struct bulk_op *op, unsigned max)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    for (;;) {
        uint64_t bits = atomic_load_explicit(&op->link->slots, memory_order_relaxed);
        uint64_t mine = 0;
        unsigned n = 0;

        while (n < max && (bits & ~mine)) {
            mine |= (bits & ~mine) & -(bits & ~mine);
            n++;
        }

        if (n &&
            atomic_compare_exchange_weak_explicit(&op->link->slots, &bits, bits & ~mine,
                                                  memory_order_acquire, memory_order_relaxed)) {
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

static struct amph_client_tuning *pace_of(struct bulk_op *op)
{
    return &op->link->pace[op->call->d->reads][op->call->d->len >= AMPH_CLIENT_TUNING_LARGE];
}

/* Chooses how the data travels.  Calls to a server that executes nothing else for this process are
 * timed, as samples for the tuning of later calls. */
static void choose_way(struct bulk_op *op, struct amph_client_route *way)
{
    size_t total = op->call->d->len / op->deal.width;

    op->sampled = op->deal.width < 2 && total >= AMPH_CLIENT_TUNING_MIN &&
                  total <= (size_t)UINT32_MAX;
    if (op->sampled) {
        op->way = amph_client_tuning_choose(pace_of(op), op->link->near, way);
        op->start_ns = amph_now_ns();
        return;
    }

    amph_client_tuning_peek(pace_of(op), op->link->near, way);

    /* short calls use smaller pieces, so that copies overlap */
    size_t quarter = (total / 4 + PIECE_MIN - 1) / PIECE_MIN * PIECE_MIN;

    if (quarter < way->piece)
        way->piece = quarter < PIECE_MIN ? PIECE_MIN : quarter;
}

/* Gives the measured time of a sample to the tuning of later calls. */
static void record_sample(struct bulk_op *op)
{
    if (op->sampled && op->moved == op->call->d->len)
        amph_client_tuning_record(pace_of(op), op->way, op->moved, amph_now_ns() - op->start_ns);
}

/* Returns whether the call has ended before the next piece of this op. */
static bool is_past_end(const struct bulk_op *op)
{
    return op->deal.at >= op->call->end && op->call->end < op->call->d->len;
}

/*
 * Returns the length of the next piece.  The first and the last pieces of a call to a server on
 * this host are smaller, because one side idles while the other copies them.
 */
static size_t next_len(const struct bulk_op *op)
{
    size_t len = op->piece;
    size_t left = op->deal.total - op->deal.at;

    if (op->slots && op->link->near && op->deal.width < 2 && len > PIECE_MIN) {
        size_t before = op->deal.at < PIECE_MIN ? PIECE_MIN : op->deal.at;
        size_t half = (left / 2 + PIECE_MIN - 1) / PIECE_MIN * PIECE_MIN;

        len = before < len ? before : len;
        len = half && half < len ? half : len;
    }

    return amph_client_stripe_cursor_len(&op->deal, len);
}

/* Returns the length of the piece that is sent next; 0: the call has ended. */
static size_t piece_len(const struct bulk_op *op)
{
    if (is_past_end(op))
        return 0;

    return op->filled ? op->filled : next_len(op);
}

/* Copies data into a slot.  The reader is another core of this host, or the network card. */
static void fill_slot(const struct bulk_op *op, uint8_t *slot, const uint8_t *data, size_t len)
{
    if (op->stream && len >= FWD_STREAM_MIN) {
        amph_copy_stream(slot, data, len);
        return;
    }

    memcpy(slot, data, len);
}

/* Reads a byte of each cache line of data that is put from the program's memory.  The kernel copies data that no
 * cache holds more slowly (a write of 1 MiB: 181 us, with this 160), and memory that is gone causes a fault here
 * instead of a broken connection. */
static void bring_into_cache(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i += AMPH_CACHE_LINE)
        (void)*(const volatile uint8_t *)(data + i);

    if (len)
        (void)*(const volatile uint8_t *)(data + len - 1);
}

/* Copies the data of a piece of a write into its slot, unless it is put from the program's memory.  Returns where
 * the data is taken from. */
static const uint8_t *place_source(const struct bulk_op *op, const struct piece *pc, uint8_t where)
{
    const uint8_t *data = op->call->d->data + pc->at;
    uint8_t *slot = op->link->part + (size_t)pc->slot * op->cl->piece;

    if (where == FWD_RECEIVED && op->link->receive_area.in_place) {
        bring_into_cache(data, pc->len);
        return data;
    }

    fill_slot(op, slot, data, pc->len);
    return slot;
}

/* Returns where the data of a piece travels, whose length is known. */
static enum amph_fwd_data_location location_of(const struct bulk_op *op, const struct piece *pc)
{
    if (!pc->len)
        return FWD_INLINE;
    if (op->segment)
        return FWD_SEGMENT;
    if (op->pipe && !op->pipe_failed)
        return FWD_PIPE;

    if (!op->slots)
        return FWD_INLINE;

    return pc->slot < op->put_slots ? FWD_RECEIVED : FWD_AREA;
}

/* Returns the flags of the next piece; `last`: no further one follows. */
static uint8_t piece_flags(const struct bulk_op *op, size_t len, bool last)
{
    const struct bulk_call *c = op->call;
    uint8_t flags = 0;

    if (op->stream && c->d->reads && len >= FWD_STREAM_MIN)
        flags |= FWD_PIECE_STAGED;
    if (op->deal.width > 1)
        flags |= FWD_PIECE_SPREAD;
    if (AMPH_UNLIKELY(op->cl->failover))
        flags |= FWD_PIECE_TELL;
    if (!op->begun)
        flags |= FWD_PIECE_FIRST;
    if (last)
        flags |= FWD_PIECE_LAST;

    return flags;
}

/*
 * Puts the data of the next piece into the pipe.  false: the pipe is full; the piece can be sent when
 * pieces before it have been answered.  A piece ends early if its memory cannot be put into a pipe.
 */
static bool fill_pipe(struct bulk_op *op)
{
    if (!op->pipe || op->pipe_failed || op->closed || is_past_end(op))
        return true;

    size_t len = next_len(op);
    const uint8_t *data = op->call->d->data + op->deal.at;
    ssize_t n = amph_client_pipe_fill(op->pipe, data + op->filled, len - op->filled);

    /* a full pipe of which nothing is in flight has left-over data, which does not happen */
    if ((n < 0 || (n == 0 && op->inflight == 0)) && op->filled == 0) {
        op->pipe_failed = true;
        op->piece = AMPH_CLIENT_INLINE_FAR;
    }

    op->filled += n > 0 ? (size_t)n : 0;
    return op->filled == len || n < 0 || op->inflight == 0;
}

/* Sets in b where the data of a piece is, and copies the data of a write there.  Returns the data that
 * the message itself carries, or NULL. */
static const void *place_data(struct bulk_op *op, struct piece *pc, struct amph_fwd_bulk *b)
{
    const struct bulk_call *c = op->call;
    uint8_t *data = c->d->data + pc->at;

    if (b->where == FWD_AREA || b->where == FWD_RECEIVED) {
        b->at = (uint64_t)pc->slot * op->cl->piece;
        if (!c->d->reads)
            pc->source = place_source(op, pc, b->where);

        return NULL;
    }

    if (b->where == FWD_SEGMENT) {
        b->at = op->segment_at + pc->at;
        return NULL;
    }

    if (b->where == FWD_PIPE) { /* which fill_pipe has filled */
        b->at = op->pipe->number;
        op->filled = 0;
    }

    if (c->d->reads) {
        pc->pend->data = data;
        return NULL;
    }

    return b->where == FWD_INLINE ? data : NULL;
}

/* Sets how soon the wait for the reply to a piece gives up its core. */
static void set_wait(const struct bulk_op *op, struct piece *pc, enum amph_fwd_data_location where)
{
    bool near_read = op->call->d->reads && op->link->near && where != FWD_INLINE;

    pc->pend->yields_early = where == FWD_PIPE || (near_read && op->window > 1);
    pc->pend->sleeps_early = where == FWD_PIPE &&
                             atomic_load_explicit(&op->link->pipes.busy, memory_order_relaxed);
}

/* Sends the next piece.  If the op has ended early, sends an empty last piece, so that the server
 * expects no more. */
static int send_piece(struct bulk_op *op, struct amph_client_pending *pend)
{
    struct bulk_call *c = op->call;
    struct piece *pc = &op->ring[(op->head + op->inflight) % op->window];
    size_t len = piece_len(op);

    pc->pend = pend;
    pc->at = op->deal.at;
    pc->len = len;
    amph_client_stripe_cursor_step(&op->deal, len);
    fill_record(c, pc);

    bool last = is_past_end(op) || op->deal.at == op->deal.total;
    struct amph_fwd_bulk b = { .where = (uint8_t)location_of(op, pc),
                               .flags = piece_flags(op, len, last),
                               .rwf = (uint16_t)c->d->file->rwf,
                               .len = (uint32_t)len };

    if (!op->begun)
        op->number = (uint32_t)pend->seq;

    b.op = op->number;

    const void *inline_data = place_data(op, pc, &b);

    pend->want = len;
    pend->more_follows = b.where == FWD_RECEIVED && !last && op->inflight + 1 < op->window;
    set_wait(op, pc, b.where);

    int err = b.where == FWD_RECEIVED
                  ? amph_client_receive_area_put(op->cl, op->link, pc->slot, pc->source, len)
                  : 0;

    if (!err)
        err = amph_client_pending_send(op->cl, op->link, pend, &b, inline_data);

    if (err) {
        amph_client_receive_area_wait(op->cl, op->link, pc->slot);
        amph_client_pending_release(op->cl, pend);
        return err;
    }

    op->inflight++;
    c->inflight++;
    op->begun = true;
    op->closed = last;

    return 0;
}

/* Records that the call ended at `at`, by an error or at the end of the file. */
static void stop_at(struct bulk_call *c, size_t at, int error)
{
    if (at >= c->end && (c->end < c->d->len || at > c->end || c->error))
        return;

    c->end = at;
    c->error = error;
}

/* Waits for the reply to the oldest piece and takes its data. */
static void take_piece(struct bulk_op *op, struct amph_client_sigguard *g)
{
    struct bulk_call *c = op->call;
    struct piece *pc = &op->ring[op->head];
    int err = amph_client_pending_wait(op->cl, op->link, pc->pend, op->closed ? g : NULL);
    size_t n = err || pc->pend->got > pc->len ? 0 : pc->pend->got;

    if (op->put_slots)
        amph_client_receive_area_wait(op->cl, op->link, pc->slot);

    if (n && c->d->reads && op->slots && pc->at < c->end)
        memcpy(c->d->data + pc->at, op->link->part + (size_t)pc->slot * op->cl->piece, n);

    op->moved += n;
    if (op->pipe)
        atomic_store_explicit(&op->link->pipes.busy, pc->pend->busy, memory_order_relaxed);

    if (AMPH_UNLIKELY(!err && pc->pend->moves)) {
        amph_client_thread.offset_moves.calls += !op->counted;
        amph_client_thread.offset_moves.moves = pc->pend->moves;
        op->counted = true;
    }

    if (pc->pend->whole <= pc->at)
        stop_at(c, (size_t)pc->pend->whole, err);
    else if (pc->len && (err || n < pc->len))
        stop_at(c, pc->at + n, err);
    else if (err)
        stop_at(c, pc->at, err);

    amph_client_pending_release(op->cl, pc->pend);
    op->head = (op->head + 1) % op->window;
    op->inflight--;
    c->inflight--;
}

/* Sends pieces until `max` are in flight or no pending record is free.  Only a call without pieces
 * in flight may wait for a record, because a waiting call keeps the ones it holds. */
static void feed(struct bulk_op *op, unsigned max)
{
    if (!op->begun && is_past_end(op))
        op->closed = true; /* nothing was sent to this server */

    max = op->window < max ? op->window : max;
    while (!op->closed && op->inflight < max && fill_pipe(op)) {
        struct amph_client_pending *pend = op->call->inflight ? amph_client_pending_try(op->cl)
                                                              : amph_client_pending_acquire(op->cl);

        if (!pend)
            return;

        size_t at = op->deal.at;
        int err = send_piece(op, pend);

        if (err) {
            stop_at(op->call, at, err);
            op->closed = true; /* the server is dead or cannot be reached */
        }
    }
}

static bool has_answer(const struct bulk_op *op)
{
    return op->inflight && amph_client_pending_is_done(op->ring[op->head].pend);
}

/* Returns whether take_piece would not wait; that includes pieces of a dead server. */
static bool may_take(const struct bulk_op *op)
{
    return op->inflight &&
           (has_answer(op) ||
            atomic_load_explicit(&op->link->state, memory_order_acquire) == AMPH_CLIENT_LINK_DEAD);
}

/*
 * Limits how many servers of this host work on one call at a time: a few more than there are cores,
 * each with few pieces.  Fewer servers leave cores idle while the next one is woken; the pieces of
 * all servers together would not fit into a cache.  Servers that write one file are fewer, because
 * the file system serialises its writers.  All of them get their first piece at once, and continue
 * in the order of their first replies, which is the order in which the kernel schedules them.
 */
static void feed_all(struct bulk_op *const *in_turn, unsigned n)
{
    bool reads = in_turn[0]->call->d->reads;
    unsigned busy = 0;
    unsigned near_max = reads ? in_turn[0]->cl->near_readers : in_turn[0]->cl->near_writers;

    for (unsigned i = 0; i < n; i++) {
        struct bulk_op *op = in_turn[i];
        bool waits = op->link->near && busy >= near_max;

        if (op->closed || (waits && (reads || op->begun)))
            continue;

        feed(op, waits ? 1 : op->window);
        busy += op->link->near && !op->closed && !waits;
    }
}

/* Appends the op to the order of first replies. */
static void set_in_turn(struct bulk_op **in_turn, struct bulk_op *op, unsigned turn)
{
    unsigned at = turn;

    while (in_turn[at] != op)
        at++;

    for (; at > turn; at--)
        in_turn[at] = in_turn[at - 1];

    in_turn[turn] = op;
    op->answered = true;
}

/* Returns an op whose oldest piece has been answered, beginning with the one whose turn it is; NULL
 * if nothing is in flight.  Waiting for a particular op could deadlock: two calls could wait for
 * each other at different servers. */
static struct bulk_op *next_answered(struct bulk_op *op, unsigned n, unsigned turn,
                                     struct amph_client_sigguard *g)
{
    struct amph_client_wait wait = AMPH_CLIENT_WAIT_INIT;
    bool sent = true;

    for (unsigned i = 0; i < n; i++)
        sent = sent && op[i].closed;

    while (op[0].call->inflight) {
        for (unsigned i = 0; i < n; i++)
            if (may_take(&op[(turn + i) % n]))
                return &op[(turn + i) % n];

        if (amph_client_wait_step(op[0].cl, &wait) && sent)
            amph_client_let_signals_in(g);
    }

    return NULL;
}

static void run(struct bulk_op *op, unsigned n, struct amph_client_sigguard *g)
{
    struct bulk_op *in_turn[AMPH_FWD_PARTS_MAX];
    unsigned answered = 0;

    for (unsigned i = 0; i < n; i++)
        in_turn[i] = &op[i];

    for (unsigned turn = 0;; turn++) {
        feed_all(in_turn, n);

        struct bulk_op *next = op[0].inflight ? &op[0] : NULL;

        if (n > 1)
            next = next_answered(op, n, turn, g);

        if (!next)
            return;

        if (!next->answered)
            set_in_turn(in_turn, next, answered++);

        take_piece(next, g);
    }
}

/* A call that fits into the pipe is one piece: each further one costs context switches.  Otherwise one half
 * of the pipe is filled while the server empties the other. */
static size_t pipe_piece(const struct amph_client_pipe *pipe, const void *data, size_t len)
{
    size_t page = amph_page_bytes();
    size_t span = ((uintptr_t)data % page + len + page - 1) / page * page;

    return span <= pipe->size_bytes ? len : pipe->size_bytes / 2;
}

/* Takes a pipe to the server for a large write, if there is one and this memory can be put into it. */
static bool take_pipe(struct bulk_op *op)
{
    const struct amph_client_data *d = op->call->d;

    if (d->reads || d->len / op->deal.width < AMPH_CLIENT_PIPE_FROM || d->file->rwf ||
        !op->link->near || amph_fwd_file_waits(d->file))
        return false;

    op->pipe = amph_client_pipe_acquire(op->cl, op->link);
    if (!op->pipe)
        return false;

    op->piece = pipe_piece(op->pipe, d->data, d->len);
    if (fill_pipe(op) && !op->pipe_failed)
        return true;

    amph_client_pipe_release(op->link, op->pipe, amph_client_pipe_empty(op->pipe));
    op->pipe = NULL;
    op->pipe_failed = false;
    return false;
}

static void open_op(struct bulk_op *op, struct bulk_call *c, struct amph_client_link *link,
                    const struct amph_client_stripe_cursor *deal)
{
    memset(op, 0, offsetof(struct bulk_op, ring));
    op->call = c;
    op->cl = c->cl;
    op->link = link;
    op->deal = *deal;

    size_t small = link->near ? AMPH_CLIENT_INLINE_NEAR : AMPH_CLIENT_INLINE_FAR;
    struct amph_client_route way;

    op->piece = small;
    op->window = 2;
    if (c->d->len <= small)
        return;

    if (c->d->len >= SEGMENT_MIN &&
        amph_client_segment_holds(c->cl, link, c->d->data, c->d->len, &op->segment_at)) {
        op->segment = true;
        op->piece = link->near || c->cl->piece > SEGMENT_PIECE ? SEGMENT_PIECE : c->cl->piece;
        op->window = AMPH_CLIENT_WINDOW / 2;
        return;
    }

    if (take_pipe(op) || !link->part)
        return;

    if (!c->d->reads)
        op->put_slots = amph_client_receive_area_slots(c->cl, link);

    choose_way(op, &way);
    op->piece = way.piece < c->cl->piece ? way.piece : c->cl->piece;
    op->stream = way.stream && link->near;

    size_t npieces = (c->d->len + op->piece - 1) / op->piece;
    unsigned max = SPREAD_PIECES / deal->width < way.depth ? SPREAD_PIECES / deal->width
                                                           : way.depth;

    if (link->near && c->d->reads && deal->width > c->cl->near_readers)
        max = max < OVERSUBSCRIBED_PIECES ? max : OVERSUBSCRIBED_PIECES;

    max = c->cl->nslots / 2 < max ? c->cl->nslots / 2 : max;
    take_slots(op, npieces < max ? (unsigned)npieces : max);
}

static void close_op(struct bulk_op *op)
{
    record_sample(op);
    if (op->segment)
        amph_count_n(AMPH_COUNTER_IOFWD_BYTES_IN_PLACE, op->moved);

    /* the server has done with the pipe, unless it is dead: all pieces have been answered */
    if (op->pipe) {
        bool whole = op->moved == op->call->d->len && !op->filled;

        amph_client_pipe_release(
            op->link, op->pipe,
            whole || (atomic_load_explicit(&op->link->state, memory_order_acquire) ==
                          AMPH_CLIENT_LINK_READY &&
                      amph_client_pipe_empty(op->pipe)));
    }

    if (op->slots)
        atomic_fetch_or_explicit(&op->link->slots, op->slots, memory_order_release);
}

static int outcome(const struct bulk_call *c)
{
    if (c->end == 0 && c->error)
        return c->error;

    amph_count_n(c->d->reads ? AMPH_COUNTER_IOFWD_BYTES_IN : AMPH_COUNTER_IOFWD_BYTES_OUT, c->end);
    *c->d->done_p = c->end;
    return 0;
}

static int begin_call(struct bulk_call *c, struct amph_fwd_client *cl, struct amph_client_data *d)
{
    if (d->len > SSIZE_MAX)
        return EINVAL;

    if (d->len > CALL_MAX)
        d->len = CALL_MAX;

    *c = (struct bulk_call){ .cl = cl, .d = d, .end = d->len };
    return 0;
}

int amph_client_bulk(struct amph_fwd_client *cl, struct amph_client_link *link,
                     struct amph_client_data *d)
{
    struct bulk_call c;
    struct bulk_op op;
    struct amph_client_stripe_cursor deal = { .total = 0, .unit = SIZE_MAX, .width = 1 };
    struct amph_client_sigguard g;
    int err = begin_call(&c, cl, d);

    if (err)
        return err;

    deal.total = d->len;
    amph_client_sigguard_enter(&g);
    if (atomic_load_explicit(&cl->left, memory_order_relaxed)) {
        amph_client_sigguard_leave(&g);
        return EIO;
    }

    g.ends_wait = amph_fwd_file_waits(d->file); /* a call on a regular file is never cut short */
    open_op(&op, &c, link, &deal);

    size_t max = op.piece < PIECE_MIN ? op.piece : PIECE_MIN;

    /* a pipe returns what it has, so the call is one piece */
    if (d->reads && d->len > max && amph_fwd_file_waits(d->file))
        op.deal.total = c.end = d->len = max;

    run(&op, 1, &g);
    close_op(&op);
    amph_client_sigguard_leave(&g);

    return outcome(&c);
}

/* ---- striped files ---- */

/* Sorts the parts by server.  All calls acquire slots in this order, which prevents deadlock. */
static void order_parts(const struct amph_fwd_file *file, uint32_t order[AMPH_FWD_PARTS_MAX])
{
    for (uint32_t i = 0; i < file->nparts; i++) {
        uint32_t at = i;

        for (; at > 0 && file->part[order[at - 1]].server > file->part[i].server; at--)
            order[at] = order[at - 1];

        order[at] = i;
    }
}

/* Executes a pread or pwrite; each server transfers its stripes. */
static int deal_out(struct amph_fwd_client *cl, struct amph_client_data *d)
{
    const struct amph_fwd_file *file = d->file;
    struct bulk_call c;
    struct bulk_op op[AMPH_FWD_PARTS_MAX];
    uint32_t order[AMPH_FWD_PARTS_MAX];
    struct amph_client_link *link[AMPH_FWD_PARTS_MAX];
    struct amph_client_stripe_cursor deal;
    struct amph_client_sigguard g;
    unsigned n = 0;
    int err = begin_call(&c, cl, d);

    for (uint32_t i = 0; i < file->nparts && !err; i++)
        err = amph_client_link_to(cl, file->part[i].server, &link[i]);

    if (err)
        return err;

    order_parts(file, order);
    amph_client_sigguard_enter(&g);
    if (atomic_load_explicit(&cl->left, memory_order_relaxed)) {
        amph_client_sigguard_leave(&g);
        return EIO;
    }

    for (uint32_t i = 0; i < file->nparts; i++) {
        amph_client_stripe_cursor_start(&deal, file, order[i], (uint64_t)d->off, d->len);
        if (deal.at < deal.total)
            open_op(&op[n++], &c, link[order[i]], &deal);
    }

    run(op, n, &g);
    for (unsigned i = 0; i < n; i++)
        close_op(&op[i]);

    amph_client_sigguard_leave(&g);
    return outcome(&c);
}

/* Executes a read or write at the file's offset.  The home server reserves the range of bytes for
 * the call and moves its offset past them. */
static int claim(struct amph_fwd_client *cl, const struct amph_client_data *d, size_t want,
                 off_t *pos_p, size_t *count_p)
{
    if (d->reads) {
        struct amph_fwd_args_takeread a = {
            .file = d->file, .want = want, .pos = pos_p, .count = count_p
        };
        return amph_client_once(cl, AMPH_FWD_TAKEREAD, &a);
    }

    struct amph_fwd_args_takewrite a = { .file = d->file, .want = want, .pos = pos_p };

    *count_p = want;
    return amph_client_once(cl, AMPH_FWD_TAKEWRITE, &a);
}

/* Transfers the range that was reserved.  The range stays the call's own if another server dies, so
 * its home server does all of it then: reserving again would leave a hole, and putting the offset
 * back would give the range of another process away. */
static int deal_out_or_whole(struct amph_fwd_client *cl, struct amph_client_link *home,
                             struct amph_client_data *d)
{
    int err = deal_out(cl, d);

    if (!cl->failover || !amph_client_file_has_dead(cl, d->file) ||
        atomic_load_explicit(&home->state, memory_order_acquire) != AMPH_CLIENT_LINK_READY)
        return err;

    return err == EIO || (!err && *d->done_p < d->len) ? amph_client_bulk(cl, home, d) : err;
}

static int at_offset(struct amph_fwd_client *cl, struct amph_client_link *home,
                     const struct amph_client_data *d)
{
    struct amph_client_data placed = *d;
    off_t now;

    placed.placed = true;

    int err = claim(cl, d, d->len < CALL_MAX ? d->len : CALL_MAX, &placed.off, &placed.len);
    if (err)
        return err;

    *d->done_p = 0;
    if (placed.len == 0)
        return 0;

    err = deal_out_or_whole(cl, home, &placed);

    size_t done = err ? 0 : *d->done_p;

    if (done < placed.len) {
        struct amph_fwd_args_lseek back = {
            .file = d->file, .off = (off_t)done - (off_t)placed.len, .whence = SEEK_CUR, .pos = &now
        };

        amph_client_once(cl, AMPH_FWD_LSEEK, &back);
    }

    return err;
}

int amph_client_spread(struct amph_fwd_client *cl, struct amph_client_link *home,
                       struct amph_client_data *d)
{
    const struct amph_fwd_file *file = d->file;
    size_t min = file->unit_kib ? ((size_t)file->unit_kib << 10) + 1 : AMPH_CLIENT_STRIPE_MIN;
    bool every_byte = d->placed &&
                      file->unit_kib; /* stripes are fixed, so each byte belongs to a server */
    bool whole = file->rwf || d->len == 0 || (!every_byte && d->len < min);
    int err = EOPNOTSUPP;

    if (!whole)
        err = d->placed ? deal_out(cl, d) : at_offset(cl, home, d);

    /* the home server executes appending writes alone */
    return err == EOPNOTSUPP ? amph_client_bulk(cl, home, d) : err;
}
