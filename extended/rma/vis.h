/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector, indexed and strided transfers: their two sides as runs of bytes, and the carrying of runs
 * to and from other hosts.
 * Layer: extended.  Thread rule: one call's state is its thread's.
 */
#ifndef AMPH_EXTENDED_VIS_H
#define AMPH_EXTENDED_VIS_H

#include "amphora/vis.h"
#include "extended/event.h"

/* One side of a transfer, walked from its first byte to its last. */
enum amph_vis_shape {
    AMPH_VIS_VECTOR,
    AMPH_VIS_INDEXED,
    AMPH_VIS_STRIDED
};

struct amph_vis_side {
    enum amph_vis_shape shape;
    size_t count, len; /* pieces; bytes of each (not of vectors) */
    const gex_Memvec_t *vec;
    void *const *list;
    char *base;
    const ptrdiff_t *strides;
    const size_t *box;
    size_t levels;
    /* where it is */
    size_t next; /* piece that follows the run */
    char *at;    /* what is left of the run */
    size_t left;
};

/* All its bytes. */
uint64_t amph_rma_vis_bytes(const struct amph_vis_side *side);
/* Makes at and left the next run, adjacent pieces together; false: no more. */
bool amph_rma_vis_fill(struct amph_vis_side *side);

/* A transfer whose remote side is not mapped here: runs are added one by one. */
struct amph_vis_remote;
struct amph_vis_remote *amph_rma_vis_begin(const struct amph_dest *dest, bool put,
                                           struct amph_gex_op *op);
/* local..+nbytes to (from) the address `remote` at the target; both checked. */
void amph_rma_vis_add(struct amph_vis_remote *v, uint64_t remote, char *local, size_t nbytes);
/* No more follow: op is completed when all has been done, its local completion when the source is
 * free. */
void amph_rma_vis_end(struct amph_vis_remote *v);

/* Runs the client's reply handler at dest with these bytes, and waits until it has run. */
void amph_rma_vis_notify(const struct amph_dest *dest, gex_AM_Index_t handler, const void *data,
                         size_t nbytes);

#endif
