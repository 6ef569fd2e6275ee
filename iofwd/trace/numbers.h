/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in few bytes: 7 bits a byte, the lowest first; the highest bit says that more follow.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_TRACE_NUMBERS_H
#define AMPH_IOFWD_TRACE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A difference with its sign in the lowest bit, so that small ones of either sign are small numbers. */
static inline uint64_t amph_trace_folded(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t amph_trace_unfolded(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

/* Spans of forwarded calls, and of servers.  Those of 2 us to 33 ms are cut to their first eleven bits,
 * by less than 1/1024, so that they fit into two bytes.  Because a span is cut and never rounded up, no
 * call ends after the next one of its thread has begun. */
enum {
    AMPH_TRACE_SPAN_BITS = 11, /* that are kept */
    AMPH_TRACE_SPAN_OCTAVES = 14,
    AMPH_TRACE_SPAN_EXACT = 1 << AMPH_TRACE_SPAN_BITS,                       /* below: as it is */
    AMPH_TRACE_SPAN_LONG = AMPH_TRACE_SPAN_EXACT << AMPH_TRACE_SPAN_OCTAVES, /* from here on too */
    AMPH_TRACE_SPAN_OCTAVE = AMPH_TRACE_SPAN_EXACT / 2,                      /* codes of one */
    AMPH_TRACE_SPAN_CODES = AMPH_TRACE_SPAN_EXACT + AMPH_TRACE_SPAN_OCTAVES * AMPH_TRACE_SPAN_OCTAVE
};

static inline uint64_t amph_trace_span_code(uint64_t ns)
{
    if (ns < AMPH_TRACE_SPAN_EXACT)
        return ns;
    if (ns >= AMPH_TRACE_SPAN_LONG)
        return ns - AMPH_TRACE_SPAN_LONG + AMPH_TRACE_SPAN_CODES;

    unsigned cut = 64 - AMPH_TRACE_SPAN_BITS - (unsigned)__builtin_clzll(ns);

    return (ns >> cut) + (uint64_t)cut * AMPH_TRACE_SPAN_OCTAVE;
}

static inline uint64_t amph_trace_span_ns(uint64_t code)
{
    if (code < AMPH_TRACE_SPAN_EXACT)
        return code;
    if (code >= AMPH_TRACE_SPAN_CODES)
        return code - AMPH_TRACE_SPAN_CODES + AMPH_TRACE_SPAN_LONG;

    unsigned cut = (unsigned)(code / AMPH_TRACE_SPAN_OCTAVE) - 1;

    return (code - (uint64_t)cut * AMPH_TRACE_SPAN_OCTAVE) << cut;
}

/* Writes a number and returns the byte behind it: at most ten bytes. */
static inline uint8_t *amph_trace_put(uint8_t *at, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *at++ = (uint8_t)(value | 128);

    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *amph_trace_put_raw(uint8_t *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

/* Bytes to read, of which none is trusted.  ok becomes false when they end too early. */
struct amph_trace_input {
    const uint8_t *at, *end;
    bool ok;
};

static inline uint64_t amph_trace_get(struct amph_trace_input *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;

        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }

    in->ok = false;
    return 0;
}

static inline void amph_trace_get_raw(struct amph_trace_input *in, void *bytes, size_t len)
{
    if ((size_t)(in->end - in->at) < len) {
        in->ok = false;
        memset(bytes, 0, len);
        return;
    }

    memcpy(bytes, in->at, len);
    in->at += len;
}

#endif
