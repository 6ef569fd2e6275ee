/* SPDX-License-Identifier: BSD-3-Clause; expect: a type is expected before */
#include <upc_relaxed.h>
shared int a;
b; /* here */
