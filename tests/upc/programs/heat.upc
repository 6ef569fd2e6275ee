/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat conduction in one, two and three dimensions, each against the same steps done alone. */
#include <upc_relaxed.h>
#include <math.h>
#include <string.h>
#include "check.h"
#define N 8
#define L (N * THREADS)

shared [N] double u[N * THREADS], unew[N * THREADS];
shared [N * N] double grid[N * THREADS][N], next[N * THREADS][N];
shared [N * N] double space[2][THREADS][N][N];
shared double dt_max[THREADS];
shared double residual;
upc_lock_t *lock;

static double v[2][N * 8 + 2][N + 2][N + 2];

static void one(void)
{
    int i, t;
    static double w[2][N * 8];
    upc_forall (i = 0; i < L; i++; &u[i])
        u[i] = i == 0 ? 100 : 0;
    memset(w, 0, sizeof w);
    w[0][0] = w[1][0] = 100;
    upc_barrier;
    for (t = 0; t < 50; t++) {
        upc_forall (i = 0; i < L; i++; &u[i])
            unew[i] = i == 0 || i == L - 1 ? u[i] : u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
        for (i = 1; i < L - 1; i++)
            w[!(t & 1)][i] = w[t & 1][i] + 0.25 * (w[t & 1][i - 1] - 2 * w[t & 1][i] + w[t & 1][i + 1]);
        upc_barrier;
        upc_forall (i = 0; i < L; i++; &u[i])
            u[i] = unew[i];
        upc_barrier;
    }
    for (i = 0; i < L; i++)
        CHECK(u[i] == w[0][i]);
}

/* Pointers to rows are swapped, and the largest change is found. */
static void two(void)
{
    int i, j, t;
    shared [N * N] double(*from)[N] = grid, (*to)[N] = next, (*swap)[N];
    static double w[2][N * 8][N];
    upc_forall (i = 0; i < L; i++; &grid[i][0])
        for (j = 0; j < N; j++)
            grid[i][j] = next[i][j] = j == 0 ? 10.0 : 0.0;
    for (i = 0; i < L; i++)
        w[0][i][0] = w[1][i][0] = 10.0;
    upc_barrier;
    for (t = 0; t < 30; t++) {
        double most = 0;
        upc_forall (i = 1; i < L - 1; i++; &to[i][0])
            for (j = 1; j < N - 1; j++) {
                to[i][j] = (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]) / 4;
                double d = fabs(to[i][j] - from[i][j]);
                most = d > most ? d : most;
            }
        dt_max[MYTHREAD] = most;
        upc_barrier;
        for (i = 0, most = 0; i < THREADS; i++)
            most = dt_max[i] > most ? dt_max[i] : most;
        double alone = 0;
        for (i = 1; i < L - 1; i++)
            for (j = 1; j < N - 1; j++) {
                double(*s)[N] = w[t & 1], (*d)[N] = w[!(t & 1)];
                d[i][j] = (s[i - 1][j] + s[i + 1][j] + s[i][j - 1] + s[i][j + 1]) / 4;
                alone = fmax(alone, fabs(d[i][j] - s[i][j]));
            }
        CHECK(most == alone);
        swap = from;
        from = to;
        to = swap;
        upc_barrier;
    }
    for (i = 0; i < L; i++)
        for (j = 0; j < N; j++)
            CHECK(from[i][j] == w[0][i][j]);
}

static void three(void)
{
    /* A plane of N x N points for each thread: [2][THREADS][N][N] is in blocks of a plane. */
    int i, j, k, t, from = 0;
    upc_forall (i = 0; i < THREADS; i++; &space[0][i][0][0])
        for (j = 0; j < N; j++)
            for (k = 0; k < N; k++)
                space[0][i][j][k] = space[1][i][j][k] = i + j * k;
    memset(v, 0, sizeof v);
    for (i = 0; i < THREADS; i++)
        for (j = 0; j < N; j++)
            for (k = 0; k < N; k++)
                v[0][i + 1][j + 1][k + 1] = v[1][i + 1][j + 1][k + 1] = i + j * k;
    upc_barrier;
    for (t = 0; t < 10; t++, from = 1 - from) {
        upc_forall (i = 0; i < THREADS; i++; &space[1 - from][i][0][0])
            for (j = 1; j < N - 1; j++)
                for (k = 1; k < N - 1; k++) {
                    double below = i ? space[from][i - 1][j][k] : 0, above = i < THREADS - 1 ? space[from][i + 1][j][k] : 0;
                    space[1 - from][i][j][k] = (below + above + space[from][i][j - 1][k]
                                                    + space[from][i][j + 1][k] + space[from][i][j][k - 1] +
                                                space[from][i][j][k + 1]) / 6;
                }
        for (i = 1; i <= THREADS; i++)
            for (j = 2; j < N; j++)
                for (k = 2; k < N; k++)
                    v[1 - from][i][j][k] = (v[from][i - 1][j][k] + v[from][i + 1][j][k] + v[from][i][j - 1][k] + v[from][i][j + 1][k] +
                                            v[from][i][j][k - 1] + v[from][i][j][k + 1]) / 6;
        upc_barrier;
    }
    for (i = 0; i < THREADS; i++)
        for (j = 0; j < N; j++)
            for (k = 0; k < N; k++)
                CHECK(space[from][i][j][k] == v[from][i + 1][j + 1][k + 1]);
    /* A sum under a lock. */
    double mine = 0;
    upc_forall (i = 0; i < THREADS; i++; i)
        for (j = 0; j < N; j++)
            mine += space[from][i][j][j];
    upc_lock(lock);
    residual += mine;
    upc_unlock(lock);
    upc_barrier;
    double all = 0;
    for (i = 0; i < THREADS; i++)
        for (j = 0; j < N; j++)
            all += space[from][i][j][j];
    CHECK(fabs(residual - all) < 1e-9);
}

int main()
{
    lock = upc_all_lock_alloc();
    one();
    two();
    three();
    upc_barrier;
    if (MYTHREAD == 0)
        upc_lock_free(lock);
    return 0;
}
