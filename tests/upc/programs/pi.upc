/* SPDX-License-Identifier: BSD-3-Clause */
/* Pi by throwing darts, as the tutorials have it, and by integration under a lock. */
#include <upc_relaxed.h>
#include <math.h>
#include <stdlib.h>
#include "check.h"
#define INTERVALS 100000

shared int hits;
shared int all_hits[THREADS];
shared double pi;

int hit()
{
    double x = rand() / (double)RAND_MAX, y = rand() / (double)RAND_MAX;
    return x * x + y * y <= 1.0 ? 1 : 0;
}

int main(int argc, char *argv[])
{
    int i, my_hits = 0, trials = argc > 1 ? atoi(argv[1]) : 40000, my_trials = (trials + THREADS - 1 - MYTHREAD) / THREADS;
    upc_lock_t *hit_lock = upc_all_lock_alloc();
    srand(MYTHREAD * 17);
    for (i = 0; i < my_trials; i++)
        my_hits += hit();
    all_hits[MYTHREAD] = my_hits;
    upc_lock(hit_lock);
    hits += my_hits;
    upc_unlock(hit_lock);
    double local = 0, h = 1.0 / INTERVALS;
    upc_forall (i = 0; i < INTERVALS; i++; i)
        local += 4.0 / (1.0 + (i + 0.5) * h * ((i + 0.5) * h));
    upc_lock(hit_lock);
    pi += local * h;
    upc_unlock(hit_lock);
    upc_barrier;
    int sum = 0;
    for (i = 0; i < THREADS; i++)
        sum += all_hits[i];
    CHECK(sum == hits);
    CHECK(fabs(4.0 * hits / trials - M_PI) < 0.1);
    CHECK(fabs(pi - M_PI) < 1e-9);
    upc_barrier;
    if (MYTHREAD == 0)
        upc_lock_free(hit_lock);
    return 0;
}
