/* SPDX-License-Identifier: BSD-3-Clause; expect: the size of the shared array 'a' must be constant */
#include <upc_relaxed.h>
void f(int n)
{
    static shared int a[n]; /* here */
}
