/* SPDX-License-Identifier: BSD-3-Clause; expect: a function cannot return a shared object */
#include <upc_relaxed.h>
shared int f(void); /* here */
