/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send side: messages, puts and gets, and their completion.  Layer: conduits (ofi).  Thread
 * rule: serialised send side; amph_ofi_op_finish also from the progress side (see pool.c).
 *
 * A message of up to the provider's inject size is injected and needs no operation.  A longer one
 * is copied to a bounce buffer.  The exception is a large payload whose owner waits for lc: it is
 * sent in place, after a header that the operation holds.
 *
 * If the provider requires registered memory (need_reg), small puts and gets use registered bounce
 * buffers.  Larger ones register the client's pages while they are in flight, unless the pages are
 * in a segment.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <string.h>
#include <sys/uio.h>

#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "conduits/ofi/ofi.h"

enum {
    PUT_LONG_BYTES = 65537, /* of puts that may go in several remote parts */
    PUT_PARTS_MAX = 3,
    PUT_PART_BYTES = 64, /* of all but the last */
    PAGE_BYTES = 4096    /* the distance that processors look at, whatever the kernel's page is */
};

/* Returns the peer if messages can be sent to it; else NULL, and *st_p says why. */
static struct amph_ofi_peer *peer_up(struct amph_ofi_cx *cx, uint32_t peer, enum amph_status *st)
{
    if (AMPH_UNLIKELY(peer >= cx->base.cfg.max_peers)) {
        *st = AMPH_ERR_RANGE;
        return NULL;
    }

    struct amph_ofi_peer *p = &cx->peer[peer];
    uint8_t state = __atomic_load_n(&p->state, __ATOMIC_RELAXED);

    if (AMPH_LIKELY(state == OFI_PEER_UP && p->addr != FI_ADDR_UNSPEC))
        return p;
    if (state == OFI_PEER_UP && amph_ofi_insert_address(cx, p))
        return p;

    if (state == OFI_PEER_NONE)
        *st = AMPH_ERR_STATE;
    else /* nobody else reports these: the caller's progress must do it first */
        *st = state == OFI_PEER_SILENT || state == OFI_PEER_STARVED ? AMPH_AGAIN : AMPH_ERR_PEER;

    return NULL;
}

/* Says once that the network, and not the peer, is what fails. */
static void say_unreachable(struct amph_ofi_cx *cx, int err)
{
    const bool network = err == FI_ENETUNREACH || err == FI_EHOSTUNREACH || err == FI_ENETDOWN ||
                         err == FI_EADDRNOTAVAIL;

    if (network && !__atomic_exchange_n(&cx->said_unreachable, 1, __ATOMIC_RELAXED))
        amph_error("%s: another process cannot be reached: %s (is the network up? "
                   "AMPHORA_INTERFACE chooses another address)",
                   cx->family->conduit, fi_strerror(err));
}

/* Returns the status of a refused transfer.  While a connection is being made, providers return
 * EAGAIN.  If it cannot be made at all, the peer has failed, and progress makes its upcall. */
static enum amph_status refused(struct amph_ofi_cx *cx, struct amph_ofi_peer *p, ssize_t ret)
{
    enum amph_ofi_peer_state state = OFI_PEER_REFUSED;

    if (ret == -FI_EAGAIN)
        state = amph_ofi_peer_liveness(cx, p);

    if (ret == -FI_EAGAIN || ret == -FI_ENOMEM)
        amph_ofi_note_no_room(cx);

    if (ret == -FI_ENOMEM || ret == -FI_EINTR || state == OFI_PEER_UP)
        return AMPH_AGAIN;

    amph_debug("%s: libfabric refuses a transfer: %s", cx->base.cfg.name, fi_strerror((int)-ret));
    say_unreachable(cx, (int)-ret);
    amph_ofi_fail_peer(cx, p, state);
    return state == OFI_PEER_SILENT ? AMPH_AGAIN : AMPH_ERR_PEER;
}

static inline void accepted(struct amph_ofi_peer *p)
{
    if (AMPH_UNLIKELY(p->again_ns != 0))
        p->again_ns = p->unheard_s = 0;
}

static struct amph_ofi_op *op_get(struct amph_ofi_cx *cx, uint32_t peer, struct amph_op *lc,
                                  struct amph_op *rc)
{
    struct amph_ofi_op *op = amph_ofi_pool_get(&cx->ops);

    if (!op)
        return NULL;

    op->ctx.what = OFI_CTX_OP;
    op->peer = peer;
    op->lc = lc;
    op->rc = rc;
    op->bounce = op->heap = op->get_to = NULL;
    op->user_reg = NULL;
    op->busy = true;
    op->unacked = false;

