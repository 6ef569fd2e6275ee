/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes headers, data locations and views of collective calls; see marshal.h.
 *
 * Layer: iofwd.  Thread rule: pure functions.
 */
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

void amph_fwd_put_req_head(struct amph_wr *w, const struct amph_fwd_req_head *h)
{
    amph_wr_u32(w, h->magic);
    amph_wr_u8(w, h->version);
    amph_wr_u8(w, h->hops);
    amph_wr_u16(w, h->service);
    amph_wr_u32(w, h->length);
    amph_wr_u32(w, h->client);
    amph_wr_u64(w, h->seq);
    amph_wr_u64(w, h->cookie);
}

bool amph_fwd_get_req_head(struct amph_rd *r, struct amph_fwd_req_head *h)
{
    size_t all = amph_rd_left(r);

    h->magic = amph_rd_u32(r);
    h->version = amph_rd_u8(r);
    h->hops = amph_rd_u8(r);
    h->service = amph_rd_u16(r);
    h->length = amph_rd_u32(r);
    h->client = amph_rd_u32(r);
    h->seq = amph_rd_u64(r);
    h->cookie = amph_rd_u64(r);

    return !r->bad && h->magic == FWD_MAGIC && h->version == FWD_VERSION && h->length == all;
}

/* Time in 24 bits: a mantissa of 16 bits and the number of bits that it is shifted by. */
static uint8_t time_shift(uint64_t ns)
{
    return ns >> 16 ? (uint8_t)(48 - __builtin_clzll(ns)) : 0;
}

/* The same in 16 bits: a mantissa of 11 bits behind the shift. */
static uint16_t short_time(uint64_t ns)
{
    unsigned shift = ns >> 11 ? 53 - (unsigned)__builtin_clzll(ns) : 0;

    return shift > 31 ? UINT16_MAX : (uint16_t)(shift << 11 | ns >> shift);
}

void amph_fwd_put_rep_head(struct amph_wr *w, const struct amph_fwd_rep_head *h)
{
    uint8_t shift = time_shift(h->file_ns);

    amph_wr_u32(w, h->magic);
    amph_wr_u8(w, h->version);
    amph_wr_u8(w, shift);
    amph_wr_u16(w, h->service);
    amph_wr_u32(w, h->length);
    amph_wr_u16(w, h->error);
    amph_wr_u16(w, short_time(h->queue_ns));
    amph_wr_u64(w, h->seq);
    amph_wr_u16(w, h->tags_len);
    amph_wr_u16(w, (uint16_t)(h->file_ns >> shift));
}

bool amph_fwd_get_rep_head(struct amph_rd *r, struct amph_fwd_rep_head *h)
{
    size_t all = amph_rd_left(r);

    h->magic = amph_rd_u32(r);
    h->version = amph_rd_u8(r);

    uint8_t shift = amph_rd_u8(r);

    h->service = amph_rd_u16(r);
    h->length = amph_rd_u32(r);
    h->error = amph_rd_u16(r);

    uint16_t queue = amph_rd_u16(r);

    h->queue_ns = (uint64_t)(queue & 0x7ff) << (queue >> 11);
    h->seq = amph_rd_u64(r);
    h->tags_len = amph_rd_u16(r);
    h->file_ns = shift <= 48 ? (uint64_t)amph_rd_u16(r) << shift : amph_rd_u16(r);

    return !r->bad && h->magic == FWD_MAGIC && h->version == FWD_VERSION && h->length == all &&
           h->tags_len <= amph_rd_left(r);
}

void amph_fwd_put_bulk(struct amph_wr *w, const struct amph_fwd_bulk *b)
{
    amph_wr_u8(w, b->where);
    amph_wr_u8(w, b->flags);
    amph_wr_u16(w, b->rwf);
    amph_wr_u32(w, b->op);
    amph_wr_u32(w, b->len);
    amph_wr_u64(w, b->at);
}

bool amph_fwd_get_bulk(struct amph_rd *r, struct amph_fwd_bulk *b)
{
    b->where = amph_rd_u8(r);
    b->flags = amph_rd_u8(r);
    b->rwf = amph_rd_u16(r);
    b->op = amph_rd_u32(r);
    b->len = amph_rd_u32(r);
    b->at = amph_rd_u64(r);

    return !r->bad && b->where < FWD_DATA_LOCATIONS && (b->flags & ~FWD_PIECE_ALL) == 0 &&
           (b->rwf & ~AMPH_FWD_RWF_SENT) == 0;
}

void amph_fwd_put_view(struct amph_wr *w, const struct amph_fwd_view *s)
{
    amph_wr_u64(w, s->number);
    amph_wr_u32(w, s->processes);
    amph_wr_u32(w, s->absent);
}

void amph_fwd_put_extent(struct amph_wr *w, const struct amph_fwd_extent *row)
{
    amph_wr_u32(w, row->at);
    amph_wr_u32(w, row->len);
    amph_wr_u32(w, row->stride);
    amph_wr_u32(w, row->count);
}

bool amph_fwd_get_view(const void *blob, size_t len, struct amph_fwd_view *s)
{
    struct amph_rd r;

    amph_rd_init(&r, blob, len);
    s->number = amph_rd_u64(&r);
    s->processes = amph_rd_u32(&r);
    s->absent = amph_rd_u32(&r);
    s->rows = r.at;
    s->nrows = (uint32_t)(amph_rd_left(&r) / FWD_EXTENT_BYTES);

    return !r.bad && amph_rd_left(&r) % FWD_EXTENT_BYTES == 0 && s->processes > 0;
}

struct amph_fwd_extent amph_fwd_view_extent(const struct amph_fwd_view *s, uint32_t i)
{
    struct amph_rd r;
    struct amph_fwd_extent row;

    amph_rd_init(&r, s->rows + (size_t)i * FWD_EXTENT_BYTES, FWD_EXTENT_BYTES);
    row.at = amph_rd_u32(&r);
    row.len = amph_rd_u32(&r);
    row.stride = amph_rd_u32(&r);
    row.count = amph_rd_u32(&r);

    return row;
}

bool amph_fwd_extent_fits(const struct amph_fwd_extent *row, uint64_t len, uint64_t *at_p,
                          uint64_t *sum_p)
{
    uint64_t end;

    if (row->len == 0 || row->count == 0 || row->at < *at_p ||
        (row->count > 1 && row->stride < row->len))
        return false;

    end = row->at + (uint64_t)(row->count - 1) * row->stride; /* below 2 to the power of 64 */
    if (end > len || row->len > len - end)
        return false;

    *at_p = end + row->len;
    *sum_p += (uint64_t)row->len * row->count;
    return true;
}
