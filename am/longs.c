/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages, which put their payload into the peer's segment: through a mapping, packed into
 * the message, or by a put that the message follows.  Layer: am.  Thread rule: see ep.h.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "base/copy.h"
#include "base/platform.h"
#include "base/status.h"
#include "conduits/conduit.h"

#define COPY_MAX_BYTES (256u << 10) /* longer payloads are not copied */
#define COPIED_MAX_BYTES (4u << 20)

/* The peer's segment and the offset of [dest, dest + nbytes) in it, checked in 64 bits. */
static enum amph_status locate(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                               const struct amph_rmem **segment_p, uint64_t *offset_p)
{
    if (!ep->peer[peer].cx)
        return AMPH_ERR_PEER;

    const struct amph_rmem *segment = amph_ep_segment_of(ep, peer, AMPH_AM_ROUTE_TO(am->flags));
    uint64_t offset = segment ? am->dest - segment->base : 0;

    if (!segment || am->nbytes > segment->len_bytes || offset > segment->len_bytes - am->nbytes ||
        am->nbytes > AMPH_AM_LONG_BYTES)
        return AMPH_ERR_RANGE;

    *segment_p = segment;
    *offset_p = offset;
    return AMPH_OK;
}

static bool packs(const struct amph_peer *p, const struct amph_am *am)
{
    return am->nbytes <= AMPH_AM_PACKED_BYTES || !p->cx->caps.put_then_am;
}

enum amph_status amph_ep_put_now(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                 uint64_t offset, const void *src, size_t len_bytes,
                                 struct amph_op *lc, struct amph_op *rc)
{
    struct amph_cx *cx = ep->peer[peer].cx;

    if (!cx || ep->peer[peer].dead)
        return AMPH_ERR_PEER;

    amph_ep_lock(ep);

    enum amph_status st = cx->ops->put(cx, peer, rmem, offset, src, len_bytes, lc, rc);

    amph_ep_unlock(ep);
    amph_ep_end_rest(ep);
    if (st == AMPH_OK)
        amph_count(PUT_NET);

    return st;
}

struct flag_op {
    struct amph_op op;
    bool done;
    enum amph_status st;
};

static void flag_done(struct amph_op *op, enum amph_status st)
{
    struct flag_op *f = AMPH_CONTAINER_OF(op, struct flag_op, op);

    f->st = st;
    __atomic_store_n(&f->done, true, __ATOMIC_RELEASE);
}

/* A copy of a payload, until its put is locally complete. */
struct copy {
    struct amph_op op;
    struct amph_am_ep *ep;
    uint32_t nbytes;
    uint8_t bytes[];
};

static void copy_done(struct amph_op *op, enum amph_status st)
{
    struct copy *copy = AMPH_CONTAINER_OF(op, struct copy, op);

    __atomic_sub_fetch(&copy->ep->copied_bytes, copy->nbytes, __ATOMIC_RELAXED);
    free(copy);
}

/* The source of a put may be used again when the peer has received it, which takes long if the peer
 * polls seldom.  Then payloads are copied, up to COPIED_MAX_BYTES.  When no copy is in flight the
 * next put is waited for, to see whether that still takes long.  Threads that send to one peer share what
 * is known of it; the last one decides.  Returns NULL: do not copy. */
static struct copy *make_copy(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am)
{
    uint32_t copied = __atomic_load_n(&ep->copied_bytes, __ATOMIC_RELAXED);

    if (am->nbytes > COPY_MAX_BYTES || copied + am->nbytes > COPIED_MAX_BYTES)
        return NULL;

    uint8_t *late = &ep->peer[peer].late;

    uint8_t state = __atomic_load_n(late, __ATOMIC_RELAXED);

    if (state == AMPH_LATE_COPIES && !copied)
        state = AMPH_LATE_NO;

    __atomic_store_n(late, state == AMPH_LATE_NO ? state : AMPH_LATE_COPIES, __ATOMIC_RELAXED);
    if (state == AMPH_LATE_NO)
        return NULL;

    struct copy *copy = malloc(sizeof *copy + am->nbytes);

    if (!copy)
        return NULL;

    copy->op.done = copy_done;
    copy->ep = ep;
    copy->nbytes = am->nbytes;
    memcpy(copy->bytes, am->payload, am->nbytes);
    __atomic_add_fetch(&ep->copied_bytes, am->nbytes, __ATOMIC_RELAXED);

    return copy;
}

static void await(struct amph_am_ep *ep, uint32_t peer, const struct flag_op *flag)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    bool late = false;

    while (!__atomic_load_n(&flag->done, __ATOMIC_ACQUIRE)) {
        amph_am_wait_step(ep, &w);
        late |= w.phase != AMPH_WAITER_SPINS;
    }

    __atomic_store_n(&ep->peer[peer].late, late ? AMPH_LATE_SEEN : AMPH_LATE_NO, __ATOMIC_RELAXED);
}

/* Sends a long as a put and then a message.  After the put has started the message must follow, so
 * IMMEDIATE applies to the put only. */
