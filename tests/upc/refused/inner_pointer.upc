/* SPDX-License-Identifier: BSD-3-Clause; expect: does not go with */
#include <upc_relaxed.h>
shared int *p;
int **q;
int main() { q = &p; } /* here */
