/* SPDX-License-Identifier: BSD-3-Clause; expect: 'shared' is given twice with different layouts */
#include <upc_relaxed.h>
typedef shared [3] int three;
shared [4] three a[THREADS]; /* here */
