/* SPDX-License-Identifier: BSD-3-Clause; expect: the shared object 'x' cannot be automatic */
#include <upc_relaxed.h>
int main() { shared int x; } /* here */
