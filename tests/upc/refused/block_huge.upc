/* SPDX-License-Identifier: BSD-3-Clause; expect: a block size lies between 0 and 1048576 */
#include <upc_relaxed.h>
shared [2000000] int a[THREADS]; /* here */
