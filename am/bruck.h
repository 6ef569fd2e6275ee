/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedule of Bruck's all-gather, for gather.c and for the collectives of extended/.
 *
 * Each member holds blocks in the order own, own+1, ..., wrapping around.  In round k it sends the
 * first min(2^k, n - 2^k) of them to the member 2^k below, and receives as many from the member 2^k
 * above.  After log2(n) rounds, rounded up, every member has all blocks, and each has sent n-1.
 *
 * Layer: am; internal, also for extended/.  Thread rule: pure functions.
 */
#ifndef AMPH_AM_BRUCK_H
#define AMPH_AM_BRUCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether a group of `size` members has this round. */
static inline bool amph_am_bruck_has_round(uint32_t size, uint32_t round)
{
    return round < 32 && (UINT64_C(1) << round) < size;
}

/* The number of the first block that a member receives in a round, in the order own, own+1, ... */
static inline uint64_t amph_am_bruck_first(uint32_t round)
{
    return UINT64_C(1) << round;
}

/* The number of blocks that a member sends in a round, and receives. */
static inline uint64_t amph_am_bruck_blocks(uint32_t size, uint32_t round)
{
    uint64_t first = amph_am_bruck_first(round);
    uint64_t missing = size - first;

    return first < missing ? first : missing;
}

/* The member that `rank` sends to. */
static inline uint32_t amph_am_bruck_to(uint32_t size, uint32_t rank, uint32_t round)
{
    return (uint32_t)((rank + (uint64_t)size - amph_am_bruck_first(round)) % size);
}

/* The member that `rank` receives from. */
static inline uint32_t amph_am_bruck_from(uint32_t size, uint32_t rank, uint32_t round)
{
    return (uint32_t)((rank + amph_am_bruck_first(round)) % size);
}

/* Copies blocks of len bytes, which begin with this member's own, to their ranks' places: those of rank 0 are at
 * `all`, those of the next `stride` bytes further. */
static inline void amph_am_bruck_copy_by_rank(uint8_t *all, size_t stride, const uint8_t *blocks,
                                              size_t len, uint32_t size, uint32_t rank)
{
    for (uint32_t i = 0; i < size; i++) {
        size_t owner = (size_t)((rank + (uint64_t)i) % size);

        memcpy(all + owner * stride, blocks + (size_t)i * len, len);
    }
}

#endif
