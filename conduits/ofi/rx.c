/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: the buffers, the check of each message, and requests deferred while the caller handles
 * replies only.
 * Layer: conduits (ofi).  Thread rule: progress side.
 *
 * A message is not trusted before its length, source number and cookie have been checked.  Messages
 * that fail are dropped and counted.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "base/os/aligned.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/ofi/ofi.h"

/* ---- buffers ---- */

static bool post(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb)
{
    struct iovec iov = { rb->mem, rb->len_bytes };
    void *desc = amph_ofi_desc(cx, rb->reg, rb->mem, rb->len_bytes);
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &rb->ctx
    };

    rb->got_bytes = rb->done_bytes = rb->end_bytes = 0;
    rb->released = rb->damaged = false;

    ssize_t ret = fi_recvmsg(cx->ep, &msg,
                             FI_COMPLETION | (cx->prov->own_buffers ? 0 : FI_MULTI_RECV));

    amph_ofi_cq_touched(cx);
    if (ret && ret != -FI_EAGAIN)
        amph_error("%s: libfabric takes no receive buffer: %s", cx->base.cfg.name,
                   fi_strerror((int)-ret));

    return ret == 0;
}

static size_t buffer_bytes(const struct amph_ofi_cx *cx)
{
    return cx->prov->own_buffers ? OFI_MSG_MAX_BYTES : OFI_RX_BUF_BYTES;
}

static struct amph_ofi_rxbuf *make_buffer(struct amph_ofi_cx *cx, size_t len_bytes)
{
    struct amph_ofi_rxbuf *rb = calloc(1, sizeof *rb);

    if (!rb || !(rb->mem = amph_aligned_alloc(AMPH_CACHE_LINE, len_bytes))) {
        free(rb);
        return NULL;
    }

    if (cx->need_reg &&
        amph_ofi_reg_make(cx, rb->mem, len_bytes, OFI_ACCESS_LOCAL, &rb->reg) != 0) {
        amph_aligned_free(rb->mem);
        free(rb);
        return NULL;
    }

    rb->ctx.what = OFI_CTX_RX;
    rb->len_bytes = len_bytes;
    rb->next = cx->rx_all;
    cx->rx_all = rb;

    return rb;
}

enum amph_status amph_ofi_rx_start(struct amph_ofi_cx *cx)
{
    size_t min = OFI_MSG_MAX_BYTES;

    cx->deferred_tail = &cx->deferred;

    bool own = cx->prov->own_buffers;
    int ret = own ? 0
                  : fi_setopt(&cx->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min,
                              sizeof min);

    if (ret) {
        amph_error("libfabric's provider %s cannot share receive buffers: %s", cx->prov->name,
                   fi_strerror(-ret));
        return amph_status_from_fi(ret);
    }

    for (unsigned i = 0; i < (own ? OFI_RX_OWN_BUFS : OFI_RX_BUFS); i++) {
        struct amph_ofi_rxbuf *rb = make_buffer(cx, buffer_bytes(cx));

        if (!rb)
            return AMPH_ERR_NOMEM;
        if (!post(cx, rb))
            return AMPH_ERR_SYS;
    }

    if (!cx->prov->needs_kicks)
        return AMPH_OK;

    cx->kicker = make_buffer(cx, OFI_MSG_MAX_BYTES);
    if (!cx->kicker)
        return AMPH_ERR_NOMEM;

    cx->kicker->kicker = true;
    return AMPH_OK;
}

void amph_ofi_rx_cancel(struct amph_ofi_cx *cx)
{
    for (struct amph_ofi_rxbuf *rb = cx->rx_all; rb; rb = rb->next)
        if (!rb->released)
            fi_cancel(&cx->ep->fid, &rb->ctx); /* fails if a message is being written into it */
}

void amph_ofi_rx_stop(struct amph_ofi_cx *cx)
{
    while (cx->rx_all) {
        struct amph_ofi_rxbuf *rb = cx->rx_all;

        cx->rx_all = rb->next;
        if (rb->reg)
            amph_ofi_reg_put(cx, rb->reg);

        amph_aligned_free(rb->mem);
        free(rb);
    }

    while (cx->deferred) {
        struct amph_ofi_deferred *d = cx->deferred;

        cx->deferred = d->next;
        free(d);
    }
}

/* Retires a buffer in which a message failed, because the provider may still write to it, and replaces
 * it.  The oldest retired buffer is used again, so that an unauthenticated sender can make this
 * process allocate at most OFI_RX_RETIRED of them. */
static struct amph_ofi_rxbuf *replace(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb)
{
    rb->released = false;

