/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/fdtab: shared open files, the last close, and readers beside closers. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/state.h"

static uint64_t closed_handle;
static int closes, close_error;

/* These tests have one table, which no task asks for; fd/own_table.c is not linked. */
struct amph_fdtab *amph_fdtab_of_task(void)
{
    abort();
}

static int note_close(const struct amph_fwd_file *file)
{
    closed_handle = file->part[0].handle;
    __atomic_add_fetch(&closes, 1, __ATOMIC_RELAXED);
    return close_error;
}

static struct amph_fd_file *opened(uint64_t handle)
{
    struct amph_fd_file *of = amph_fdtab_new();

    cr_assert_not_null(of);
    of->file = (struct amph_fwd_file){ .nparts = 1, .part = { { .server = 3, .handle = handle } } };
    of->ready = true;

    return of;
}

static void setup(void)
{
    amph_ip_fds.close_file = note_close;
    closes = close_error = 0;
}

TestSuite(fdtab, .init = setup);

Test(fdtab, last_descriptor_closes)
{
    struct amph_fd_file *of = opened(7);

    cr_assert_null(amph_fdtab_set(5, of, FDTAB_FORWARDED));
    cr_assert_eq(amph_fdtab_class(5), FDTAB_FORWARDED);

    struct amph_fd_file *again = amph_fdtab_get(5);

    cr_assert_eq(again, of);
    cr_assert_null(amph_fdtab_set(6, again, FDTAB_FORWARDED)); /* a dup: the reference goes over */
    cr_assert_eq(amph_fdtab_put(amph_fdtab_set(5, NULL, FDTAB_UNKNOWN)), 0);
    cr_assert_eq(closes, 0);
    cr_assert_eq(amph_fdtab_class(5), FDTAB_UNKNOWN);
    cr_assert_null(amph_fdtab_get(5));
    close_error = 28;
    cr_assert_eq(amph_fdtab_put(amph_fdtab_set(6, NULL, FDTAB_UNKNOWN)), 28);
    cr_assert_eq(closes, 1);
    cr_assert_eq(closed_handle, 7);
}

Test(fdtab, call_under_way_keeps_the_file)
{
    amph_fdtab_set(9, opened(1), FDTAB_FORWARDED);

    struct amph_fd_file *pin = amph_fdtab_get(9);

    amph_fdtab_put(amph_fdtab_set(9, NULL, FDTAB_UNKNOWN));
    cr_assert_eq(closes, 0);
    cr_assert_eq(pin->file.part[0].handle, 1);
    amph_fdtab_put(pin);
    cr_assert_eq(closes, 1);
}

Test(fdtab, unopened_file_is_not_closed)
{
    struct amph_fd_file *of = amph_fdtab_new();

    amph_fdtab_put(of);
    cr_assert_eq(closes, 0);
}

/* Nothing of the file that was there before is left. */
Test(fdtab, fresh_after_use)
{
    struct amph_fd_file *of = opened(7);

    of->oflags = 3;
    of->locked = true;
    strcpy(of->path, "/fwd/x");
    amph_fdtab_put(of);
    cr_assert_eq(closes, 1);
    cr_assert_eq(amph_fdtab_new(), of);
    cr_assert_eq(of->oflags, 0);
    cr_assert_not(of->locked);
    cr_assert_str_eq(of->path, "");
    amph_fdtab_put(of);
    cr_assert_eq(closes, 1);
}

/* While a table is copied, the last close waits, and the file can be found; a file that is in use again
 * at the end stays open. */
Test(fdtab, closes_are_held)
{
    struct amph_fd_file *kept = opened(7);
    struct amph_fd_file *dropped = opened(8);

    amph_fdtab_set(5, kept, FDTAB_FORWARDED);
    amph_fdtab_set(6, dropped, FDTAB_FORWARDED);
    amph_fdtab_closes_hold();
    amph_fdtab_closes_hold();
    cr_assert_eq(amph_fdtab_put(amph_fdtab_set(5, NULL, FDTAB_UNKNOWN)), 0);
    cr_assert_eq(amph_fdtab_put(amph_fdtab_set(6, NULL, FDTAB_UNKNOWN)), 0);
    cr_assert_null(amph_fdtab_get(5));

    struct amph_fwd_file file = kept->file;

    cr_assert_eq(amph_fdtab_find(&file), kept);
    amph_fdtab_set(7, kept, FDTAB_FORWARDED);
    amph_fdtab_closes_release();
    cr_assert_eq(closes, 0);
    amph_fdtab_closes_release();
    cr_assert_eq(closes, 1);
    cr_assert_eq(closed_handle, 8);
    amph_fdtab_put(amph_fdtab_set(7, NULL, FDTAB_UNKNOWN));
    cr_assert_eq(closes, 2);
    cr_assert_eq(closed_handle, 7);
}

static struct amph_fd_file *closing, *found, *made;

