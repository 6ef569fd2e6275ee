/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte-order-safe encoding: everything that leaves a process is little-endian at fixed width.
 *
 * Layer: base.  Thread rule: pure functions on the caller's memory.
 *
 * A cursor never passes its end: a read or write that does not fit sets `bad` and returns 0 (or
 * writes nothing), and so does every later call on that cursor.  A decoder therefore checks `bad`
 * once, at its end.
 */
#ifndef AMPH_BASE_WIRE_H
#define AMPH_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"

/* AMPHORA_TEST_SWAP: the whole job uses big-endian order on the wire, so that tests on one machine
 * find words that were not encoded.  Set once by amph_wire_setup, before anything is
 * sent. */
extern bool amph_wire_swapped;
void amph_wire_setup(void);

/* Does this process's byte order differ from the order on the wire? */
static inline bool amph_wire_swaps(void)
{
    return AMPH_BIG_ENDIAN != amph_wire_swapped;
}

static inline uint16_t amph_le16(uint16_t v)
{
    return amph_wire_swaps() ? __builtin_bswap16(v) : v;
}

static inline uint32_t amph_le32(uint32_t v)
{
    return amph_wire_swaps() ? __builtin_bswap32(v) : v;
}

static inline uint64_t amph_le64(uint64_t v)
{
    return amph_wire_swaps() ? __builtin_bswap64(v) : v;
}

struct amph_wr {
    uint8_t *base, *at, *end;
    bool bad;
};

struct amph_rd {
    const uint8_t *at, *end;
    bool bad;
};

static inline void amph_wr_init(struct amph_wr *w, void *buf, size_t len_bytes)
{
    w->base = w->at = buf;
    w->end = w->base + len_bytes;
    w->bad = false;
}

static inline size_t amph_wr_len(const struct amph_wr *w)
{
    return (size_t)(w->at - w->base);
}

static inline void amph_wr_bytes(struct amph_wr *w, const void *src, size_t len_bytes)
{
    if (w->bad || (size_t)(w->end - w->at) < len_bytes) {
        w->bad = true;
        return;
    }

    if (len_bytes)
        memcpy(w->at, src, len_bytes);

    w->at += len_bytes;
}

static inline void amph_wr_u8(struct amph_wr *w, uint8_t v)
{
    amph_wr_bytes(w, &v, sizeof v);
}

static inline void amph_wr_u16(struct amph_wr *w, uint16_t v)
{
    v = amph_le16(v);
    amph_wr_bytes(w, &v, sizeof v);
}

static inline void amph_wr_u32(struct amph_wr *w, uint32_t v)
{
    v = amph_le32(v);
    amph_wr_bytes(w, &v, sizeof v);
}

static inline void amph_wr_u64(struct amph_wr *w, uint64_t v)
{
    v = amph_le64(v);
    amph_wr_bytes(w, &v, sizeof v);
}

/* A length (u32) and that many bytes. */
static inline void amph_wr_blob(struct amph_wr *w, const void *src, size_t len_bytes)
{
    if (len_bytes > UINT32_MAX) {
        w->bad = true;
        return;
    }

    amph_wr_u32(w, (uint32_t)len_bytes);
    amph_wr_bytes(w, src, len_bytes);
}

static inline void amph_rd_init(struct amph_rd *r, const void *buf, size_t len_bytes)
{
    r->at = buf;
    r->end = r->at + len_bytes;
    r->bad = false;
}

static inline size_t amph_rd_left(const struct amph_rd *r)
{
    return (size_t)(r->end - r->at);
}

/* Returns the next len_bytes in place, or NULL (and sets bad). */
static inline const void *amph_rd_bytes(struct amph_rd *r, size_t len_bytes)
{
    const uint8_t *p = r->at;

    if (r->bad || amph_rd_left(r) < len_bytes) {
        r->bad = true;
        return NULL;
    }

    r->at += len_bytes;
    return p;
}

static inline uint8_t amph_rd_u8(struct amph_rd *r)
{
    const uint8_t *p = amph_rd_bytes(r, 1);
    return p ? *p : 0;
}

static inline uint16_t amph_rd_u16(struct amph_rd *r)
{
    uint16_t v = 0;
    const void *p = amph_rd_bytes(r, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);

    return amph_le16(v);
}

static inline uint32_t amph_rd_u32(struct amph_rd *r)
{
    uint32_t v = 0;
    const void *p = amph_rd_bytes(r, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);

    return amph_le32(v);
}

static inline uint64_t amph_rd_u64(struct amph_rd *r)
{
    uint64_t v = 0;
    const void *p = amph_rd_bytes(r, sizeof v);

    if (p)
        memcpy(&v, p, sizeof v);

    return amph_le64(v);
}

/* Counterpart of amph_wr_blob: returns the bytes in place and their number, or NULL (and sets
 * bad). */
static inline const void *amph_rd_blob(struct amph_rd *r, size_t *len_bytes_p)
{
    *len_bytes_p = amph_rd_u32(r);
    return amph_rd_bytes(r, *len_bytes_p);
}

#endif
