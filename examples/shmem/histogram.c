/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A histogram over all PEs' memories on an OpenSHMEM-like library: atomic additions to words
 * anywhere, and, for the greatest value, a lock around more than one word.
 *
 *   amphora-run -n 4 examples/shmem/histogram [values for each PE]
 */
#include <stdio.h>
#include <stdlib.h>

#include "shmem.h"

enum {
    BINS_PER_PE = 100
};

/* What the lock guards, at PE 0. */
static long lock;
static struct {
    long value, owner, changes;
} greatest;

static long sums[2], totals[2], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE],
    sync_words[SHMEM_REDUCE_SYNC_SIZE];

static void tell_greatest(long value)
{
    long now[3];

    shmem_set_lock(&lock);
    shmem_getmem(now, &greatest, sizeof now, 0);

    if (value > now[0]) {
        now[0] = value;
        now[1] = shmem_my_pe();
    }

    now[2]++;
    shmem_putmem(&greatest, now, sizeof now, 0);
    shmem_clear_lock(&lock);
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 5000;

    shmem_init();

    int me = shmem_my_pe();
    int n = shmem_n_pes();
    unsigned long *bins = shmem_calloc(BINS_PER_PE, sizeof *bins);
    unsigned int state = (unsigned int)me * 12345 + 1;
    long best = 0;

    if (!bins || count < 0)
        shmem_global_exit(1);

    for (long i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;

        long bin = (long)((state >> 16) % (unsigned int)(BINS_PER_PE * n));

        shmem_atomic_inc(&bins[bin % BINS_PER_PE], (int)(bin / BINS_PER_PE));
        sums[0] += bin;
        best = bin > best ? bin : best;
    }

    shmem_barrier_all();
    for (int i = 0; i < 3; i++)
        tell_greatest(best);

    shmem_barrier_all();

    long high = 0;

    for (int i = 0; i < BINS_PER_PE; i++) {
        sums[1] += (long)bins[i] * (me * BINS_PER_PE + i);
        high = bins[i] ? me * BINS_PER_PE + i : high;
    }

    shmem_long_sum_to_all(totals, sums, 2, 0, 0, n, work, sync_words);
    if (me == 0) {
        if (totals[0] != totals[1] || greatest.changes != 3L * n) {
            fprintf(stderr, "histogram: %ld went in, %ld came out; %ld changes under the lock\n",
                    totals[0], totals[1], greatest.changes);
            shmem_global_exit(1);
        }

        printf("histogram: %ld values in %d bins; the greatest, %ld, is PE %ld's\n", count * n,
               BINS_PER_PE * n, greatest.value, greatest.owner);
    }

    shmem_barrier_all();
    if (count && high && shmem_long_g(&greatest.value, 0) < high)
        shmem_global_exit(1);

    shmem_finalize();
    return 0;
}
