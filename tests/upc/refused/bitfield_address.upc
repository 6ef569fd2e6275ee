/* SPDX-License-Identifier: BSD-3-Clause; expect: a bit-field has no address */
#include <upc_relaxed.h>
struct s { unsigned a : 3; };
shared struct s x;
int main() { shared void *p = &x.a; } /* here */