    return op;
}

static bool op_bounce(struct amph_ofi_cx *cx, struct amph_ofi_op *op, size_t len_bytes)
{
    op->bounce_pool = amph_ofi_bounce_pool(cx, len_bytes);
    op->bounce = amph_ofi_pool_get(op->bounce_pool);
    if (op->bounce)
        op->bounce_reg = ((struct amph_ofi_item *)op->bounce)->reg;

    return op->bounce != NULL;
}

static void op_free(struct amph_ofi_cx *cx, struct amph_ofi_op *op)
{
    if (op->bounce)
        amph_ofi_pool_put(op->bounce_pool, op->bounce, op->bounce_reg);

    if (op->user_reg)
        amph_ofi_reg_put(cx, op->user_reg);

    free(op->heap);
    op->busy = false;
    amph_ofi_pool_put(&cx->ops, op, op->item.reg);
}

void amph_ofi_op_finish(struct amph_ofi_cx *cx, struct amph_ofi_op *op, enum amph_status st)
{
    struct amph_op *lc = op->lc;
    struct amph_op *rc = op->rc;

    if (op->get_to && st == AMPH_OK)
        memcpy(op->get_to, op->bounce, op->get_bytes);

    if (op->unacked)
        amph_ofi_rma_ended(cx, op->peer);

    op_free(cx, op); /* before the upcalls, which may start the next */
    if (lc)
        lc->done(lc, st);

    if (rc)
        rc->done(rc, st);
}

/* Handles the result of starting an operation; on success the provider owns it. */
static enum amph_status started(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                struct amph_ofi_op *op, ssize_t ret)
{
    if (AMPH_LIKELY(ret == 0)) {
        accepted(p);
        amph_ofi_cq_touched(cx);
        amph_ofi_notify(cx);
        return AMPH_OK;
    }

    op_free(cx, op);
    return refused(cx, p, ret);
}

/* ---- messages ---- */

static enum amph_status check_am(const struct amph_am *am, enum amph_lane lane)
{
    if (am->nargs > AMPH_AM_MAX_ARGS || am->kind > AMPH_AM_INTERNAL ||
        (unsigned)lane >= AMPH_NLANES)
        return AMPH_ERR_ARG;
    if (amph_ofi_kind_packs(am->kind) && am->nbytes > OFI_MAX_MEDIUM)
        return AMPH_ERR_ARG;

    return AMPH_OK;
}

/* Writes the whole message to buf. */
static void put_message(void *buf, const struct amph_ofi_peer *p, enum amph_lane lane,
                        const struct amph_am *am, size_t payload, size_t total)
{
    size_t head = amph_ofi_head_len(am->nargs);

    amph_ofi_put_head(buf, am, lane, p->remote_index, p->cookie_out);
    if (!payload)
        return;

    memcpy((uint8_t *)buf + head, am->payload, payload);
    memset((uint8_t *)buf + head + payload, 0, total - head - payload);
}

static enum amph_status send_inject(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                    enum amph_lane lane, const struct amph_am *am, size_t payload,
                                    size_t total, struct amph_op *lc)
{
    uint64_t buf[OFI_INJECT_MAX_BYTES / 8];

    put_message(buf, p, lane, am, payload, total);

    amph_ofi_cork_begin_message(cx, am, total);

    ssize_t ret = fi_inject(cx->ep, buf, total, p->addr);

    amph_ofi_cork_end_message(cx);
    if (AMPH_UNLIKELY(ret != 0))
        return refused(cx, p, ret);

    accepted(p);
    if (lc)
        lc->done(lc, AMPH_OK);

    return AMPH_OK;
}

/* Sends by a bounce buffer. lc completes as soon as the payload is copied. */
static enum amph_status send_copy(struct amph_ofi_cx *cx, struct amph_ofi_peer *p, uint32_t peer,
                                  enum amph_lane lane, const struct amph_am *am, size_t payload,
                                  size_t total, struct amph_op *lc)
{
    struct amph_ofi_op *op = op_get(cx, peer, NULL, NULL);

    if (!op)
        return AMPH_AGAIN;

    if (!op_bounce(cx, op, total)) {
        op_free(cx, op);
        return AMPH_AGAIN;
    }

    put_message(op->bounce, p, lane, am, payload, total);
    amph_ofi_cork_begin_message(cx, am, total);

    ssize_t ret = fi_send(cx->ep, op->bounce, total,
                          amph_ofi_desc(cx, op->bounce_reg, op->bounce, total), p->addr, &op->ctx);

    amph_ofi_cork_end_message(cx);

    enum amph_status st = started(cx, p, op, ret);

    if (st == AMPH_OK && lc)
        lc->done(lc, AMPH_OK);

    return st;
}

