/* SPDX-License-Identifier: BSD-3-Clause; expect: \[\*\] belongs to arrays */
#include <upc_relaxed.h>
shared [*] int *p; /* here */
