/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tools' barriers and atomics: each operation of each family in one thread, sums and exchanges
 * of several, and what fences must keep apart.  Built for each thread mode; the tests of several
 * threads use the default forms only where those are atomic.
 */
#include "gasnet_tools.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define THREADS 4
#define ROUNDS 50000
#define HANDOVERS 4000 /* each may cost a time slice on a busy core */

/*
 * Every operation of a family, with the values that wrap round.  MAX: the largest value.
 * api: gasnett_atomic_read gasnett_atomic_set gasnett_atomic_increment gasnett_atomic_decrement
 * api: gasnett_atomic_decrement_and_test gasnett_atomic_add gasnett_atomic_subtract
 * api: gasnett_atomic_compare_and_swap gasnett_atomic_swap
 * api: gasnett_atomic32_read gasnett_atomic32_set
 * api: gasnett_atomic32_increment gasnett_atomic32_decrement
 * api: gasnett_atomic32_decrement_and_test gasnett_atomic32_add gasnett_atomic32_subtract
 * api: gasnett_atomic32_compare_and_swap gasnett_atomic32_swap
 * api: gasnett_atomic64_read gasnett_atomic64_set
 * api: gasnett_atomic64_increment gasnett_atomic64_decrement
 * api: gasnett_atomic64_decrement_and_test gasnett_atomic64_add gasnett_atomic64_subtract
 * api: gasnett_atomic64_compare_and_swap gasnett_atomic64_swap
 * api: gasnett_strongatomic_read gasnett_strongatomic_set
 * api: gasnett_strongatomic_increment gasnett_strongatomic_decrement
 * api: gasnett_strongatomic_decrement_and_test
 * api: gasnett_strongatomic_add gasnett_strongatomic_subtract
 * api: gasnett_strongatomic_compare_and_swap gasnett_strongatomic_swap
 * api: gasnett_strongatomic32_read gasnett_strongatomic32_set
 * api: gasnett_strongatomic32_increment gasnett_strongatomic32_decrement
 * api: gasnett_strongatomic32_decrement_and_test
 * api: gasnett_strongatomic32_add gasnett_strongatomic32_subtract
 * api: gasnett_strongatomic32_compare_and_swap gasnett_strongatomic32_swap
 * api: gasnett_strongatomic64_read gasnett_strongatomic64_set
 * api: gasnett_strongatomic64_increment gasnett_strongatomic64_decrement
 * api: gasnett_strongatomic64_decrement_and_test
 * api: gasnett_strongatomic64_add gasnett_strongatomic64_subtract
 * api: gasnett_strongatomic64_compare_and_swap gasnett_strongatomic64_swap
 */