    unsigned slot = cx->rx_nretired++ % OFI_RX_RETIRED;
    struct amph_ofi_rxbuf *other = cx->rx_retired[slot];

    cx->rx_retired[slot] = rb;
    return other ? other : make_buffer(cx, buffer_bytes(cx));
}

/* Posts rb again if no message in it is in use. */
static void repost_if_unused(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb)
{
    if (AMPH_LIKELY(!rb->released) || (!rb->damaged && rb->done_bytes != rb->end_bytes))
        return;

    if (cx->kicker && cx->npeers > OFI_RX_BUFS)
        cx->kicks = cx->npeers;

    if (rb->kicker) {
        rb->released = cx->kicker_posted = false;
        return;
    }

    if (AMPH_UNLIKELY(rb->damaged)) {
        rb = replace(cx, rb);
        if (!rb) {
            amph_error("%s: no memory for a receive buffer", cx->base.cfg.name);
            return;
        }
    }

    if (!post(cx, rb)) {
        rb->released = true; /* not logged; each progress call tries again */
        cx->rx_starved = true;
        amph_ofi_note_no_room(cx);
    }
}

void amph_ofi_rx_repost(struct amph_ofi_cx *cx)
{
    cx->rx_starved = false;
    for (struct amph_ofi_rxbuf *rb = cx->rx_all; rb; rb = rb->next)
        repost_if_unused(cx, rb);
}

/* Posts and cancels an extra buffer once for each peer.  In libfabric 1.17 to 2, a connection
 * whose message finds no receive buffer is no longer read, and each buffer that is posted later
 * resumes only the first such connection.  So after a moment without any posted buffer, some
 * connections could be forgotten.  Such a moment cannot be detected, so this is done after a
 * buffer has been used up, as soon as there is nothing else to do.  The extra buffer holds one
 * message, so it is either unused or no longer queued. */
void amph_ofi_rx_kick(struct amph_ofi_cx *cx)
{
    if (cx->kicker_posted)
        return;

    cx->kicks--;
    if (!post(cx, cx->kicker))
        return;

    cx->kicker_posted = true;

    /* gives an error completion if no message took it meanwhile */
    fi_cancel(&cx->ep->fid, &cx->kicker->ctx);
}

/* ---- messages ---- */

/* Takes the message apart.  Returns false if it breaks the format. */
static bool parse(const void *msg, size_t len_bytes, struct amph_am *am, int32_t *args)
{
    const struct amph_ofi_hdr *h = msg;
    size_t head = amph_ofi_head_len(h->nargs);

    if (h->version != OFI_WIRE_VERSION || h->nargs > AMPH_AM_MAX_ARGS ||
        h->kind > AMPH_AM_INTERNAL || h->lane >= AMPH_NLANES)
        return false;

    *am = (struct amph_am){ .kind = h->kind,
                            .handler = h->handler,
                            .nargs = h->nargs,
                            .flags = h->flags,
                            .aux = amph_le16(h->aux),
                            .nbytes = amph_le32(h->nbytes),
                            .dest = amph_le64(h->dest),
                            .args = (const int32_t *)(h + 1) };

    size_t payload = amph_ofi_kind_packs(am->kind) ? am->nbytes : 0;
    if (payload > OFI_MAX_MEDIUM || len_bytes != amph_ofi_pad8(head + payload))
        return false;

    am->payload = (const uint8_t *)msg + head;
    if (amph_ofi_wire_swaps()) {
        for (unsigned i = 0; i < am->nargs; i++)
            args[i] = (int32_t)amph_le32((uint32_t)am->args[i]);

        am->args = args;
    }

    return true;
}

/* Returns the peer that sent the message, or UINT32_MAX if it is not authenticated. */
static uint32_t sender(struct amph_ofi_cx *cx, const struct amph_ofi_hdr *h)
{
    uint32_t src = amph_le32(h->src);

    if (src >= cx->base.cfg.max_peers)
        return UINT32_MAX;

    const struct amph_ofi_peer *p = &cx->peer[src];
    if (__atomic_load_n(&p->state, __ATOMIC_RELAXED) == OFI_PEER_NONE ||
        amph_le64(h->cookie) != p->cookie_in)
        return UINT32_MAX;

    return src;
}

static void defer(struct amph_ofi_cx *cx, const void *msg, size_t len_bytes)
{
    struct amph_ofi_deferred *d = malloc(sizeof *d + len_bytes);

    if (!d)
        amph_fatal("%s: no memory to keep a request of %zu bytes while a reply waits for room",
                   cx->base.cfg.name, len_bytes);

    d->next = NULL;
    d->len_bytes = len_bytes;
    memcpy(d->msg, msg, len_bytes);
    *cx->deferred_tail = d;
    cx->deferred_tail = &d->next;
}

