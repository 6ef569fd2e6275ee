/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of descriptors; see fdtab.h.
 *
 * Layer: iofwd.
 */
#include "iofwd/interpose/fd/fdtab.h"

#include <string.h>
#include <sys/mman.h>

#define LEAF 1024
#define POOL_FILES 32

struct leaf {
    struct amph_fd_file *slot[LEAF];
};

struct pool {
    struct pool *next;
    struct amph_fd_file file[POOL_FILES];
};

uint8_t amph_fdtab_classes[FDTAB_MAX];
static struct leaf *leaves[FDTAB_MAX / LEAF];
static struct pool *pools;
int (*amph_fdtab_closer)(const struct amph_fwd_file *file);

/* Zeroed memory for ever; mmap, since malloc is not allowed in a signal handler. */
static void *forever(size_t len_bytes)
{
    void *p = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct amph_fd_file **slot_of(int fd, bool make)
{
    if ((unsigned)fd >= FDTAB_MAX)
        return NULL;

    struct leaf **place = &leaves[fd / LEAF];
    struct leaf *leaf = __atomic_load_n(place, __ATOMIC_ACQUIRE);

    if (!leaf && make) {
        struct leaf *fresh = forever(sizeof *fresh);

        if (fresh && __atomic_compare_exchange_n(place, &leaf, fresh, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE))
            leaf = fresh;
        else if (fresh)
            munmap(fresh, sizeof *fresh);
    }

    return leaf ? &leaf->slot[fd % LEAF] : NULL;
}

static struct amph_fd_file *claim_in(struct pool *pool)
{
    for (int i = 0; i < POOL_FILES; i++) {
        int none = 0;

        if (__atomic_load_n(&pool->file[i].refs, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&pool->file[i].refs, &none, 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return &pool->file[i];
    }

    return NULL;
}

struct amph_fd_file *amph_fdtab_new(void)
{
    struct amph_fd_file *of = NULL;

    for (struct pool *p = __atomic_load_n(&pools, __ATOMIC_ACQUIRE); p && !of; p = p->next)
        of = claim_in(p);

    if (!of) {
        struct pool *fresh = forever(sizeof *fresh);

        if (!fresh)
            return NULL;

        of = &fresh->file[0];
        of->refs = 1;
        fresh->next = __atomic_load_n(&pools, __ATOMIC_ACQUIRE);

        while (!__atomic_compare_exchange_n(&pools, &fresh->next, fresh, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
            ;
    }

    of->oflags = 0;
    of->locked = false;
    of->path[0] = 0;

    return of;
}

/* Adds a reference.  false: the last one has been released. */
static bool pin(struct amph_fd_file *of)
{
    int refs = __atomic_load_n(&of->refs, __ATOMIC_RELAXED);

    while (refs > 0)
        if (__atomic_compare_exchange_n(&of->refs, &refs, refs + 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;

    return false;
}

/*
 * The count stays at -1 while the last user closes the file, so that nobody claims its memory in
 * between.  A pin may have been set on a file that is not the one its setter looked for; if the
 * drop of that pin is the last, it closes the file for whoever was before it.
 */
int amph_fdtab_put(struct amph_fd_file *of)
{
    int err = 0;
    int refs = __atomic_load_n(&of->refs, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(&of->refs, &refs, refs == 1 ? -1 : refs - 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        ;

    if (refs == 1) {
        if (__atomic_exchange_n(&of->ready, false, __ATOMIC_RELAXED))
            err = amph_fdtab_closer(&of->file);

        __atomic_store_n(&of->refs, 0, __ATOMIC_RELEASE);
    }

    return err;
}

struct amph_fd_file *amph_fdtab_get(int fd)
{
    struct amph_fd_file **slot = slot_of(fd, false);

    if (!slot)
        return NULL;

    for (;;) {
        struct amph_fd_file *of = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

        if (!of)
            return NULL;
        if (!pin(of))
            continue; /* the descriptor is being closed: its slot changes at once */
        if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == of)
            return of;

        amph_fdtab_put(of);
    }
}

struct amph_fd_file *amph_fdtab_set(int fd, struct amph_fd_file *of, enum amph_fdtab_class cls)
{
    struct amph_fd_file **slot = slot_of(fd, of != NULL);
    struct amph_fd_file *before = NULL;

    if ((unsigned)fd >= FDTAB_MAX)
        return of;

    if (!of)
        amph_fdtab_mark(fd, cls);

    if (slot)
        before = __atomic_exchange_n(slot, of, __ATOMIC_ACQ_REL);

    if (of)
        amph_fdtab_mark(fd, FDTAB_FORWARDED);

    return before;
}

/* A server gives each of its handles once, so one part tells. */
static bool same_file(const struct amph_fwd_file *a, const struct amph_fwd_file *b)
{
    return a->part[0].server == b->part[0].server && a->part[0].handle == b->part[0].handle;
}

struct amph_fd_file *amph_fdtab_find(const struct amph_fwd_file *file)
{
    for (struct pool *p = __atomic_load_n(&pools, __ATOMIC_ACQUIRE); p; p = p->next)
        for (int i = 0; i < POOL_FILES; i++) {
            struct amph_fd_file *of = &p->file[i];

            if (!pin(of))
                continue;
            if (__atomic_load_n(&of->ready, __ATOMIC_ACQUIRE) && same_file(&of->file, file))
                return of;

            amph_fdtab_put(of);
        }

    return NULL;
}

bool amph_fdtab_same(int a, int b)
{
    struct amph_fd_file *x = amph_fdtab_get(a);
    struct amph_fd_file *y = amph_fdtab_get(b);
    bool same = x && x == y;

    if (x)
        amph_fdtab_put(x);

    if (y)
        amph_fdtab_put(y);

    return same;
}

void amph_fdtab_each(int first, int last, void (*fn)(int fd, struct amph_fd_file *of, void *arg),
                     void *arg)
{
    if (last >= FDTAB_MAX)
        last = FDTAB_MAX - 1;

    for (int fd = first < 0 ? 0 : first; fd <= last; fd++) {
        struct leaf *leaf = __atomic_load_n(&leaves[fd / LEAF], __ATOMIC_ACQUIRE);

        if (!leaf) {
            fd |= LEAF - 1;
            continue;
        }

        struct amph_fd_file *of = __atomic_load_n(&leaf->slot[fd % LEAF], __ATOMIC_ACQUIRE);

        if (of)
            fn(fd, of, arg);
    }
}

static void count_one(int fd, struct amph_fd_file *of, void *arg)
{
    of->refs++;
}

void amph_fdtab_recount(void)
{
    for (struct pool *p = pools; p; p = p->next)
        for (int i = 0; i < POOL_FILES; i++)
            p->file[i].refs = 0;

    amph_fdtab_each(0, FDTAB_MAX - 1, count_one, NULL);
}
