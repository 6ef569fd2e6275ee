/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The locked bytes of a file: what remains after a row of calls that lock and unlock.  Layer: iofwd.  Thread rule: none of its own.
 */
#ifndef AMPH_IOFWD_RANGES_H
#define AMPH_IOFWD_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define FWD_RANGE_END INT64_MAX /* however far the file grows */

struct fwd_range {
    int64_t from, to; /* to: the first byte behind it */
    short type;       /* F_RDLCK, F_WRLCK; F_UNLCK in what is set */
    short kind;       /* ranges of different kinds have nothing to do with each other */
};

struct fwd_ranges {
    uint32_t n;
    bool unknown;     /* the owner's: something could not be noted */
    struct fwd_range *item;
};

/* Sets or frees r's bytes.  Ranges that touch become one.  false: no memory, nothing has changed. */
bool fwd_ranges_set(struct fwd_ranges *set, struct fwd_range r);
void fwd_ranges_forget(struct fwd_ranges *set, short kind);
bool fwd_ranges_copy(const struct fwd_ranges *set, struct fwd_ranges *copy_p); /* free copy_p->item */

#endif
