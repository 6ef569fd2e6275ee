/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The compressed form of a recorded file: its header, then blocks of slots, column by column, each
 * number as the difference from the one before, compressed by zstd.
 *
 * Layer: iofwd (trace).  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_TRACE_PACK_H
#define AMPH_IOFWD_TRACE_PACK_H

#include <stdbool.h>
#include <stddef.h>

bool amph_trace_is_packed(const void *bytes, size_t len);

/* Both return a new block of memory that the caller frees. false: why holds the reason. */
bool amph_trace_pack(const void *bytes, size_t len, void **packed_p, size_t *packed_len_p,
                     char *why, size_t why_len);
bool amph_trace_unpack(const void *bytes, size_t len, void **plain_p, size_t *plain_len_p,
                       char *why, size_t why_len);

#endif
