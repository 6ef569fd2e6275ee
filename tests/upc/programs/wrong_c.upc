/* SPDX-License-Identifier: BSD-3-Clause */
/* What upcxlate lets through and C does not: the message names this file and the line. */
#include <upc.h>
shared int a[THREADS];

int main()
{
    a[0] = 1;
    int *wrong = "text";
    return a[MYTHREAD];
}
