/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector, indexed and strided transfers: their two sides as rows of pieces (vis_rows.c), copying them in
 * memory (vis_copy.c), and carrying them to and from other hosts (vis_remote.c).
 * Layer: extended.  Thread rule: one call's state is its thread's.
 */
#ifndef AMPH_EXTENDED_VIS_H
#define AMPH_EXTENDED_VIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "amphora/vis.h"
#include "extended/event.h"

/* One side of a transfer, as the client describes it. */
enum amph_rma_vis_shape {
    AMPH_VIS_VECTOR,
    AMPH_VIS_INDEXED,
    AMPH_VIS_STRIDED
};

struct amph_rma_vis_side {
    enum amph_rma_vis_shape shape;
    size_t count; /* pieces (not of strided sides) */
    size_t len;   /* bytes of each; of vectors by amph_rma_vis_bytes: 0 if they differ */
    const gex_Memvec_t *vec;
    void *const *list;
    char *base;
    const ptrdiff_t *strides;
    const size_t *box;
    size_t levels;
};

/* Pieces of one length: at a constant distance, or at the addresses of a list. */
struct amph_rma_vis_row {
    char *base;       /* the first piece; with a list: added to each address */
    ptrdiff_t step;   /* from piece to piece; with a list: from entry to entry, in bytes */
    const char *list; /* its first entry, a pointer; or NULL */
};

/* Address of piece i of a row with a list. */
static inline char *amph_rma_vis_listed(const struct amph_rma_vis_row *row, size_t i)
{
    char *at;

    memcpy(&at, row->list + (ptrdiff_t)i * row->step, sizeof at);

    return (char *)((uintptr_t)at + (uintptr_t)row->base);
}

static inline char *amph_rma_vis_piece(const struct amph_rma_vis_row *row, size_t i)
{
    return row->list ? amph_rma_vis_listed(row, i) : row->base + (ptrdiff_t)i * row->step;
}

/* All bytes of a side.  Sets len of a vector. */
uint64_t amph_rma_vis_bytes(struct amph_rma_vis_side *side);

/* Called for `count` pieces of `len` bytes of both sides. */
typedef void amph_rma_vis_row_fn(void *arg, const struct amph_rma_vis_row *dst,
                                 const struct amph_rma_vis_row *src, size_t count, size_t len);

/* Calls row for all bytes of a transfer whose sides have the same number of bytes, in few and long
 * rows.  Neither count nor len is 0. */
void amph_rma_vis_each_row(const struct amph_rma_vis_side *dst, const struct amph_rma_vis_side *src,
                           amph_rma_vis_row_fn *row, void *arg);

/* Copies a row in memory. */
void amph_rma_vis_copy(const struct amph_rma_vis_row *dst, const struct amph_rma_vis_row *src,
                       size_t count, size_t len);

/* Pieces of one length that a list names. */
struct amph_rma_vis_list {
    const char *entries; /* an address each; in vectors its length follows */
    size_t count;
    bool vector;
    uint64_t base; /* no piece may begin before base or after base + max_offset */
    uint64_t max_offset;
    ptrdiff_t mapping; /* added to each address */
};

/* Is len one of the lengths that amph_rma_vis_copy_list takes? */
bool amph_rma_vis_is_quick(size_t len);

/* Copies between solid memory and the pieces of a list, in one pass over the list, which checks its entries.
 * to_list: to the pieces.  Ends before the first piece that has another length than len or is out of
 * bounds.  Returns the number of pieces copied. */
size_t amph_rma_vis_copy_list(const struct amph_rma_vis_list *list, char *solid, size_t len,
                              bool to_list);

/* A transfer whose remote side is not mapped here: rows are added one by one. */
struct amph_rma_vis_remote;
struct amph_rma_vis_remote *amph_rma_vis_begin(const struct amph_dest *dest, bool put,
                                               struct amph_gex_op *op);
/* Adds pieces: of local to (from) the addresses of remote at the target, which have been
 * checked. */
void amph_rma_vis_add(struct amph_rma_vis_remote *v, const struct amph_rma_vis_row *remote,
                      const struct amph_rma_vis_row *local, size_t count, size_t len);
/* Ends the transfer: op is completed when all pieces have been transferred, and its local
 * completion when the source may be reused. */
void amph_rma_vis_end(struct amph_rma_vis_remote *v);

/* Runs the client's reply handler at dest with these bytes, and waits until it has run. */
void amph_rma_vis_notify(const struct amph_dest *dest, gex_AM_Index_t handler, const void *data,
                         size_t nbytes);

#endif
