/* SPDX-License-Identifier: BSD-3-Clause; expect: no association of _Generic is known to fit 'shared int \*' */
#include <upc_relaxed.h>
shared int *p;
int main() { return _Generic(p, int *: 1, shared [] int *: 2, shared const int *: 3); } /* here */
