/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics and locks of the tools guarding plain data, for ThreadSanitizer, which reports every
 * access that nothing orders.  No test framework: that of the unit tests does not run under it.  0
 * if the sums are right.
 */
#include "gasnet_tools.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 2000

static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t cond = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
static gasnett_atomic_t spin = gasnett_atomic_init(0);
static gasnett_atomic_t turn = gasnett_atomic_init(0);
static gasnett_atomic_t left = gasnett_atomic_init(THREADS);
static gasnett_atomic64_t swapped = gasnett_atomic64_init(0);
static unsigned by_mutex, by_rwlock, by_spin, by_turn, by_swap, ready, at_end[THREADS], sum;

GASNETT_THREADKEY_DEFINE(race_key);

/* Each plain counter is guarded by one thing. */
static void one_round(unsigned me, unsigned i)
{
    gasnett_mutex_lock(&mutex);
    by_mutex++;
    gasnett_mutex_unlock(&mutex);

    if (i % 8 == 0) {
        gasnett_rwlock_wrlock(&rwlock);
        by_rwlock++;
    } else {
        gasnett_rwlock_rdlock(&rwlock);
        at_end[me] += by_rwlock & 1;
    }

    gasnett_rwlock_unlock(&rwlock);
    while (!gasnett_atomic_compare_and_swap(&spin, 0, 1, GASNETT_ATOMIC_ACQ_IF_TRUE))
        gasnett_sched_yield();

    by_spin++;
    gasnett_atomic_set(&spin, 0, GASNETT_ATOMIC_REL);
    while (gasnett_atomic64_swap(&swapped, 1, GASNETT_ATOMIC_ACQ))
        gasnett_sched_yield();

    by_swap++;
    gasnett_atomic64_set(&swapped, 0, GASNETT_ATOMIC_MB_PRE);
}

static void *work(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;

    gasnett_threadkey_set(race_key, arg);
    gasnett_mutex_lock(&mutex);
    if (++ready == THREADS)
        gasnett_cond_broadcast(&cond);

    while (ready < THREADS)
        gasnett_cond_wait(&cond, &mutex);

    gasnett_mutex_unlock(&mutex);
    for (unsigned i = 0; i < ROUNDS; i++)
        one_round(me, i);

    for (unsigned i = 0; i < 100; i++) { /* by turns */
        while (gasnett_atomic_read(&turn, GASNETT_ATOMIC_RMB_POST) % THREADS != me)
            gasnett_sched_yield();
        by_turn++;
        gasnett_atomic_increment(&turn, GASNETT_ATOMIC_WMB_PRE);
    }

    at_end[me] = 1;
    if (gasnett_atomic_decrement_and_test(&left, GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ_IF_TRUE))
        for (unsigned i = 0; i < THREADS; i++) /* the last one sees what all have written */
            sum += at_end[i];

    return gasnett_threadkey_get(race_key) == arg ? NULL : &mutex;
}

int main(void)
{
    pthread_t thread[THREADS];
    void *bad;
    void *any = NULL;

    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i))
            return 2;

    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &bad);
        any = bad ? bad : any;
    }

    printf("%u %u %u %u %u %u\n", by_mutex, by_rwlock, by_spin, by_swap, by_turn, sum);
    return any || by_mutex != THREADS * ROUNDS || by_rwlock != THREADS * ROUNDS / 8 ||
           by_spin != THREADS * ROUNDS || by_swap != THREADS * ROUNDS || by_turn != THREADS * 100 ||
           sum != THREADS;
}
