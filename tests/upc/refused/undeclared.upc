/* SPDX-License-Identifier: BSD-3-Clause; expect: 'y' is not declared */
#include <upc_relaxed.h>
shared int x;
int main() { x = y; } /* here */
