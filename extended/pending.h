/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that wait for a reply.  The request carries a place in a table, and the reply brings
 * it back: never an address, so a wrong one does no harm.  Layer: extended.  Thread rule: any
 * thread; amph_pending_take not from handlers.
 */
#ifndef AMPH_EXTENDED_PLACES_H
#define AMPH_EXTENDED_PLACES_H

#include "extended/gex.h"

enum amph_pending_kind {
    AMPH_PLACE_MEMSET,
    AMPH_PLACE_AD,
    AMPH_PLACE_VIS
};

/* Gives op a place; waits while none is free. */
uint32_t amph_pending_take(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op);
/* The operation of a place that a reply of that kind names, and frees the place; NULL: there is
 * none. */
struct amph_op *amph_pending_release(struct amph_gex *g, enum amph_pending_kind kind,
                                     uint32_t place);

#endif
