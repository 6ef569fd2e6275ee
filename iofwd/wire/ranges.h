/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The locked bytes of a file: what remains after a row of calls that lock and unlock.  Layer:
 * iofwd.  Thread rule: none of its own.
 */
#ifndef AMPH_IOFWD_RANGES_H
#define AMPH_IOFWD_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define FWD_RANGE_END INT64_MAX /* however far the file grows */

struct amph_fwd_range {
    int64_t from, to; /* to: the first byte behind it */
    short type;       /* F_RDLCK, F_WRLCK; F_UNLCK in what is set */
    short kind;       /* ranges of different kinds have nothing to do with each other */
};

struct amph_fwd_ranges {
    uint32_t n;
    bool unknown; /* the owner's: something could not be noted */
    struct amph_fwd_range *item;
};

/* Sets or frees r's bytes.  Ranges that touch become one.  false: no memory, nothing has
 * changed. */
bool amph_fwd_ranges_set(struct amph_fwd_ranges *set, struct amph_fwd_range r);
void amph_fwd_ranges_forget(struct amph_fwd_ranges *set, short kind);
/* free copy_p->item */
bool amph_fwd_ranges_copy(const struct amph_fwd_ranges *set, struct amph_fwd_ranges *copy_p);

#endif
