/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of this folder share: a test that says where it failed and ends all threads. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: thread %d of %d: not so: %s\n", __FILE__, __LINE__, MYTHREAD, \
                    THREADS, #condition); \
            upc_global_exit(1); \
        } \
    } while (0)
#endif
