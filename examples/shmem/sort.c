/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sample sort on an OpenSHMEM-like library: samples of all keys give the borders, every PE reserves
 * room at the others by an atomic addition, puts its keys there, and sorts what it has got.
 *
 *   amphora-run -n 4 examples/shmem/sort [keys for each PE]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem.h"

enum {
    SAMPLES = 64
};

static long filled;                  /* keys that have come here */
static long sync_a[SHMEM_SYNC_SIZE]; /* zero, as it is to be */
static uint64_t sum_in, sum_out, sum_all[2];
static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t next_key(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = (*state ^ *state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);

    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) >> 16;
}

/* Borders between the PEs' shares: npes - 1 of them, the same everywhere. */
static uint64_t *borders(const uint64_t *keys, size_t count)
{
    int n = shmem_n_pes();
    uint64_t *mine = shmem_malloc(SAMPLES * sizeof *mine);
    uint64_t *all = shmem_malloc((size_t)n * SAMPLES * sizeof *all);

    if (!mine || !all)
        shmem_global_exit(1);

    for (int i = 0; i < SAMPLES; i++)
        mine[i] = keys[(size_t)i * count / SAMPLES];

    shmem_barrier_all();
    shmem_fcollect64(all, mine, SAMPLES, 0, 0, n, sync_a);
    qsort(all, (size_t)n * SAMPLES, sizeof *all, by_value);
    for (int i = 1; i < n; i++)
        all[i - 1] = all[i * SAMPLES];

    return all;
}

static int share_of(const uint64_t *border, int n, uint64_t key)
{
    int low = 0;
    int high = n - 1;

    while (low < high) {
        int middle = (low + high) / 2;

        if (key < border[middle])
            high = middle;
        else
            low = middle + 1;
    }

    return low;
}

/* Puts the keys, which are in order, into the shares' rooms. */
static void deal(const uint64_t *keys, size_t count, const uint64_t *border, uint64_t *room,
                 size_t room_size)
{
    int n = shmem_n_pes();

    for (size_t i = 0, end; i < count; i = end) {
        int pe = share_of(border, n, keys[i]);

        for (end = i; end < count && share_of(border, n, keys[end]) == pe;)
            end++;

        size_t at = (size_t)shmem_long_atomic_fetch_add(&filled, (long)(end - i), pe);

        if (at + (end - i) > room_size) {
            fprintf(stderr, "sort: the keys are too uneven: PE %d has room for %zu only\n", pe,
                    room_size);
            shmem_global_exit(1);
        }

        shmem_uint64_put_nbi(room + at, keys + i, end - i, pe);
    }

    shmem_barrier_all();
}

/* What sums of keys are compared by: small enough that the sum over all PEs is no more than a
 * long. */
static uint64_t fingerprint(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* Are all keys there, in order, also from PE to PE? */
static int check(const uint64_t *room)
{
    int me = shmem_my_pe();
    int n = shmem_n_pes();
    int bad = 0;

    for (long i = 0; i < filled; i++) {
        sum_out += fingerprint(room[i]);
        bad |= i && room[i - 1] > room[i];
    }

    for (int pe = me + 1; pe < n && filled; pe++) {
        long there = shmem_long_g(&filled, pe);

        if (there) {
            bad |= shmem_uint64_g(room, pe) < room[filled - 1];
            break;
        }
    }

    shmem_barrier_all();
    shmem_long_sum_to_all((long *)&sum_all[0], (long *)&sum_in, 1, 0, 0, n, work, sync_a);
    shmem_long_sum_to_all((long *)&sum_all[1], (long *)&sum_out, 1, 0, 0, n, work, sync_a);

    return bad || sum_all[0] != sum_all[1];
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? (size_t)atol(argv[1]) : 20000;

    shmem_init();
    if (count < SAMPLES || count > (size_t)1 << 28) {
        fprintf(stderr, "usage: sort [keys for each PE, at least %d]\n", SAMPLES);
        shmem_global_exit(2);
    }

    size_t room_size = count * 3 + 1024;
    uint64_t *keys = malloc(count * sizeof *keys);
    uint64_t *room = shmem_malloc(room_size * sizeof *room);
    uint64_t state = (uint64_t)shmem_my_pe() * 7919;

    if (!keys || !room) {
        fprintf(stderr,
                "sort: no memory for %zu keys; SHMEM_SYMMETRIC_SIZE sets the symmetric heap\n",
                count);
        shmem_global_exit(1);
    }

    for (size_t i = 0; i < count; i++)
        sum_in += fingerprint(keys[i] = next_key(&state));

    qsort(keys, count, sizeof *keys, by_value);

    uint64_t *border = borders(keys, count);

    deal(keys, count, border, room, room_size);
    qsort(room, (size_t)filled, sizeof *room, by_value);
    shmem_barrier_all();

    if (check(room)) {
        fprintf(stderr, "sort: PE %d: the keys are not in order, or not all there\n",
                shmem_my_pe());
        shmem_global_exit(1);
    }

    if (shmem_my_pe() == 0)
        printf("sort: %zu keys in order, %ld of them at PE 0\n", count * (size_t)shmem_n_pes(),
               filled);

    shmem_finalize();
    return 0;
}
