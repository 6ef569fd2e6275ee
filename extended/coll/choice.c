/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of the algorithm that carries a collective between its participants: one table.
 * Layer: extended.  Thread rule: read only.
 *
 * The first row whose limits hold applies: the kind, the largest segment, the largest sum over
 * all participants, in bytes, and the number of participants.  All members choose the same row.  Inside a neighbourhood
 * coll/local.c carries all kinds.
 */
#include <stddef.h>
#include <stdint.h>

#include "extended/coll/coll.h"

#define ANY SIZE_MAX
#define STAR_BYTES AMPH_COLL_EAGER /* of a message from or to the centre */

/* Numbers of participants: of 3, a ring and log2(n) steps take as long as sending to each other one; of up to 8,
 * middle-sized blocks still take less time that way. */
enum {
    PAIR = 2,
    FEW = 3,
    SPREAD_MAX = 8
};

/* Trees take log2(n) steps and send all the data in each; chains send the data once, in pieces.  Of two
 * participants each has one step either way, but a chain is there and back.  A scan does not go
 * through a centre, because nobody waits for later participants, so that scans overlap. */
/* clang-format off */
static const struct amph_coll_choice choices[] = {
    { AMPH_COLL_SYNC, 0, ANY, amph_coll_star_reduce_all, AMPH_SCRATCH_ALL, true, 0 },
    { AMPH_COLL_SYNC, ANY, ANY, amph_coll_double_reduce_all, AMPH_SCRATCH_LOG, false, 0 },
    { AMPH_COLL_BROADCAST, 1024, STAR_BYTES, amph_coll_star_broadcast, 0, true, 0 },
    { AMPH_COLL_BROADCAST, 32u << 10, ANY, amph_coll_tree_broadcast, 0, false, 0 },
    { AMPH_COLL_BROADCAST, ANY, ANY, amph_coll_chain_broadcast, 0, false, 0 },
    { AMPH_COLL_REDUCE, 1024, STAR_BYTES, amph_coll_star_reduce, AMPH_SCRATCH_ALL, true, 0 },
    { AMPH_COLL_REDUCE, 32u << 10, ANY, amph_coll_tree_reduce, AMPH_SCRATCH_LOG, false, 0 },
    { AMPH_COLL_REDUCE, ANY, ANY, amph_coll_chain_reduce, 1, false, 0 },
    { AMPH_COLL_REDUCE_ALL, 1024, STAR_BYTES, amph_coll_star_reduce_all, AMPH_SCRATCH_ALL, true, 0 },
    { AMPH_COLL_REDUCE_ALL, 16u << 10, ANY, amph_coll_double_reduce_all, AMPH_SCRATCH_LOG, false, 0 },
    { AMPH_COLL_REDUCE_ALL, 64u << 10, ANY, amph_coll_double_reduce_all, AMPH_SCRATCH_LOG, false, PAIR },
    { AMPH_COLL_REDUCE_ALL, ANY, ANY, amph_coll_chain_reduce_all, 1, false, 0 },
    { AMPH_COLL_SCAN, 16u << 10, ANY, amph_coll_double_scan, AMPH_SCRATCH_LOG, false, 0 },
    { AMPH_COLL_SCAN, ANY, ANY, amph_coll_chain_scan, 1, false, 0 },
    { AMPH_COLL_SCATTER, ANY, ANY, amph_coll_flat_scatter, 0, false, 0 },
    { AMPH_COLL_GATHER, ANY, ANY, amph_coll_flat_gather, 0, false, 0 },
    { AMPH_COLL_GATHER_ALL, 1024, STAR_BYTES, amph_coll_star_gather_all, AMPH_SCRATCH_ALL, true, 0 },
    { AMPH_COLL_GATHER_ALL, ANY, ANY, amph_coll_spread_gather_all, 0, false, FEW },
    { AMPH_COLL_GATHER_ALL, AMPH_COLL_EAGER, 64u << 10, amph_coll_bruck_gather_all, AMPH_SCRATCH_ALL, false, 0 },
    { AMPH_COLL_GATHER_ALL, 32u << 10, ANY, amph_coll_spread_gather_all, 0, false, SPREAD_MAX },
    { AMPH_COLL_GATHER_ALL, ANY, ANY, amph_coll_flat_gather_all, 0, false, 0 },
    { AMPH_COLL_EXCHANGE, 1024, STAR_BYTES, amph_coll_star_exchange, AMPH_SCRATCH_PAIRS, true, 0 },
    { AMPH_COLL_EXCHANGE, ANY, ANY, amph_coll_flat_exchange, 0, false, 0 },
};
/* clang-format on */

const struct amph_coll_choice *amph_coll_choose(const struct amph_coll_op *op, uint32_t count,
                                                size_t len, uint32_t piece)
{
    const struct amph_coll_choice *row = choices;
    bool star = op->coll && op->coll->star;

    if (op->fold.elem_bytes > piece) {
        len = 0; /* elements longer than a message cannot be split into pieces */
        star = false;
    }

    while (row->kind != op->kind || len > row->max_bytes || len > row->max_total / count ||
           (row->star && !star) || (row->max_count && count > row->max_count))
        row++;

    return row;
}

size_t amph_coll_scratch(const struct amph_coll_choice *choice, uint32_t count, size_t len)
{
    size_t rounds = 1; /* one more round for participants beyond a power of 2 */

    while ((UINT64_C(1) << (rounds - 1)) < count)
        rounds++;

    if (choice->scratch_blocks == AMPH_SCRATCH_LOG)
        return rounds * len;
    if (choice->scratch_blocks == AMPH_SCRATCH_PAIRS)
        return 2 * (size_t)count * count * len;

    return (choice->scratch_blocks == AMPH_SCRATCH_ALL ? count : choice->scratch_blocks) * len;
}
