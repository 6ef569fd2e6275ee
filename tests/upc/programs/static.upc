/* SPDX-License-Identifier: BSD-3-Clause */
/* For a number of threads known to the compiler (-T 3). */
#include <upc_relaxed.h>
#include "check.h"
#ifndef __UPC_STATIC_THREADS__
#error "compile with -T"
#endif
#define N 10

shared [N / THREADS] int a[N];
shared [*] int b[N];
int private_table[THREADS];
shared int three[THREADS] = { 10, 11, 12 };

int main()
{
    int i;
    _Static_assert(THREADS == 3 && sizeof private_table == 12, "THREADS is a constant");
    upc_forall (i = 0; i < N; i++; &a[i])
        a[i] = b[i] = i;
    upc_barrier;
    for (i = 0; i < N; i++) {
        CHECK(a[i] == i && b[i] == i);
        CHECK(upc_threadof(&a[i]) == i / 3 % 3 && upc_threadof(&b[i]) == i / 4);
    }
    switch (MYTHREAD) {
    case THREADS - 1:
        CHECK(three[2] == 12);
    }
    return 0;
}
