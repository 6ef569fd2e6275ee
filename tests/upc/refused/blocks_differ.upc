/* SPDX-License-Identifier: BSD-3-Clause; expect: does not go with 'shared int \*' without a cast */
#include <upc_relaxed.h>
shared [4] int a[4 * THREADS];
shared int *f(void)
{
    return a; /* here */
}
