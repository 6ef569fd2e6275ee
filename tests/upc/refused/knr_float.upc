/* SPDX-License-Identifier: BSD-3-Clause; expect: 'x' of 'float' has to be declared inside the parentheses */
#include <upc_relaxed.h>
int f(p, x) /* here */
    shared int *p;
    float x;
{
    return p[(int)x];
}
