/* SPDX-License-Identifier: BSD-3-Clause */
/* Which iterations of upc_forall a thread runs, in which order, and where the variable ends: beside a plain loop that tests each. */
#include <limits.h>
#include <upc_relaxed.h>

#include "check.h"

#define N 103
shared int a[N * THREADS];
shared [3] short b[N * THREADS];
shared [] char c[N];
shared [N] double d[N * THREADS];
shared [5] int m[N * THREADS][2];
static unsigned long long seen;
static int calls, global;
volatile int moving;

static void visit(long long i) { seen = seen * 1000003 + (unsigned long long)i + 7; }
static int counted(int i) { calls++; return i; }
static int mine(long long i) { return ((i % THREADS) + THREADS) % THREADS == MYTHREAD; }
static int at(shared void *p) { return (int)upc_threadof(p) == MYTHREAD; }

#define SAME(V, INIT, COND, INC, AFFINITY, MINE) \
    { \
        unsigned long long first, end; \
        seen = 0; \
        upc_forall (INIT; COND; INC; AFFINITY) \
            visit((long long)V); \
        first = seen; \
        end = (unsigned long long)V; \
        seen = 0; \
        for (INIT; COND; INC) \
            if (MINE) \
                visit((long long)V); \
        CHECK(first == seen && end == (unsigned long long)V); \
    }

static void numbers(int n)
{
    int i;
    long l;
    unsigned u;
    size_t z;
    short s;
    enum { LAST = 50 };
    SAME(i, i = 0, i < n, i++, i, mine(i))
    SAME(i, i = 1, i <= n, ++i, i, mine(i))
    SAME(i, i = n, i > 0, i--, i, mine(i))
    SAME(i, i = n, i >= 0, --i, i, mine(i))
    SAME(i, i = n - 1, i >= 2, i -= 1, (i), mine(i))
    SAME(i, i = 0, i < n * THREADS, i += 1, i % THREADS, mine(i))
    SAME(i, i = MYTHREAD, i < LAST, i = i + 1, i, mine(i))
    SAME(i, i = LAST, i > n / 2, i = i - 1, i, mine(i))
    SAME(i, i = n, i < n, i++, i, mine(i))
    SAME(i, i = n + 3, i < n, i++, i, mine(i))
    SAME(i, i = -20, i < n, i++, i, mine(i))
    SAME(i, i = -20, i < -3, i++, i, mine(i))
    SAME(i, i = 20, i > -20, i--, i, mine(i))
    SAME(i, i = INT_MAX - 10, i < INT_MAX, i++, i, mine(i))
    SAME(l, l = LONG_MAX - 10, l < LONG_MAX, l++, l, mine(l))
    SAME(l, l = 0, l < (n + 1) * 2, l++, l, mine(l))
    SAME(u, u = 3, u < UINT_MAX && u < (unsigned)n, u++, u, mine(u))
    SAME(u, u = UINT_MAX - 5, u < UINT_MAX, u++, u, mine(u))
    SAME(u, u = (unsigned)n, u > 2, u--, u, mine(u))
    SAME(z, z = 0, z < (size_t)n, z++, z, mine((long long)z))
    SAME(z, z = 9, z > 1, z--, z, mine((long long)z))
    SAME(s, s = 0, s < n, s++, s, mine(s))
    unsigned limit = (unsigned)n; /* signed and unsigned: -3 is a great number */
    SAME(i, i = -3, i < limit, i++, i, mine(i))
    SAME(i, i = 0, i < limit, i++, i, mine(i))
    SAME(i, i = 0, (unsigned)i < UINT_MAX && i < n, i++, i, mine(i))
}

