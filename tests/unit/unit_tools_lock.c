/* SPDX-License-Identifier: BSD-3-Clause */
/* The tools' mutexes, condition variables, reader/writer locks and thread keys, their checks
 * included.  For several threads, with GASNET_DEBUG, and for one without. */
#include "gasnet_tools.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t cond = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;

GASNETT_THREADKEY_DECLARE(unit_tools_key);
GASNETT_THREADKEY_DEFINE(unit_tools_key);

Test(tools_lock, one_thread)
{
    gasnett_mutex_t m;
    gasnett_cond_t c;
    gasnett_rwlock_t rw;

    gasnett_mutex_init(&m);
    gasnett_mutex_assertunlocked(&m);
    gasnett_mutex_lock(&m);
    gasnett_mutex_assertlocked(&m);
    gasnett_mutex_unlock(&m);
    cr_assert_eq(gasnett_mutex_trylock(&m), 0);
    gasnett_mutex_unlock(&m);
    gasnett_mutex_destroy(&m);
    gasnett_mutex_init(&m);
    cr_assert_eq(gasnett_mutex_destroy_ignoreerr(&m), 0);
    gasnett_cond_init(&c);
    gasnett_cond_signal(&c);
    gasnett_cond_broadcast(&c);
    gasnett_cond_destroy(&c);
    gasnett_rwlock_init(&rw);
    gasnett_rwlock_rdlock(&rw);
    gasnett_rwlock_assertrdlocked(&rw);
    gasnett_rwlock_assertlocked(&rw);
    gasnett_rwlock_unlock(&rw);
    gasnett_rwlock_assertunlocked(&rw);
    gasnett_rwlock_wrlock(&rw);
    gasnett_rwlock_assertwrlocked(&rw);
    gasnett_rwlock_assertlocked(&rw);
    gasnett_rwlock_unlock(&rw);
    cr_assert_eq(gasnett_rwlock_tryrdlock(&rw), 0);
    gasnett_rwlock_unlock(&rw);
    cr_assert_eq(gasnett_rwlock_trywrlock(&rw), 0);
    gasnett_rwlock_unlock(&rw);
    gasnett_rwlock_destroy(&rw);
}

Test(tools_lock, keys)
{
    int here;

    cr_assert_null(gasnett_threadkey_get(unit_tools_key));
    gasnett_threadkey_set(unit_tools_key, &here);
    cr_assert_eq(gasnett_threadkey_get(unit_tools_key), &here);
    gasnett_threadkey_init(unit_tools_key);
    gasnett_threadkey_init(unit_tools_key);
    cr_assert_eq(gasnett_threadkey_get_noinit(unit_tools_key), &here);
    gasnett_threadkey_set_noinit(unit_tools_key, NULL);
    cr_assert_null(gasnett_threadkey_get(unit_tools_key));
}

#if GASNETT_THREAD_SAFE

#define THREADS 4
#define ROUNDS 20000

static gasnett_cond_t arrived = GASNETT_COND_INITIALIZER;
static unsigned counter, served, waiting;
static gasnett_atomic_t readers, writers_beside;

static void *count(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0) {
            while (gasnett_mutex_trylock(&mutex) != 0)
                gasnett_sched_yield();
        } else {
            gasnett_mutex_lock(&mutex);
        }

        counter++;
        gasnett_mutex_unlock(&mutex);
    }

    return arg;
}

static void run(void *(*fn)(void *))
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, fn, (void *)i), 0);

    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

Test(tools_lock, a_mutex_excludes)
{
    run(count);
    cr_assert_eq(counter, THREADS * ROUNDS);
}

static void *wait_for_service(void *arg)
{
    gasnett_mutex_lock(&mutex);
    waiting++;
    gasnett_cond_signal(&arrived);
    while (!served)
        gasnett_cond_wait(&cond, &mutex);

    gasnett_mutex_assertlocked(&mutex);
    served++;
    gasnett_mutex_unlock(&mutex);

    return arg;
}

Test(tools_lock, a_signal_wakes_one_and_a_broadcast_all)
{
    pthread_t thread[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, wait_for_service, NULL), 0);

    gasnett_mutex_lock(&mutex);
    while (waiting < THREADS)
        gasnett_cond_wait(&arrived, &mutex);

    served = 1;
    gasnett_cond_broadcast(&cond);
    gasnett_mutex_unlock(&mutex);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);

    cr_assert_eq(served, 1 + THREADS);
}

static unsigned pages[2];

static void *read_and_write(void *arg)
{
    uintptr_t me = (uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS / 5; i++) { /* a multiple of 16 */
        if ((i + me) % 16 == 0) {
            gasnett_rwlock_wrlock(&rwlock);
            if (gasnett_atomic_read(&readers, 0))
                gasnett_atomic_increment(&writers_beside, 0);

            pages[0]++;
            pages[1]++;
        } else {
            gasnett_rwlock_rdlock(&rwlock);
            gasnett_atomic_increment(&readers, 0);
            if (pages[0] != pages[1])
                gasnett_atomic_increment(&writers_beside, 0);

            gasnett_atomic_decrement(&readers, 0);
        }
        gasnett_rwlock_unlock(&rwlock);
    }

    return NULL;
}

