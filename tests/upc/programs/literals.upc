/* SPDX-License-Identifier: BSD-3-Clause */
/* Compound literals and braces that hold pointers-to-shared, __auto_type, and indices before the brackets. */
#include <upc_relaxed.h>
#include "check.h"

shared [2] int a[4 * THREADS];
shared int m[3][THREADS];
struct holder {
    shared [2] int *p;
    int v[3];
};
shared [2] int *whole = { &a[1] };
struct holder outer = { { a + 2 }, { 1, 2, 3 } };

static int first_of(shared [2] int **list)
{
    return *list[0];
}

static void literals(void)
{
    shared [2] int **at = &(shared [2] int *){ a + 2 };
    int sum = *(shared [2] int *){ &a[3] } + (shared [2] int *){ &a[3] }[0] + (shared [2] int *[]){ a, a + 1, &a[2] }[2][1];
    CHECK(sum == 9 && **at == 2);
    (*at)++;
    CHECK(**at == 3);
    sum = first_of((shared [2] int *[]){ a + 2, NULL }) + (struct holder){ .p = a + 1, .v = { 1, 2 } }.p[2];
    CHECK(sum == 5 && (&(struct holder){ a })->p[1] == 1);
    sum = (struct holder){ &a[2] }.v[1] + (int[]){ 1, 2, 3 }[1] + (int[]){ 4, 5 }[a[1]];
    CHECK(sum == 7 && !(shared [2] int *){ NULL } && !(shared [2] int *){ 0 });
}

static void braces(void)
{
    shared [2] int *one = { &a[3] }, *two[2] = { { a + 3 }, { NULL } };
    static shared [2] int *kept = { a + 3 };
    struct holder h = { { a + 1 }, { 1 } };
    CHECK(*one == 3 && *two[0] == 3 && !two[1] && *kept == 3 && h.p[2] == 3 && h.v[0] == 1);
    CHECK(*whole == 1 && *outer.p == 2 && outer.v[2] == 3);
}

static void automatic_types(void)
{
    int sum = 0;
    __auto_type p = &a[3];
    CHECK(*p == 3 && p[-1] == 2 && upc_phaseof(p) == 1);
    p++;
    CHECK(p - a == 4);
    __auto_type value = a[3];
    __auto_type other = a[2];
    value += other;
    CHECK(value == 5 && a[3] == 3);
    for (__auto_type r = a; r < a + 4; r++)
        sum += *r;
    CHECK(sum == 6);
}

static void indices(void)
{
    int k = 2, plain[3] = { 5, 6, 7 };
    CHECK(k[a] == 2 && 3[a] == 3 && (k + 1)[a + 0] == 3 && a[1][a] == 1 && k[m][THREADS - 1] == 3 * THREADS - 1 && 1[plain] == 6);
    upc_barrier;
    if (MYTHREAD == 0)
        k[a] = 7, 1[a]++, 0[m][0] += 5;
    upc_barrier;
    CHECK(a[2] == 7 && a[1] == 2 && m[0][0] == 5);
}

int main(void)
{
    upc_forall (int i = 0; i < 4 * THREADS; i++; &a[i])
        a[i] = i;
    upc_forall (int i = 0; i < 3 * THREADS; i++; i)
        (&m[0][0])[i] = i;
    upc_barrier;
    literals();
    braces();
    automatic_types();
    indices();
    upc_barrier;
    return 0;
}
