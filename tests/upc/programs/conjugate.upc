/* SPDX-License-Identifier: BSD-3-Clause */
/* Conjugate gradients in the manner of the NAS benchmarks: directories of blocks, sums under a
 * lock, structures with arrays. */
#include <stdio.h>

#include <stdlib.h>
#include <math.h>
#include <upc_relaxed.h>
#include <upc_collective.h>
#ifndef NA
#define NA 64
#endif
#define NZ (NA * 3)
#define BLK ((NA + THREADS - 1) / THREADS)
typedef struct {
    double re, im;
} dcomplex;
typedef struct cg_data {
    int start, end;
    double d;
    double v[NA];
} cg_data_t;
typedef shared[] double *sdptr;
shared sdptr colptr[THREADS];
shared[] double *shared x_dir[THREADS];
shared cg_data_t cgd[THREADS];
shared double norms[2][THREADS];
shared double sum_s;
upc_lock_t *sum_lock;
shared dcomplex u0[THREADS][8];
static double *x_l, a_l[NZ];
static int row[NA + 1], col[NZ];

double reduce_sum(double v)
{
    static shared double total;
    upc_barrier;
    if (MYTHREAD == 0)
        total = 0.0;
    upc_barrier 1;
    upc_lock(sum_lock);
    total += v;
    upc_unlock(sum_lock);
    upc_barrier 2;
    return total;
}

void spmv(shared[] double *const *p, double *y, int s, int e)
{
    (void)p;
    for (int i = s; i < e; i++) {
        double t = 0;
        for (int k = row[i]; k < row[i + 1]; k++) {
            int c = col[k];
            int th = c / BLK;
            t += a_l[k] * x_dir[th][c - th * BLK];
        }
        y[i - s] = t;
    }
}

int main(int argc, char **argv)
{
    int i, it;
    double *p, *q, *r, *z;
    (void)argc;
    (void)argv;
    sum_lock = upc_all_lock_alloc();
    x_dir[MYTHREAD] = (shared[] double *)upc_alloc(BLK * sizeof(double));
    colptr[MYTHREAD] = x_dir[MYTHREAD];
    upc_barrier;
    x_l = (double *)x_dir[MYTHREAD];
    int s = MYTHREAD * BLK, e = s + BLK;
    if (s > NA)
        s = NA;
    if (e > NA)
        e = NA;
    int n = e - s;
    cgd[MYTHREAD].start = s;
    cgd[MYTHREAD].end = e;
    for (i = 0; i < NA; i++) {
        row[i] = 3 * i > 0 ? 3 * i : 0;
    }
    row[NA] = NZ;
    for (i = 0; i < NA; i++) {
        col[3 * i] = i ? i - 1 : 0;
        a_l[3 * i] = i ? -1 : 0;
        col[3 * i + 1] = i;
        a_l[3 * i + 1] = 4;
        col[3 * i + 2] = i < NA - 1 ? i + 1 : i;
        a_l[3 * i + 2] = i < NA - 1 ? -1 : 0;
    }
    p = x_l;
    q = calloc(BLK, 8);
    r = calloc(BLK, 8);
    z = calloc(BLK, 8);
    double rho = 0;
    for (i = 0; i < n; i++) {
        r[i] = p[i] = 1;
        rho += 1;
    }
    rho = reduce_sum(rho);
    for (it = 0; it < 30 && rho > 1e-20; it++) {
        upc_barrier;
        spmv(NULL, q, s, e);
        double d = 0;
        for (i = 0; i < n; i++)
            d += p[i] * q[i];
        d = reduce_sum(d);
        double alpha = rho / d, r0 = rho;
        rho = 0;
        for (i = 0; i < n; i++) {
            z[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            rho += r[i] * r[i];
        }
        rho = reduce_sum(rho);
        double beta = rho / r0;
        upc_barrier;
        for (i = 0; i < n; i++)
            p[i] = r[i] + beta * p[i];
    }
    double sz = 0;
    for (i = 0; i < n; i++)
        sz += z[i];
    norms[0][MYTHREAD] = sz;
    dcomplex c = { 1.0 * MYTHREAD, 2.0 };
    u0[MYTHREAD][3] = c;
    u0[MYTHREAD][4].re = u0[MYTHREAD][3].im;
    upc_memget(&c, &u0[MYTHREAD][4], sizeof(dcomplex));
    upc_barrier;
    upc_all_reduceD((shared double *)&sum_s, (shared double *)&norms[0][0], UPC_ADD, THREADS, 1,
                    NULL, UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC);
    int bad = 0;
    if (fabs(sum_s - 31.633974596) > 1e-6 || c.re != 2.0)
        bad = 1;
    if (bad)
        fprintf(stderr, "sum %.9f after %d steps\n", sum_s, it);
    if (MYTHREAD == 0)
        upc_lock_free(sum_lock);
    return bad;
}