/* Checks and delivers one message; lanes says which may be delivered now.  false: it is not a
 * peer's. */
static bool deliver(struct amph_ofi_cx *cx, const void *msg, size_t len_bytes, unsigned lanes)
{
    const struct amph_ofi_hdr *h = msg;
    int32_t args[AMPH_AM_MAX_ARGS];
    struct amph_am am;

    if (AMPH_UNLIKELY(len_bytes < sizeof *h)) {
        amph_count(DROP_MALFORMED);
        return false;
    }

    uint32_t src = sender(cx, h);

    if (AMPH_UNLIKELY(src == UINT32_MAX)) {
        amph_count(DROP_COOKIE);
        return false;
    }

    if (AMPH_UNLIKELY(!parse(msg, len_bytes, &am, args))) {
        amph_count(DROP_MALFORMED);
        return false;
    }

    /* The provider reads the put before a long in a separate call, which reports nothing. */
    cx->ev_large |= am.nbytes >= OFI_LARGE_BYTES;
    if (AMPH_UNLIKELY(am.kind == AMPH_AM_INTERNAL) &&
        amph_ofi_pack_take(cx, src, (enum amph_lane)h->lane, &am))
        return true;

    if (AMPH_LIKELY(lanes & (1u << h->lane)))
        cx->base.cfg.upcalls->on_am(cx->base.cfg.up, src, (enum amph_lane)h->lane, &am);
    else
        defer(cx, msg, len_bytes);

    return true;
}

/* An unauthenticated message of odd length has misaligned the messages after it, which are moved
 * first. */
static bool deliver_moved(struct amph_ofi_cx *cx, const void *msg, size_t len_bytes, unsigned lanes)
{
    void *copy = malloc(len_bytes);

    if (!copy)
        amph_fatal("%s: no memory to move a message of %zu bytes", cx->base.cfg.name, len_bytes);

    bool ours = deliver(cx, memcpy(copy, msg, len_bytes), len_bytes, lanes);

    free(copy);
    return ours;
}

void amph_ofi_rx_message(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb,
                         const struct fi_cq_data_entry *e, unsigned lanes)
{
    bool own = cx->prov->own_buffers;
    uint8_t *msg = own ? rb->mem : e->buf;
    size_t at = (size_t)(msg - rb->mem);
    size_t len = e->len;
    bool inside = msg && at <= rb->len_bytes && len <= rb->len_bytes - at;

    if (inside)
        rb->got_bytes += len;

    if (own || (e->flags & FI_MULTI_RECV)) {
        rb->released = true;

        /* a completion without a message releases the buffer, after all messages */
        rb->end_bytes = len && inside ? at + len : rb->got_bytes;
    }

    /* An unauthenticated sender can make the tcp providers report a message that was never written,
     * repeatedly at one offset.  Then the byte counts of this buffer are wrong, and no stale message
     * may be delivered from it. */
    if (AMPH_LIKELY(len && inside)) {
        if (AMPH_UNLIKELY(at & 7) ? !deliver_moved(cx, msg, len, lanes)
                                  : !deliver(cx, msg, len, lanes))
            rb->damaged = true;

        memset(msg, 0, len < sizeof(uint64_t) ? len : sizeof(uint64_t));
    } else if (len) {
        amph_count(DROP_MALFORMED);
        rb->damaged = true;
    }

    rb->done_bytes += len;
    repost_if_unused(cx, rb);
}

void amph_ofi_rx_error(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb,
                       const struct fi_cq_err_entry *err)
{
    if (err->err == FI_ETRUNC || err->err == FI_EMSGSIZE)
        amph_count(DROP_MALFORMED);

    if (rb->kicker) { /* it holds at most one message, so it is no longer in use */
        cx->kicker_posted = false;
        return;
    }

    rb->damaged = true;
    if (cx->prov->own_buffers || (err->flags & FI_MULTI_RECV))
        rb->released = true;

    repost_if_unused(cx, rb);
}

unsigned amph_ofi_rx_deferred(struct amph_ofi_cx *cx, unsigned budget)
{
    unsigned n = 0;

    while (cx->deferred && n < budget) {
        struct amph_ofi_deferred *d = cx->deferred;

        cx->deferred = d->next;
        if (!cx->deferred)
            cx->deferred_tail = &cx->deferred;

        deliver(cx, d->msg, d->len_bytes, ~0u);
        free(d);
        n++;
    }

    return n;
}