/* Sends header and padding from the operation and the payload from the caller's memory.  The
 * operation takes over the payload's registration (may be NULL). */
static enum amph_status send_in_place(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                      uint32_t peer, enum amph_lane lane, const struct amph_am *am,
                                      size_t payload, size_t total, struct amph_op *lc,
                                      struct amph_ofi_reg *reg)
{
    size_t head = amph_ofi_head_len(am->nargs);
    size_t pad = total - head - payload;
    struct amph_ofi_op *op = op_get(cx, peer, lc, NULL);

    if (!op)
        return AMPH_AGAIN;

    amph_ofi_put_head(op->head, am, lane, p->remote_index, p->cookie_out);
    op->user_reg = reg;

    struct iovec iov[3] = { { op->head, head },
                            { (void *)am->payload, payload },
                            { (char *)op->head + OFI_HEAD_PAD, pad } };
    struct amph_ofi_reg *own = op->item.reg;
    struct amph_ofi_reg *in[3] = { own, reg, own };
    void *desc[3];

    for (unsigned i = 0; i < 3; i++)
        desc[i] = amph_ofi_desc(cx, in[i], iov[i].iov_base, iov[i].iov_len);

    return started(cx, p, op, fi_sendv(cx->ep, iov, desc, pad ? 3 : 2, p->addr, &op->ctx));
}

enum amph_status amph_ofi_am_send(struct amph_cx *base, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    return amph_ofi_pack_first(cx, peer) ? amph_ofi_send_now(cx, peer, lane, am, lc) : AMPH_AGAIN;
}

enum amph_status amph_ofi_send_now(struct amph_ofi_cx *cx, uint32_t peer, enum amph_lane lane,
                                   const struct amph_am *am, struct amph_op *lc)
{
    enum amph_status st = AMPH_OK;
    struct amph_ofi_peer *p = peer_up(cx, peer, &st);

    if (!p || (st = check_am(am, lane)) != AMPH_OK)
        return st;

    size_t payload = amph_ofi_kind_packs(am->kind) ? am->nbytes : 0;
    size_t total = amph_ofi_pad8(amph_ofi_head_len(am->nargs) + payload);

    if (total <= cx->inject_bytes)
        return send_inject(cx, p, lane, am, payload, total, lc);

    if (lc && total > OFI_BOUNCE_SMALL_BYTES) {
        struct amph_ofi_reg *reg = cx->need_reg
                                       ? amph_ofi_reg_find(cx, am->payload, payload, FI_SEND)
                                       : NULL;

        if (reg || !cx->need_reg)
            return send_in_place(cx, p, peer, lane, am, payload, total, lc, reg);
    }

    return send_copy(cx, p, peer, lane, am, payload, total, lc);
}

/* ---- one-sided ---- */

static enum amph_status finish_now(struct amph_op *lc, struct amph_op *rc)
{
    if (lc)
        lc->done(lc, AMPH_OK);

    if (rc)
        rc->done(rc, AMPH_OK);

    return AMPH_OK;
}

/* Returns the address from which the provider reads src: src itself, registered if necessary, or
 * a copy if copying is cheaper or the memory cannot be registered (read-only pages, on some
 * kernels).  NULL: no room now. */
static const void *put_source(struct amph_ofi_cx *cx, struct amph_ofi_op *op, const void *src,
                              size_t len_bytes)
{
    if ((op->user_reg = amph_ofi_reg_find(cx, src, len_bytes, FI_WRITE)) != NULL)
        return src;
    if (len_bytes <= OFI_MAX_MEDIUM)
        return op_bounce(cx, op, len_bytes) ? memcpy(op->bounce, src, len_bytes) : NULL;
    if (amph_ofi_reg_user(cx, src, len_bytes, FI_WRITE, &op->user_reg) == 0)
        return src;
    if (!(op->heap = malloc(len_bytes)) ||
        amph_ofi_reg_user(cx, op->heap, len_bytes, FI_WRITE, &op->user_reg) != 0)
        return NULL;

    return memcpy(op->heap, src, len_bytes);
}