#define FAMILY_TEST(name, atom, val, init, MAX) \
    static atom name##_fixed = init(7); \
    Test(tools_atomic, name) \
    { \
        atom array[3] = { init(1), init(MAX), init(0) }, *a = &array[1]; \
        cr_assert_eq(gasnett_##name##_read(&name##_fixed, GASNETT_ATOMIC_ACQ), 7); \
        cr_assert_eq(gasnett_##name##_read(a, 0), (val)MAX); \
        gasnett_##name##_increment(a, GASNETT_ATOMIC_NONE); \
        cr_assert_eq(gasnett_##name##_read(a, GASNETT_ATOMIC_MB_POST), 0, "wraps at the top"); \
        gasnett_##name##_decrement(a, GASNETT_ATOMIC_REL); \
        cr_assert_eq(gasnett_##name##_read(a, GASNETT_ATOMIC_MB_PRE), (val)MAX, "and at 0"); \
        gasnett_##name##_set(a, 2, GASNETT_ATOMIC_REL | GASNETT_ATOMIC_MB_POST); \
        cr_assert_eq(gasnett_##name##_decrement_and_test(a, GASNETT_ATOMIC_ACQ_IF_TRUE), 0); \
        cr_assert_neq(gasnett_##name##_decrement_and_test(a, GASNETT_ATOMIC_ACQ_IF_TRUE), 0); \
        cr_assert_eq(gasnett_##name##_add(a, 10, GASNETT_ATOMIC_WMB_PRE), 10, \
                     "the value after it"); \
        cr_assert_eq(gasnett_##name##_subtract(a, 4, GASNETT_ATOMIC_RMB_PRE), 6); \
        cr_assert_eq(gasnett_##name##_subtract(a, 7, 0), (val)MAX); \
        cr_assert_eq(gasnett_##name##_compare_and_swap(a, 5, 9, GASNETT_ATOMIC_ACQ_IF_FALSE), 0); \
        cr_assert_eq(gasnett_##name##_read(a, 0), (val)MAX, "left as it was"); \
        cr_assert_neq(gasnett_##name##_compare_and_swap( \
                          a, MAX, 9, GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ_IF_TRUE), \
                      0); \
        cr_assert_eq(gasnett_##name##_swap(a, 3, GASNETT_ATOMIC_WMB_POST), 9, \
                     "the value before it"); \
        cr_assert_eq(gasnett_##name##_read(a, GASNETT_ATOMIC_RMB_POST), 3); \
        cr_assert_eq(gasnett_##name##_read(&array[0], 0), 1); \
        cr_assert_eq(gasnett_##name##_read(&array[2], 0), 0, "neighbours are untouched"); \
    }

/* clang-format off */
FAMILY_TEST(atomic, gasnett_atomic_t, gasnett_atomic_val_t, gasnett_atomic_init, GASNETT_ATOMIC_MAX)
FAMILY_TEST(atomic32, gasnett_atomic32_t, uint32_t, gasnett_atomic32_init, UINT32_MAX)
FAMILY_TEST(atomic64, gasnett_atomic64_t, uint64_t, gasnett_atomic64_init, UINT64_MAX)
FAMILY_TEST(strongatomic, gasnett_strongatomic_t, gasnett_atomic_val_t, gasnett_strongatomic_init, GASNETT_ATOMIC_MAX)
FAMILY_TEST(strongatomic32, gasnett_strongatomic32_t, uint32_t, gasnett_strongatomic32_init, UINT32_MAX)
FAMILY_TEST(strongatomic64, gasnett_strongatomic64_t, uint64_t, gasnett_strongatomic64_init, UINT64_MAX)
/* clang-format on */

Test(tools_atomic, signed_values_and_range)
{
    gasnett_atomic_t a = gasnett_atomic_init(-5);
    gasnett_atomic_sval_t back = gasnett_atomic_signed(gasnett_atomic_read(&a, 0));

    cr_assert_eq(back, -5);
    cr_assert_eq(gasnett_atomic_signed(gasnett_atomic_add(&a, 3, 0)), -2);
    gasnett_atomic_set(&a, GASNETT_ATOMIC_SIGNED_MAX, 0);
    gasnett_atomic_increment(&a, 0);
    cr_assert_eq(gasnett_atomic_signed(gasnett_atomic_read(&a, 0)), GASNETT_ATOMIC_SIGNED_MIN);
    cr_assert(GASNETT_ATOMIC_MAX >= 0xffffff && GASNETT_HAVE_ATOMIC_CAS == 1 &&
              GASNETT_HAVE_ATOMIC_ADD_SUB == 1);
    cr_assert(GASNETT_HAVE_STRONGATOMIC_CAS == 1 && GASNETT_HAVE_STRONGATOMIC_ADD_SUB == 1);
    cr_assert(gasnett_atomic_compare_and_swap(&a, (uint64_t)0x180000000u, 1, 0),
              "values are wrapped to the type's range");
}

Test(tools_atomic, natural_storage)
{
    float f = 1.5f;
    double d[2] = { 0, -2.25 };

    union {
        double d;
        uint64_t bits;
    } as;
    cr_assert(sizeof(gasnett_atomic32_t) == 4 && sizeof(gasnett_atomic64_t) == 8);
    cr_assert(_Alignof(gasnett_atomic32_t) <= _Alignof(float) &&
              _Alignof(gasnett_atomic64_t) <= _Alignof(double));
    cr_assert_eq(gasnett_atomic32_read((gasnett_atomic32_t *)&f, 0), 0x3fc00000u);
    as.bits = gasnett_atomic64_swap((gasnett_atomic64_t *)&d[1], 0,
                                    GASNETT_ATOMIC_MB_PRE | GASNETT_ATOMIC_MB_POST);
    cr_assert(as.d == -2.25 && d[1] == 0.0);
}

Test(tools_atomic, names_of_flags)
{
    cr_assert_eq(GASNETT_ATOMIC_REL, GASNETT_ATOMIC_WMB_PRE);
    cr_assert_eq(GASNETT_ATOMIC_ACQ, GASNETT_ATOMIC_RMB_POST);
    cr_assert_eq(GASNETT_ATOMIC_ACQ_IF_TRUE, GASNETT_ATOMIC_RMB_POST_IF_TRUE);
    cr_assert_eq(GASNETT_ATOMIC_ACQ_IF_FALSE, GASNETT_ATOMIC_RMB_POST_IF_FALSE);
    cr_assert_eq(GASNETT_ATOMIC_NONE, 0);
}

/* ---- a handler of a signal counts with the program ---- */

static gasnett_strongatomic_t by_both = gasnett_strongatomic_init(0);
static gasnett_strongatomic64_t by_both64 = gasnett_strongatomic64_init(0);
static volatile unsigned signals;

static void count_signal(int sig)
{
    (void)sig;
    signals++;
    gasnett_strongatomic_increment(&by_both, 0);
    (void)gasnett_strongatomic64_add(&by_both64, 1, 0);
}

Test(tools_atomic, strong_ones_are_safe_in_signal_handlers)
{
    const struct itimerval often = { { 0, 50 }, { 0, 50 } };
    const struct itimerval never = { { 0, 0 }, { 0, 0 } };
    unsigned own = 0;

    gasnett_reghandler(SIGALRM, count_signal);
    setitimer(ITIMER_REAL, &often, NULL);

    for (; signals < 200; own++) {
        gasnett_strongatomic_increment(&by_both, 0);
        (void)gasnett_strongatomic64_add(&by_both64, 1, 0);
    }

    setitimer(ITIMER_REAL, &never, NULL);
    gasnett_reghandler(SIGALRM, SIG_IGN);
    cr_assert_eq(gasnett_strongatomic_read(&by_both, 0), own + signals);
    cr_assert_eq(gasnett_strongatomic64_read(&by_both64, 0), own + signals);
}

/* ---- several threads ---- */

#if GASNETT_THREAD_SAFE
#define SHARED(op) gasnett_##op
#else
#define SHARED(op) gasnett_strong##op
#endif

static gasnett_atomic_t sum, ticket;
static gasnett_atomic64_t sum64;
static gasnett_atomic32_t turns;
static unsigned guarded, taken[THREADS];

static void run(void *(*fn)(void *))
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, fn, (void *)i), 0);

    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void *add_up(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        SHARED(atomic_increment)(&sum, 0);
        (void)SHARED(atomic_add)(&sum, 2, GASNETT_ATOMIC_MB_PRE | GASNETT_ATOMIC_MB_POST);
        SHARED(atomic_decrement)(&sum, GASNETT_ATOMIC_REL);
        (void)SHARED(atomic64_add)(&sum64, UINT64_C(0x100000001), GASNETT_ATOMIC_ACQ);

        while (!SHARED(atomic32_compare_and_swap)(&turns, i, i + 1, 0) &&
               SHARED(atomic32_read)(&turns, 0) <= i)
            gasnett_spinloop_hint();
    }

    return NULL;
}

Test(tools_atomic, sums_of_several_threads)
{
    run(add_up);
    cr_assert_eq(SHARED(atomic_read)(&sum, 0), THREADS * ROUNDS * 2);
    cr_assert_eq(SHARED(atomic64_read)(&sum64, 0), UINT64_C(0x100000001) * THREADS * ROUNDS);
    cr_assert_eq(SHARED(atomic32_read)(&turns, 0), ROUNDS,
                 "of all that swap from i to i + 1 one does it");
}

/* A lock made of an atomic: plain data inside it is seen whole. */
static void *guard(void *arg)
{
    uintptr_t me = (uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS / 10; i++) {
        while (!SHARED(atomic_compare_and_swap)(&ticket, 0, 1, GASNETT_ATOMIC_ACQ_IF_TRUE))
            gasnett_sched_yield();

        guarded++;
        taken[me]++;
        SHARED(atomic_set)(&ticket, 0, GASNETT_ATOMIC_REL);
    }

    return NULL;
}

Test(tools_atomic, acquire_and_release_guard_plain_data)
{
    run(guard);
    cr_assert_eq(guarded, THREADS * (ROUNDS / 10));
    for (unsigned i = 0; i < THREADS; i++)
        cr_assert_eq(taken[i], ROUNDS / 10);
}

/*
 * Each of two threads stores its own word, then reads the other's.  A full fence between forbids
 * that both read what was there before; without one x86 does it now and then.  The two meet, then
 * go through many words side by side; the way of fencing changes each time.
 */
#define WORDS 256
static struct {
    gasnett_atomic_t word;
    char rest[64 - sizeof(gasnett_atomic_t)];
} side[2][WORDS];

static gasnett_atomic_t arrived;
static gasnett_atomic_val_t seen[2][WORDS];
static unsigned both_missed;

static void meet(gasnett_atomic_val_t all)
{
    (void)SHARED(atomic_add)(&arrived, 1, GASNETT_ATOMIC_MB_PRE);
    for (unsigned i = 0; SHARED(atomic_read)(&arrived, GASNETT_ATOMIC_ACQ) < all; i++)
        if (i > 1000)
            gasnett_sched_yield();
}

/* One loop for each way, so that only the fence is between store and load. */
#define SIDE_BY_SIDE(set_flags, fence, read_flags) \
    for (unsigned k = 0; k < WORDS; k++) { \
        SHARED(atomic_set)(&side[me][k].word, value, set_flags); \
        fence; \
        seen[me][k] = SHARED(atomic_read)(&side[!me][k].word, read_flags); \
    }

static void go_along(unsigned me, gasnett_atomic_val_t value)
{
    switch (value % 5) {
    case 0:
        SIDE_BY_SIDE(GASNETT_ATOMIC_MB_POST, (void)0, 0) break;
    case 1:
        SIDE_BY_SIDE(0, gasnett_local_mb(), 0) break;
    case 2:
        SIDE_BY_SIDE(0, gasnett_local_wmb(), 0) break;
    case 3:
        SIDE_BY_SIDE(0, (void)0, GASNETT_ATOMIC_MB_PRE) break;
    default:
        SIDE_BY_SIDE(0, (void)0, GASNETT_ATOMIC_WMB_PRE) break;
    }
}

static void *look_at_each_other(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;

    for (gasnett_atomic_val_t i = 1; i <= HANDOVERS; i++) {
        meet(4 * i - 2);
        go_along(me, i);
        meet(4 * i);
        for (unsigned k = 0; me == 0 && k < WORDS; k++)
            both_missed += seen[0][k] != i && seen[1][k] != i;
    }

    return NULL;
}

Test(tools_atomic, full_fences_keep_store_and_load_apart)
{
    pthread_t other;

    cr_assert_eq(pthread_create(&other, NULL, look_at_each_other, (void *)1), 0);
    look_at_each_other(NULL);
    pthread_join(other, NULL);
    cr_assert_eq(both_missed, 0, "%u", both_missed);
}

static unsigned cargo;
static gasnett_atomic_t flag;

static void *receive(void *arg)
{
    (void)arg;

    unsigned wrong = 0;

    for (gasnett_atomic_val_t i = 1; i <= HANDOVERS; i++) {
        while (SHARED(atomic_read)(&flag, 0) != 2 * i - 1)
            gasnett_sched_yield();

        gasnett_local_rmb();
        wrong += cargo != i;
        SHARED(atomic_set)(&flag, 2 * i, GASNETT_ATOMIC_MB_PRE);
    }

    return (void *)(uintptr_t)wrong;
}

Test(tools_atomic, barriers_order_data_and_flag)
{
    pthread_t other;
    void *wrong;

    cr_assert_eq(pthread_create(&other, NULL, receive, NULL), 0);
    for (gasnett_atomic_val_t i = 1; i <= HANDOVERS; i++) {
        cargo = i;
        gasnett_local_wmb();
        SHARED(atomic_set)(&flag, 2 * i - 1, 0);
        while (SHARED(atomic_read)(&flag, GASNETT_ATOMIC_ACQ) != 2 * i)
            gasnett_sched_yield();
    }

    pthread_join(other, &wrong);
    cr_assert_eq((uintptr_t)wrong, 0);
}

Test(tools_atomic, weak_barriers_compile)
{
    int *p = &(int){ 1 };

    *p = 2;
    gasnett_weak_mb();
    gasnett_weak_wmb();
    gasnett_weak_rmb();
    gasnett_compiler_fence();
    cr_assert_eq(*p, 2);
}
