/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's optional parts, each called once or twice in UPC's own words. */
#include <upc_relaxed.h>
#include <upc_atomic.h>
#include <upc_castable.h>
#include <upc_collective.h>
#include <upc_nb.h>
#include <upc_tick.h>
#include "check.h"
#define ALL (UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC)

shared long counter;
shared [4] int blocks[4 * THREADS], other[4 * THREADS];
shared int one_each[THREADS];
shared [5] double keys[5 * THREADS];

static int by_value(shared void *a, shared void *b)
{
    double x = *(shared double *)a, y = *(shared double *)b;
    return (x > y) - (x < y);
}

static void atomics(void)
{
    upc_atomicdomain_t *d = upc_all_atomicdomain_alloc(UPC_LONG, UPC_ADD | UPC_INC | UPC_GET | UPC_CSWAP, 0);
    long two = 2, before = -1, now, zero = 0;
    upc_atomic_relaxed(d, NULL, UPC_ADD, &counter, &two, NULL);
    upc_atomic_strict(d, &before, UPC_INC, &counter, NULL, NULL);
    CHECK(before >= 2 && before <= 3 * THREADS - 1);
    upc_barrier;
    upc_atomic_relaxed(d, &now, UPC_GET, &counter, NULL, NULL);
    CHECK(now == 3 * THREADS && counter == now);
    upc_barrier;
    if (MYTHREAD == THREADS - 1) {
        upc_atomic_strict(d, &before, UPC_CSWAP, &counter, &now, &zero);
        CHECK(before == now && counter == 0);
    }
    upc_all_atomicdomain_free(d);
}

static void copies(void)
{
    int i, next = (MYTHREAD + 1) % THREADS, mine[4];
    for (i = 0; i < 4; i++)
        blocks[4 * MYTHREAD + i] = 10 * MYTHREAD + i;
    upc_barrier;
    upc_handle_t h = upc_memget_nb(mine, &blocks[4 * next], sizeof mine);
    upc_sync(h);
    CHECK(mine[3] == 10 * next + 3);
    upc_memput_nbi(&other[4 * next], mine, sizeof mine);
    upc_synci();
    upc_barrier;
    CHECK(other[4 * MYTHREAD + 1] == 10 * MYTHREAD + 1);
    upc_memcpy(&other[4 * MYTHREAD], &blocks[4 * next], 2 * sizeof(int));
    CHECK(other[4 * MYTHREAD] == 10 * next && other[4 * MYTHREAD + 2] == 10 * MYTHREAD + 2);
    upc_memset(&other[4 * MYTHREAD], 0, 4 * sizeof(int));
    CHECK(other[4 * MYTHREAD + 3] == 0);
    CHECK(upc_affinitysize(sizeof other, 16, MYTHREAD) == 16 && upc_addrfield(other) != 0);
    CHECK(upc_phaseof(&other[6]) == 2 && upc_phaseof(upc_resetphase(&other[6])) == 0);
    upc_thread_info_t info = upc_thread_info(MYTHREAD);
    CHECK(info.guaranteedCastable & UPC_CASTABLE_STATIC);
}

static void collectives(void)
{
    int i;
    one_each[MYTHREAD] = MYTHREAD;
    upc_barrier;
    for (i = 0; i < 5; i++)
        keys[5 * MYTHREAD + i] = (MYTHREAD * 37 + i * 11) % 23;
    upc_all_sort(keys, sizeof(double), 5 * THREADS, 5, by_value, ALL);
    for (i = 1; i < 5 * THREADS; i++)
        CHECK(keys[i - 1] <= keys[i]);
    shared [4] int *all = upc_all_alloc(THREADS, 4 * sizeof(int) * THREADS);
    upc_all_gather_all(all, blocks, 4 * sizeof(int), ALL);
    shared [] int *my_part = (shared [] int *)&((shared int *)all)[MYTHREAD];
    for (i = 0; i < 4 * THREADS; i++)
        CHECK(my_part[i] == blocks[i]);
    upc_barrier;
    upc_all_free(all);
}

int main()
{
    atomics();
    copies();
    upc_barrier;
    collectives();
    return 0;
}