Test(tools_lock, writers_are_alone)
{
    run(read_and_write);
    cr_assert_eq(gasnett_atomic_read(&writers_beside, 0), 0);
    cr_assert_eq(pages[0], THREADS * (ROUNDS / 5) / 16);
}

static void *try_both(void *arg)
{
    int *answer = arg;

    answer[0] = gasnett_rwlock_tryrdlock(&rwlock);
    if (answer[0] == 0)
        gasnett_rwlock_unlock(&rwlock);

    answer[1] = gasnett_rwlock_trywrlock(&rwlock);
    answer[2] = gasnett_mutex_trylock(&mutex);
    gasnett_mutex_assertunlocked(&mutex); /* another holds it */

    return NULL;
}

Test(tools_lock, what_another_thread_may_have)
{
    pthread_t thread;
    int answer[3];

    gasnett_mutex_lock(&mutex);
    gasnett_rwlock_rdlock(&rwlock);
    cr_assert_eq(pthread_create(&thread, NULL, try_both, answer), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(answer[0], 0, "readers share");
    cr_assert_eq(answer[1], EBUSY);
    cr_assert_eq(answer[2], EBUSY);
    gasnett_rwlock_unlock(&rwlock);
    gasnett_rwlock_wrlock(&rwlock);
    cr_assert_eq(pthread_create(&thread, NULL, try_both, answer), 0);
    pthread_join(thread, NULL);
    cr_assert(answer[0] == EBUSY || answer[0] == EAGAIN);
    cr_assert_eq(gasnett_mutex_destroy_ignoreerr(&mutex), EBUSY,
                 "a locked mutex is not destroyed, silently");
}

static void *own_key(void *arg)
{
    void *before = gasnett_threadkey_get(unit_tools_key);

    gasnett_threadkey_set(unit_tools_key, arg);
    gasnett_sched_yield();
    return before || gasnett_threadkey_get(unit_tools_key) != arg ? &mutex : NULL;
}

Test(tools_lock, each_thread_has_its_own_key)
{
    pthread_t thread[THREADS];
    void *bad;

    gasnett_threadkey_set(unit_tools_key, &cond);
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, own_key, (void *)(i + 1)), 0);

    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &bad);
        cr_assert_null(bad);
    }

    cr_assert_eq(gasnett_threadkey_get(unit_tools_key), &cond);
}

/* ---- misuse is caught ---- */

static void *lock_for_good(void *arg)
{
    gasnett_mutex_lock(&mutex);
    return arg;
}

#define MISUSE_TEST(name, ...) \
    Test(tools_misuse, name, .signal = SIGABRT, .init = cr_redirect_stderr) \
    { \
        __VA_ARGS__; \
    }

/* clang-format off */
MISUSE_TEST(lock_twice, gasnett_mutex_lock(&mutex); gasnett_mutex_lock(&mutex))
MISUSE_TEST(unlock_what_is_free, gasnett_mutex_unlock(&mutex))
MISUSE_TEST(unlock_what_another_holds, pthread_t t; pthread_create(&t, NULL, lock_for_good, NULL); pthread_join(t, NULL);
            gasnett_mutex_unlock(&mutex))
MISUSE_TEST(destroy_locked, gasnett_mutex_lock(&mutex); gasnett_mutex_destroy(&mutex))
MISUSE_TEST(assert_locked, gasnett_mutex_assertlocked(&mutex))
MISUSE_TEST(assert_unlocked, gasnett_mutex_lock(&mutex); gasnett_mutex_assertunlocked(&mutex))
MISUSE_TEST(wait_without_the_mutex, gasnett_cond_wait(&cond, &mutex))
MISUSE_TEST(read_twice, gasnett_rwlock_rdlock(&rwlock); gasnett_rwlock_rdlock(&rwlock))
MISUSE_TEST(write_while_reading, gasnett_rwlock_rdlock(&rwlock); gasnett_rwlock_wrlock(&rwlock))
MISUSE_TEST(unlock_what_nobody_holds, gasnett_rwlock_unlock(&rwlock))
MISUSE_TEST(assert_rdlocked, gasnett_rwlock_wrlock(&rwlock); gasnett_rwlock_assertrdlocked(&rwlock))
MISUSE_TEST(assert_wrlocked, gasnett_rwlock_rdlock(&rwlock); gasnett_rwlock_assertwrlocked(&rwlock))
MISUSE_TEST(assert_either, gasnett_rwlock_assertlocked(&rwlock))
MISUSE_TEST(assert_neither, gasnett_rwlock_rdlock(&rwlock); gasnett_rwlock_assertunlocked(&rwlock))
/* clang-format on */

#else

Test(tools_lock, with_one_thread_nothing_is_locked)
{
    cr_assert_eq(sizeof(gasnett_mutex_t), sizeof(uintptr_t));
    gasnett_mutex_lock(&mutex);
    cr_assert_eq(gasnett_mutex_trylock(&mutex), 0);
    gasnett_rwlock_wrlock(&rwlock);
    cr_assert_eq(gasnett_rwlock_tryrdlock(&rwlock), 0);
    gasnett_cond_signal(&cond);
}

Test(tools_lock, the_only_thread_cannot_wait, .signal = SIGABRT, .init = cr_redirect_stderr)
{
    gasnett_cond_wait(&cond, &mutex);
}

#endif