static enum amph_status put_request(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                    const struct amph_rmem *segment, uint64_t offset,
                                    unsigned flags, struct amph_op *lc)
{
    struct flag_op wait = { { flag_done }, false, AMPH_OK };

    if (!lc && amph_ep_in_handler(ep))
        return AMPH_ERR_STATE;

    struct copy *copy = lc ? NULL : make_copy(ep, peer, am);
    struct amph_op *done = copy ? &copy->op : lc;
    enum amph_status st = amph_am_put(ep, peer, segment, offset, copy ? copy->bytes : am->payload,
                                      am->nbytes, flags, done ? done : &wait.op, NULL);

    if (st != AMPH_OK) {
        if (copy)
            copy_done(&copy->op, st);

        return st;
    }

    struct amph_am m = *am;

    m.payload = NULL;
    st = amph_ep_send_wait(ep, peer, &m, NULL, 0, NULL);
    if (!done)
        await(ep, peer, &wait);

    return st != AMPH_OK ? st : wait.st;
}

enum amph_status amph_ep_long_request(struct amph_am_ep *ep, uint32_t peer,
                                      const struct amph_am *am, unsigned flags, struct amph_op *lc)
{
    struct amph_peer *p = &ep->peer[peer];
    struct amph_am m = *am;
    const struct amph_rmem *segment;
    uint64_t offset;

    if (am->nbytes) {
        enum amph_status st = locate(ep, peer, am, &segment, &offset);

        if (st != AMPH_OK)
            return st;

        if (segment->local)
            amph_copy((uint8_t *)segment->local + offset, am->payload, am->nbytes);
        else if (packs(p, am))
            m.kind = AMPH_AM_LONG_PACKED;
        else
            return put_request(ep, peer, am, segment, offset, flags, lc);
    }

    if (m.kind == AMPH_AM_LONG_PACKED)
        return amph_ep_send_wait(ep, peer, &m, NULL, flags, lc);

    m.payload = NULL;

    enum amph_status st = amph_ep_send_wait(ep, peer, &m, NULL, flags, NULL);

    if (st == AMPH_OK && lc)
        lc->done(lc, AMPH_OK);

    return st;
}

/* Sends a long reply as a put and then a message, or defers them.  A payload that the caller may
 * reuse on return is copied. */
static enum amph_status put_reply(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                  const struct amph_rmem *segment, uint64_t offset, unsigned flags,
                                  struct amph_op *lc)
{
    struct amph_bounce *copy = lc ? NULL : amph_am_bounce_make(am->payload, am->nbytes);
    enum amph_status st = amph_ep_put_now(ep, peer, segment, offset,
                                          copy ? copy->bytes : am->payload, am->nbytes,
                                          copy ? &copy->op : lc, NULL);

    if (st != AMPH_OK && copy)
        copy->op.done(&copy->op, st);

    if (st == AMPH_AGAIN && !(flags & AMPH_AM_IMMEDIATE)) {
        st = amph_ep_defer(ep, peer, am, true);
        if (lc)
            lc->done(lc, st);

        return st;
    }

    if (st != AMPH_OK)
        return st;

    struct amph_am m = *am;

    m.payload = NULL;
    st = amph_ep_send(ep, peer, AMPH_LANE_REPLY, &m, NULL);
    return st == AMPH_AGAIN ? amph_ep_defer(ep, peer, &m, false) : st;
}

/* Sends a long reply whose data is at its destination already or in the message. */
static enum amph_status plain_reply(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                    unsigned flags, struct amph_op *lc)
{
    bool packed = am->kind == AMPH_AM_LONG_PACKED;

    /* It must not overtake its data, which may be deferred. */
    bool waits = !packed && ep->deferred && amph_ep_carries(ep, peer);
    enum amph_status st = AMPH_AGAIN;

    if (!waits)
        st = amph_ep_send(ep, peer, AMPH_LANE_REPLY, am, packed ? lc : NULL);

    bool put_off = st == AMPH_AGAIN && !(flags & AMPH_AM_IMMEDIATE);

    if (put_off)
        st = amph_ep_defer(ep, peer, am, false);

    if (lc && st == AMPH_OK && (put_off || !packed))
        lc->done(lc, AMPH_OK);

    return st;
}

enum amph_status amph_ep_long_reply(struct amph_token *token, const struct amph_am *am,
                                    unsigned flags, struct amph_op *lc)
{
    struct amph_am_ep *ep = token->ep;
    struct amph_peer *p = &ep->peer[token->peer];
    struct amph_am m = *am;
    const struct amph_rmem *segment = NULL;
    uint64_t offset = 0;
    enum amph_status st = am->nbytes ? locate(ep, token->peer, am, &segment, &offset) : AMPH_OK;

    if (st != AMPH_OK)
        return st;

    bool there = am->nbytes == 0 || segment->local || amph_ep_carries(ep, token->peer);

    if (there) {
        if (am->nbytes && segment->local)
            amph_copy((uint8_t *)segment->local + offset, am->payload, am->nbytes);
        else if (am->nbytes &&
                 !(p->vm_pid && amph_am_vm_put(ep, token->peer, am->dest, am->payload, am->nbytes)))
            amph_am_carry_reply(ep, token->peer, segment, offset, am->payload, am->nbytes);

        m.payload = NULL;
    } else if (packs(p, am)) {
        m.kind = AMPH_AM_LONG_PACKED;
    }

    if (there || m.kind == AMPH_AM_LONG_PACKED)
        st = plain_reply(ep, token->peer, &m, flags, lc);
    else
        st = put_reply(ep, token->peer, am, segment, offset, flags, lc);

    if (st == AMPH_OK) {
        token->replied = true;
        amph_count(AM_REPLIES);
    }

    return st;
}
