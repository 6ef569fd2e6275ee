/* SPDX-License-Identifier: BSD-3-Clause; expect: cannot become the pointer to shared */
#include <upc_relaxed.h>
int main() { shared int *p = (shared int *)&main; } /* here */
