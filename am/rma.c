/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided transfers of an endpoint: memory that all its conduits know, put and get.
 * Layer: am.  Thread rule: see am.h; registration takes the send lock.
 *
 * Key bytes of registered memory: smp key blob, network key blob, that of put and get over the
 * network's messages; an empty one: not reachable that way.
 */
#include <string.h>

#include "am/ep.h"
#include "base/copy.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/conduit.h"

enum amph_status amph_am_mem_reg(struct amph_am_ep *ep, void *base, size_t len_bytes, int fd,
                                 uint64_t fd_offset, struct amph_am_mem *mem)
{
    struct amph_wr w;
    enum amph_status st = AMPH_OK;

    memset(mem, 0, sizeof *mem);
    mem->base = base;
    mem->len_bytes = len_bytes;
    amph_wr_init(&w, mem->key, sizeof mem->key);
    amph_ep_lock(ep);

    for (int i = 0; i < AMPH_NCX && st == AMPH_OK; i++) {
        if (i == AMPH_CX_SMP && fd < 0 && ep->carry)
            st = amph_am_carry_reg(ep, base, len_bytes, &mem->part[i]);
        else if (ep->cx[i] && !(i == AMPH_CX_SMP && fd < 0 && !ep->cfg.anywhere))
            st = ep->cx[i]->ops->mem_reg(ep->cx[i], base, len_bytes, fd, fd_offset, &mem->part[i]);

        if (st == AMPH_OK)
            amph_wr_blob(&w, mem->part[i].key, mem->part[i].key_len);
    }

    amph_ep_unlock(ep);
    if (st == AMPH_OK && w.bad)
        st = AMPH_ERR_RANGE;

    if (st != AMPH_OK)
        amph_am_mem_dereg(ep, mem);

    mem->key_len = amph_wr_len(&w);
    return st;
}

void amph_am_mem_dereg(struct amph_am_ep *ep, struct amph_am_mem *mem)
{
    amph_ep_lock(ep);
    for (int i = AMPH_NCX - 1; i >= 0; i--)
        if (ep->cx[i] && mem->part[i].key_len &&
            !(i == AMPH_CX_SMP && amph_am_carry_dereg(ep, &mem->part[i])))
            ep->cx[i]->ops->mem_dereg(ep->cx[i], &mem->part[i]);

    amph_ep_unlock(ep);
    memset(mem->part, 0, sizeof mem->part);
    mem->key_len = 0;
}

enum amph_status amph_am_mem_import(struct amph_am_ep *ep, uint32_t peer, const void *key,
                                    size_t key_len, struct amph_rmem *rmem)
{
    if (peer >= ep->max_peers)
        return AMPH_ERR_RANGE;

    struct amph_cx *cx = ep->peer[peer].cx;
    if (!cx)
        return AMPH_ERR_PEER;

    struct amph_rd r;
    const void *part[AMPH_NCX];
    size_t part_len[AMPH_NCX];

    amph_rd_init(&r, key, key_len);
    for (int i = 0; i < AMPH_NCX; i++)
        part[i] = amph_rd_blob(&r, &part_len[i]);

    int which = AMPH_CX_SMP;

    while (which < AMPH_NCX - 1 && cx != ep->cx[which])
        which++;

    if (r.bad || amph_rd_left(&r) || part_len[which] == 0 ||
        part_len[which] > AMPH_KEY_BLOB_MAX_BYTES)
        return AMPH_ERR_PROTO;
    if (which == AMPH_CX_SMP && amph_am_carry_is_key(part[which], part_len[which]))
        return amph_am_carry_import(ep, part[which], part_len[which], rmem);

    amph_ep_lock(ep);

    enum amph_status st = cx->ops->mem_import(cx, peer, part[which], part_len[which], rmem);

    amph_ep_unlock(ep);
    return st;
}

void amph_am_mem_forget(struct amph_am_ep *ep, uint32_t peer, struct amph_rmem *rmem)
{
    struct amph_cx *cx = peer < ep->max_peers ? ep->peer[peer].cx : NULL;

    if (cx && rmem->len_bytes) {
        amph_ep_lock(ep);
        cx->ops->mem_import(cx, peer, NULL, 0, rmem);
        amph_ep_unlock(ep);
    }

    memset(rmem, 0, sizeof *rmem);
}

