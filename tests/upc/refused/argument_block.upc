/* SPDX-License-Identifier: BSD-3-Clause; expect: argument: 'shared \[\] int \*' does not go with */
#include <upc_relaxed.h>
void f(shared int *p);
void g(shared [] int *p) { f(p); } /* here */
