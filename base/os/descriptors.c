/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptor tables.  Layer: base. */
#include "base/os/descriptors.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;

    return (x > y) - (x < y);
}

int amph_descriptors_close_except(int *keep, size_t n)
{
    unsigned first = 0;

    qsort(keep, n, sizeof *keep, compare);

    for (size_t i = 0; i < n; i++) {
        if (keep[i] < 0 || (unsigned)keep[i] < first)
            continue; /* none, or the same number again */

        /* a direct call: ThreadSanitizer has one table for all threads' close_range */
        if ((unsigned)keep[i] > first &&
            syscall(SYS_close_range, first, (unsigned)keep[i] - 1, 0U) != 0)
            return errno;

        first = (unsigned)keep[i] + 1;
    }

    return syscall(SYS_close_range, first, ~0U, 0U) == 0 ? 0 : errno;
}
