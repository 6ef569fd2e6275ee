/* SPDX-License-Identifier: BSD-3-Clause */
/* Sample sort into buckets of shared memory that each thread allocates, against qsort. */
#include <upc_relaxed.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"
#define EACH 200

typedef struct {
    int count;
    shared [] int *keys;
} bucket_t;

shared [EACH] int keys[EACH * THREADS];
shared bucket_t buckets[THREADS][THREADS]; /* [to][from] */
shared int splitters[THREADS];
shared int sizes[THREADS];
shared [] int *shared sorted[THREADS];

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    int i, j, *mine = (int *)&keys[MYTHREAD * EACH];
    srand(MYTHREAD + 1);
    for (i = 0; i < EACH; i++)
        mine[i] = rand() % 10000;
    upc_barrier;
    int *all = malloc(sizeof(int) * EACH * THREADS);
    for (i = 0; i < THREADS; i++)
        upc_memget(all + i * EACH, &keys[i * EACH], EACH * sizeof(int));
    if (MYTHREAD == 0) {
        int *sample = malloc(sizeof(int) * EACH * THREADS);
        memcpy(sample, all, sizeof(int) * EACH * THREADS);
        qsort(sample, EACH * THREADS, sizeof(int), compare);
        for (i = 0; i < THREADS; i++)
            splitters[i] = i == THREADS - 1 ? 1 << 30 : sample[(i + 1) * EACH - 1];
        free(sample);
    }
    upc_barrier;
    for (j = 0; j < THREADS; j++) {
        int low = j ? splitters[j - 1] : -1, high = splitters[j], n = 0;
        shared [] int *p = (shared [] int *)upc_alloc(EACH * sizeof(int));
        for (i = 0; i < EACH; i++)
            if (mine[i] > low && mine[i] <= high)
                p[n++] = mine[i];
        buckets[j][MYTHREAD].count = n;
        buckets[j][MYTHREAD].keys = p;
    }
    upc_barrier;
    int total = 0;
    for (i = 0; i < THREADS; i++)
        total += buckets[MYTHREAD][i].count;
    sizes[MYTHREAD] = total;
    sorted[MYTHREAD] = upc_alloc((total + 1) * sizeof(int));
    int *out = (int *)sorted[MYTHREAD], *end = out;
    for (i = 0; i < THREADS; i++) {
        bucket_t b = buckets[MYTHREAD][i];
        upc_memget(end, b.keys, b.count * sizeof(int));
        end += b.count;
    }
    qsort(out, total, sizeof(int), compare);
    upc_barrier;
    if (MYTHREAD == THREADS - 1) {
        qsort(all, EACH * THREADS, sizeof(int), compare);
        for (i = 0, total = 0; i < THREADS; i++)
            for (j = 0; j < sizes[i]; j++)
                CHECK(sorted[i][j] == all[total++]);
        CHECK(total == EACH * THREADS);
    }
    upc_barrier;
    for (j = 0; j < THREADS; j++)
        upc_free(buckets[j][MYTHREAD].keys);
    upc_free(sorted[MYTHREAD]);
    free(all);
    return 0;
}
