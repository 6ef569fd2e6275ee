/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negotiated payload: prepare room in the conduit's memory, then commit or cancel.
 * Layer: am.  Thread rule: as am.h.  The room belongs to the caller; others may send and prepare in
 * between.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "am/ep.h"
#include "base/platform.h"
#include "base/status.h"
#include "conduits/conduit.h"

enum amph_status amph_am_prepare(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                 size_t min_bytes, size_t max_bytes, struct amph_am_prep *prep)
{
    if (peer >= ep->max_peers || min_bytes > max_bytes)
        return AMPH_ERR_RANGE;

    const struct amph_peer *p = &ep->peer[peer];
    struct amph_cx *cx = p->cx;

    if (!cx || p->dead)
        return AMPH_ERR_PEER;

    *prep = (struct amph_am_prep){ .peer = peer, .lane = (uint8_t)lane };

    const size_t tries[] = { max_bytes, min_bytes };
    enum amph_status st = AMPH_AGAIN;

    amph_ep_lock(ep);
    for (unsigned i = 0; i < AMPH_COUNTOF(tries) && st == AMPH_AGAIN && tries[i]; i++) {
        prep->len_bytes = tries[i];
        st = cx->ops->am_prepare(cx, peer, lane, &prep->len_bytes, &prep->buf);
    }

    amph_ep_unlock(ep);
    return st;
}

bool amph_am_has_room(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane)
{
    if (peer >= ep->max_peers || !ep->peer[peer].cx)
        return true; /* sending reports the error */

    const struct amph_peer *p = &ep->peer[peer];
    if (p->windowed && lane == AMPH_LANE_REQUEST &&
        __atomic_load_n(&p->credits, __ATOMIC_RELAXED) == 0)
        return false;

    size_t nothing = 0;
    void *nowhere;

    amph_ep_lock(ep);

    enum amph_status st = p->cx->ops->am_prepare(p->cx, peer, lane, &nothing, &nowhere);

    amph_ep_unlock(ep);
    return st != AMPH_AGAIN;
}

/* am_commit in the form of am_send. */
static enum amph_status commit(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                               const struct amph_am *am, struct amph_op *lc)
{
    return cx->ops->am_commit(cx, peer, lane, am);
}

void amph_am_cancel(struct amph_am_ep *ep, const struct amph_am_prep *prep)
{
    const struct amph_am am = { .kind = AMPH_AM_CANCEL, .payload = prep->buf };
    struct amph_cx *cx = ep->peer[prep->peer].cx;

    amph_ep_lock(ep);
    if (cx)
        cx->ops->am_commit(cx, prep->peer, (enum amph_lane)prep->lane, &am);

    amph_ep_unlock(ep);
}

/* Returns true if am/ refused the message, so that the conduit has not released the room. */
static bool refused_here(struct amph_am_ep *ep, uint32_t peer, enum amph_status st)
{
    return st == AMPH_ERR_STATE ||
           (st == AMPH_ERR_PEER && !__atomic_load_n(&ep->peer[peer].send, __ATOMIC_RELAXED));
}

enum amph_status amph_am_commit_request(struct amph_am_ep *ep, const struct amph_am_prep *prep,
                                        const struct amph_am *am, unsigned flags)
{
    enum amph_status st = amph_ep_send_wait(ep, prep->peer, am, commit, flags, NULL);

    if (AMPH_UNLIKELY(refused_here(ep, prep->peer, st)))
        amph_am_cancel(ep, prep);

    return st;
}

enum amph_status amph_am_commit_reply(struct amph_token *token, const struct amph_am_prep *prep,
                                      const struct amph_am *am, unsigned flags)
{
    struct amph_am_ep *ep = token->ep;

    if (!token->is_request || token->replied) {
        amph_am_cancel(ep, prep);
        return AMPH_ERR_STATE;
    }

    enum amph_status st = amph_ep_send_by(ep, prep->peer, AMPH_LANE_REPLY, am, commit, NULL);

    if (AMPH_UNLIKELY(refused_here(ep, prep->peer, st)))
        amph_am_cancel(ep, prep);

    if (st == AMPH_AGAIN && !(flags & AMPH_AM_IMMEDIATE)) {
        st = amph_ep_defer(ep, prep->peer, am, false); /* with a copy of the payload */
        amph_am_cancel(ep, prep);
    }

    if (st == AMPH_OK) {
        token->replied = true;
        amph_count(AM_REPLIES);
    }

    return st;
}
