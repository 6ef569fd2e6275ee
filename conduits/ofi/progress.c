/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress side: reads completions and passes them to their owners.  Layer: conduits (ofi).
 * Thread rule: progress side. on_am may call progress again (a reply that waits for room, for the
 * reply lane only).  The batch of completions therefore belongs to the instance, and an inner call
 * continues where the outer one stopped.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <stdio.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/limits.h"
#include "base/status.h"
#include "conduits/ofi/ofi.h"

/* Whoever waits calls tick.  A process that always finds messages never waits. */
#define CALLS_BETWEEN_TICKS 4096u

/* The provider may have read more from a socket than it has handled. */
#define LOOKS_BETWEEN_READS 16u

/* A process that has not looked for as long polls late. */
#define LATE_NS (100 * AMPH_NS_PER_US)
#define LATE_READS 128u
#define ANSWERS_TOGETHER 8u /* later ones would be late for a peer that waits for the first */
#define ANSWER_READS 32u    /* in a row that answer puts and gets */
/* A read that takes longer has moved data. */
#define MOVED_NS (3 * AMPH_NS_PER_US)

static void peer_lost(struct amph_ofi_cx *cx, uint32_t peer, enum amph_status st, const char *why)
{
    struct amph_ofi_peer *p = &cx->peer[peer];
    uint8_t state = __atomic_load_n(&p->state, __ATOMIC_RELAXED);

    if (state == OFI_PEER_NONE || state == OFI_PEER_DEAD)
        return;

    __atomic_store_n(&p->state, OFI_PEER_DEAD, __ATOMIC_RELAXED);
    cx->base.cfg.upcalls->on_peer_error(cx->base.cfg.up, peer, st, why);
    amph_ofi_pack_fail(cx, peer, AMPH_ERR_PEER);
}

