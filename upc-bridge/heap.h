/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator of a range of memory, whose own data lie in the range: each block has a header
 * before it, free blocks hang in lists by size.  Layer: upc-bridge.  Thread rule: one thread, also
 * in handlers (no call of it is interrupted by another).
 */
#ifndef AMPHORA_UPC_HEAP_H
#define AMPHORA_UPC_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define UPC_HEAP_LISTS 40

struct upc_heap {
    uint8_t *base;       /* offset 0 of the addresses below */
    uint64_t first, end; /* the range */
    uint64_t fresh;      /* from here on nothing was ever given out */
    /* alignment and size of a header; a power of two, at least 32 */
    uint64_t grain;
    uint64_t last;                 /* the block that ends at fresh, or 0 */
    uint64_t list[UPC_HEAP_LISTS]; /* free blocks of 2^i grains and more, or 0 */
};

void upc_heap_init(struct upc_heap *heap, uint8_t *base, uint64_t first, uint64_t end,
                   uint64_t grain);
/* An offset, a multiple of the grain, or 0: no room, or bytes 0. */
uint64_t upc_heap_alloc(struct upc_heap *heap, uint64_t bytes);
/* false: nothing was allocated there (or the header before it was overwritten). */
bool upc_heap_free(struct upc_heap *heap, uint64_t addr);
/* Bytes that are in use, for tests: walks all blocks and checks their chain; UINT64_MAX: it is
 * broken. */
uint64_t upc_heap_check(const struct upc_heap *heap);

#endif
