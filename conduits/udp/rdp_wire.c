/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing and writing the packets of the udp conduit; see rdp_wire.h.  Layer: conduits (udp).
 * Thread rule: pure functions. */
#include <string.h>

#include "conduits/udp/rdp_wire.h"

static bool type_is_known(struct amph_rdp_packet *p)
{
    p->kind = p->h.type & 15;
    return p->h.type >> 4 == RDP_VERSION && p->kind >= RDP_HELLO && p->kind <= RDP_BYE &&
           !(p->h.flags & ~RDP_F_ALL);
}

bool amph_rdp_parse(const void *buf, size_t len_bytes, struct amph_rdp_packet *p)
{
    return amph_rdp_parse_head(buf, len_bytes, len_bytes, p);
}

size_t amph_rdp_first_packet(const void *buf, size_t len_bytes)
{
    struct amph_rdp_hdr h;

    if (len_bytes < sizeof h)
        return len_bytes;

    memcpy(&h, buf, sizeof h);

    uint64_t len = sizeof h + (uint64_t)amph_le32(h.body_len);

    if (h.flags & RDP_F_ACK)
        len += sizeof(struct amph_rdp_ackblk) + 8u * h.ack_words;

    if (h.flags & RDP_F_SEG)
        len += sizeof(struct amph_rdp_seghdr);

    /* one that is too long is malformed, and all of it is */
    return len < len_bytes ? (size_t)len : len_bytes;
}

bool amph_rdp_parse_head(const void *buf, size_t have, size_t len_bytes, struct amph_rdp_packet *p)
{
    const uint8_t *at = buf;

    if (have < sizeof p->h || len_bytes % 8)
        return false;

    memcpy(&p->h, at, sizeof p->h);
    p->h.mac = amph_le64(p->h.mac);
    p->h.src = amph_le32(p->h.src);
    p->h.pn = amph_le64(p->h.pn);
    p->h.body_len = amph_le32(p->h.body_len);
    p->h.split = amph_le32(p->h.split);
    p->h.bulk_mac = amph_le64(p->h.bulk_mac);

    size_t head = sizeof p->h;
    if (!type_is_known(p) || p->h.ack_words > RDP_ACK_WORDS || p->h.split > p->h.body_len ||
        p->h.lane >= RDP_NLANES)
        return false;

    size_t ack_len = p->h.flags & RDP_F_ACK ? sizeof p->ack + 8u * p->h.ack_words : 0;
    size_t seg_len = p->h.flags & RDP_F_SEG ? sizeof p->seg : 0;

    p->head_len = head + ack_len + seg_len;
    if ((p->h.ack_words && !ack_len) || len_bytes < p->head_len ||
        len_bytes - p->head_len != p->h.body_len || have < p->head_len + p->h.split)
        return false;

    if (ack_len) {
        memcpy(&p->ack, at + head, sizeof p->ack);
        p->ack.largest = amph_le64(p->ack.largest);
        p->ack.delay_us = amph_le32(p->ack.delay_us);
        for (unsigned i = 0; i < AMPH_NLANES; i++)
            p->ack.limit[i] = amph_le64(p->ack.limit[i]);
    }

    p->word = at + head + sizeof p->ack;
    if (seg_len) {
        memcpy(&p->seg, at + head + ack_len, sizeof p->seg);
        p->seg.lseq = amph_le64(p->seg.lseq);
        p->seg.after = amph_le64(p->seg.after);
    }

    p->body = at + p->head_len;
    p->bulk = p->body + p->h.split;
    p->bulk_len = p->h.body_len - p->h.split;
    p->placed = false;

    return true;
}

bool amph_rdp_get_hello(const struct amph_rdp_packet *p, struct amph_rdp_hello *m)
{
    if (p->h.body_len != sizeof *m)
        return false;

    memcpy(m, p->body, sizeof *m);
    m->nonce = amph_le64(m->nonce);
    m->echo = amph_le64(m->echo);
    m->want = amph_le32(m->want);
    m->auth = amph_le32(m->auth);
    m->queue = amph_le64(m->queue);

    return m->nonce != 0 && m->want <= 1 && m->auth != 0;
}

size_t amph_rdp_get_msg(const uint8_t *at, size_t left, struct amph_rdp_msg *m,
                        int32_t args[AMPH_AM_MAX_ARGS])
{
    if (left < sizeof *m)
        return 0;

    memcpy(m, at, sizeof *m);
    m->dest = amph_le64(m->dest);
    m->nbytes = amph_le32(m->nbytes);
    m->aux = amph_le16(m->aux);

    size_t head = sizeof *m + amph_rdp_pad8(4u * m->nargs);
    if (m->nargs > AMPH_AM_MAX_ARGS || m->kind > AMPH_AM_INTERNAL || left < head)
        return 0;

    for (unsigned i = 0; i < m->nargs; i++) {
        uint32_t w;

        memcpy(&w, at + sizeof *m + 4 * i, sizeof w);
        args[i] = (int32_t)amph_le32(w);
    }

    return head;
}

