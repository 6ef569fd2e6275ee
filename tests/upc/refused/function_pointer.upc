/* SPDX-License-Identifier: BSD-3-Clause; expect: does not go with */
#include <upc_relaxed.h>
int f(shared int *p);
int main() { int (*g)(int *) = f; } /* here */
