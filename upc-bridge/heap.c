/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator; see heap.h.  A block is [header of one grain | space], and its size includes the
 * header.  A freed block is merged with its free neighbours.
 *
 * Layer: upc-bridge.  Thread rule: heap.h.
 */
#include "upc-bridge/heap.h"

#include <stddef.h>

#define IN_USE UINT64_C(0x5550432d75736564) /* marks of a header, combined with its address */
#define IS_FREE UINT64_C(0x5550432d66726565)

struct header {
    uint64_t mark;
    uint64_t size;     /* size of the block */
    uint64_t previous; /* the preceding block in memory, or 0 */
};

/* Follows the header of a free block. */
struct links {
    uint64_t next, back; /* back is 0 in the first block of a list */
};

static struct header *head(const struct upc_heap *h, uint64_t block)
{
    return (struct header *)(h->base + block);
}

static struct links *links(const struct upc_heap *h, uint64_t block)
{
    return (struct links *)(h->base + block + h->grain);
}

static bool is(const struct upc_heap *h, uint64_t block, uint64_t mark)
{
    return block >= h->first && block < h->fresh && head(h, block)->mark == (mark ^ block);
}

/* Returns the list for free blocks of 2^i grains and more, with the largest i that fits the
 * size. */
static unsigned list_of(const struct upc_heap *h, uint64_t size)
{
    unsigned i = 63 - (unsigned)__builtin_clzll(size / h->grain);
    return i < UPC_HEAP_LISTS ? i : UPC_HEAP_LISTS - 1;
}

static void hang(struct upc_heap *h, uint64_t block)
{
    uint64_t *list = &h->list[list_of(h, head(h, block)->size)];

    head(h, block)->mark = IS_FREE ^ block;
    *links(h, block) = (struct links){ .next = *list };
    if (*list)
        links(h, *list)->back = block;

    *list = block;
}

static void unhang(struct upc_heap *h, uint64_t block)
{
    struct links l = *links(h, block);

    if (l.next)
        links(h, l.next)->back = l.back;

    if (l.back)
        links(h, l.back)->next = l.next;
    else
        h->list[list_of(h, head(h, block)->size)] = l.next;
}

/* Returns the following block, or 0 if the memory behind was never allocated. */
static uint64_t behind(const struct upc_heap *h, uint64_t block)
{
    uint64_t next = block + head(h, block)->size;
    return next < h->fresh ? next : 0;
}

static void set_previous_of_next(struct upc_heap *h, uint64_t block)
{
    uint64_t next = behind(h, block);

    if (next)
        head(h, next)->previous = block;
    else
        h->last = block;
}

void amph_upc_heap_init(struct upc_heap *h, uint8_t *base, uint64_t first, uint64_t end,
                        uint64_t grain)
{
    *h = (struct upc_heap){ .base = base, .grain = grain };
    h->first = h->fresh = (first + grain - 1) / grain * grain;
    h->end = end / grain * grain;
}

/* Removes a free block of at least this size from its list and returns it; 0: none. */
static uint64_t find(struct upc_heap *h, uint64_t size)
{
    for (unsigned i = list_of(h, size); i < UPC_HEAP_LISTS; i++)
        for (uint64_t block = h->list[i], tries = 0; block && tries < 32;
             block = links(h, block)->next, tries++)
            if (head(h, block)->size >= size) {
                unhang(h, block);
                return block;
            }

    return 0;
}

/* Splits a block and puts the part above this size into a list. */
static void cut(struct upc_heap *h, uint64_t block, uint64_t size)
{
    struct header *b = head(h, block);
    uint64_t rest = b->size - size;

    if (rest < 2 * h->grain)
        return;

    b->size = size;
    *head(h, block + size) = (struct header){ .size = rest, .previous = block };
    set_previous_of_next(h, block + size);
    hang(h, block + size);
}

uint64_t amph_upc_heap_alloc(struct upc_heap *h, uint64_t bytes)
{
    uint64_t size, block;

    if (bytes == 0 || bytes > h->end)
        return 0;

    size = (bytes + h->grain - 1) / h->grain * h->grain + h->grain;
    block = find(h, size);

    if (block) {
        cut(h, block, size);
    } else {
        if (h->fresh > h->end || h->end - h->fresh < size)
            return 0;

        block = h->fresh;
        *head(h, block) = (struct header){ .size = size, .previous = h->last };
        h->last = block;
        h->fresh += size;
    }

    head(h, block)->mark = IN_USE ^ block;
    return block + h->grain;
}

bool amph_upc_heap_free(struct upc_heap *h, uint64_t addr)
{
    uint64_t block = addr - h->grain;
    uint64_t next, previous;

    if (addr < h->first + h->grain || addr % h->grain || !is(h, block, IN_USE))
        return false;

    next = behind(h, block);
    previous = head(h, block)->previous;

    if (next && is(h, next, IS_FREE)) {
        unhang(h, next);
        head(h, next)->mark = 0;
        head(h, block)->size += head(h, next)->size;
    }

    if (previous && is(h, previous, IS_FREE)) {
        unhang(h, previous);
        head(h, block)->mark = 0;
        head(h, previous)->size += head(h, block)->size;
        block = previous;
    }

    set_previous_of_next(h, block);
    if (behind(h, block)) {
        hang(h, block);
    } else { /* the last block: its memory counts as never allocated */
        head(h, block)->mark = 0;
        h->last = head(h, block)->previous;
        h->fresh = block;
    }

    return true;
}

uint64_t amph_upc_heap_check(const struct upc_heap *h)
{
    uint64_t used = 0;
    uint64_t previous = 0;

    for (uint64_t block = h->first; block < h->fresh; block += head(h, block)->size) {
        const struct header *b = head(h, block);
        bool in_use = is(h, block, IN_USE);

        if ((!in_use && !is(h, block, IS_FREE)) || b->previous != previous ||
            b->size < 2 * h->grain || b->size > h->fresh - block)
            return UINT64_MAX;
        if (!in_use && previous && is(h, previous, IS_FREE))
            return UINT64_MAX;

        used += in_use ? b->size : 0;
        previous = block;
    }

    return previous == h->last ? used : UINT64_MAX;
}
