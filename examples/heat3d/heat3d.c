/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat3d: heat spreads in a cube whose faces are kept cold; block-cyclic planes, halos by
 * upc_memget, snapshots and restart through UPC-IO or plain fopen.  A run's values do not depend on
 * how many threads it has, nor a restart on those of the run before.
 *
 *   heat3d [-side N] [-steps N] [-depth PLANES] [-every N] [-way upcio|stdio] [-restart FILE] DIR
 *
 * Creates DIR and writes DIR/heat.STEP every N steps and at the end, where thread 0 prints the heat that is left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "examples/heat3d/heat3d.h"

struct settings {
    size_t side, depth;
    long steps, every;
    enum way way;
    const char *restart, *dir;
};

static void usage(void)
{
    if (MYTHREAD == 0)
        fprintf(stderr, "heat3d [-side N] [-steps N] [-depth PLANES] [-every N] [-way upcio|stdio] "
                        "[-restart FILE] DIR\n");

    upc_barrier();
    upc_global_exit(2);
}

static struct settings parse(int argc, char **argv)
{
    struct settings s = { .side = 48, .depth = 2, .steps = 40, .every = 20 };

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (argv[i][0] != '-' && !s.dir) {
            s.dir = argv[i];
            continue;
        }

        if (strcmp(argv[i], "-side") == 0)
            s.side = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "-steps") == 0)
            s.steps = atol(value);
        else if (strcmp(argv[i], "-depth") == 0)
            s.depth = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "-every") == 0)
            s.every = atol(value);
        else if (strcmp(argv[i], "-way") == 0 &&
                 (strcmp(value, "upcio") == 0 || strcmp(value, "stdio") == 0))
            s.way = strcmp(value, "stdio") == 0 ? WAY_STDIO : WAY_UPCIO;
        else if (strcmp(argv[i], "-restart") == 0)
            s.restart = value;
        else
            usage();

        i++;
    }

    if (!s.dir || s.side < 3 || s.side > 2000 || s.depth < 1 ||
        s.depth * s.side * s.side > UPC_MAX_BLOCK_SIZE)
        usage();

    if (s.steps < 0 || s.every < 1)
        usage();

    return s;
}

static struct cube make_cube(const struct settings *s)
{
    struct cube c = { .side = s->side, .depth = s->depth };

    c.at = upc_all_alloc((s->side + s->depth - 1) / s->depth, block_elems(&c) * sizeof(double));
    if (upc_pts_is_null(c.at)) {
        fprintf(stderr,
                "heat3d: no shared memory for a cube of side %zu; AMPHORA_UPC_HEAP makes more\n",
                s->side);
        upc_global_exit(1);
    }

    return c;
}

/* The value at (x, y, z) of a cube of that side before the first step: a hot ball off the centre, a
 * warm corner, and cold faces. */
static double first_value(size_t x, size_t y, size_t z, size_t side)
{
    double n = (double)side;
    double dx = (double)x / n - 0.4;
    double dy = (double)y / n - 0.5;
    double dz = (double)z / n - 0.6;

    if (x == 0 || y == 0 || z == 0 || x == side - 1 || y == side - 1 || z == side - 1)
        return 0;

    if (dx * dx + dy * dy + dz * dz < 0.04)
        return 100;

    return x + y + z < side / 2 ? 20 : 0;
}

static void first_values(const struct cube *c)
{
    upc_forall(size_t z = 0, z < c->side, z++, UPC_MINE_PTS(plane_at(c, z)))
    {
        double *p = upc_pts_local(plane_at(c, z));

        for (size_t y = 0; y < c->side; y++)
            for (size_t x = 0; x < c->side; x++)
                p[y * c->side + x] = first_value(x, y, z, c->side);
    }
}

/* A plane that is the caller's or comes from its owner. */
static const double *plane(const struct cube *c, size_t z, double *halo)
{
    upc_pts_t p = plane_at(c, z);

    if (UPC_MINE_PTS(p))
        return upc_pts_local(p);

    upc_memget(halo, p, plane_bytes(c));
    return halo;
}

/* One explicit step.  Each new value depends on old ones only, so the bits are the same whoever
 * computes it. */
static void step(const struct cube *from, const struct cube *to, double *below_halo,
                 double *above_halo)
{
    const size_t n = from->side;

    upc_forall(size_t z = 1, z < n - 1, z++, UPC_MINE_PTS(plane_at(from, z)))
    {
        const double *p = upc_pts_local(plane_at(from, z));
        const double *below = plane(from, z - 1, below_halo);
        const double *above = plane(from, z + 1, above_halo);
        double *q = upc_pts_local(plane_at(to, z));

        for (size_t y = 1; y < n - 1; y++)
            for (size_t i = y * n + 1; i < y * n + n - 1; i++)
                q[i] = p[i] + 0.125 * (p[i - 1] + p[i + 1] + p[i - n] + p[i + n] + below[i] +
                                       above[i] - 6 * p[i]);
    }
    upc_barrier();
}

/* The sum of all values, plane by plane in order, so that its bits do not depend on the threads
 * either. */
static double total_heat(const struct cube *c)
{
    upc_pts_t sums = upc_all_alloc(c->side, sizeof(double));
    double total = 0;

    upc_forall(size_t z = 0, z < c->side, z++, UPC_MINE_PTS(plane_at(c, z)))
    {
        const double *p = upc_pts_local(plane_at(c, z));
        double sum = 0;

        for (size_t i = 0; i < c->side * c->side; i++)
            sum += p[i];

        UPC_STORE(double, upc_pts_add(sums, sizeof(double), 1, (ptrdiff_t)z), sum);
    }
    upc_barrier();
    for (size_t z = 0; z < c->side; z++)
        total += UPC_LOAD(double, upc_pts_add(sums, sizeof(double), 1, (ptrdiff_t)z));

    upc_all_free(sums);
    return total;
}

static int program(int argc, char **argv)
{
    struct settings s = parse(argc, argv);
    char path[4096];
    long now = 0;

    if (s.restart)
        snapshot_head(s.restart, s.way, &s.side, &now);

    if (MYTHREAD == 0 && mkdir(s.dir, 0777) != 0 && errno != EEXIST)
        give_up("cannot create", s.dir);

    upc_barrier();

    struct cube cube[2] = { make_cube(&s), make_cube(&s) };
    double *halo = malloc(2 * plane_bytes(&cube[0]));

    if (!halo)
        give_up("no memory for", "halos");

    if (s.restart)
        snapshot_read(s.restart, s.way, &cube[0]);
    else
        first_values(&cube[0]);

    /* the faces stay as they are */
    upc_forall(size_t z = 0, z < s.side, z++, UPC_MINE_PTS(plane_at(&cube[1], z)))
        memcpy(upc_pts_local(plane_at(&cube[1], z)), upc_pts_local(plane_at(&cube[0], z)),
               plane_bytes(&cube[0]));
    upc_barrier();

    int at = 0;

    for (; now < s.steps; at = !at) {
        step(&cube[at], &cube[!at], halo, halo + s.side * s.side);
        now++;

        if (now % s.every == 0 || now == s.steps) {
            snprintf(path, sizeof path, "%s/heat.%ld", s.dir, now);
            snapshot_write(path, s.way, &cube[!at], now);
        }
    }

    double heat = total_heat(&cube[at]);

    if (MYTHREAD == 0)
        printf("heat3d: side %zu, %ld steps, %d threads: heat %.17g\n", s.side, now, THREADS, heat);

    free(halo);
    return 0;
}

UPC_MAIN(program)