/* Steps of other lengths, and affinities that grow by other amounts than the variable. */
static void other_steps(int n)
{
    int i, two = 2, none = 0, k = 5;
    unsigned u;
    size_t z;
    SAME(i, i = 0, i < n, i += 2, i, mine(i))
    SAME(i, i = 1, i <= n, i += two, i, mine(i))
    SAME(i, i = n, i > 0, i -= 3, i, mine(i))
    SAME(i, i = n, i >= 0, i = i - two, i, mine(i))
    SAME(i, i = 0, i < n, i = i + 7, i % THREADS, mine(i))
    SAME(i, i = MYTHREAD, i < n, i += THREADS, i, mine(i))
    SAME(i, i = -11, i < n, i += 4, i, mine(i))
    SAME(i, i = INT_MAX - 11, i < INT_MAX - 5, i += 2, i, mine(i))
    SAME(u, u = 3, u < (unsigned)n, u += 5, u, mine(u))
    SAME(u, u = UINT_MAX - 9, u < UINT_MAX - 3, u += 3, u + 7, mine(u + 7)) /* it wraps */
    SAME(i, i = 0, i < n, i++, 2 * i, mine(2 * i))
    SAME(i, i = 0, i < n, i++, i * k + 1, mine(i * k + 1))
    SAME(i, i = 0, i < n, i++, n - i, mine(n - i))
    SAME(i, i = n, i >= 0, i -= two, 3 - (i - k) * 2, mine(3 - (i - k) * 2))
    SAME(i, i = 0, i < n, i++, i * 3 % THREADS, mine(i * 3 % THREADS))
    SAME(i, i = 0, i < n, i++, (i + 1) % THREADS, mine(i + 1))
    SAME(i, i = 0, i < n, i++, i + 1 % THREADS, mine(i + 1 % THREADS))
    SAME(i, i = 0, i < n, i++, i * none, mine(0))
    SAME(i, i = 0, i < n, i++, i * THREADS + 1, mine(1))
    SAME(i, i = 0, i < n, i++, i - i + 2, mine(2))
    SAME(i, i = 0, i < n / 2, i++, &a[2 * i], at(&a[2 * i]))
    SAME(i, i = 0, i < n, i += two, &b[i], at(&b[i]))
    SAME(i, i = 1, i < n, i += 4, &b[i - 1], at(&b[i - 1]))
    SAME(i, i = n - 1, i >= 0, i -= 2, &b[i], at(&b[i]))
    SAME(i, i = 0, i < n, i++, &b[n - i], at(&b[n - i]))
    SAME(i, i = 0, i < n, i += 5, b + (n - i), at(b + (n - i)))
    SAME(i, i = 0, i < n, i += 40, &d[i], at(&d[i]))
    SAME(i, i = 0, i < n, i += 3, &c[i], at(&c[i]))
    SAME(z, z = 0, z < (size_t)n / 3, z++, &b[z * 3], at(&b[z * 3]))
    upc_forall (i = 0; i < n; i += two; i) { /* the length and the growth change */
        CHECK(mine(i));
        two = two % 4 + 1;
    }
    int count = 0, want = 0, f = 1;
    upc_forall (i = 0; i < n; i++; i + f) { /* what stands still in the head changes in the body */
        count += i;
        f++;
    }
    f = 1;
    for (i = 0; i < n; i++)
        if (mine(i + f)) {
            want += i;
            f++;
        }
    CHECK(count == want);
    count = want = 0;
    f = 1;
    upc_forall (i = 0; i < n; i++; f * i) {
        CHECK(mine(f * i));
        count += i;
        f++;
    }
    f = 1;
    for (i = 0; i < n; i++)
        if (mine(f * i)) {
            want += i;
            f++;
        }
    CHECK(count == want);
}

/* What is done in its plain form: effects, unequal. */
static void plain_forms(int n)
{
    int i, k = 0;
    SAME(i, i = 0, i != n, i++, i, mine(i))
    SAME(i, i = 0, i < 12.5, i++, i, mine(i))
    SAME(i, i = 0, i < n - i, i++, i, mine(i))
    SAME(i, i = 0, i < n, i++, i / 4, mine(i / 4))
    SAME(i, i = 0, i < n, i++, i * THREADS / N, mine(i * THREADS / N))
    SAME(global, global = 0, global < n, global++, global, mine(global))
    SAME(moving, moving = 0, moving < n, moving++, moving, mine(moving))
    calls = 0;
    upc_forall (i = 0; i < n; i++; counted(i))
        CHECK(mine(i));
    CHECK(calls == n);
    calls = 0;
    upc_forall (i = 0; i < counted(n); i++; i)
        CHECK(mine(i));
    CHECK(calls == n + 1);
    upc_forall (i = 0; i < n; i++; k++)
        CHECK(mine(i));
    CHECK(k == n);
    k = 0;
    upc_forall (i = 0; i < n; i++, k++; i)
        CHECK(mine(i) && k == i);
    CHECK(k == n);
}

