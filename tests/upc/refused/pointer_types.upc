/* SPDX-License-Identifier: BSD-3-Clause; expect: does not go with 'shared float \*' */
#include <upc_relaxed.h>
shared int a[THREADS];
shared float *p;
int main() { p = a; } /* here */
