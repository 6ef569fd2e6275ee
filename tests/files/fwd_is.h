/* SPDX-License-Identifier: BSD-3-Clause */
/* For the programs that compare what forwarded calls give with what they must give: the first
 * difference is said and ends the program. */
#ifndef TESTS_MP_FWD_IS_H
#define TESTS_MP_FWD_IS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long seed; /* of a test with random steps, and */
static int step;           /* the step that it has come to */

static void fail(const char *what, long is, long wanted)
{
    fprintf(stderr, "seed %lu, step %d: %s: is %ld, wanted %ld (errno %s)\n", seed, step, what, is,
            wanted, strerrorname_np(errno));
    exit(1);
}

#define IS(call, wanted) \
    do { \
        long is_ = (long)(call); \
        if (is_ != (long)(wanted)) \
            fail(#call, is_, (long)(wanted)); \
    } while (0)

#endif
