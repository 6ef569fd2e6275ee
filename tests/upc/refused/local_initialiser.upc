/* SPDX-License-Identifier: BSD-3-Clause; expect: the initialiser of the static 'p' uses names of the function */
#include <upc_relaxed.h>
shared int a[THREADS];
int main()
{
    enum { N = 0 };
    static shared int *p = &a[N]; /* here */
    return *p;
}
