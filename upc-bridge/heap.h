/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator for a range of memory.  Its data are inside the range: each block has a header
 * before it, and free blocks are linked in lists by size.
 *
 * Layer: upc-bridge.  Thread rule: one thread.  Handlers may call it, because handlers never
 * interrupt another call of it.
 */
#ifndef AMPHORA_UPC_HEAP_H
#define AMPHORA_UPC_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define UPC_HEAP_LISTS 40

struct upc_heap {
    uint8_t *base;       /* offset 0 of the addresses below */
    uint64_t first, end; /* the range */
    uint64_t fresh;      /* memory behind it was never allocated */
    /* alignment and size of a header; a power of two, at least 32 */
    uint64_t grain;
    uint64_t last;                 /* the block that ends at fresh, or 0 */
    uint64_t list[UPC_HEAP_LISTS]; /* free blocks of 2^i grains and more, or 0 */
};

void amph_upc_heap_init(struct upc_heap *heap, uint8_t *base, uint64_t first, uint64_t end,
                        uint64_t grain);
/* Returns an offset, which is a multiple of the grain; 0 if bytes is 0 or no block is large
 * enough. */
uint64_t amph_upc_heap_alloc(struct upc_heap *heap, uint64_t bytes);
/* Returns false if no block is allocated at addr, or if the header before it was overwritten. */
bool amph_upc_heap_free(struct upc_heap *heap, uint64_t addr);
/* For tests: walks all blocks, checks their chain, and returns the number of bytes in use;
 * UINT64_MAX if the chain is damaged. */
uint64_t amph_upc_heap_check(const struct upc_heap *heap);

#endif