void amph_ofi_fail_peer(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                        enum amph_ofi_peer_state state)
{
    uint8_t up = OFI_PEER_UP;

    if (!__atomic_compare_exchange_n(&p->state, &up, (uint8_t)state, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;

    __atomic_store_n(&cx->failed, 1, __ATOMIC_RELEASE);
    amph_ofi_notify(cx);
}

static bool report_one(struct amph_ofi_cx *cx, uint32_t peer)
{
    char why[96];

    switch (__atomic_load_n(&cx->peer[peer].state, __ATOMIC_RELAXED)) {
    case OFI_PEER_REFUSED:
        peer_lost(cx, peer, AMPH_ERR_PEER, "its address accepts no connection");
        return true;
    case OFI_PEER_SILENT: /* LOST: its process may be alive, and nobody else reports it */
        peer_lost(cx, peer, AMPH_ERR_LOST,
                  "nothing has been heard of its host for longer than AMPHORA_TCP_TIMEOUT");
        return true;
    case OFI_PEER_STARVED:
        snprintf(why, sizeof why, "there is no memory for libfabric%s", amph_limit_remedy(ENOMEM));
        peer_lost(cx, peer, AMPH_ERR_NOMEM, why);
        return true;
    default:
        return false;
    }
}

/* Reports the peers that were found unreachable. */
static unsigned report_failed(struct amph_ofi_cx *cx)
{
    unsigned n = 0;

    if (AMPH_LIKELY(!__atomic_load_n(&cx->failed, __ATOMIC_RELAXED)))
        return 0;

    __atomic_store_n(&cx->failed, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    for (uint32_t i = 0; i < cx->base.cfg.max_peers; i++)
        n += report_one(cx, i);

    return n;
}

/* A connection that ends cancels what is in flight over it. */
static const char *lost_text(int err)
{
    return err == FI_ECANCELED || err == FI_ECONNRESET
               ? "the network connection to it broke during a transfer"
               : fi_strerror(err);
}

static void handle_error(struct amph_ofi_cx *cx)
{
    struct fi_cq_err_entry err = { 0 };

    if (fi_cq_readerr(cx->cq, &err, 0) != 1)
        return;

    struct amph_ofi_ctx *ctx = err.op_context;

    amph_debug("%s: completion error %d (%s), flags 0x%llx", cx->base.cfg.name, err.err,
               fi_strerror(err.err), (unsigned long long)err.flags);
    if (!ctx)
        return;

    if (ctx->what == OFI_CTX_RX) {
        amph_ofi_rx_error(cx, AMPH_CONTAINER_OF(ctx, struct amph_ofi_rxbuf, ctx), &err);
        return;
    }

    struct amph_ofi_op *op = AMPH_CONTAINER_OF(ctx, struct amph_ofi_op, ctx);

    /* the reason first: a caller may end its process because of the operation's status */
    peer_lost(cx, op->peer, AMPH_ERR_LOST, lost_text(err.err));
    amph_ofi_op_finish(cx, op, AMPH_ERR_PEER);
}

/* Has the provider probably something to do? */
static bool is_ready(struct amph_ofi_cx *cx)
{
    if (!cx->looks || cx->ready || cx->cq_unread || cx->empty_looks >= LOOKS_BETWEEN_READS)
        return true;

    cx->ready = amph_ofi_look();
    cx->stirred |= cx->ready;
    cx->empty_looks += !cx->ready;
    return cx->ready;
}

/* Reads the next completions if all earlier ones have been handled.  Reading also makes the
 * provider progress. */
bool amph_ofi_fill_batch(struct amph_ofi_cx *cx)
{
    if (cx->ev_at != cx->ev_end)
        return true;
    if (!is_ready(cx))
        return false;

    /* before the read, so that additions during or after it are recorded */
    __atomic_store_n(&cx->cq_empty, 1, __ATOMIC_RELAXED);
    cx->cq_unread = false;
    if (cx->notify_fd >= 0)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);

    ssize_t n = fi_cq_read(cx->cq, cx->ev, OFI_BATCH);

    cx->empty_looks = 0;
    cx->ready = false;
    if (cx->looks)
        amph_ofi_look_end();

    if (AMPH_LIKELY(n == -FI_EAGAIN))
        return false;

    amph_ofi_cq_touched(cx);
    if (n > 0) {
        cx->ev_at = 0;
        cx->ev_end = (unsigned)n;
        cx->cq_unread = n == OFI_BATCH;
        return true;
    }

    cx->ev_error = n == -FI_EAVAIL;
    return cx->ev_error;
}

static void handle(struct amph_ofi_cx *cx, unsigned lanes)
{
    /* a copy: an inner call may refill the batch */
    struct fi_cq_data_entry e = cx->ev[cx->ev_at++];
    struct amph_ofi_ctx *ctx = e.op_context;

    if (AMPH_UNLIKELY(!ctx))
        return;

    if (ctx->what == OFI_CTX_RX)
        amph_ofi_rx_message(cx, AMPH_CONTAINER_OF(ctx, struct amph_ofi_rxbuf, ctx), &e, lanes);
    else
        amph_ofi_op_finish(cx, AMPH_CONTAINER_OF(ctx, struct amph_ofi_op, ctx), AMPH_OK);
}

/* The tcp providers take in one large put a read, and report none at its target.  So a process that
 * polls late, as its peers' puts may be queueing, reads again while reads take long. */
struct late {
    uint64_t read_ns; /* when the last read ended */
    unsigned left;    /* reads */
};

/* What a progress call has sent while it read. */
struct answers {
    uint64_t read_ns; /* when the last read that has sent something ended */
    unsigned sent;    /* packets since the last push */
    unsigned left;    /* reads */
};

/* The reads of one progress call. */
struct reads {
    struct late late;
    struct answers answers;
};

static struct reads reads_begin(const struct amph_ofi_cx *cx)
{
    const uint64_t now_ns = amph_now_ns();
    const bool is_late = AMPH_UNLIKELY(now_ns - cx->progress_ns > LATE_NS);

    return (struct reads){ .late = { .read_ns = now_ns, .left = is_late ? LATE_READS : 0 },
                           .answers = { .read_ns = now_ns, .left = ANSWER_READS } };
}

static bool reads_again(struct late *l)
{
    if (AMPH_LIKELY(!l->left))
        return false;

    const uint64_t before_ns = l->read_ns;

    l->left--;
    l->read_ns = amph_now_ns();
    return l->read_ns - before_ns > MOVED_NS;
}

static void push(struct amph_ofi_cork *cork)
{
    if (AMPH_UNLIKELY(__atomic_load_n(&cork->sent, __ATOMIC_RELAXED)))
        amph_ofi_cork_push(cork);
}

/* What the provider answers while it reads may be kept back until the end of the progress call. */
static bool read_together(struct amph_ofi_cx *cx)
{
    amph_ofi_cork_begin(cx, OFI_CORK_PROGRESS, 0);

    bool any = amph_ofi_fill_batch(cx);

    amph_ofi_cork_end();
    return any;
}

/* Has the last read answered small puts or gets?  It has probably left others, whose answers can be sent
 * together.  Answers to large ones, and those that are many, are sent at once: the peer can go on with them. */
static bool has_answered(struct amph_ofi_cx *cx, struct answers *a)
{
    struct amph_ofi_cork *cork = &cx->cork[OFI_CORK_PROGRESS];
    unsigned sent = __atomic_load_n(&cork->sent, __ATOMIC_RELAXED);

    if (AMPH_LIKELY(sent == a->sent))
        return false;

    const uint64_t before_ns = a->read_ns;

    a->read_ns = amph_now_ns();
    a->sent = sent;

    bool large = a->read_ns - before_ns > MOVED_NS;

    if (large || sent >= ANSWERS_TOGETHER) {
        amph_ofi_cork_push(cork);
        a->sent = 0;
    }

    if (large || a->left == 0)
        return false;

    a->left--;
    return true;
}

/* Does a progress call have nothing to do?  Most of a process that waits have not. */
static inline bool is_idle(struct amph_ofi_cx *cx)
{
    bool clear = cx->looks && cx->ev_at == cx->ev_end && !cx->rx_starved && !cx->deferred &&
                 !cx->kicks && !cx->woken_by_provider && !amph_ofi_pack_waits(cx) &&
                 !__atomic_load_n(&cx->failed, __ATOMIC_RELAXED) &&
                 !__atomic_load_n(&cx->cork[OFI_CORK_SEND].sent, __ATOMIC_RELAXED);

    return clear && !is_ready(cx);
}

/* Receives what earlier calls had no buffers or no room for. */
static unsigned receive_postponed(struct amph_ofi_cx *cx, unsigned lanes, unsigned budget)
{
    if (AMPH_UNLIKELY(cx->rx_starved))
        amph_ofi_rx_repost(cx);

    if (AMPH_UNLIKELY(cx->deferred && (lanes & (1u << AMPH_LANE_REQUEST))))
        return amph_ofi_rx_deferred(cx, budget);

    return 0;
}

/* No completion has come.  Is another one likely? */
static bool is_worth_a_read(struct amph_ofi_cx *cx, struct reads *r)
{
    if (AMPH_UNLIKELY(cx->kicks && !cx->kicker_posted)) {
        amph_ofi_rx_kick(cx);
        return true;
    }

    return has_answered(cx, &r->answers) || reads_again(&r->late);
}

static void handle_next(struct amph_ofi_cx *cx, unsigned lanes)
{
    if (AMPH_LIKELY(!cx->ev_error)) {
        handle(cx, lanes);
        return;
    }

    cx->ev_error = false;
    handle_error(cx);
}

/* A batch that was not full has emptied the queue, and reading again would cost a system call.  But
 * the tcp providers read only one large message per call. */
static bool has_emptied_queue(struct amph_ofi_cx *cx)
{
    if (cx->ev_at != cx->ev_end)
        return false;
    if (cx->ev_end < OFI_BATCH && !cx->ev_large)
        return true;

    cx->ev_large = false;
    return false;
}

/* Handles completions, at most as many as the budget says. */
static unsigned handle_completions(struct amph_ofi_cx *cx, unsigned lanes, unsigned budget,
                                   struct reads *r)
{
    unsigned n = 0;

    while (n < budget) {
        if (read_together(cx)) {
            handle_next(cx, lanes);
            n++;

            if (has_emptied_queue(cx))
                break;
        } else if (!is_worth_a_read(cx, r)) {
            break;
        }
    }

    return n;
}

/* Sends the answers to packed gets.  With a progress thread the caller does so by its flush: true. */
static bool leaves_answers(struct amph_ofi_cx *cx)
{
    if (AMPH_LIKELY(!__atomic_load_n(&cx->pack.nanswers, __ATOMIC_RELAXED)))
        return false;
    if (cx->base.cfg.threaded)
        return true;

    amph_ofi_pack_answer(cx);
    return false;
}

unsigned amph_ofi_progress(struct amph_cx *base, unsigned lanes, unsigned budget)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);
    const bool is_inner = cx->pack.in_progress;

    if (is_idle(cx))
        return 0;

    cx->pack.in_progress = true;

    unsigned n = AMPH_UNLIKELY(amph_ofi_pack_waits(cx)) ? amph_ofi_pack_progress(cx) : 0;

    n += report_failed(cx);

    struct reads reads = reads_begin(cx);

    amph_ofi_cork_push_sent(cx);
    n += receive_postponed(cx, lanes, budget);

    if (AMPH_LIKELY(n < budget))
        n += handle_completions(cx, lanes, budget - n, &reads);

    if (n > 0 && AMPH_UNLIKELY(++cx->calls % CALLS_BETWEEN_TICKS == 0))
        amph_ofi_tick(base, amph_now_ns());

    const bool is_unanswered = leaves_answers(cx);

    push(&cx->cork[OFI_CORK_PROGRESS]);
    n += n == 0 && (is_unanswered || cx->woken_by_provider || cx->stirred);

    cx->pack.in_progress = is_inner;
    cx->progress_ns = reads.late.read_ns;
    cx->woken_by_provider = cx->stirred = false;
    return n;
}
