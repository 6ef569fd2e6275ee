/* SPDX-License-Identifier: BSD-3-Clause; expect: an array cannot be assigned to */
#include <upc_relaxed.h>
shared int a[2][THREADS];
int main() { a[0] = a[1]; } /* here */
