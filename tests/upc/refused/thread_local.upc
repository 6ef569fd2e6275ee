/* SPDX-License-Identifier: BSD-3-Clause; expect: cannot be local to a thread */
#include <upc_relaxed.h>
static __thread shared int a; /* here */
