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

/* A span below 2^bits is its own code.  The 14 octaves above are cut to their first `bits` bits; spans
 * beyond them are as they are again.  Because a span is cut and never rounded up, no call ends after
 * the next one of its thread has begun. */
enum {
    AMPH_TRACE_SPAN_OCTAVES = 14
};

static inline uint64_t amph_trace_span_code_of(uint64_t ns, unsigned bits)
{
    const uint64_t exact = UINT64_C(1) << bits;
    const uint64_t octave = exact / 2; /* codes of one */

    if (ns < exact)
        return ns;
    if (ns >= exact << AMPH_TRACE_SPAN_OCTAVES)
        return ns - (exact << AMPH_TRACE_SPAN_OCTAVES) + exact + AMPH_TRACE_SPAN_OCTAVES * octave;

    unsigned cut = 64 - bits - (unsigned)__builtin_clzll(ns);

    return (ns >> cut) + cut * octave;
}

static inline uint64_t amph_trace_span_ns_of(uint64_t code, unsigned bits)
{
    const uint64_t exact = UINT64_C(1) << bits;
    const uint64_t octave = exact / 2;
    const uint64_t codes = exact + AMPH_TRACE_SPAN_OCTAVES * octave;

    if (code < exact)
        return code;
    if (code >= codes)
        return code - codes + (exact << AMPH_TRACE_SPAN_OCTAVES);

    unsigned cut = (unsigned)(code / octave) - 1;

    return (code - cut * octave) << cut;
}

/* Spans of forwarded calls: those of 2 us to 33 ms are cut by less than 1/1024, to two bytes. */
static inline uint64_t amph_trace_span_code(uint64_t ns)
{
    return amph_trace_span_code_of(ns, 11);
}

static inline uint64_t amph_trace_span_ns(uint64_t code)
{
    return amph_trace_span_ns_of(code, 11);
}

/*
 * The times of a call at the servers, `server` and the part of it that was spent in a queue, in one
 * number, which has two bytes for most calls:
 *   without a queue  2 * the code of the span with 10 bits
 *   with one         2 * (90 * server + queue) + 1, both in 89ths of the call's own span
 *   TIMES_ALONE      two more numbers follow: the codes of server and queue
 */
enum {
    AMPH_TRACE_TIMES_BITS = 10,
    AMPH_TRACE_TIMES_PARTS = 89,
    AMPH_TRACE_TIMES_ALONE = 2 * 90 * 90 + 1
};

/* part / whole in 89ths, to the nearest; whole is not 0. */
static inline uint64_t amph_trace_part(uint64_t part, uint64_t whole)
{
    while (whole >> 48) {
        whole >>= 1;
        part >>= 1;
    }

    return (part * AMPH_TRACE_TIMES_PARTS + whole / 2) / whole;
}

static inline uint64_t amph_trace_of_parts(uint64_t parts, uint64_t whole)
{
    return whole / AMPH_TRACE_TIMES_PARTS * parts +
           whole % AMPH_TRACE_TIMES_PARTS * parts / AMPH_TRACE_TIMES_PARTS;
}

/* The number; span_ns: of the call as a reader sees it, 0: it has not returned. */
static inline uint64_t amph_trace_times_code(uint64_t server_ns, uint64_t queue_ns,
                                             uint64_t span_ns)
{
    bool fits = server_ns <= span_ns && queue_ns <= server_ns && span_ns;
    uint64_t queue = fits ? amph_trace_part(queue_ns, span_ns) : queue_ns;

    if (!queue && server_ns < UINT64_MAX / 4)
        return amph_trace_span_code_of(server_ns, AMPH_TRACE_TIMES_BITS) << 1;
    if (!fits)
        return AMPH_TRACE_TIMES_ALONE;

    return (amph_trace_part(server_ns, span_ns) * (AMPH_TRACE_TIMES_PARTS + 1) + queue) << 1 | 1;
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
