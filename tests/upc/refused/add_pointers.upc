/* SPDX-License-Identifier: BSD-3-Clause; expect: does not fit 'shared int \*' and 'shared int \*' */
#include <upc_relaxed.h>
shared int a[THREADS];
int main() { shared int *p = a + a; } /* here */
