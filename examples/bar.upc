/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a metal bar: one end is kept at 100 degrees, the other one at 0, and the bar begins cold.  Each thread computes its own block
 * of the bar.  The temperatures that are printed come near a straight line from 100 to 0.
 *
 *     amphora-upcc -O2 bar.upc -o bar -lm && amphora-upcrun -n 4 ./bar
 */
#include <upc_relaxed.h>
#include <math.h>
#include <stdio.h>

#define BLOCK 16
#define POINTS (BLOCK * THREADS)
#define STEPS_MAX 200000

shared [BLOCK] double now[BLOCK * THREADS];
shared [BLOCK] double next[BLOCK * THREADS];
shared double change[THREADS];

/* One time step.  Returns the largest change of a point of this thread. */
static double step(void)
{
    double largest = 0;

    upc_forall (int i = 0; i < POINTS; i++; &now[i]) {
        if (i == 0 || i == POINTS - 1)
            continue;

        next[i] = 0.5 * now[i] + 0.25 * (now[i - 1] + now[i + 1]);
        largest = fmax(largest, fabs(next[i] - now[i]));
    }

    upc_barrier; /* all threads have read their neighbours' points */

    upc_forall (int i = 0; i < POINTS; i++; &now[i])
        if (i != 0 && i != POINTS - 1)
            now[i] = next[i];

    return largest;
}

/* The largest change of all threads. */
static double largest_change(double mine)
{
    double largest = 0;

    change[MYTHREAD] = mine;
    upc_barrier;
    for (int t = 0; t < THREADS; t++)
        largest = fmax(largest, change[t]);

    upc_barrier; /* before a thread writes its change of the next step */
    return largest;
}

int main(void)
{
    int steps = 0;

    upc_forall (int i = 0; i < POINTS; i++; &now[i])
        now[i] = i == 0 ? 100 : 0;

    upc_barrier;
    while (steps < STEPS_MAX && largest_change(step()) > 1e-4)
        steps++;

    if (MYTHREAD == 0) {
        printf("%d threads, %d points, %d steps\n", THREADS, POINTS, steps);
        for (int i = 0; i < POINTS; i += BLOCK)
            printf("%4d %7.3f\n", i, now[i]);
    }

    return 0;
}
