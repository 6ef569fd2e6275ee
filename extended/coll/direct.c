/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large data of collectives over a network, which is put to its destination: it is copied neither to the
 * messages of its sender nor from those of its receiver.
 * Layer: extended.  Thread rule: the team is locked, but for amph_coll_direct_accept.
 *
 * The receiver registers its memory until the segment ends, and names it in READY.  The sender puts the data, in
 * as large parts as the receiver wants, and announces each part by a message, which arrives after it.
 *
 * READY carries: address of the port's memory; bytes of one put; key of the memory that it is part of.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/status.h"
#include "base/wire.h"
#include "extended/coll/coll.h"

enum {
    AREAS_MAX = 4
};

/* ---- the receiver ---- */

bool amph_coll_direct_from(const struct amph_coll *c, uint32_t from)
{
    struct amph_am_ep *ep = amph_gex()->ep.am;
    const uint32_t peer = amph_coll_peer(c, from);

    return !amph_am_peer_is_local(ep, peer) && amph_am_put_arrives_first(ep, peer);
}

/* Returns the registered memory that contains these bytes, or NULL. */
static const struct amph_am_mem *area_of(const struct amph_mail *m, const void *base, size_t bytes)
{
    const uintptr_t at = (uintptr_t)base;

    for (uint32_t i = 0; i < m->nareas; i++) {
        const uintptr_t from = (uintptr_t)m->area[i].base;

        if (at >= from && bytes <= m->area[i].len_bytes &&
            at - from <= m->area[i].len_bytes - bytes)
            return &m->area[i];
    }

    return NULL;
}

void amph_coll_direct_area(struct amph_coll *c, void *base, size_t bytes)
{
    struct amph_mail *m = &c->mail;
    bool *none = &amph_colls()->no_areas;

    if (__atomic_load_n(none, __ATOMIC_RELAXED) || area_of(m, base, bytes) ||
        m->nareas == AREAS_MAX)
        return;
    if (!m->area && !(m->area = calloc(AREAS_MAX, sizeof *m->area)))
        return; /* then the data comes in messages */

    if (amph_am_mem_reg(amph_gex()->ep.am, base, bytes, -1, 0, &m->area[m->nareas]) == AMPH_OK)
        m->nareas++;
    else
        __atomic_store_n(none, true, __ATOMIC_RELAXED); /* the conduit has reported why */
}

size_t amph_coll_direct_offer(const struct amph_coll *c, const struct amph_mail_in *in,
                              uint8_t offer[AMPH_COLL_OFFER_BYTES])
{
    const struct amph_am_mem *area = area_of(&c->mail, in->buf, in->len);
    struct amph_wr w;

    if (!area)
        return 0;

    amph_wr_init(&w, offer, AMPH_COLL_OFFER_BYTES);
    amph_wr_u64(&w, (uintptr_t)in->buf);
    amph_wr_u32(&w, in->max_put);
    amph_wr_blob(&w, area->key, area->key_len);
    return w.bad ? 0 : amph_wr_len(&w);
}

void amph_coll_direct_end(struct amph_coll *c)
{
    struct amph_am_ep *ep = amph_gex()->ep.am;
    struct amph_mail *m = &c->mail;

    for (uint32_t i = 0; i < m->nout; i++)
        if (m->out[i].max_put)
            amph_am_mem_forget(ep, amph_coll_peer(c, m->out[i].to), &m->out[i].put_mem);

    while (m->nareas)
        amph_am_mem_dereg(ep, &m->area[--m->nareas]);
}

/* ---- the sender ---- */

bool amph_coll_direct_accept(struct amph_mail_out *out, uint32_t peer, const void *offer,
                             size_t bytes)
{
    struct amph_rmem mem;
    struct amph_rd r;
    size_t key_len;

    amph_rd_init(&r, offer, bytes);

    const uint64_t address = amph_rd_u64(&r);
    const uint32_t max_put = amph_rd_u32(&r);
    const void *key = amph_rd_blob(&r, &key_len);

    if (r.bad || amph_rd_left(&r) || !max_put)
        return false;

    const enum amph_status st = amph_am_mem_import(amph_gex()->ep.am, peer, key, key_len, &mem);

    if (st != AMPH_OK)
        return st ==
               AMPH_ERR_NOMEM; /* then the data goes in messages, which the receiver takes as well */

    const uint64_t at = address - mem.base;

    if (out->len > mem.len_bytes || at > mem.len_bytes - out->len) {
        amph_am_mem_forget(amph_gex()->ep.am, peer, &mem);
        return false;
    }

    out->put_mem = mem;
    out->put_at = at;
    out->max_put = max_put;
    return true;
}

/* Starts the next put, if anything is ready.  false: nothing is, or there is no room now. */
static bool put_next(struct amph_coll *c, struct amph_mail_out *out)
{
    const uint32_t left = out->ready - out->put;
    uint32_t n = left < out->max_put ? left : out->max_put;

    if (out->put + n < out->len)
        n -= n % c->mail.piece; /* whole pieces only, except the last */
    if (!n)
        return false;

    __atomic_add_fetch(&out->in_flight, 1, __ATOMIC_RELAXED);

    const enum amph_status st = amph_am_put(
        amph_gex()->ep.am, amph_coll_peer(c, out->to), &out->put_mem, out->put_at + out->put,
        out->buf + out->put, n, AMPH_AM_IMMEDIATE, &out->op, NULL);

    if (st != AMPH_OK) {
        __atomic_sub_fetch(&out->in_flight, 1, __ATOMIC_RELAXED);
        amph_coll_mail_failed(c, out->to, st);
        return false;
    }

    out->put += n;
    return true;
}

static bool announce(struct amph_coll *c, struct amph_mail_out *out)
{
    const uint64_t id = amph_gex_team_id_at(c->team, out->to);
    const int32_t args[] = { (int32_t)(id >> 32),  (int32_t)id,
                             (int32_t)c->mail.seq, (int32_t)out->port,
                             (int32_t)out->sent,   (int32_t)(out->put - out->sent) };
    const struct amph_am am = { .kind = AMPH_AM_SHORT,
                                .handler = AMPH_GEX_COLL_PUT,
                                .nargs = AMPH_COUNTOF(args),
                                .args = args };

    if (!amph_coll_mail_send(c, out->to, &am, NULL))
        return false;

    out->sent = out->put;
    return true;
}

bool amph_coll_direct_send(struct amph_coll *c, struct amph_mail_out *out)
{
    while (out->sent < out->len)
        if ((out->put == out->sent && !put_next(c, out)) || !announce(c, out))
            return false;

    out->over = !__atomic_load_n(&out->in_flight, __ATOMIC_ACQUIRE);
    return out->over;
}
