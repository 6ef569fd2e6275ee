/* SPDX-License-Identifier: BSD-3-Clause; expect: does not fit */
#include <upc_relaxed.h>
shared int *p;
int main() { return p << 1; } /* here */
