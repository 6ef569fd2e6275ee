/* SPDX-License-Identifier: BSD-3-Clause; expect: an attribute on the shared object 'a' is not translated */
#include <upc_relaxed.h>
shared int a[THREADS] __attribute__((aligned(4096))); /* here */
