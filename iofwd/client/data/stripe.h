/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Striped files; see client/data/stripe.c.  Layer: iofwd.  Thread rule: see client/internal.h.
 */
#ifndef AMPH_IOFWD_CLIENT_STRIPE_H
#define AMPH_IOFWD_CLIENT_STRIPE_H

#include <stddef.h>
#include <stdint.h>

#include "iofwd/client/internal.h"

#define AMPH_CLIENT_STRIPE_UNIT_MAX ((uint64_t)1 << 40)
#define AMPH_CLIENT_STRIPE_ALIGN ((size_t)64 << 10) /* alignment of the equal parts of a call */
#define AMPH_CLIENT_STRIPE_MIN \
    ((size_t)256 << 10) /* smaller calls are not split into equal parts */

/* The layout of a striped file: number of servers and bytes of a stripe (0: each call is split into
 * equal parts). */
struct amph_client_stripe {
    uint32_t width;
    uint32_t unit_kib;
};

/* EINVAL: a width outside 1..AMPH_FWD_PARTS_MAX, a unit that is not in whole KiB or too large. */
int amph_client_stripe_make(uint32_t width, uint64_t unit_bytes,
                            struct amph_client_stripe *stripe_p);
/* Adds a rule for files that are opened from now on and whose path matches; the newest rule that
 * matches applies.  ENAMETOOLONG, ENOMEM. */
int amph_client_stripe_add(const char *pattern, struct amph_client_stripe stripe);
/* Returns the width of files that match no rule.  amph_client_state.lock is held. */
uint32_t amph_client_stripe_width(void);
/* Returns the maximum width of all rules, limited by the number of servers. */
uint32_t amph_client_stripe_widest(const struct amph_fwd_client *cl);

/* After a successful open at the home server: opens the other parts if the file is to be striped.
 */
void amph_client_stripe_open(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a);
/* After a call on the first part: repeats it on the others if its row in calls.def says so. Returns
 * the first error. */
int amph_client_stripe_rest(struct amph_fwd_client *cl, enum amph_fwd_id id,
                            const struct amph_fwd_file *file, void *args);

/* Iterates over the pieces of a call's buffer that one part transfers.  at == total: no more. */
struct amph_client_stripe_cursor {
    size_t at, total;
    size_t unit;
    uint64_t phase; /* offset of the call from the start of a stripe of part 0 */
    uint32_t width;
};

void amph_client_stripe_cursor_start(struct amph_client_stripe_cursor *d,
                                     const struct amph_fwd_file *file, uint32_t part, uint64_t off,
                                     size_t total);
/* contiguous bytes from d->at */
size_t amph_client_stripe_cursor_len(const struct amph_client_stripe_cursor *d, size_t max);
void amph_client_stripe_cursor_step(struct amph_client_stripe_cursor *d, size_t len);

#endif
