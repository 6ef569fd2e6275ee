/* SPDX-License-Identifier: BSD-3-Clause */
#include <upc.h>
#include <stdio.h>

int main()
{
    printf("Hello from thread %d of %d threads\n", MYTHREAD, THREADS);
    return 0;
}
