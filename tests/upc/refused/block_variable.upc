/* SPDX-License-Identifier: BSD-3-Clause; expect: a block size must be a constant */
#include <upc_relaxed.h>
int n;
shared [n] int a[THREADS]; /* here */
