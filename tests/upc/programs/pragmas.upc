/* SPDX-License-Identifier: BSD-3-Clause */
/* Each unknown pragma is named with its line, wherever it is. */
#include <upc.h>
#pragma unknown here
shared int counter;
#pragma unknown here
static int twice(int n)
{
#pragma upc strict
#pragma unknown here
    return 2 * n;
}
#pragma unknown here
#pragma unknown here
int main(void)
{
#pragma unknown here
    return twice(0);
}
