/* SPDX-License-Identifier: BSD-3-Clause; expect: its tag is hidden or out of scope */
#include <upc_relaxed.h>
struct s { int x; };
shared struct s a;
int main()
{
    struct s { double y; } other = { 1 };
    struct s local;
    return other.y > 0 && (&a)[0].x; /* here */
}
