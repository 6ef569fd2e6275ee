/* SPDX-License-Identifier: BSD-3-Clause; expect: a parameter cannot be shared by itself */
#include <upc_relaxed.h>
int f(shared int x); /* here */
