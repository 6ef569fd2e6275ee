/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of upc-bridge share.  They use the public header only. */
#ifndef UPC_COMMON_H
#define UPC_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upc_bridge.h"

/* A failed check ends the whole job with exit code 1. */
#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: thread %d of %d: %s does not hold\n", __FILE__, __LINE__, \
                    MYTHREAD, THREADS, #cond); \
            upc_global_exit(1); \
        } \
    } while (0)

/* Random numbers; threads with one seed have the same. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline uint32_t below(uint64_t *state, uint32_t n)
{
    return next_random(state) % n;
}

/* Element i of an array of one layout, computed by counting: its index in its thread's part, in
 * elements. */
struct spot {
    uint32_t thread, phase;
    uint64_t offset;
};

static inline struct spot model_spot(uint64_t i, uint64_t block)
{
    if (block == 0)
        return (struct spot){ 0, 0, i };

    uint64_t b = i / block;
    uint64_t threads = (uint64_t)THREADS;

    return (struct spot){ (uint32_t)(b % threads), (uint32_t)(i % block),
                          b / threads * block + i % block };
}

#endif
