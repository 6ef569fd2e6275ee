/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector addition over several layouts, by each way to share the work. */
#include <upc_relaxed.h>
#include "check.h"
#define N (100 * THREADS)

shared int v1[100 * THREADS], v2[100 * THREADS], sum[100 * THREADS];
shared [10] double b1[100 * THREADS], b2[100 * THREADS], bsum[100 * THREADS];
shared [*] float s1[100 * THREADS], s2[100 * THREADS], ssum[100 * THREADS];
shared [] long i1[50], i2[50], isum[50];
shared [7] short o1[33 * THREADS], osum[33 * THREADS];

int main()
{
    int i;
    upc_forall (i = 0; i < N; i++; i) {
        v1[i] = i;
        v2[i] = 2 * i + 1;
    }
    upc_forall (i = 0; i < N; i++; &b1[i]) {
        b1[i] = i / 2.0;
        b2[i] = i;
    }
    for (i = 0; i < N; i++)
        if (upc_threadof(&s1[i]) == MYTHREAD) {
            s1[i] = i;
            s2[i] = -3.0f * i;
        }
    if (MYTHREAD == 0)
        for (i = 0; i < 50; i++) {
            i1[i] = i;
            i2[i] = 1000000000000L * i;
        }
    upc_forall (i = 0; i < 33 * THREADS; i++; continue)
        if (i % THREADS == MYTHREAD)
            o1[i] = i - 7;
    upc_barrier;

    for (i = MYTHREAD; i < N; i += THREADS)
        sum[i] = v1[i] + v2[i];
    upc_forall (i = 0; i < N; i++; &bsum[i])
        bsum[i] = b1[i] + b2[i];
    upc_forall (i = 0; i < N; i++; &ssum[i])
        ssum[i] = s1[i] + s2[i];
    shared [] long *p1 = i1, *p2 = i2, *ps = isum;
    if (MYTHREAD == THREADS - 1)
        for (i = 0; i < 50; i++, p1++, p2++, ps++)
            *ps = *p1 + *p2;
    shared [7] short *q;
    i = 0;
    upc_forall (q = o1; q < o1 + 33 * THREADS; q++; q)
        osum[q - o1] = *q * 2;
    upc_barrier;

    for (i = 0; i < N; i++) {
        CHECK(sum[i] == 3 * i + 1);
        CHECK(bsum[i] == i / 2.0 + i);
        CHECK(ssum[i] == i - 3.0f * i);
        CHECK(upc_threadof(&sum[i]) == i % THREADS);
        CHECK(upc_threadof(&bsum[i]) == i / 10 % THREADS);
        CHECK(upc_phaseof(&bsum[i]) == i % 10);
        CHECK(upc_threadof(&ssum[i]) == i / 100);
    }
    for (i = 0; i < 50; i++)
        CHECK(isum[i] == 1000000000001L * i);
    for (i = 0; i < 33 * THREADS; i++)
        CHECK(osum[i] == (short)(2 * (i - 7)));
    CHECK(upc_blocksizeof(bsum) == 10 && upc_blocksizeof(ssum) == 100 && upc_blocksizeof(sum) == 1 && upc_blocksizeof(isum) == 0);
    CHECK(sizeof(bsum) == 800 * THREADS && upc_localsizeof(sum) == 400 && upc_elemsizeof(o1) == 2);
    upc_barrier;
    if (MYTHREAD == 0)
        printf("vectors ok\n");
    return 0;
}