/* Returns the address to which the provider writes the data of a get.  NULL: no room now. */
static void *get_target(struct amph_ofi_cx *cx, struct amph_ofi_op *op, void *dst, size_t len_bytes)
{
    if ((op->user_reg = amph_ofi_reg_find(cx, dst, len_bytes, FI_READ)) != NULL)
        return dst;
    if (len_bytes > OFI_MAX_MEDIUM)
        return amph_ofi_reg_user(cx, dst, len_bytes, FI_READ, &op->user_reg) == 0 ? dst : NULL;
    if (!op_bounce(cx, op, len_bytes))
        return NULL;

    op->get_to = dst;
    op->get_bytes = len_bytes;
    return op->bounce;
}

/* In how many remote parts a put goes, which follow each other in the target's memory.
 *
 * The kernel copies the provider's header and the data, one behind the other, into pages of its own, the
 * first of which it fills from its beginning if the receiver has read all that came before.  Processors
 * copy long strings only half as fast if the place in a page to which they copy is 1 to 63 bytes behind
 * the place from which they do (measured: the call that sends 1 MiB took 163 to 208 us with a header of
 * 8 to 60 bytes, and 127 with one of 64).  A header of one part has 40 bytes, and data often begin with a
 * page.  Each part more makes it longer. */
static unsigned put_parts(const struct amph_ofi_cx *cx, const void *src, size_t len_bytes)
{
    if (AMPH_LIKELY(len_bytes < PUT_LONG_BYTES) || !cx->prov->put_part_bytes)
        return 1;

    const size_t limit = cx->info->tx_attr->rma_iov_limit;
    const size_t most = limit < PUT_PARTS_MAX ? limit : PUT_PARTS_MAX;

    for (unsigned n = 1; n <= most; n++) {
        const uintptr_t head_bytes = cx->prov->put_head_bytes + n * cx->prov->put_part_bytes;
        const uintptr_t behind = (head_bytes - (uintptr_t)src) % PAGE_BYTES;

        if (behind == 0 || behind >= AMPH_CACHE_LINE)
            return n;
    }

    return 1;
}

/* The data of a put, as the provider reads them. */
struct put_data {
    const void *src; /* the caller's memory, or a copy */
    size_t len_bytes;
    uint64_t flags;        /* of fi_writemsg */
    struct amph_op *early; /* lc, if it completes as soon as the put has started */
};

/* Can lc complete at once, since the data are copied?  Without rc, lc is the provider's own completion. */
static bool completes_early(struct amph_ofi_cx *cx, struct amph_ofi_op *op, size_t len_bytes)
{
    if (!op->lc || !op->rc)
        return false;
    if (len_bytes <= cx->inject_bytes)
        return true;

    return len_bytes <= OFI_MAX_MEDIUM && op_bounce(cx, op, len_bytes);
}

/* Makes d the memory that the provider reads.  false: no room now. */
static bool put_prepare(struct amph_ofi_cx *cx, struct amph_ofi_op *op, struct put_data *d)
{
    /* rc needs the target's acknowledgement */
    d->flags = FI_COMPLETION | (op->rc ? FI_DELIVERY_COMPLETE : 0);

    if (completes_early(cx, op, d->len_bytes)) {
        d->early = op->lc;
        op->lc = NULL;

        if (op->bounce)
            d->src = memcpy(op->bounce, d->src, d->len_bytes);
        else
            d->flags |= FI_INJECT;

        return true;
    }

    if (cx->need_reg)
        d->src = put_source(cx, op, d->src, d->len_bytes);

    return d->src != NULL;
}

/* Describes the target's memory; returns in how many parts. */
static unsigned put_target(const struct amph_ofi_cx *cx, const struct amph_rmem *rmem,
                           uint64_t offset, const struct put_data *d,
                           struct fi_rma_iov part[PUT_PARTS_MAX])
{
    const unsigned parts = put_parts(cx, d->src, d->len_bytes);
    const uint64_t addr = amph_ofi_remote(cx, rmem, offset);

    for (unsigned i = 0; i < parts; i++)
        part[i] = (struct fi_rma_iov){ .addr = addr + i * PUT_PART_BYTES,
                                       .len = PUT_PART_BYTES,
                                       .key = rmem->rkey };

    part[parts - 1].len = d->len_bytes - (parts - 1) * PUT_PART_BYTES;
    return parts;
}

