/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that spins on a strict flag of its own memory hears of what others write there: over a network their writes need its process. */
#include <upc_relaxed.h>
#include "check.h"

#define TURNS 50

strict shared int flag[THREADS];
shared int data[THREADS];

static void wait_for(int value)
{
    while (flag[MYTHREAD] < value)
        ;
    CHECK(data[MYTHREAD] == 3 * value);
}

static void tell(int thread, int value)
{
    data[thread] = 3 * value;
    flag[thread] = value;
}

int main(void)
{
    for (int i = 1; i <= TURNS; i++) { /* round the ring: all but one wait, and do nothing else */
        if (MYTHREAD == 0)
            tell(1 % THREADS, i);
        wait_for(i);
        if (MYTHREAD != 0)
            tell((MYTHREAD + 1) % THREADS, i);
    }
    upc_barrier;
    return 0;
}
