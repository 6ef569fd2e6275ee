/* SPDX-License-Identifier: BSD-3-Clause; expect: does not fit 'shared int \*' and 'int' */
#include <upc_relaxed.h>
shared int a[THREADS];
int main() { return (a * 2) != 0; } /* here */