static int look_around(const struct amph_fwd_file *file)
{
    found = amph_fdtab_find(file);
    made = amph_fdtab_new();
    return 0;
}

/* While its last user closes it, a file is nobody's, and its memory is not free yet. */
Test(fdtab, being_closed)
{
    amph_ip_fds.close_file = look_around;
    closing = opened(3);
    amph_fdtab_put(closing);
    cr_assert_null(found);
    cr_assert_not_null(made);
    cr_assert_neq(made, closing);
}

Test(fdtab, not_ready_is_not_found)
{
    struct amph_fd_file *of = opened(42);

    of->ready = false;
    cr_assert_null(amph_fdtab_find(&of->file));
    of->ready = true;
    cr_assert_eq(amph_fdtab_find(&of->file), of);
}

Test(fdtab, same_open_file)
{
    amph_fdtab_set(5, opened(1), FDTAB_FORWARDED);
    amph_fdtab_set(6, amph_fdtab_get(5), FDTAB_FORWARDED);
    amph_fdtab_set(7, opened(1), FDTAB_FORWARDED);
    cr_assert(amph_fdtab_same(5, 6));
    cr_assert_not(amph_fdtab_same(5, 7));
    cr_assert_not(amph_fdtab_same(5, 8));
    cr_assert_not(amph_fdtab_same(8, 9));
    for (int fd = 5; fd <= 7; fd++)
        amph_fdtab_put(amph_fdtab_set(fd, NULL, FDTAB_UNKNOWN));

    cr_assert_eq(closes, 2);
}

Test(fdtab, find_by_handle)
{
    struct amph_fd_file *of = opened(42);

    amph_fdtab_set(11, of, FDTAB_FORWARDED);

    struct amph_fwd_file key = { .nparts = 1, .part = { { .server = 3, .handle = 42 } } };

    cr_assert_eq(amph_fdtab_find(&key), of);
    amph_fdtab_put(of);
    key.part[0].server = 4;
    cr_assert_null(amph_fdtab_find(&key));
    amph_fdtab_put(amph_fdtab_set(11, NULL, FDTAB_UNKNOWN));
    key.part[0].server = 3;
    cr_assert_null(amph_fdtab_find(&key));
}

Test(fdtab, limits)
{
    cr_assert_null(amph_fdtab_get(-1));
    cr_assert_null(amph_fdtab_get(FDTAB_MAX));
    cr_assert_eq(amph_fdtab_class(-1), FDTAB_LOCAL);
    cr_assert_eq(amph_fdtab_class(FDTAB_MAX), FDTAB_LOCAL);

    struct amph_fd_file *of = opened(1);

    cr_assert_eq(amph_fdtab_set(FDTAB_MAX, of, FDTAB_FORWARDED), of);
    amph_fdtab_set(FDTAB_MAX - 1, of, FDTAB_FORWARDED);
    cr_assert_eq(amph_fdtab_class(FDTAB_MAX - 1), FDTAB_FORWARDED);
}

/* Without memory for its part of the table a descriptor stays what it was. */
Test(fdtab, no_memory)
{
    struct amph_fd_file *of = opened(1);
    struct rlimit before;

    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);

    struct rlimit none = { .rlim_cur = 1, .rlim_max = before.rlim_max };

    amph_fdtab_set(20, of, FDTAB_FORWARDED);
    amph_fdtab_mark(3000, FDTAB_LOCAL);
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);

    bool near = amph_fdtab_reserve(21);
    bool far = amph_fdtab_reserve(3000);
    struct amph_fd_file *copy = amph_fdtab_get(20);
    struct amph_fd_file *refused = amph_fdtab_set(3000, copy, FDTAB_FORWARDED);

    cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
    cr_assert(near);
    cr_assert_not(far);
    cr_assert_eq(refused, copy);
    cr_assert_eq(amph_fdtab_class(3000), FDTAB_LOCAL);
    cr_assert(amph_fdtab_reserve(3000));
    cr_assert_not(amph_fdtab_reserve(-1));
    cr_assert_not(amph_fdtab_reserve(FDTAB_MAX));
    cr_assert_null(amph_fdtab_set(3000, copy, FDTAB_FORWARDED));
}

Test(fdtab, many_files)
{
    for (int fd = 100; fd < 1100; fd++)
        amph_fdtab_set(fd, opened((uint64_t)fd), FDTAB_FORWARDED);

    for (int fd = 100; fd < 1100; fd++) {
        struct amph_fd_file *of = amph_fdtab_get(fd);

        cr_assert_eq(of->file.part[0].handle, (uint64_t)fd);
        amph_fdtab_put(of);
        amph_fdtab_put(amph_fdtab_set(fd, NULL, FDTAB_UNKNOWN));
    }

    cr_assert_eq(closes, 1000);
}

static void count(int fd, struct amph_fd_file *of, void *arg)
{
    *(int *)arg += fd;
}