static ssize_t put_write(struct amph_ofi_cx *cx, const struct amph_ofi_peer *p,
                         struct amph_ofi_op *op, const struct amph_rmem *rmem, uint64_t offset,
                         const struct put_data *d)
{
    struct amph_ofi_reg *reg = op->bounce ? op->bounce_reg : op->user_reg;
    void *desc = d->flags & FI_INJECT ? NULL : amph_ofi_desc(cx, reg, d->src, d->len_bytes);
    struct iovec iov = { (void *)d->src, d->len_bytes };
    struct fi_rma_iov part[PUT_PARTS_MAX];

    struct fi_msg_rma msg = { .msg_iov = &iov,
                              .desc = &desc,
                              .iov_count = 1,
                              .addr = p->addr,
                              .rma_iov = part,
                              .rma_iov_count = put_target(cx, rmem, offset, d, part),
                              .context = &op->ctx };

    amph_ofi_cork_begin(cx, OFI_CORK_SEND, d->len_bytes);

    ssize_t ret = fi_writemsg(cx->ep, &msg, d->flags);

    amph_ofi_cork_end();
    return ret;
}

/* As peer_up, for a put or get, once the packed ones to another peer have been sent: below, libfabric may
 * be called for the peer's address. */
static struct amph_ofi_peer *rma_peer(struct amph_ofi_cx *cx, uint32_t peer, enum amph_status *st)
{
    if (cx->pack.held && cx->pack.last_peer != peer && !amph_ofi_pack_first(cx, peer)) {
        *st = AMPH_AGAIN;
        return NULL;
    }

    return peer_up(cx, peer, st);
}

/* As started, for a put or get. */
static enum amph_status rma_started(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                    struct amph_ofi_op *op, ssize_t ret)
{
    const uint32_t peer = op->peer;
    const bool unacked = op->unacked;
    enum amph_status st = started(cx, p, op, ret); /* op is the provider's, or free */

    if (st == AMPH_OK && unacked)
        amph_ofi_rma_begun(cx, peer);

    return st;
}

enum amph_status amph_ofi_put(struct amph_cx *base, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, const void *src, size_t len_bytes,
                              struct amph_op *lc, struct amph_op *rc)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);
    enum amph_status st = AMPH_OK;
    struct amph_ofi_peer *p = rma_peer(cx, peer, &st);

    if (!p)
        return st;
    if (len_bytes == 0)
        return finish_now(lc, rc);
    if (cx->pack.on &&
        (st = amph_ofi_pack_put(cx, peer, rmem, offset, src, len_bytes, lc, rc)) != AMPH_ERR_NOSYS)
        return st;

    struct amph_ofi_op *op = op_get(cx, peer, lc, rc);

    if (!op)
        return AMPH_AGAIN;

    struct put_data data = { .src = src, .len_bytes = len_bytes };

    if (!put_prepare(cx, op, &data)) {
        op_free(cx, op);
        return AMPH_AGAIN;
    }

    op->unacked = rc && cx->pack.on;
    st = rma_started(cx, p, op, put_write(cx, p, op, rmem, offset, &data));

    if (st == AMPH_OK && data.early)
        data.early->done(data.early, AMPH_OK);

    return st;
}

enum amph_status amph_ofi_get(struct amph_cx *base, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);
    enum amph_status st = AMPH_OK;
    struct amph_ofi_peer *p = rma_peer(cx, peer, &st);

    if (!p)
        return st;
    if (len_bytes == 0)
        return finish_now(done, NULL);
    if (cx->pack.on &&
        (st = amph_ofi_pack_get(cx, peer, rmem, offset, dst, len_bytes, done)) != AMPH_ERR_NOSYS)
        return st;

    struct amph_ofi_op *op = op_get(cx, peer, done, NULL);

    if (!op)
        return AMPH_AGAIN;

    if (cx->need_reg && !(dst = get_target(cx, op, dst, len_bytes))) {
        op_free(cx, op);
        return AMPH_AGAIN;
    }

    void *desc = amph_ofi_desc(cx, op->bounce ? op->bounce_reg : op->user_reg, dst, len_bytes);

    op->unacked = cx->pack.on;
    amph_ofi_cork_begin(cx, OFI_CORK_SEND, len_bytes);

    ssize_t ret = fi_read(cx->ep, dst, len_bytes, desc, p->addr, amph_ofi_remote(cx, rmem, offset),
                          rmem->rkey, &op->ctx);

    amph_ofi_cork_end();
    return rma_started(cx, p, op, ret);
}
