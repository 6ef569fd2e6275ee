/* SPDX-License-Identifier: BSD-3-Clause; expect: a const shared object cannot be written */
#include <upc_relaxed.h>
const shared int a[THREADS];
int main() { a[0] = 1; } /* here */