static void read_rma(const uint8_t *at, struct amph_rdp_rma *m)
{
    memcpy(m, at, sizeof *m);
    m->len_bytes = amph_le32(m->len_bytes);
    m->id = amph_le64(m->id);
    m->key = amph_le64(m->key);
    m->offset = amph_le64(m->offset);
    m->total = amph_le64(m->total);
}

static bool carries_data(const struct amph_rdp_rma *m)
{
    return m->code == RDP_RMA_PUT || m->code == RDP_RMA_DATA || m->code == RDP_RMA_VOID;
}

size_t amph_rdp_get_unit(const uint8_t *at, size_t left, struct amph_rdp_rma *m)
{
    if (left < sizeof *m)
        return 0;

    read_rma(at, m);
    left -= sizeof *m;
    if (m->code < RDP_RMA_PUT || m->code > RDP_RMA_VOID)
        return 0;
    if (!carries_data(m))
        return sizeof *m;
    if (!m->len_bytes || m->len_bytes > left || amph_rdp_pad8(m->len_bytes) > left)
        return 0;

    return sizeof *m + amph_rdp_pad8(m->len_bytes);
}

bool amph_rdp_get_rma(const struct amph_rdp_packet *p, struct amph_rdp_rma *m,
                      const uint8_t **data_p)
{
    if (p->h.body_len < sizeof *m || (p->placed && p->h.split != sizeof *m))
        return false;

    read_rma(p->body, m);
    *data_p = p->placed ? p->bulk : p->body + sizeof *m;

    size_t data = p->h.body_len - sizeof *m;

    return m->code >= RDP_RMA_PUT && m->code <= RDP_RMA_VOID &&
           (carries_data(m) ? m->len_bytes > 0 && m->len_bytes <= data && data - m->len_bytes < 8
                            : data == 0);
}

size_t amph_rdp_put_hdr(void *buf, const struct amph_rdp_hdr *h)
{
    struct amph_rdp_hdr w = *h;

    w.mac = amph_le64(h->mac);
    w.src = amph_le32(h->src);
    w.pn = amph_le64(h->pn);
    w.body_len = amph_le32(h->body_len);
    w.split = amph_le32(h->split);
    w.bulk_mac = amph_le64(h->bulk_mac);
    memcpy(buf, &w, sizeof w);

    return sizeof w;
}

size_t amph_rdp_put_ack(void *buf, const struct amph_rdp_ackblk *a, const uint64_t *words,
                        unsigned nwords)
{
    struct amph_rdp_ackblk w = { .largest = amph_le64(a->largest),
                                 .delay_us = amph_le32(a->delay_us) };

    for (unsigned i = 0; i < AMPH_NLANES; i++)
        w.limit[i] = amph_le64(a->limit[i]);

    memcpy(buf, &w, sizeof w);
    for (unsigned i = 0; i < nwords; i++) {
        uint64_t v = amph_le64(words[i]);
        memcpy((uint8_t *)buf + sizeof w + 8 * i, &v, sizeof v);
    }

    return sizeof w + 8 * nwords;
}

size_t amph_rdp_put_seghdr(void *buf, const struct amph_rdp_seghdr *s)
{
    struct amph_rdp_seghdr w = { amph_le64(s->lseq), amph_le64(s->after) };

    memcpy(buf, &w, sizeof w);
    return sizeof w;
}

size_t amph_rdp_put_hello(void *buf, const struct amph_rdp_hello *m)
{
    struct amph_rdp_hello w = { .nonce = amph_le64(m->nonce),
                                .echo = amph_le64(m->echo),
                                .want = amph_le32(m->want),
                                .auth = amph_le32(m->auth),
                                .queue = amph_le64(m->queue) };

    memcpy(buf, &w, sizeof w);
    return sizeof w;
}

size_t amph_rdp_put_msg(void *buf, const struct amph_am *am)
{
    struct amph_rdp_msg w = { .dest = amph_le64(am->dest),
                              .nbytes = amph_le32(am->nbytes),
                              .aux = amph_le16(am->aux),
                              .kind = am->kind,
                              .handler = am->handler,
                              .nargs = am->nargs,
                              .flags = am->flags };
    uint8_t *at = buf;

    memcpy(at, &w, sizeof w);
    at += sizeof w;

    for (unsigned i = 0; i < am->nargs; i++, at += 4) {
        uint32_t v = amph_le32((uint32_t)am->args[i]);
        memcpy(at, &v, sizeof v);
    }

    if (am->nargs & 1)
        memset(at, 0, 4);

    return sizeof w + amph_rdp_pad8(4u * am->nargs);
}

size_t amph_rdp_put_rma(void *buf, const struct amph_rdp_rma *m)
{
    struct amph_rdp_rma w = { .code = m->code,
                              .len_bytes = amph_le32(m->len_bytes),
                              .id = amph_le64(m->id),
                              .key = amph_le64(m->key),
                              .offset = amph_le64(m->offset),
                              .total = amph_le64(m->total) };

    memcpy(buf, &w, sizeof w);
    return sizeof w;
}
