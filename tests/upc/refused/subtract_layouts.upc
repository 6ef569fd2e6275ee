/* SPDX-License-Identifier: BSD-3-Clause; expect: point to different layouts */
#include <upc_relaxed.h>
shared int a[THREADS];
shared [2] int b[2 * THREADS];
int main() { return a - b; } /* here */
