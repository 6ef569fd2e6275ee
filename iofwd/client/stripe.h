/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files spread over several servers; see client/stripe.c.  Layer: iofwd.  Thread rule: see
 * client/internal.h.
 */
#ifndef AMPH_IOFWD_CLIENT_STRIPE_H
#define AMPH_IOFWD_CLIENT_STRIPE_H

#include "iofwd/client/internal.h"

#define AMPH_CLIENT_STRIPE_UNIT_MAX ((uint64_t)1 << 40)
#define AMPH_CLIENT_STRIPE_ALIGN ((size_t)64 << 10) /* equal parts of a call end on this */
#define AMPH_CLIENT_STRIPE_MIN \
    ((size_t)256 << 10) /* calls below this are not cut into equal parts */

/* How a file is spread: servers, and the bytes in a row that one of them does (0: each call in
 * equal parts). */
struct amph_client_stripe {
    uint32_t width;
    uint32_t unit_kib;
};

/* EINVAL: a width outside 1..AMPH_FWD_PARTS_MAX, a unit that is not in whole KiB or too large. */
int amph_client_stripe_make(uint32_t width, uint64_t unit_bytes,
                            struct amph_client_stripe *stripe_p);
/* Files whose path fits pattern and that are opened from now on; the newest rule counts.
 * ENAMETOOLONG, ENOMEM. */
int amph_client_stripe_add(const char *pattern, struct amph_client_stripe stripe);
/* The width of files that no pattern names.  amph_client_state.lock is held. */
uint32_t amph_client_stripe_width(void);
/* The most servers that a rule spreads files over, of those that there are. */
uint32_t amph_client_stripe_widest(const struct amph_fwd_client *cl);

/* After a successful open at the home server: opens the other parts, as far as the file is to be
 * spread and they can be opened. */
void amph_client_stripe_open(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a);
/* After a call on the first part: the same on the others, where it has to reach them all.  The
 * first error. */
int amph_client_stripe_rest(struct amph_fwd_client *cl, enum amph_fwd_id id,
                            const struct amph_fwd_file *file, void *args);

/* The places of a call's buffer that one part does, one after the other.  at == total: no more. */
struct amph_client_stripe_cursor {
    size_t at, total;
    size_t unit;
    uint64_t phase; /* where the call begins, counted from the start of a stripe of part 0 */
    uint32_t width;
};

void amph_client_stripe_cursor_start(struct amph_client_stripe_cursor *d,
                                     const struct amph_fwd_file *file, uint32_t part, uint64_t off,
                                     size_t total);
/* bytes in a row from d->at */
size_t amph_client_stripe_cursor_len(const struct amph_client_stripe_cursor *d, size_t most);
void amph_client_stripe_cursor_step(struct amph_client_stripe_cursor *d, size_t len);

#endif
