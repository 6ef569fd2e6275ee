/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that wait for a reply.  The request carries the index of a slot in a table, and the
 * reply returns it.  Messages never carry an address, so a wrong index does no harm.
 *
 * Layer: extended.  Thread rule: any thread; amph_gex_pending_take not from handlers.
 */
#ifndef AMPH_EXTENDED_PENDING_H
#define AMPH_EXTENDED_PENDING_H

#include <stdint.h>

#include "extended/gex.h"

enum amph_pending_kind {
    AMPH_PENDING_MEMSET,
    AMPH_PENDING_AD,
    AMPH_PENDING_VIS
};

/* Assigns a slot to op and returns its index; waits while no slot is free. */
uint32_t amph_gex_pending_take(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op);
/* Frees the slot that a reply of this kind names, and returns its operation; NULL: no such
 * operation. */
struct amph_op *amph_gex_pending_release(struct amph_gex *g, enum amph_pending_kind kind,
                                         uint32_t slot);

#endif
