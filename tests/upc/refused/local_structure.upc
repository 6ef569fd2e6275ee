/* SPDX-License-Identifier: BSD-3-Clause; expect: define struct s outside the function */
#include <upc_relaxed.h>
int main()
{
    struct s { int x; };
    static shared struct s a; /* here */
    return a.x;
}
