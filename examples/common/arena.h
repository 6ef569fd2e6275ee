/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator for a range of memory, which both example runtimes use for their segments.  Its data
 * are separate from the memory, because other processes write to that.  The result depends only on
 * the calls: processes that make the same calls get the same offsets.  One thread at a time.
 */
#ifndef EXAMPLES_ARENA_H
#define EXAMPLES_ARENA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct arena;

/* An arena of size bytes; NULL: no memory for its notes. */
struct arena *arena_create(size_t size);
void arena_destroy(struct arena *arena);

#define ARENA_NONE ((size_t)-1)

/* Offset of a piece of size bytes (0 counts as 1), a multiple of align (a power of two);
 * ARENA_NONE: there is no such piece. */
size_t arena_take(struct arena *arena, size_t size, size_t align);

/* Gives the piece at offset back; 0, or -1 where none begins there. */
int arena_give(struct arena *arena, size_t offset);

/* Bytes of the piece at offset; 0 where none begins there. */
size_t arena_size(const struct arena *arena, size_t offset);

/* Bytes that are taken. */
size_t arena_used(const struct arena *arena);

#ifdef __cplusplus
}
#endif

#endif
