/* SPDX-License-Identifier: BSD-3-Clause; expect: upc_addrfield and upc_threadof give numbers */
#include <upc_relaxed.h>
shared int a[THREADS];
int main() { long n = (long)&a[0]; } /* here */
