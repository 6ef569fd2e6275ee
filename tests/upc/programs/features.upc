/* SPDX-License-Identifier: BSD-3-Clause */
/* One of each: what else UPC sources contain. */
#include <upc_relaxed.h>
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tgmath.h>
#include <unistd.h>
#include <upc_castable.h>
#include <upc_tick.h>
#include "check.h"

shared int A[10 * THREADS];
shared [4] double M[8][THREADS];
strict shared int flag;
relaxed shared int loose;
shared int five = 5;
shared char text[6 * THREADS];
shared int init[4] = { 1, 2, [3] = 4 };
typedef struct {
    int a, b;
    char name[8];
    unsigned bits : 3;
} pair;
typedef shared [] pair *pair_ptr;
shared [] pair pairs[8];
shared pair one = { 3, 4, "one", 5 };
shared int *p0 = &A[3];
shared int *shared p1 = &A[2];
static shared int *table[3] = { A, NULL, &A[2] };
struct holder {
    shared int *where;
    shared [] double *deep[2];
    int (*compare)(shared int *, int);
};
union either {
    int i;
    float f;
};
shared union either u[THREADS];
enum color { RED, GREEN = 5, BLUE } shared_less = BLUE;
shared enum color colour = GREEN;
shared double complex z;
shared long double wide[THREADS];
int *shared to_private[THREADS];

static shared int *step(shared int *p, int n)
{
    return p + n;
}
static int same(shared int *p, int value)
{
    return *p == value;
}
static int sum(int n, ...)
{
    va_list ap;
    int s = 0;
    va_start(ap, n);
    while (n--)
        s += *va_arg(ap, shared int *);
    va_end(ap);
    return s;
}
static int counted(void)
{
    static shared int calls[THREADS];
    static shared int *last = &A[1];
    calls[MYTHREAD]++;
    last++;
    return calls[MYTHREAD] * 100 + (last - A);
}
static int collatz(int n) { return n == 1 ? 0 : 1 + collatz(n % 2 ? 3 * n + 1 : n / 2); }

/* Only the outermost upc_forall that names an affinity chooses. */
static int inner(void)
{
    int n = 0;
    upc_forall (int i = 0; i < 10; i++; i)
        n++;
    return n;
}
static int leaves(int at)
{
    upc_forall (int i = 0; i < THREADS; i++; i)
        if (i == MYTHREAD)
            return i + at;
    return -1;
}

static void operators(void)
{
    int j;
    A[3] = 9, A[2] = 4, A[1] = 1;
    A[3] += 4;
    A[2]++;
    ++A[1];
    j = A[1]--;
    CHECK(j == 2 && A[1] == 1 && A[2] == 5 && A[3] == 13);
    A[0] = A[4] = 12;
    CHECK(A[0] == 12 && A[4] == 12 && (A[5] = 6, A[5]) == 6);
    A[5] <<= 2, A[5] |= 1, A[5] ^= 3, A[5] %= 16, A[5] *= -1;
    CHECK(A[5] == -10 && -A[5] == 10 && !A[6] && ~A[5] == 9 && (A[5] ? 1 : 0));
    A[A[1]] = 3;
    CHECK(A[1] == 3 && *(A + 1) == 3 && sizeof(A[1]++) == 4 && A[1] == 3);
    shared int *p = A, *q = &A[5];
    CHECK(q - p == 5 && p < q && q >= p && p != q && p == A && !(p > q));
    p++, p += 2, --p, p = 1 + p - 1;
    CHECK(p == &A[2] && p[1] == 13 && p[-1] == 3 && *p++ == 5 && *--p == 5 && &p[3] == q && (p ? 1 : 0) && !!p);
    for (shared int *r = A, *e = A + 3; r < e; r++)
        j += *r;
    CHECK(j == 2 + 12 + 3 + 5);
    while (A[0] > 10)
        A[0]--;
    do
        A[0]++;
    while (A[0] < 20);
    CHECK(A[0] == 20 && *step(A, 2) == 5 && sum(2, &A[0], A + 2) == 25);
    p = j ? NULL : A;
    CHECK(p == NULL && !p && p == 0 && NULL == p && (shared void *)p == NULL);
    text[3] = 'x', text[4] = text[3] + 1;
    CHECK(text[4] == 'y' && sizeof text == 6 * THREADS && sizeof(shared int) == 4);
    M[1][0] = 2.5, M[2][0] = M[1][0] * 2, M[2][0] /= 4;
    CHECK(M[2][0] == 1.25 && sizeof(M[0]) == 8 * THREADS && sizeof M == 64 * THREADS);
}

