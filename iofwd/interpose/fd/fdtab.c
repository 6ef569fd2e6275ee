/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of descriptors; see fdtab.h.
 *
 * Layer: iofwd.
 */
#include "iofwd/interpose/fd/fdtab.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "iofwd/interpose/fd/state.h"

#define POOL_FILES 32

struct amph_fdtab_leaf {
    struct amph_fd_file *slot[FDTAB_LEAF];
};

struct amph_fdtab_pool {
    struct amph_fdtab_pool *next;
    struct amph_fd_file file[POOL_FILES];
};

struct amph_fdtab amph_fdtab_first;
__thread struct amph_fdtab *amph_fdtab_mine
    __attribute__((tls_model("initial-exec"))) = &amph_fdtab_first;

/* Defined here because a program of the unit tests links this file alone. */
struct amph_ip_fds_state amph_ip_fds = {
    .aio.lock = PTHREAD_MUTEX_INITIALIZER,
    .aio.ended = PTHREAD_COND_INITIALIZER,
    .aio.wanted = PTHREAD_COND_INITIALIZER,
    .epoll.lock = PTHREAD_MUTEX_INITIALIZER,
    .own.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* Allocates zeroed memory that is never freed, by mmap, because malloc is not allowed in a signal
 * handler. */
static void *map_forever(size_t len_bytes)
{
    void *p = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct amph_fd_file **slot_of(struct amph_fdtab *table, int fd, bool make)
{
    if ((unsigned)fd >= FDTAB_MAX)
        return NULL;

    struct amph_fdtab_leaf **slot = &table->leaves[fd / FDTAB_LEAF];
    struct amph_fdtab_leaf *leaf = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

    if (!leaf && make) {
        struct amph_fdtab_leaf *fresh = map_forever(sizeof *fresh);

        if (fresh && __atomic_compare_exchange_n(slot, &leaf, fresh, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE))
            leaf = fresh;
        else if (fresh)
            munmap(fresh, sizeof *fresh);
    }

    return leaf ? &leaf->slot[fd % FDTAB_LEAF] : NULL;
}

bool amph_fdtab_reserve(int fd)
{
    return slot_of(amph_fdtab_current(), fd, true) != NULL;
}

static struct amph_fd_file *claim_in(struct amph_fdtab_pool *pool)
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

    for (struct amph_fdtab_pool *p = __atomic_load_n(&amph_ip_fds.pools, __ATOMIC_ACQUIRE);
         p && !of; p = p->next)
        of = claim_in(p);

    if (!of) {
        struct amph_fdtab_pool *fresh = map_forever(sizeof *fresh);

        if (!fresh)
            return NULL;

        of = &fresh->file[0];
        of->refs = 1;
        fresh->next = __atomic_load_n(&amph_ip_fds.pools, __ATOMIC_ACQUIRE);

        while (!__atomic_compare_exchange_n(&amph_ip_fds.pools, &fresh->next, fresh, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            ;
    }

    of->oflags = 0;
    __atomic_store_n(&of->near, 0, __ATOMIC_RELAXED);
    of->locked = false;
    of->marked = false;
    __atomic_store_n(&of->access, 0, __ATOMIC_RELAXED);
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

/* Leaves the last reference to amph_fdtab_closes_release.  Returns whether it did. */
static bool postpone(struct amph_fd_file *of)
{
    while (__atomic_load_n(&amph_ip_fds.closes_held, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_load_n(&of->ready, __ATOMIC_RELAXED)) {
        __atomic_store_n(&of->postponed, true, __ATOMIC_SEQ_CST);

        /* a release that does not see the mark is seen here */
        if (__atomic_load_n(&amph_ip_fds.closes_held, __ATOMIC_SEQ_CST) != 0 ||
            !__atomic_exchange_n(&of->postponed, false, __ATOMIC_SEQ_CST))
            return true;
    }

    return false;
}

/*
 * Drops a reference.  The count stays at -1 while the last user closes the file, so that nobody
 * claims its memory in between.  A thread may have added a reference to another file than it looked
 * for; if that reference is the last one to be dropped, this thread closes the file.
 */
int amph_fdtab_put(struct amph_fd_file *of)
{
    int err = 0;
    int refs = __atomic_load_n(&of->refs, __ATOMIC_RELAXED);

    do
        if (refs == 1 && postpone(of))
            return 0;
    while (!__atomic_compare_exchange_n(&of->refs, &refs, refs == 1 ? -1 : refs - 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));

    if (refs == 1) {
        if (__atomic_exchange_n(&of->ready, false, __ATOMIC_RELAXED))
            err = amph_ip_fds.close_file(&of->file);

        __atomic_store_n(&of->refs, 0, __ATOMIC_RELEASE);
    }

    return err;
}

void amph_fdtab_closes_hold(void)
{
    __atomic_add_fetch(&amph_ip_fds.closes_held, 1, __ATOMIC_SEQ_CST);
}

void amph_fdtab_closes_release(void)
{
    if (__atomic_sub_fetch(&amph_ip_fds.closes_held, 1, __ATOMIC_SEQ_CST) != 0)
        return;

    for (struct amph_fdtab_pool *p = __atomic_load_n(&amph_ip_fds.pools, __ATOMIC_ACQUIRE); p;
         p = p->next)
        for (int i = 0; i < POOL_FILES; i++)
            if (__atomic_exchange_n(&p->file[i].postponed, false, __ATOMIC_SEQ_CST))
                amph_fdtab_put(&p->file[i]);
}

/* The open file in slot with a reference added, or NULL. */
static struct amph_fd_file *pin_slot(struct amph_fd_file **slot)
{
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

struct amph_fd_file *amph_fdtab_get(int fd)
{
    struct amph_fd_file **slot = slot_of(amph_fdtab_current(), fd, false);

    return slot ? pin_slot(slot) : NULL;
}

/* Takes no reference: threads that look at one directory would wait for each other's cache line. */
uint32_t amph_fdtab_near(int fd, bool *readonly_p)
{
    struct amph_fd_file **slot = slot_of(amph_fdtab_current(), fd, false);
    struct amph_fd_file *of = slot ? __atomic_load_n(slot, __ATOMIC_ACQUIRE) : NULL;

    if (!of)
        return 0;

    uint32_t near = __atomic_load_n(&of->near, __ATOMIC_RELAXED);

    *readonly_p = __atomic_load_n(&of->near_readonly, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(slot, __ATOMIC_RELAXED) == of ? near : 0;
}

bool amph_fdtab_is_near(int fd)
{
    bool readonly;

    return amph_fdtab_near(fd, &readonly) != 0;
}

struct amph_fd_file *amph_fdtab_set_in(struct amph_fdtab *table, int fd, struct amph_fd_file *of,
                                       enum amph_fdtab_class cls)
{
    struct amph_fd_file **slot = slot_of(table, fd, of != NULL);
    struct amph_fd_file *before = NULL;

    if ((unsigned)fd >= FDTAB_MAX || (of && !slot))
        return of;

    if (!of)
        __atomic_store_n(&table->classes[fd], cls, __ATOMIC_RELAXED);

    if (slot)
        before = __atomic_exchange_n(slot, of, __ATOMIC_ACQ_REL);

    if (of)
        __atomic_store_n(&table->classes[fd], FDTAB_FORWARDED, __ATOMIC_RELAXED);

    return before;
}

struct amph_fd_file *amph_fdtab_set(int fd, struct amph_fd_file *of, enum amph_fdtab_class cls)
{
    return amph_fdtab_set_in(amph_fdtab_current(), fd, of, cls);
}

/* A server assigns each handle once, so one part is enough. */
bool amph_fdtab_same_file(const struct amph_fwd_file *a, const struct amph_fwd_file *b)
{
    return a->nparts > 0 && a->part[0].server == b->part[0].server &&
           a->part[0].handle == b->part[0].handle;
}

struct amph_fd_file *amph_fdtab_find(const struct amph_fwd_file *file)
{
    for (struct amph_fdtab_pool *p = __atomic_load_n(&amph_ip_fds.pools, __ATOMIC_ACQUIRE); p;
         p = p->next)
        for (int i = 0; i < POOL_FILES; i++) {
            struct amph_fd_file *of = &p->file[i];

            if (!pin(of))
                continue;
            if (__atomic_load_n(&of->ready, __ATOMIC_ACQUIRE) &&
                amph_fdtab_same_file(&of->file, file))
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

void amph_fdtab_each_in(const struct amph_fdtab *table, int first, int last,
                        void (*fn)(int fd, struct amph_fd_file *of, void *arg), void *arg)
{
    if (last >= FDTAB_MAX)
        last = FDTAB_MAX - 1;

    for (int fd = first < 0 ? 0 : first; fd <= last; fd++) {
        struct amph_fdtab_leaf *leaf = __atomic_load_n(&table->leaves[fd / FDTAB_LEAF],
                                                       __ATOMIC_ACQUIRE);

        if (!leaf) {
            fd |= FDTAB_LEAF - 1;
            continue;
        }

        struct amph_fd_file *of = __atomic_load_n(&leaf->slot[fd % FDTAB_LEAF], __ATOMIC_ACQUIRE);

        if (of)
            fn(fd, of, arg);
    }
}

void amph_fdtab_each(int first, int last, void (*fn)(int fd, struct amph_fd_file *of, void *arg),
                     void *arg)
{
    amph_fdtab_each_in(amph_fdtab_current(), first, last, fn, arg);
}

/* Copies the open files of one leaf.  false: no memory. */
static bool copy_leaf(struct amph_fdtab *to, struct amph_fdtab_leaf *leaf, int first)
{
    for (int i = 0; i < FDTAB_LEAF; i++) {
        struct amph_fd_file *of = pin_slot(&leaf->slot[i]);
        struct amph_fd_file **slot = of ? slot_of(to, first + i, true) : NULL;

        if (slot) {
            *slot = of;
            to->classes[first + i] = FDTAB_FORWARDED;
        } else if (of) {
            amph_fdtab_put(of);
            return false;
        }
    }

    return true;
}

bool amph_fdtab_copy(struct amph_fdtab *to, const struct amph_fdtab *from)
{
    for (int i = 0; i < FDTAB_MAX / FDTAB_LEAF; i++) {
        struct amph_fdtab_leaf *leaf = __atomic_load_n(&from->leaves[i], __ATOMIC_ACQUIRE);

        if (leaf && !copy_leaf(to, leaf, i * FDTAB_LEAF)) {
            amph_fdtab_empty(to);
            return false;
        }
    }

    /* whatever is not known to be forwarded is looked at again when it is used */
    for (int fd = 0; fd < FDTAB_MAX; fd++) {
        uint8_t cls = __atomic_load_n(&from->classes[fd], __ATOMIC_RELAXED);

        if (cls == FDTAB_OWN || cls == FDTAB_EPOLL)
            to->classes[fd] = cls;
    }

    return true;
}

static void drop_one(int fd, struct amph_fd_file *of, void *arg)
{
    struct amph_fdtab *table = arg;

    amph_fdtab_put(amph_fdtab_set_in(table, fd, NULL, FDTAB_UNKNOWN));
}

void amph_fdtab_empty(struct amph_fdtab *table)
{
    amph_fdtab_each_in(table, 0, FDTAB_MAX - 1, drop_one, table);
    memset(table->classes, FDTAB_UNKNOWN, sizeof table->classes);
}

static void count_one(int fd, struct amph_fd_file *of, void *arg)
{
    of->refs++;
}

void amph_fdtab_recount(void)
{
    for (struct amph_fdtab_pool *p = amph_ip_fds.pools; p; p = p->next)
        for (int i = 0; i < POOL_FILES; i++) {
            p->file[i].refs = 0;
            p->file[i].postponed = false;
        }

    amph_fdtab_each(0, FDTAB_MAX - 1, count_one, NULL);

    /* a thread of the parent was opening or closing these */
    for (struct amph_fdtab_pool *p = amph_ip_fds.pools; p; p = p->next)
        for (int i = 0; i < POOL_FILES; i++)
            if (p->file[i].refs == 0)
                p->file[i].ready = false;
}
