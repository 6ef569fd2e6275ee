/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots: a head of one line, then the cube plane by plane.  UPC-IO writes the block-cyclic
 * array in one collective call; with plain stdio each thread writes the planes that it has at their
 * places in the one file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/heat3d/heat3d.h"

void give_up(const char *what, const char *path)
{
    fprintf(stderr, "heat3d: thread %d: %s %s: %s\n", MYTHREAD, what, path, strerror(errno));
    upc_global_exit(1);
}

static void make_head(char *head, const struct cube *c, long step)
{
    char text[HEAT_HEAD_BYTES];

    memset(head, ' ', HEAT_HEAD_BYTES);

    int n = snprintf(text, sizeof text, "heat3d side %zu step %ld", c->side, step);

    memcpy(head, text, (size_t)n);
    head[HEAT_HEAD_BYTES - 1] = '\n';
}

static void parse_head(const char *path, char *head, size_t *side, long *step)
{
    head[HEAT_HEAD_BYTES - 1] = 0;
    if (sscanf(head, "heat3d side %zu step %ld", side, step) != 2) {
        errno = EINVAL;
        give_up("no snapshot:", path);
    }
}

/* ---- UPC-IO ---- */

static upc_file_t *open_common(const char *path, int flags)
{
    upc_file_t *f = upc_all_fopen(path, flags | UPC_COMMON_FP, 0, NULL);

    if (!f)
        give_up("cannot open", path);

    return f;
}

static void write_upcio(const char *path, const struct cube *c, long step)
{
    upc_file_t *f = open_common(path, UPC_WRONLY | UPC_CREATE | UPC_TRUNC);
    size_t n = c->side * c->side * c->side;
    upc_pts_t head = upc_all_alloc(1, HEAT_HEAD_BYTES);

    if (MYTHREAD == 0)
        make_head(upc_pts_local(head), c, step);

    if (upc_all_fwrite_shared(f, head, 0, 1, HEAT_HEAD_BYTES, 0) != HEAT_HEAD_BYTES ||
        upc_all_fwrite_shared(f, c->at, block_elems(c), sizeof(double), n, 0) !=
            (upc_off_t)(n * sizeof(double)))
        give_up("cannot write", path);

    upc_all_free(head);
    if (upc_all_fclose(f))
        give_up("cannot close", path);
}

static void head_upcio(const char *path, char *head)
{
    upc_file_t *f = upc_all_fopen(path, UPC_RDONLY | UPC_INDIVIDUAL_FP, 0, NULL);

    if (!f || upc_all_fread_local(f, head, 1, HEAT_HEAD_BYTES, 0) != HEAT_HEAD_BYTES ||
        upc_all_fclose(f))
        give_up("cannot read", path);
}

static void read_upcio(const char *path, const struct cube *c)
{
    upc_file_t *f = open_common(path, UPC_RDONLY);
    size_t n = c->side * c->side * c->side;

    if (upc_all_fseek(f, HEAT_HEAD_BYTES, UPC_SEEK_SET) != HEAT_HEAD_BYTES ||
        upc_all_fread_shared(f, c->at, block_elems(c), sizeof(double), n, 0) !=
            (upc_off_t)(n * sizeof(double)) ||
        upc_all_fclose(f))
        give_up("cannot read", path);
}

/* ---- plain stdio ---- */

/* Thread 0 makes the file before the others open it. */
static FILE *open_shared(const char *path)
{
    FILE *f;

    if (MYTHREAD == 0 && (!(f = fopen(path, "wb")) || fclose(f)))
        give_up("cannot make", path);

    upc_barrier();
    if (!(f = fopen(path, "r+b")))
        give_up("cannot open", path);

    return f;
}

static void write_stdio(const char *path, const struct cube *c, long step)
{
    char head[HEAT_HEAD_BYTES];
    FILE *f = open_shared(path);

    make_head(head, c, step);
    if (MYTHREAD == 0 && fwrite(head, 1, sizeof head, f) != sizeof head)
        give_up("cannot write", path);

    upc_forall(size_t z = 0, z < c->side, z++,
               UPC_MINE_PTS(plane_at(
                   c, z))) if (fseeko(f, (off_t)(HEAT_HEAD_BYTES + z * plane_bytes(c)), SEEK_SET) ||
                               fwrite(upc_pts_local(plane_at(c, z)), 1, plane_bytes(c), f) !=
                                   plane_bytes(c)) give_up("cannot write", path);
    if (fclose(f))
        give_up("cannot close", path);

    upc_barrier();
}

static void head_stdio(const char *path, char *head)
{
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, HEAT_HEAD_BYTES, f) != HEAT_HEAD_BYTES || fclose(f))
        give_up("cannot read", path);
}

static void read_stdio(const char *path, const struct cube *c)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        give_up("cannot open", path);

    upc_forall(size_t z = 0, z < c->side, z++,
               UPC_MINE_PTS(plane_at(
                   c, z))) if (fseeko(f, (off_t)(HEAT_HEAD_BYTES + z * plane_bytes(c)), SEEK_SET) ||
                               fread(upc_pts_local(plane_at(c, z)), 1, plane_bytes(c), f) !=
                                   plane_bytes(c)) give_up("cannot read", path);
    fclose(f);
    upc_barrier();
}

/* ---- either ---- */

void snapshot_write(const char *path, enum way way, const struct cube *c, long step)
{
    (way == WAY_UPCIO ? write_upcio : write_stdio)(path, c, step);
}

void snapshot_head(const char *path, enum way way, size_t *side, long *step)
{
    char head[HEAT_HEAD_BYTES];

    (way == WAY_UPCIO ? head_upcio : head_stdio)(path, head);
    parse_head(path, head, side, step);
}

void snapshot_read(const char *path, enum way way, const struct cube *c)
{
    (way == WAY_UPCIO ? read_upcio : read_stdio)(path, c);
}
