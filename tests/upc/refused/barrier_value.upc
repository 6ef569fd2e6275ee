/* SPDX-License-Identifier: BSD-3-Clause; expect: the value of upc_barrier is an integer */
#include <upc_relaxed.h>
int main() { upc_barrier 1.5; } /* here */
