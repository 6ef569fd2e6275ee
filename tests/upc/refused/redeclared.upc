/* SPDX-License-Identifier: BSD-3-Clause; expect: is declared as 'shared \[2\] int \[\]' here and as 'shared int \[\]' */
#include <upc_relaxed.h>
extern shared int a[THREADS];
extern shared [2] int a[THREADS]; /* here */
