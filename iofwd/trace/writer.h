/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the writers of recorded files share: the numbers and parts of texts, and the begin of a header.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_TRACE_WRITER_H
#define AMPH_IOFWD_TRACE_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/trace/format.h"

/* ---- texts ---- */

static inline uint64_t amph_trace_mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);

    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

/* The number of a text, never 0.  base: the number of the folder that it starts at, or 0. */
static inline uint64_t amph_trace_text_number(uint64_t base, const char *text, size_t len)
{
    uint64_t h = amph_trace_mix(base, len);
    uint64_t word;

    for (; len >= 8; text += 8, len -= 8) {
        memcpy(&word, text, 8);
        h = amph_trace_mix(h, word);
    }

    word = 0;
    memcpy(&word, text, len);
    h = amph_trace_mix(h, word);
    return h ? h : 1;
}

/* Puts the text as slots have it into `whole`: at most AMPH_TRACE_TEXT_MAX bytes, the rest is cut off.
 * Returns its length. */
static inline size_t amph_trace_text_whole(char whole[AMPH_TRACE_TEXT_MAX], uint64_t base,
                                           const char *text, size_t len)
{
    size_t room = AMPH_TRACE_TEXT_MAX - sizeof base;
    size_t n = len < room ? len : room;

    memcpy(whole, &base, sizeof base);
    memcpy(whole + sizeof base, text, n);
    return sizeof base + n;
}

static inline uint32_t amph_trace_text_parts(size_t total)
{
    return (uint32_t)((total + AMPH_TRACE_TEXT_PART - 1) / AMPH_TRACE_TEXT_PART);
}

/* Fills an empty slot with a part of the text; the caller commits it. */
static inline void amph_trace_text_fill(struct amph_trace_text *slot, uint64_t file,
                                        const char *whole, size_t total, uint32_t part)
{
    size_t at = (size_t)part * AMPH_TRACE_TEXT_PART;
    size_t n = total - at < AMPH_TRACE_TEXT_PART ? total - at : AMPH_TRACE_TEXT_PART;

    slot->total = (uint16_t)total;
    slot->file = file;
    memcpy(slot->part, whole + at, n);
}

/* ---- headers ---- */

static inline uint64_t amph_trace_clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Both clocks: the pair that was read within the shortest time, so that a pause in between does not
 * count. */
static inline void amph_trace_read_clocks(struct amph_trace_header *h)
{
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = amph_trace_clock_ns(CLOCK_MONOTONIC);
        uint64_t real = amph_trace_clock_ns(CLOCK_REALTIME);
        uint64_t took = amph_trace_clock_ns(CLOCK_MONOTONIC) - before;

        if (took < shortest) {
            shortest = took;
            h->monotonic_ns = before + took / 2;
            h->realtime_ns = real;
        }
    }
}

/* Fills what does not depend on the process. */
static inline void amph_trace_header_begin(struct amph_trace_header *h)
{
    memcpy(h->magic, AMPH_TRACE_MAGIC, sizeof h->magic);
    h->order = AMPH_TRACE_ORDER;
    h->version = AMPH_TRACE_VERSION;
    h->header_bytes = AMPH_TRACE_HEADER;
    h->slot_bytes = AMPH_TRACE_SLOT;
    h->clock_error_ns = UINT64_MAX;
    amph_trace_read_clocks(h);
    gethostname(h->host, sizeof h->host - 1);
}

#endif
