/* SPDX-License-Identifier: BSD-3-Clause */
/* First fit in a list of pieces in the order of their offsets.  A freed piece is merged with its free
 * neighbours.  See arena.h. */
#include "arena.h"

#include <stdlib.h>

struct piece {
    size_t offset, size;
    int taken;
    struct piece *prev, *next;
};

struct arena {
    struct piece *first;
    size_t used;
};

enum {
    GRAIN = 16 /* pieces are multiples of it, so that any type fits anywhere */
};

static struct piece *piece_new(size_t offset, size_t size)
{
    struct piece *p = calloc(1, sizeof *p);

    if (p) {
        p->offset = offset;
        p->size = size;
    }

    return p;
}

struct arena *arena_create(size_t size)
{
    struct arena *arena = calloc(1, sizeof *arena);

    if (!arena)
        return NULL;

    arena->first = piece_new(0, size / GRAIN * GRAIN);
    if (!arena->first) {
        free(arena);
        return NULL;
    }

    return arena;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;

    for (struct piece *p = arena->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }

    free(arena);
}

/* Cuts p after size bytes; the rest becomes a free piece.  0, or -1 without memory. */
static int cut(struct piece *p, size_t size)
{
    if (p->size == size)
        return 0;

    struct piece *rest = piece_new(p->offset + size, p->size - size);
    if (!rest)
        return -1;

    rest->prev = p;
    rest->next = p->next;
    if (p->next)
        p->next->prev = rest;

    p->next = rest;
    p->size = size;
    return 0;
}

/* p takes in the piece behind it. */
static void join(struct piece *p)
{
    struct piece *next = p->next;

    p->size += next->size;
    p->next = next->next;
    if (p->next)
        p->next->prev = p;

    free(next);
}

size_t arena_take(struct arena *arena, size_t size, size_t align)
{
    if (align < GRAIN)
        align = GRAIN;

    if (size == 0)
        size = 1;

    if (size > ARENA_NONE - GRAIN)
        return ARENA_NONE;

    size = (size + GRAIN - 1) / GRAIN * GRAIN;
    for (struct piece *p = arena->first; p; p = p->next) {
        size_t skip = (align - p->offset % align) % align;

        if (p->taken || p->size < skip || p->size - skip < size)
            continue;

        if (skip) {
            if (cut(p, skip))
                return ARENA_NONE;

            p = p->next;
        }

        if (cut(p, size))
            return ARENA_NONE;

        p->taken = 1;
        arena->used += size;
        return p->offset;
    }

    return ARENA_NONE;
}

static struct piece *find(const struct arena *arena, size_t offset)
{
    for (struct piece *p = arena->first; p && p->offset <= offset; p = p->next)
        if (p->offset == offset && p->taken)
            return p;

    return NULL;
}

int arena_give(struct arena *arena, size_t offset)
{
    struct piece *p = find(arena, offset);

    if (!p)
        return -1;

    p->taken = 0;
    arena->used -= p->size;
    if (p->next && !p->next->taken)
        join(p);

    if (p->prev && !p->prev->taken)
        join(p->prev);

    return 0;
}

size_t arena_size(const struct arena *arena, size_t offset)
{
    const struct piece *p = find(arena, offset);
    return p ? p->size : 0;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
