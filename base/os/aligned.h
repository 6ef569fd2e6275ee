/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned memory from malloc.
 *
 * Layer: base.  Thread rule: as malloc.
 *
 * A program may define malloc and free, and leave aligned_alloc to the C library (GCL, and with it
 * Maxima, does).  Memory of the C library's aligned_alloc would then be given to the program's free,
 * which knows nothing of it.
 */
#ifndef AMPH_BASE_ALIGNED_H
#define AMPH_BASE_ALIGNED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Returns len_bytes of memory at a multiple of align_bytes, a power of two and at least the size of a
 * pointer; NULL: there is none.  amph_aligned_free frees it. */
static inline void *amph_aligned_alloc(size_t align_bytes, size_t len_bytes)
{
    size_t more = align_bytes + sizeof(void *);
    char *base = len_bytes <= SIZE_MAX - more ? malloc(len_bytes + more) : NULL;

    if (!base)
        return NULL;

    uintptr_t first = (uintptr_t)base + sizeof(void *);
    char *at = base + sizeof(void *) + (-first & (align_bytes - 1));

    ((void **)at)[-1] = base; /* what free needs */
    return at;
}

/* NULL is allowed. */
static inline void amph_aligned_free(void *memory)
{
    if (memory)
        free(((void **)memory)[-1]);
}

#endif
