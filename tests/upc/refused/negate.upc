/* SPDX-License-Identifier: BSD-3-Clause; expect: '-' needs a number */
#include <upc_relaxed.h>
shared int *p;
int main() { return -p; } /* here */
