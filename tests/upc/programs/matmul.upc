/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix multiplication: rows of a and c, columns of b lie with their threads. */
#include <upc_relaxed.h>
#include "check.h"
#define P 24
#define M 12

shared [P] int a[2 * THREADS][P];
shared [M] long c[2 * THREADS][M];
shared [M * P / THREADS] int b[P][M];
shared [2] int bt[P][M];

int main(void)
{
    int i, j, k, n = 2 * THREADS;
    upc_forall (i = 0; i < n; i++; &a[i][0])
        for (j = 0; j < P; j++)
            a[i][j] = i * P + j + 1;
    upc_forall (i = 0; i < P; i++; continue)
        for (j = 0; j < M; j++)
            if (upc_threadof(&b[i][j]) == MYTHREAD)
                b[i][j] = j % M + i;
    upc_forall (i = 0; i < P * M; i++; i)
        bt[i / M][i % M] = (i / M) - (i % M);
    upc_barrier;

    upc_forall (i = 0; i < n; i++; &c[i][0])
        for (j = 0; j < M; j++) {
            c[i][j] = 0;
            for (k = 0; k < P; k++)
                c[i][j] += (long)a[i][k] * b[k][j] + bt[k][j];
        }
    upc_barrier;
    /* Rows by pointers to arrays. */
    shared [M] long (*row)[M] = c;
    for (i = 0; i < n; i++, row++)
        for (j = 0; j < M; j++) {
            long want = 0;
            for (k = 0; k < P; k++)
                want += (long)(i * P + k + 1) * (j % M + k) + (k - j);
            CHECK(c[i][j] == want);
            CHECK((*row)[j] == want);
            CHECK(*(*(c + i) + j) == want);
        }
    CHECK(row - c == n);
    CHECK(sizeof c == sizeof(long) * M * n && sizeof(c[0]) == sizeof(long) * M);
    return 0;
}
