/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of memory that is named by a number: version | number | address | length.  Their users find
 * the memory by the number in a table.
 * Layer: conduits.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_CONDUITS_MEMKEY_H
#define AMPH_CONDUITS_MEMKEY_H

#include "conduits/conduit.h"

/* Fills base, len_bytes, key, key_len and impl. */
void amph_conduit_memkey_put(struct amph_mem *mem, uint32_t version, uint64_t number, void *base,
                             size_t len_bytes, void *impl);

/* Fills *rmem_p, with the number as its rkey.  AMPH_ERR_PROTO: no such key of that version. */
enum amph_status amph_conduit_memkey_get(const void *key, size_t key_len, uint32_t version,
                                         struct amph_rmem *rmem_p);

#endif
