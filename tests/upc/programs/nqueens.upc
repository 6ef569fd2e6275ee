/* SPDX-License-Identifier: BSD-3-Clause */
/* How many ways to place eight queens: the first two rows are dealt out. */
#include <upc_strict.h>
#include "check.h"
#define N 8

shared int solutions[THREADS];

static int place(int row, unsigned columns, unsigned left, unsigned right)
{
    int found = 0, c;
    if (row == N)
        return 1;
    for (c = 0; c < N; c++) {
        unsigned bit = 1u << c;
        if (!((columns | left | right) & bit))
            found += place(row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}

int main()
{
    int job, total = 0, t;
    upc_forall (job = 0; job < N * N; job++; job) {
        unsigned a = 1u << job / N, b = 1u << job % N;
        if ((a | a << 1 | a >> 1) & b)
            continue;
        solutions[MYTHREAD] += place(2, a | b, (a << 1 | b) << 1, (a >> 1 | b) >> 1);
    }
    upc_barrier;
    for (t = 0; t < THREADS; t++)
        total += solutions[t];
    CHECK(total == 92);
    return 0;
}
