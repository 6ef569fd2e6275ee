/* SPDX-License-Identifier: BSD-3-Clause; expect: a shared object has no value outside functions */
#include <upc_relaxed.h>
shared int a;
int b = a; /* here */
