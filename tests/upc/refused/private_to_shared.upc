/* SPDX-License-Identifier: BSD-3-Clause; expect: cannot become the pointer to shared */
#include <upc_relaxed.h>
int x;
int main() { shared int *p = &x; } /* here */
