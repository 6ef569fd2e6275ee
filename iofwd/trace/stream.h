/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of a recorded file: slots that have left the ring, in few bytes each.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: pure functions on the caller's memory.
 *
 * A block stands for the slots of one lap of the ring and is decoded by itself.  A call is written as
 * what differs from the last call of the same name on the same descriptor, and two times.  The
 * spans of forwarded calls are cut by less than 1/1024, the times at the servers more coarsely (numbers.h).
 */
#ifndef AMPH_IOFWD_TRACE_STREAM_H
#define AMPH_IOFWD_TRACE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/trace/format.h"

enum {
    AMPH_TRACE_SLOT_MAX = 96, /* bytes that a slot may need in the stream */
    AMPH_TRACE_CONTEXTS = 64  /* calls whose last values are known */
};

/* Before the bytes of a block. */
struct amph_trace_block {
    uint64_t first; /* number of its first slot, counted from the beginning of the file */
    uint32_t slots; /* in the block; empty ones are left out */
    uint32_t bytes;
};

/* Writes the n slots to out, which has n * AMPH_TRACE_SLOT_MAX bytes; those whose word has another
 * lap than `lap` are left out.  Returns the bytes written; *slots_p is the number of slots. */
size_t amph_trace_encode(const union amph_trace_slot *slots, size_t n, uint32_t lap, uint8_t *out,
                         uint32_t *slots_p);

/* Reads n slots of a file of that version, AMPH_TRACE_VERSION or 3, which has no queue times.  false: the
 * bytes are no such block.  Nothing of them is trusted. */
bool amph_trace_decode(const uint8_t *bytes, size_t len, unsigned version,
                       union amph_trace_slot *slots, size_t n);
/* stream_former.c: the same for a file of version 2. */
bool amph_trace_decode_former(const uint8_t *bytes, size_t len, union amph_trace_slot *slots,
                              size_t n);

#endif
