/* SPDX-License-Identifier: BSD-3-Clause */
/* heat3d: heat in a cube, in UPC's library in C.  What its files share; heat3d.c says what the
 * program does. */
#ifndef HEAT3D_H
#define HEAT3D_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upc_bridge.h"

/* The header of a snapshot, before the values: one line of text, padded with spaces; so file
 * positions do not depend on the step. */
#define HEAT_HEAD_BYTES 128

/* A cube of side^3 doubles in planes of side^2, `depth` planes a block, the blocks dealt out to the
 * threads in turn: shared [depth * side * side] double cube[side][side][side]. */
struct cube {
    size_t side, depth;
    upc_pts_t at;
};

static inline size_t plane_bytes(const struct cube *c)
{
    return c->side * c->side * sizeof(double);
}

static inline size_t block_elems(const struct cube *c)
{
    return c->depth * c->side * c->side;
}

static inline upc_pts_t plane_at(const struct cube *c, size_t z)
{
    return upc_pts_add(c->at, sizeof(double), block_elems(c), (ptrdiff_t)(z * c->side * c->side));
}

/* heat3d_io.c: by UPC-IO, or by plain fopen.  A snapshot is the same file either way and with any
 * number of threads.  Errors end the program. */
enum way {
    WAY_UPCIO,
    WAY_STDIO
};

void snapshot_write(const char *path, enum way way, const struct cube *c, long step);
/* The side and the step of a snapshot. */
void snapshot_head(const char *path, enum way way, size_t *side, long *step);
void snapshot_read(const char *path, enum way way, const struct cube *c);

/* Prints why, and ends the program in all threads. */
void give_up(const char *what, const char *path) AMPHORA_NORETURN;

#endif