static enum amph_status check(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, size_t len_bytes)
{
    if (peer >= ep->max_peers || len_bytes > rmem->len_bytes ||
        offset > rmem->len_bytes - len_bytes)
        return AMPH_ERR_RANGE;

    return ep->peer[peer].cx ? AMPH_OK : AMPH_ERR_PEER;
}

static void finish(struct amph_op *op)
{
    if (op)
        op->done(op, AMPH_OK);
}

/* Waits one round for room.  Returns false if the caller must return *st_p. */
static bool may_retry(struct amph_am_ep *ep, unsigned flags, unsigned *rounds,
                      enum amph_status *st_p)
{
    if (*st_p != AMPH_AGAIN || (flags & AMPH_AM_IMMEDIATE))
        return false;

    if (amph_ep_in_handler(ep)) {
        *st_p = AMPH_ERR_STATE;
        return false;
    }

    if (*rounds == 0)
        amph_count(AM_AGAIN);

    amph_ep_room_wait(ep, rounds);
    return true;
}

enum amph_status amph_am_put(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, const void *src, size_t len_bytes, unsigned flags,
                             struct amph_op *lc, struct amph_op *rc)
{
    enum amph_status st = check(ep, peer, rmem, offset, len_bytes);

    if (st != AMPH_OK)
        return st;

    if (rmem->local || len_bytes == 0) {
        if (len_bytes)
            amph_copy((uint8_t *)rmem->local + offset, src, len_bytes);

        __atomic_thread_fence(__ATOMIC_RELEASE);
        finish(lc);
        finish(rc);
        return AMPH_OK;
    }

    if (ep->peer[peer].vm_pid && amph_am_vm_put(ep, peer, rmem->base + offset, src, len_bytes)) {
        finish(lc);
        finish(rc);
        return AMPH_OK;
    }

    if (amph_ep_carries(ep, peer))
        return amph_am_carry_put(ep, peer, rmem, offset, src, len_bytes, flags, lc, rc);

    unsigned rounds = 0;

    do {
        st = amph_ep_put_now(ep, peer, rmem, offset, src, len_bytes, lc, rc);
    } while (may_retry(ep, flags, &rounds, &st));

    return st;
}

static enum amph_status get_now(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done)
{
    struct amph_cx *cx = ep->peer[peer].cx;

    if (!cx || ep->peer[peer].dead)
        return AMPH_ERR_PEER;

    amph_ep_lock(ep);

    enum amph_status st = cx->ops->get(cx, peer, rmem, offset, dst, len_bytes, done);

    amph_ep_unlock(ep);
    amph_ep_end_rest(ep);
    if (st == AMPH_OK)
        amph_count(GET_NET);

    return st;
}

enum amph_status amph_am_get(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, void *dst, size_t len_bytes, unsigned flags,
                             struct amph_op *done)
{
    enum amph_status st = check(ep, peer, rmem, offset, len_bytes);

    if (st != AMPH_OK)
        return st;

    if (rmem->local || len_bytes == 0) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (len_bytes)
            amph_copy(dst, (const uint8_t *)rmem->local + offset, len_bytes);

        finish(done);
        return AMPH_OK;
    }

    if (ep->peer[peer].vm_pid && amph_am_vm_get(ep, peer, rmem->base + offset, dst, len_bytes)) {
        finish(done);
        return AMPH_OK;
    }

    if (amph_ep_carries(ep, peer))
        return amph_am_carry_get(ep, peer, rmem, offset, dst, len_bytes, flags, done);

    unsigned rounds = 0;

    do {
        st = get_now(ep, peer, rmem, offset, dst, len_bytes, done);
    } while (may_retry(ep, flags, &rounds, &st));

    return st;
}

bool amph_am_put_arrives_first(const struct amph_am_ep *ep, uint32_t peer)
{
    const struct amph_cx *cx = peer < ep->max_peers ? ep->peer[peer].cx : NULL;

    return cx && cx->caps.put_then_am;
}

bool amph_am_puts_in_place(const struct amph_am_ep *ep, uint32_t peer)
{
    const struct amph_cx *cx = peer < ep->max_peers ? ep->peer[peer].cx : NULL;

    return cx && cx->caps.puts_in_place;
}

bool amph_am_sends_in_place(const struct amph_am_ep *ep, uint32_t peer)
{
    const struct amph_cx *cx = peer < ep->max_peers ? ep->peer[peer].cx : NULL;

    return cx && cx->caps.sends_in_place;
}
