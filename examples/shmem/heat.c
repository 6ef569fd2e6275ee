/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a square plate on an OpenSHMEM-like library: each PE has a band of rows, puts its
 * outermost ones into its neighbours' halos, tells them so by a flag and waits for theirs; no
 * barrier in the loop.  PE 0 writes the plate as a picture (PGM) by plain fopen.
 *
 *   amphora-run -n 4 examples/shmem/heat [size [steps [file]]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "shmem.h"

struct plate {
    int size, rows, first; /* of the plate; of this PE's band: how many and which is the first */
    double *now, *next;    /* (rows + 2) x size, the outer rows are the neighbours' */
};

/* How many steps the neighbours' rows in the halo are from: variables of the program are symmetric,
 * too. */
static long have_above, have_below;

static void start(struct plate *p, int size)
{
    int me = shmem_my_pe();
    int n = shmem_n_pes();
    int most = (size + n - 1) / n;

    p->size = size;
    p->first = me * size / n;
    p->rows = (me + 1) * size / n - p->first;
    p->now = shmem_calloc((size_t)(most + 2) * (size_t)size, sizeof(double));
    p->next = shmem_calloc((size_t)(most + 2) * (size_t)size, sizeof(double));

    if (!p->now || !p->next) {
        fprintf(
            stderr,
            "heat: the symmetric heap is too small for this plate; SHMEM_SYMMETRIC_SIZE sets it\n");
        shmem_global_exit(1);
    }

    for (int r = 0; r <= p->rows + 1; r++) /* the halo, too */
        for (int c = size / 4; c < size * 3 / 4; c++)
            if (p->first + r - 1 >= size / 4 && p->first + r - 1 < size / 2)
                p->now[r * size + c] = p->next[r * size + c] = 1;

    shmem_barrier_all();
}

/* Row `row` of the band goes into row `to` of pe's band in the next plate; then the flag. */
static void hand_over(const struct plate *p, int row, int to, int pe, long *flag)
{
    shmem_putmem(p->next + (size_t)to * (size_t)p->size, p->next + (size_t)row * (size_t)p->size,
                 (size_t)p->size * sizeof(double), pe);
    shmem_fence();
    shmem_atomic_inc(flag, pe);
}

static int rows_of(int size, int pe)
{
    int n = shmem_n_pes();
    return (pe + 1) * size / n - pe * size / n;
}

static void step(struct plate *p, long number)
{
    int me = shmem_my_pe();
    int last = shmem_n_pes() - 1;
    int n = p->size;

    for (int r = 1; r <= p->rows; r++) {
        int row = p->first + r - 1;

        if (row == 0 || row == n - 1)
            continue;

        for (int c = 1; c < n - 1; c++) {
            const double *at = p->now + (size_t)r * (size_t)n + c;
            p->next[(size_t)r * (size_t)n + c] = 0.25 * (at[-1] + at[1] + at[-n] + at[n]);
        }
    }

    if (me > 0)
        hand_over(p, 1, rows_of(n, me - 1) + 1, me - 1, &have_below);

    if (me < last)
        hand_over(p, p->rows, 0, me + 1, &have_above);

    if (me > 0)
        shmem_wait_until(&have_above, SHMEM_CMP_GE, number);

    if (me < last)
        shmem_wait_until(&have_below, SHMEM_CMP_GE, number);

    double *was = p->now;

    p->now = p->next;
    p->next = was;
}

static double total(const struct plate *p)
{
    static double mine, all, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    static long sync[SHMEM_REDUCE_SYNC_SIZE];

    mine = 0;
    for (int r = 1; r <= p->rows; r++)
        for (int c = 0; c < p->size; c++)
            mine += p->now[r * p->size + c];

    shmem_double_sum_to_all(&all, &mine, 1, 0, 0, shmem_n_pes(), work, sync);
    return all;
}

static int draw(const struct plate *p, const char *name)
{
    FILE *f = fopen(name, "wb");

    if (!f) {
        perror(name);
        return 1;
    }

    double *row = malloc((size_t)p->size * sizeof *row);
    if (!row)
        return 1;

    fprintf(f, "P5\n%d %d\n255\n", p->size, p->size);
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        for (int r = 1; r <= rows_of(p->size, pe); r++) {
            shmem_getmem(row, p->now + (size_t)r * (size_t)p->size, (size_t)p->size * sizeof *row,
                         pe);
            for (int c = 0; c < p->size; c++)
                fputc((int)(255 * sqrt(row[c]) + 0.5), f);
        }

    free(row);
    if (ferror(f) | fclose(f)) {
        perror(name);
        return 1;
    }

    return 0;
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 128;
    int steps = argc > 2 ? atoi(argv[2]) : 200;
    struct plate plate;

    shmem_init();
    if (size < shmem_n_pes() || size > 20000 || steps < 0) {
        if (shmem_my_pe() == 0)
            fprintf(stderr, "usage: heat [size [steps [file]]]; size at least the number of PEs\n");

        shmem_global_exit(2);
    }

    start(&plate, size);
    for (long i = 1; i <= steps; i++)
        step(&plate, i);

    shmem_barrier_all();

    double heat = total(&plate);
    int bad = 0;

    if (shmem_my_pe() == 0) {
        printf("heat: %dx%d, %d steps, %d PEs: total %.12f\n", size, size, steps, shmem_n_pes(),
               heat);
        bad = argc > 3 && draw(&plate, argv[3]);
    }

    if (bad)
        shmem_global_exit(1);

    shmem_finalize();
    return 0;
}
