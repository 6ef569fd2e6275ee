/* SPDX-License-Identifier: BSD-3-Clause */
/* The symmetric heap.  All PEs make the same calls, so their allocators return the same offsets; each
 * call is a barrier. */
#include <string.h>

#include "../common/arena.h"
#include "inside.h"

static void *address(size_t offset)
{
    return offset == ARENA_NONE ? NULL : (char *)shmemi.heaps[shmemi.pe].addr + offset;
}

/* Offset of what one of these calls gave; ends the job for anything else. */
static size_t offset_of(const char *call, const void *ptr)
{
    size_t offset = (size_t)((uintptr_t)ptr - (uintptr_t)shmemi.heaps[shmemi.pe].addr);

    if (!arena_size(shmemi.arena, offset))
        shmemi_fail(call, "nothing in the symmetric heap begins at %p", ptr);

    return offset;
}

void *shmem_malloc(size_t size)
{
    return shmem_align(1, size);
}

void *shmem_align(size_t alignment, size_t size)
{
    shmemi_check_pe("shmem_malloc", 0);
    if (size == 0 || alignment == 0 || (alignment & (alignment - 1)))
        return NULL;

    /* Segments begin on pages of the job, and an offset is aligned like its address up to that. */
    void *ptr = alignment > GASNET_PAGESIZE ? NULL
                                            : address(arena_take(shmemi.arena, size, alignment));

    shmem_barrier_all();
    return ptr;
}

void *shmem_calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;

    void *ptr = shmem_malloc(count * size);

    if (ptr)
        memset(ptr, 0, count * size);

    shmem_barrier_all();
    return ptr;
}

void *shmem_realloc(void *ptr, size_t size)
{
    if (!ptr)
        return shmem_malloc(size);

    if (size == 0) {
        shmem_free(ptr);
        return NULL;
    }

    shmem_barrier_all();

    size_t from = offset_of("shmem_realloc", ptr);
    size_t had = arena_size(shmemi.arena, from);
    size_t to = from;

    if (size > had) {
        to = arena_take(shmemi.arena, size, 1);
        if (to != ARENA_NONE) {
            memcpy(address(to), ptr, had);
            arena_give(shmemi.arena, from);
        }
    }

    shmem_barrier_all();
    return address(to);
}

void shmem_free(void *ptr)
{
    shmem_barrier_all();
    if (ptr)
        arena_give(shmemi.arena, offset_of("shmem_free", ptr));
}
