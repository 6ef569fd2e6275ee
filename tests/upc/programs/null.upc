/* SPDX-License-Identifier: BSD-3-Clause */
#include <upc.h>
shared int *p;

int main()
{
    return *p;
}
