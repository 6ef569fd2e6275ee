/* SPDX-License-Identifier: BSD-3-Clause; expect: cannot be compared */
#include <upc_relaxed.h>
shared int a[THREADS];
int x;
int main() { return a == &x; } /* here */
