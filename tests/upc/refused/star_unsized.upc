/* SPDX-License-Identifier: BSD-3-Clause; expect: \[\*\] needs an array of known size */
#include <upc_relaxed.h>
extern shared [*] int a[]; /* here */
