/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposition element by element, by blocks with upc_memget, and in place. */
#include <upc_relaxed.h>
#include "check.h"
#define B 4
#define N (B * THREADS)

shared [B * B * THREADS] int a[B * THREADS][B * THREADS], t[B * THREADS][B * THREADS], t2[B * THREADS][B * THREADS];

int main()
{
    int i, j, k;
    upc_forall (i = 0; i < N; i++; &a[i][0])
        for (j = 0; j < N; j++)
            a[i][j] = i * 1000 + j;
    upc_barrier;
    upc_forall (i = 0; i < N; i++; &t[i][0])
        for (j = 0; j < N; j++)
            t[i][j] = a[j][i];
    int block[B][B], *mine = (int *)&t2[MYTHREAD * B][0];
    for (k = 0; k < THREADS; k++) {
        for (i = 0; i < B; i++)
            upc_memget(block[i], &a[k * B + i][MYTHREAD * B], B * sizeof(int));
        for (i = 0; i < B; i++)
            for (j = 0; j < B; j++)
                mine[i * N + k * B + j] = block[j][i];
    }
    upc_barrier;
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            CHECK(t[i][j] == j * 1000 + i && t2[i][j] == t[i][j]);
    upc_barrier;
    upc_forall (i = 0; i < N; i++; &a[i][0])
        for (j = 0; j < i; j++) {
            int x = a[i][j];
            a[i][j] = a[j][i];
            a[j][i] = x;
        }
    upc_barrier;
    upc_forall (i = 0; i < N * N; i++; i)
        CHECK(a[i / N][i % N] == t[i / N][i % N]);
    return 0;
}
