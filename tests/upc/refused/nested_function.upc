/* SPDX-License-Identifier: BSD-3-Clause; expect: a function inside a function is not translated */
#include <upc_relaxed.h>
int main()
{
    int f(void) { return 1; } /* here */
    return f();
}
