/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negotiated payload: the sender writes it directly to the ring's bulk bytes.
 * Layer: conduits (smp).  Thread rule: send side, for each call; between prepare and commit other
 * messages may be sent and prepared.
 *
 * The receiver releases bulk in the order of messages, not of positions.  So while payloads are
 * prepared (`held`), messages release nothing beyond the start of the first of these.  The commit
 * that ends the last one releases everything before bulk_at, because all of it was sent before.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "base/status.h"
#include "conduits/smp/smp.h"

/* A position that no payload can have, since payloads are aligned. */
#define NO_POSITION 1u

enum amph_status amph_smp_am_prepare(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                     size_t *len_bytes_p, void **buf_p)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    uint32_t at;

    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return AMPH_ERR_RANGE;
    if (*len_bytes_p > SMP_MAX_MEDIUM)
        return AMPH_ERR_ARG;

    struct amph_smp_peer *p = &s->peer[peer];
    struct amph_smp_out *out = &p->out[lane];

    if (!amph_smp_have_slot(out, p->seed_out))
        return AMPH_AGAIN;
    if (*len_bytes_p == 0)
        return AMPH_OK;

    if (!amph_smp_bulk_take(out, p->seed_out, (uint32_t)*len_bytes_p, &at))
        return AMPH_AGAIN;

    if (out->held++ == 0)
        out->hold_at = out->last_from;

    *buf_p = out->bulk + (at & (SMP_BULK_BYTES - 1));
    return AMPH_OK;
}

/* Ends the preparation of the payload at `at`, of which `used` bytes are sent.  The rest is free at
 * once if it is the latest allocation. */
static void release(struct amph_smp_out *out, uint32_t at, uint32_t used)
{
    out->held--;
    if (at != out->last_at)
        return;

    out->bulk_at = used ? at + (uint32_t)amph_align_up(used, AMPH_CACHE_LINE) : out->last_from;
    if (!used)
        out->last_at = NO_POSITION;
}

enum amph_status amph_smp_am_commit(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                    const struct amph_am *am)
{
    struct amph_smp_cx *s = amph_smp_of(cx);

    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return AMPH_ERR_RANGE;

    struct amph_smp_peer *p = &s->peer[peer];
    struct amph_smp_out *out = &p->out[lane];

    /* Positions count across laps; this one is in the last lap. */
    uint32_t offset = (uint32_t)((const uint8_t *)am->payload - out->bulk);
    uint32_t at = out->bulk_at - ((out->bulk_at - offset - 1) & (SMP_BULK_BYTES - 1)) - 1;

    if (am->kind == AMPH_AM_CANCEL) {
        release(out, at, 0);
        return AMPH_OK;
    }

    if (am->nargs > AMPH_AM_MAX_ARGS || am->nbytes > SMP_MAX_MEDIUM) {
        release(out, at, 0);
        return AMPH_ERR_ARG;
    }

    if (!amph_smp_have_slot(out, p->seed_out))
        return AMPH_AGAIN;

    struct amph_smp_slot *slot = &out->ring->slot[out->produced % SMP_SLOTS];
    uint32_t inline_at = amph_smp_payload_at(am->nargs);

    /* A short payload is sent inline if its bulk can be released here.  Otherwise the message must
     * release the bulk. */
    bool in_line = am->nbytes == 0 ||
                   (at == out->last_at && inline_at + am->nbytes <= SMP_REST_BYTES);

    if (am->nbytes && in_line)
        memcpy(slot->rest + inline_at, am->payload, am->nbytes);

    release(out, at, in_line ? 0 : am->nbytes);
    slot->where = SMP_INLINE;
    if (!in_line)
        amph_smp_put_bulk(out, slot, at);

    amph_smp_slot_send(s, p, out, am);
    return AMPH_OK;
}
