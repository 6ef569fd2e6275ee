/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's part of the inline locks of the tools (lock.h): reader/writer locks, and for checking
 * clients the list of those that a thread holds.
 *
 * Layer: extended.  Thread rule: any thread.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "amphora/tools/lock.h"
#include "base/platform.h"

_Static_assert(sizeof(pthread_rwlock_t) <= 64, "gasnett_rwlock_t has room for the system's lock");

int amphora_tools_rwlock_init(void *rwlock)
{
    return pthread_rwlock_init(rwlock, NULL);
}

int amphora_tools_rwlock_destroy(void *rwlock)
{
    return pthread_rwlock_destroy(rwlock);
}

int amphora_tools_rwlock_lock(void *rwlock, int kind)
{
    int err;

    if (kind != 1)
        return pthread_rwlock_wrlock(rwlock);

    /* the maximum number of readers: retry until one has unlocked */
    while ((err = pthread_rwlock_rdlock(rwlock)) == EAGAIN)
        sched_yield();

    return err;
}

int amphora_tools_rwlock_try(void *rwlock, int kind)
{
    return kind == 1 ? pthread_rwlock_tryrdlock(rwlock) : pthread_rwlock_trywrlock(rwlock);
}

int amphora_tools_rwlock_unlock(void *rwlock)
{
    return pthread_rwlock_unlock(rwlock);
}

/* ---- the locks that a thread holds ---- */

#define HELD_MAX 64 /* locks held by one thread */

static __thread struct {
    unsigned n;
    struct {
        const void *lock;
        int kind;
    } entry[HELD_MAX];
} held;

static unsigned find(const void *lock)
{
    unsigned i = 0;

    while (i < held.n && held.entry[i].lock != lock)
        i++;

    return i;
}

int amphora_tools_rwlock_held(const void *lock)
{
    unsigned i = find(lock);
    return i < held.n ? held.entry[i].kind : 0;
}

void amphora_tools_rwlock_mark(const void *lock, int kind)
{
    unsigned i = find(lock);

    if (i == held.n && held.n == HELD_MAX)
        amphora_tools_misuse("one thread holds more than 64 reader/writer locks", lock, __FILE__,
                             __LINE__);

    if (i == held.n)
        held.n++;

    held.entry[i].lock = lock;
    held.entry[i].kind = kind;
    if (kind == 0)
        held.entry[i] = held.entry[--held.n];
}
