/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory that is named by a random number, so that only processes that received the key
 * can name it.  The bytes of a key: version | number | address | length.
 *
 * Layer: conduits.
 * Thread rule: the caller serialises the calls for one list; all other functions are pure.
 */
#ifndef AMPH_CONDUITS_MEMKEY_H
#define AMPH_CONDUITS_MEMKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conduits/conduit.h"

/* A piece of registered memory, in a list of its endpoint. */
struct amph_mem_region {
    struct amph_mem_region *next;
    uint64_t key;
    uint8_t *base;
    uint64_t len_bytes;
};

/* Adds a region with a new random key to the list.  NULL: no memory. */
struct amph_mem_region *amph_conduit_region_add(struct amph_mem_region **list, void *base,
                                                size_t len_bytes);
/* Removes a region from the list.  true: the caller frees it; false: the list does not contain it. */
bool amph_conduit_region_remove(struct amph_mem_region **list,
                                const struct amph_mem_region *region);
/* Returns the address of a range of the region with this key; NULL: no such region, or the range
 * exceeds it. */
void *amph_conduit_region_find(const struct amph_mem_region *list, uint64_t key, uint64_t offset,
                               uint64_t len_bytes);
/* Frees all regions of the list. */
void amph_conduit_regions_free(struct amph_mem_region **list);

/* Fills base, len_bytes, key, key_len and impl. */
void amph_conduit_memkey_put(struct amph_mem *mem, uint32_t version, uint64_t number, void *base,
                             size_t len_bytes, void *impl);

/* Fills *rmem_p; its rkey is the random number.  AMPH_ERR_PROTO: not a key of this version. */
enum amph_status amph_conduit_memkey_get(const void *key, size_t key_len, uint32_t version,
                                         struct amph_rmem *rmem_p);

#endif
