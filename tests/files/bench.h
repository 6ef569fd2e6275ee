/* SPDX-License-Identifier: BSD-3-Clause */
/* Times calls, for the programs of trap_figures.sh and mount_figures.sh, which compile them by themselves. */
#ifndef AMPH_TESTS_BENCH_H
#define AMPH_TESTS_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints "NAME NANOSECONDS": the median of the rounds (an odd number, up to 63), each the mean of that many calls.
 * call is given the number of the call in its round; before (or NULL) runs before each round, untimed. */
static inline void bench(const char *name, int rounds, int calls, void (*call)(int i),
                         void (*before)(void))
{
    double mean[63];

    for (int r = 0; r < rounds; r++) {
        if (before)
            before();

        double begin = bench_now_ns();

        for (int i = 0; i < calls; i++)
            call(i);

        mean[r] = (bench_now_ns() - begin) / calls;
    }

    qsort(mean, (size_t)rounds, sizeof *mean, bench_compare);
    printf("%s %.0f\n", name, mean[rounds / 2]);
}

#endif
