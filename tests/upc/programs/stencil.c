/* SPDX-License-Identifier: BSD-3-Clause */
/* A stencil in the manner of the Parallel Research Kernels, UPC in a .c file: private views of
 * shared blocks, macros, rows of neighbours by upc_memget. */
#include <upc.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <math.h>
#ifndef RADIUS
#define RADIUS 2
#endif
#define DTYPE double
#define ABS(x) ((x) > 0 ? (x) : (-(x)))
#define WEIGHT(i, j) weight[i + RADIUS][j + RADIUS]
#define debug(...)
typedef shared[] DTYPE *SDPTR;
typedef struct {
    int xlo, xhi, ylo, yhi;
} box_t;
shared SDPTR in_arrays[THREADS], out_arrays[THREADS];
shared box_t boxes[THREADS];
shared double times[THREADS];
static strict shared int flags[THREADS];
DTYPE weight[2 * RADIUS + 1][2 * RADIUS + 1];

static void die(char *s)
{
    fprintf(stderr, "%s: thread %d\n", s, MYTHREAD);
    upc_global_exit(EXIT_FAILURE);
}

DTYPE **shared_2d_array_to_private(shared[] DTYPE *array, int sizex, int sizey, int offx, int offy)
{
    DTYPE **rv = (DTYPE **)malloc(sizeof(DTYPE *) * sizey);
    if (!rv)
        die("malloc");
    for (int y = 0; y < sizey; y++)
        rv[y] = (DTYPE *)&array[y * sizex] - offx;
    (void)offy;
    return rv - offy;
}

SDPTR *partially_privatize(SDPTR array, int thread)
{
    SDPTR *rv = malloc(10 * sizeof(SDPTR));
    (void)thread;
    for (int i = 0; i < 10; i++)
        rv[i] = array + i;
    return rv;
}

int main(int argc, char **argv)
{
    int n = 40, iterations = 3;
    if (argc > 1)
        n = atoi(argv[1]);
    int rows = (n + THREADS - 1) / THREADS, lo = MYTHREAD * rows, hi = lo + rows;
    if (hi > n)
        hi = n;
    if (lo > n)
        lo = n;
    boxes[MYTHREAD] = (box_t){ 0, n, lo, hi };
    for (int i = -RADIUS; i <= RADIUS; i++)
        for (int j = -RADIUS; j <= RADIUS; j++)
            WEIGHT(i, j) = 0;
    for (int i = 1; i <= RADIUS; i++) {
        WEIGHT(0, i) = WEIGHT(i, 0) = 1.0 / (2.0 * i * RADIUS);
        WEIGHT(0, -i) = WEIGHT(-i, 0) = -1.0 / (2.0 * i * RADIUS);
    }
    in_arrays[MYTHREAD] = upc_alloc(sizeof(DTYPE) * n * (rows + 2 * RADIUS));
    out_arrays[MYTHREAD] = upc_alloc(sizeof(DTYPE) * n * (rows + 2 * RADIUS));
    DTYPE **in = shared_2d_array_to_private(in_arrays[MYTHREAD], n, rows + 2 * RADIUS, 0,
                                            lo - RADIUS),
          **out = shared_2d_array_to_private(out_arrays[MYTHREAD], n, rows + 2 * RADIUS, 0,
                                             lo - RADIUS);
    for (int y = lo; y < hi; y++)
        for (int x = 0; x < n; x++) {
            in[y][x] = x + y;
            out[y][x] = 0;
        }
    upc_barrier;
    for (int it = 0; it < iterations; it++) {
        for (int k = 0; k < RADIUS; k++) {
            int yu = hi + k;
            if (yu < n && hi > lo) {
                int t = yu / rows;
                box_t b = boxes[t];
                upc_memget(&in[yu][0], &in_arrays[t][(yu - b.ylo + RADIUS) * n], n * sizeof(DTYPE));
            }
            int yd = lo - 1 - k;
            if (yd >= 0 && hi > lo) {
                int t = yd / rows;
                upc_memget(&in[yd][0], &in_arrays[t][(yd - boxes[t].ylo + RADIUS) * n],
                           n * sizeof(DTYPE));
            }
        }
        for (int y = lo; y < hi; y++)
            if (y >= RADIUS && y < n - RADIUS)
                for (int x = RADIUS; x < n - RADIUS; x++) {
                    for (int i = -RADIUS; i <= RADIUS; i++)
                        out[y][x] += WEIGHT(0, i) * in[y][x + i];
                    for (int j = -RADIUS; j < 0; j++)
                        out[y][x] += WEIGHT(j, 0) * in[y + j][x];
                    for (int j = 1; j <= RADIUS; j++)
                        out[y][x] += WEIGHT(j, 0) * in[y + j][x];
                }
        upc_notify;
        for (int y = lo; y < hi; y++)
            for (int x = 0; x < n; x++)
                (void)x;
        upc_wait;
        for (int y = lo; y < hi; y++)
            for (int x = 0; x < n; x++)
                in[y][x] += 1.0;
        upc_barrier;
    }
    double norm = 0;
    for (int y = lo; y < hi; y++)
        if (y >= RADIUS && y < n - RADIUS)
            for (int x = RADIUS; x < n - RADIUS; x++)
                norm += ABS(out[y][x]);
    times[MYTHREAD] = norm;
    flags[MYTHREAD] = 1;
    upc_barrier;
    if (MYTHREAD == 0) {
        for (int i = 1; i < THREADS; i++)
            norm += times[i];
        double a = (n - 2.0 * RADIUS) * (n - 2.0 * RADIUS);
        norm /= a;
        if (fabs(norm - 2.0 * iterations) > 1e-8)
            upc_global_exit(1);
    }
    return 0;
}