static void structures(void)
{
    pair pr = { 1, 2, "pr", 1 };
    pairs[3] = pr, pairs[3].a = 9, pairs[3].name[1] = 'q';
    pr = pairs[3];
    CHECK(pr.a == 9 && pairs[3].b == 2 && strcmp(pr.name, "pq") == 0 && pairs[3].bits == 1);
    pair_ptr pp = pairs;
    (pp + 3)->b++, pp[3].a -= 2, (*(pp + 3)).name[0]++;
    CHECK(pairs[3].b == 3 && pairs[3].a == 7 && pairs[3].name[0] == 'q');
    pp = &pairs[2], pp++;
    CHECK(pp->a == 7 && &pp->b == &pairs[3].b && pp - pairs == 3);
    CHECK(one.a == 3 && one.b == 4 && one.name[2] == 'e' && one.bits == 5);
    struct holder h = { &A[2], { NULL, 0 }, same };
    CHECK(h.compare(h.where, 5) && *h.where == 5 && !h.deep[1]);
    h.where++, *h.where = 77;
    CHECK(A[3] == 77);
    struct holder *hp = &h;
    hp->where = p0, *hp->where += 1;
    CHECK(A[3] == 78 && *p0 == 78 && *p1 == 5 && *table[2] == 5 && table[1] == NULL && table[0] == A);
    p1++, *p1 = 6;
    CHECK(A[3] == 6);
    u[MYTHREAD].f = 1.0f;
    CHECK(u[MYTHREAD].i == 0x3f800000);
    z = 1 + 2 * I;
    CHECK(creal(z * z) == -3 && cabs(z) > 2.2 && sqrt(2.0f) == sqrtf(2.0f));
    wide[0] = 1.5L, wide[0] += 1;
    CHECK(wide[0] == 2.5L && colour == GREEN && five == 5 && init[1] == 2 && init[2] == 0 && init[3] == 4 && shared_less == BLUE);
    int mine = 3;
    to_private[MYTHREAD] = &mine, *to_private[MYTHREAD] += 1, (*to_private[MYTHREAD])++;
    CHECK(mine == 5);
    struct tm_like {
        int x;
        shared struct later *next;
    } local = { 1, NULL };
    CHECK(local.next == NULL && ({ int t = A[2]; t + 1; }) == 6);
    int *cast = (int *)&A[0];
    cast[0] = 21;
    CHECK(A[0] == 21 && upc_cast(&A[0]) == cast);
    shared [] int *flat = (shared [] int *)&A[0];
    CHECK(*flat == 21 && upc_phaseof((shared [5] int *)&A[2]) == 0 && sizeof(struct holder) == 8 * 4);
}

static void loops(void)
{
    int i, n = 0, all = 0, mine = 0;
    upc_forall (i = 0; i < 2 * THREADS; i++; i)
        n += inner();
    CHECK(n == 20 && inner() == (10 + THREADS - 1 - MYTHREAD) / THREADS);
    upc_forall (i = 0; i < THREADS; i++; continue)
        all += 1 + 0 * inner();
    upc_forall (i = 0; i < THREADS; i++;)
        upc_forall (int k = 0; k < THREADS; k++; &A[k])
            mine++;
    CHECK(all == THREADS && mine == THREADS && leaves(4) == MYTHREAD + 4);
    n = 0;
    upc_forall (i = 10 * THREADS; i > 0; i--; i) {
        if (n == 3)
            break;
        n++;
    }
    CHECK(n == 3 && inner() == (10 + THREADS - 1 - MYTHREAD) / THREADS);
    n = 0;
    upc_forall (i = -5 * THREADS; i < 0; i++; i)
        n++;
    CHECK(n == 5);
    if (MYTHREAD >= 0)
        upc_forall (i = 0; i < 4; i++; continue) if (i) n++;
    else
        n = 100;
    CHECK(n == 103 && collatz(27) == 111);
    i = 0;
again:
    switch (A[2]) {
    case 5:
        i++;
        if (i < 3)
            goto again;
        break;
    default:
        i = -1;
    }
    CHECK(i == 3);
}

static void modes(void)
{
#pragma upc strict
    int seen;
    {
#pragma upc relaxed
        loose = 1;
    }
    if (MYTHREAD == 0)
        flag = 1;
    while (!flag)
        ;
    seen = flag;
    CHECK(seen == 1);
    upc_notify 3;
    upc_wait 3;
    upc_barrier MYTHREAD * 0 + 4;
    upc_fence;
    upc_tick_t begin = upc_ticks_now(), end = upc_ticks_now();
    CHECK(upc_ticks_to_ns(end - begin) < 60000000000u);
}

/* As before 1989. */
static double knr_sum();

static int knr_element(p, n, row)
    shared int *p;
    int n;
    shared [3] int row[];
{
    return p[n] + row[n];
}

static double knr_sum(a, p)
    double a;
    shared int *p;
{
    return a + *p;
}

shared int knr_a[3 * THREADS];
shared [3] int knr_b[3 * THREADS];

static void knr(void)
{
    for (int i = 0; i < 3; i++) {
        knr_a[i] = 10 + i;
        knr_b[i] = 100 * i;
    }
    CHECK(knr_element(knr_a, 2, knr_b) == 212);
    CHECK(knr_sum(0.5, &knr_a[1]) == 11.5);
}

int main(int argc, char **argv, char **envp)
{
    CHECK(argc == 1 && envp != NULL);
    upc_barrier;
    if (MYTHREAD == THREADS - 1)
        operators();
    upc_barrier;
    if (MYTHREAD == 0) {
        structures();
        knr();
    }
    upc_barrier;
    loops();
    modes();
    CHECK(counted() == 102 && counted() == 203);
    upc_barrier;
    return EXIT_SUCCESS;
}
