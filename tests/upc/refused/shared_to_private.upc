/* SPDX-License-Identifier: BSD-3-Clause; expect: becomes the private 'int \*' by a cast only */
#include <upc_relaxed.h>
shared int a[THREADS];
int main() { int *p = &a[MYTHREAD]; } /* here */