Test(fdtab, recount_after_fork)
{
    int sum = 0;
    struct amph_fd_file *of = opened(5);

    amph_fdtab_set(20, of, FDTAB_FORWARDED);
    amph_fdtab_set(3000, amph_fdtab_get(20), FDTAB_FORWARDED);
    amph_fdtab_get(20); /* another thread's call, which the child does not have */
    amph_fdtab_recount();
    amph_fdtab_each(0, FDTAB_MAX - 1, count, &sum);
    cr_assert_eq(sum, 3020);
    amph_fdtab_put(amph_fdtab_set(20, NULL, FDTAB_UNKNOWN));
    cr_assert_eq(closes, 0);
    amph_fdtab_put(amph_fdtab_set(3000, NULL, FDTAB_UNKNOWN));
    cr_assert_eq(closes, 1);
}

/* A file that another thread of the parent was about to close is none of the child's, nor is what its memory
 * becomes. */
Test(fdtab, recount_of_a_file_without_descriptor)
{
    struct amph_fd_file *left = opened(5);
    struct amph_fwd_file file = left->file;

    amph_fdtab_recount();
    cr_assert_null(amph_fdtab_find(&file));

    struct amph_fd_file *of = amph_fdtab_new();

    cr_assert_eq(of, left);
    cr_assert(!of->ready);
    cr_assert_null(amph_fdtab_find(&file));
    amph_fdtab_put(of);
    cr_assert_eq(closes, 0);
}

/* What a look at a descriptor has shown says nothing about the file that was opened in the meantime. */
Test(fdtab, learn_leaves_a_known_class)
{
    amph_fdtab_mark(7, FDTAB_UNKNOWN);
    cr_assert_eq(amph_fdtab_learn(7, FDTAB_LOCAL), FDTAB_LOCAL);
    cr_assert_eq(amph_fdtab_class(7), FDTAB_LOCAL);

    amph_fdtab_set(8, opened(6), FDTAB_FORWARDED);
    cr_assert_eq(amph_fdtab_learn(8, FDTAB_INHERITED), FDTAB_FORWARDED);
    cr_assert_eq(amph_fdtab_class(8), FDTAB_FORWARDED);
    cr_assert_eq(amph_fdtab_learn(FDTAB_MAX, FDTAB_LOCAL), FDTAB_LOCAL);
}

/* Whatever the bounds, and with tables of which some are missing. */
Test(fdtab, each_within_bounds)
{
    static const int fds[] = { 0, 1023, 4096, FDTAB_MAX - 1 };
    int sum = 0;

    for (int i = 0; i < 4; i++)
        amph_fdtab_set(fds[i], opened((uint64_t)fds[i] + 1), FDTAB_FORWARDED);

    amph_fdtab_each(-5, INT_MAX, count, &sum);
    cr_assert_eq(sum, 1023 + 4096 + FDTAB_MAX - 1);
    sum = 0;
    amph_fdtab_each(1, 4095, count, &sum);
    cr_assert_eq(sum, 1023);
    sum = 0;
    amph_fdtab_each(1023, 4096, count, &sum);
    cr_assert_eq(sum, 1023 + 4096);
    cr_assert_null(amph_fdtab_get(INT_MIN));
}

/* Readers look at a descriptor that another thread opens and closes: they see the file that belongs
 * to it, or none. */
static int stop, wrong;

static void *reader(void *arg)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        for (int fd = 50; fd < 54; fd++) {
            struct amph_fd_file *of = amph_fdtab_get(fd);

            if (!of)
                continue;

            if (of->file.part[0].handle % 4 != (uint64_t)fd % 4)
                __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);

            amph_fdtab_put(of);
        }

    return NULL;
}

static void *holder(void *arg)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        amph_fdtab_closes_hold();
        amph_fdtab_closes_release();
    }

    return NULL;
}

/* Each file is closed once, whether its close was postponed or not, and none is left. */
Test(fdtab, closer_beside_holders)
{
    enum {
        ROUNDS = 40000
    };

    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, holder, NULL);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        amph_fdtab_set(50, opened(i), FDTAB_FORWARDED);
        amph_fdtab_put(amph_fdtab_set(50, NULL, FDTAB_UNKNOWN));
    }

    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    cr_assert_eq(closes, ROUNDS);
}

Test(fdtab, readers_beside_a_closer)
{
    enum {
        ROUNDS = 40000
    };

    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, NULL);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        int fd = 50 + (int)(i * 7 % 4);

        amph_fdtab_set(fd, opened(i * 4 + (uint64_t)fd % 4), FDTAB_FORWARDED);
        amph_fdtab_put(amph_fdtab_set(fd, NULL, FDTAB_UNKNOWN));
    }

    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    cr_assert_eq(wrong, 0);
    cr_assert_eq(closes, ROUNDS);
}