static void pointers(int n)
{
    int i;
    shared int *p = &a[THREADS + 1];
    shared [3] short *q = &b[4];
    SAME(i, i = 0, i < n, i++, &a[i], at(&a[i]))
    SAME(i, i = n - 1, i >= 0, i--, &a[i], at(&a[i]))
    SAME(i, i = 0, i < n, i++, a + i, at(a + i))
    SAME(i, i = 0, i < n, i++, &b[i], at(&b[i]))
    SAME(i, i = n - 1, i > 0, i--, &b[i], at(&b[i]))
    SAME(i, i = 1, i < n, i++, &b[i - 1], at(&b[i - 1]))
    SAME(i, i = n - 1, i >= 1, i--, &b[i + 1], at(&b[i + 1]))
    SAME(i, i = 0, i < n, i++, &c[i], at(&c[i]))
    SAME(i, i = n - 1, i >= 0, i--, &c[i], at(&c[i]))
    SAME(i, i = 0, i < n * THREADS, i++, &d[i], at(&d[i]))
    SAME(i, i = n * THREADS - 1, i >= 0, i--, &d[i], at(&d[i]))
    SAME(i, i = 0, i < n - THREADS - 1, i++, &p[i], at(&p[i]))
    SAME(i, i = -THREADS, i < n - THREADS - 1, i++, p + i, at(p + i))
    SAME(i, i = 0, i < n - 4, i++, &q[i], at(&q[i]))
    SAME(i, i = n - 5, i >= -4, i--, q + i, at(q + i))
    SAME(i, i = 0, i < n, i++, &m[i][0], at(&m[i][0]))
    SAME(i, i = 0, i < n, i++, &m[i][1], at(&m[i][1]))
    SAME(i, i = 0, i < n, i++, a[i], mine(0))
}

static void bodies(int n)
{
    int count = 0, want = 0, i;
    upc_forall (int k = 0; k < n; k++; k) {
        if (k % 3 == 0)
            continue;
        if (k > 80)
            break;
        count += k;
    }
    for (int k = 0, out = 0; k < n && !out; k++)
        if (mine(k) && k % 3 && !(out = k > 80))
            want += k;
    CHECK(count == want);
    count = want = 0;
    upc_forall (i = 0; i < n; i++; i) { /* the body changes the variable */
        count += i;
        i += 2;
    }
    for (i = 0; i < n; i++)
        if (mine(i)) {
            want += i;
            i += 2;
        }
    CHECK(count == want);
    count = 0;
    upc_forall (i = 0; i < n; i++; &b[i]) { /* those inside choose nothing */
        CHECK(at(&b[i]));
        upc_forall (int k = 0; k < 5; k++; k)
            count++;
        upc_forall (int k = 5; k > 0; k--; &a[k])
            count += 10;
    }
    want = 0;
    for (i = 0; i < n; i++)
        want += at(&b[i]) ? 55 : 0;
    CHECK(count == want);
}

int main(void)
{
    upc_forall (int i = 0; i < N * THREADS; i++; &a[i])
        a[i] = 0;
    upc_barrier;
    for (int n = 0; n <= N; n += n < 10 ? 1 : 31) {
        numbers(n);
        other_steps(n);
        plain_forms(n);
    }
    pointers(N);
    bodies(N);
    long long far = 1000000000000LL * THREADS, count = 0;
    upc_forall (long long i = 0; i < far; i++; &c[i]) /* none is: to try them all would take a day */
        count++, i = far;
    CHECK(count == (MYTHREAD == 0));
    count = 0;
    upc_forall (long long i = 0; i < far; i += 3; &c[i])
        count++, i = far;
    CHECK(count == (MYTHREAD == 0));
    count = 0;
    upc_forall (long long i = 0; i < far; i += 2; i * THREADS + 1)
        count++, i = far;
    CHECK(count == (MYTHREAD == 1 % THREADS));
    upc_barrier;
    return 0;
}
