/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the GASNet API share: checks, random numbers, patterns.  They use the public
 * headers only. */
#ifndef GEX_COMMON_H
#define GEX_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A failed check ends the whole job with exit code 1. */
#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: process %u: %s does not hold\n", __FILE__, __LINE__, \
                    (unsigned)gex_System_QueryJobRank(), #cond); \
            gasnet_exit(1); \
        } \
    } while (0)

static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Byte i of what `writer` writes in step `step`.  Pieces of 256 bytes and of 64 KiB differ, so that a piece in the
 * place of another is found. */
static inline unsigned char pattern(uint32_t writer, uint32_t step, size_t i)
{
    return (unsigned char)(writer * 37 + step * 101 + i * 7 + (i >> 8) + (i >> 16) * 29);
}

static inline void fill(void *buf, size_t n, uint32_t writer, uint32_t step)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = pattern(writer, step, i);
}

/* How many of the first n bytes are right. */
static inline size_t right(const void *buf, size_t n, uint32_t writer, uint32_t step)
{
    size_t i = 0;

    while (i < n && ((const unsigned char *)buf)[i] == pattern(writer, step, i))
        i++;

    return i;
}

#endif
