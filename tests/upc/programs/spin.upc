/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that waits for a relaxed flag of its own memory, in whatever kind of loop, hears of what others write there. */
#include <upc_relaxed.h>
#include "check.h"

shared int flag[THREADS];

static int value(void)
{
    return flag[MYTHREAD];
}

static int nothing(int n)
{
    return n;
}

static void by_while(int n)
{
    while (flag[MYTHREAD] < n)
        ;
}

static void by_do(int n)
{
    int v;
    do {
        v = flag[MYTHREAD];
    } while (v < n);
}

static void by_for(int n)
{
    for (;;)
        if (flag[MYTHREAD] >= n)
            return;
}

static void by_counting(int n)
{
    long turns;
    for (turns = 0; flag[MYTHREAD] < n; turns++)
        ;
    CHECK(turns >= 0);
}

static void by_goto(int n)
{
again:
    if (flag[MYTHREAD] < n)
        goto again;
}

static void by_call(int n)
{
    while (value() < n)
        nothing(n);
}

static void by_private_pointer(int n)
{
    volatile int *mine = (volatile int *)&flag[MYTHREAD];
    while (*mine < n) {}
}

static void nested(int n)
{
    if (MYTHREAD >= 0)
        while (1)
            while (flag[MYTHREAD] != 0) {
                if (flag[MYTHREAD] >= n)
                    return;
            }
    else
        CHECK(0);
}

int main(void)
{
    static void (*const wait_for[])(int) = { by_while, by_do, by_for, by_counting, by_goto, by_call, by_private_pointer, nested };
    const int kinds = sizeof wait_for / sizeof *wait_for;
    for (int i = 1; i <= 3 * kinds; i++) { /* round the ring: all but one wait, and do nothing else */
        if (MYTHREAD == 0)
            flag[1 % THREADS] = i;
        wait_for[i % kinds](i);
        CHECK(flag[MYTHREAD] == i);
        if (MYTHREAD != 0)
            flag[(MYTHREAD + 1) % THREADS] = i;
    }
    upc_barrier;
    return 0;
}
