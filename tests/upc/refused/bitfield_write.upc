/* SPDX-License-Identifier: BSD-3-Clause; expect: writing a bit-field of a shared structure is not translated */
#include <upc_relaxed.h>
struct s { unsigned a : 3, b : 5; };
shared struct s x;
int main() { x.a = 1; } /* here */
