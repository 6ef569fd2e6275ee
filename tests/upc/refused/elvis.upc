/* SPDX-License-Identifier: BSD-3-Clause; expect: with a pointer to shared is not translated */
#include <upc_relaxed.h>
shared int *p, *q;
int main() { shared int *r = p ?: q; } /* here */
