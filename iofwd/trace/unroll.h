/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring, stream and tail of a recorded file as one row of slots behind the header.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: pure function on the caller's memory.
 */
#ifndef AMPH_IOFWD_TRACE_UNROLL_H
#define AMPH_IOFWD_TRACE_UNROLL_H

#include <stdbool.h>
#include <stddef.h>

/* bytes: a file whose header has been checked.  Gives a new block of memory that the caller frees,
 * with a header that has no ring, and whose `flushed` is the number of slots that the file should have.
 * false: there is not enough memory. */
bool amph_trace_unroll(const void *bytes, size_t len, void **plain_p, size_t *plain_len_p);

#endif
