/* SPDX-License-Identifier: BSD-3-Clause */
/* A dot product by the library's reductions, and its moving collectives. */
#include <upc_relaxed.h>
#include <upc_collective.h>
#include "check.h"
#define EACH 20

shared [EACH] double x[EACH * THREADS], y[EACH * THREADS], xy[EACH * THREADS];
shared double result;
shared int ones[THREADS], prefix[THREADS];
shared [] int source[4];
shared [4] int copy[4 * THREADS];

static int larger_of(int a, int b)
{
    return a > b ? a : b;
}

int main()
{
    int i;
    upc_forall (i = 0; i < EACH * THREADS; i++; &x[i]) {
        x[i] = i + 1;
        y[i] = 2;
        xy[i] = x[i] * y[i];
    }
    ones[MYTHREAD] = MYTHREAD + 1;
    if (MYTHREAD == 0)
        for (i = 0; i < 4; i++)
            source[i] = 100 + i;
    upc_all_reduceD(&result, xy, UPC_ADD, EACH * THREADS, EACH, NULL, UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC);
    double n = EACH * THREADS;
    CHECK(result == n * (n + 1));
    upc_all_prefix_reduceI(prefix, ones, UPC_ADD, THREADS, 1, NULL, UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC);
    for (i = 0; i < THREADS; i++)
        CHECK(prefix[i] == (i + 1) * (i + 2) / 2);
    shared int *most = (shared int *)upc_all_alloc(1, sizeof(int));
    upc_all_reduceI(most, ones, UPC_FUNC, THREADS, 1, larger_of, UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC);
    CHECK(*most == THREADS);
    upc_all_broadcast(copy, source, 4 * sizeof(int), UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC);
    for (i = 0; i < 4 * THREADS; i++)
        CHECK(copy[i] == 100 + i % 4);
    upc_barrier;
    upc_all_free(most);
    return 0;
}
