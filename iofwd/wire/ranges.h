/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of locked byte ranges of a file, updated by lock and unlock calls.
 *
 * Layer: iofwd.  Thread rule: the caller guards the set.
 */
#ifndef AMPH_IOFWD_RANGES_H
#define AMPH_IOFWD_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define FWD_RANGE_END INT64_MAX /* to the end of the file, even if it grows */

struct amph_fwd_range {
    int64_t from, to; /* to: the first byte after the range */
    short type;       /* F_RDLCK, F_WRLCK; F_UNLCK as an argument */
    short kind;       /* ranges of different kinds are independent */
};

struct amph_fwd_ranges {
    uint32_t n, cap;             /* ranges, and those that `item` has room for */
    bool unknown;                /* for the owner: a range could not be recorded */
    struct amph_fwd_range *item; /* sorted by kind and offset; those of one kind do not overlap */
};

/* Locks or unlocks r's bytes.  Adjacent ranges are merged.  false: no memory, set unchanged.
 * Finds its place in O(log n) and moves the ranges behind it. */
bool amph_fwd_ranges_set(struct amph_fwd_ranges *set, struct amph_fwd_range r);
/* Is any of r's bytes locked with r's type and kind? */
bool amph_fwd_ranges_holds(const struct amph_fwd_ranges *set, const struct amph_fwd_range *r);
void amph_fwd_ranges_forget(struct amph_fwd_ranges *set, short kind);
void amph_fwd_ranges_forget_above(struct amph_fwd_ranges *set, short kind); /* of higher kinds */
/* The caller frees copy_p->item.  false: no memory. */
bool amph_fwd_ranges_copy(const struct amph_fwd_ranges *set, struct amph_fwd_ranges *copy_p);

#endif
