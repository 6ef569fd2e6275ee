/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutexes, condition variables, reader/writer locks.  GASNet tools spec, "Error-checking System
 * Mutexes and Condition Variables", "Reader/Writer locks".
 *
 * In a client of several threads, or with GASNETT_USE_TRUE_MUTEXES=1, they are those of pthreads;
 * else nothing is locked. With GASNET_DEBUG each knows who holds it: locking twice, unlocking what
 * another holds, and false assertions are fatal, in one sentence that names the lock and the line.
 * None may be taken twice by one thread.
 */
#ifndef AMPHORA_TOOLS_LOCK_H
#define AMPHORA_TOOLS_LOCK_H

#include <errno.h>
#include <stdint.h>

#include "amphora/tools/debug.h"

#if AMPHORA_TOOLS_SAFE || GASNETT_USE_TRUE_MUTEXES
#define AMPHORA_TOOLS_TRUE_LOCKS 1
#include <pthread.h>
#else
#define AMPHORA_TOOLS_TRUE_LOCKS 0
#endif

AMPHORA_BEGIN_C

/* ---- who holds what (GASNET_DEBUG) ---- */

#define AMPHORA_LOCK_HERE __FILE__, __LINE__
#define AMPHORA_LOCK_PLACE const char *file, int line
#if AMPHORA_TOOLS_CHECK
#define AMPHORA_LOCK_CHECK(cond, what, lock) \
    ((void)(AMPHORA_LIKELY(cond) || (amphora_tools_misuse(what, lock, file, line), 0)))
#else
#define AMPHORA_LOCK_CHECK(cond, what, lock) ((void)file, (void)line)
#endif
/* An error of pthreads itself: always fatal. */
#define AMPHORA_LOCK_MUST(err, what, lock) \
    ((void)(AMPHORA_LIKELY((err) == 0) || (amphora_tools_misuse(what, lock, file, line), 0)))

/* The rwlocks that this thread holds: 0 (not), 1 (for reading), 2 (for writing).  Mark 0
 * forgets. */
int amphora_tools_rwlock_held(const void *lock);
void amphora_tools_rwlock_mark(const void *lock, int kind);

/* ---- mutexes ---- */

typedef struct {
#if AMPHORA_TOOLS_TRUE_LOCKS
    pthread_mutex_t mutex;
#endif
#if AMPHORA_TOOLS_CHECK || !AMPHORA_TOOLS_TRUE_LOCKS
    volatile uintptr_t owner; /* 0: nobody */
#endif
} gasnett_mutex_t;

#if AMPHORA_TOOLS_TRUE_LOCKS && AMPHORA_TOOLS_CHECK
#define GASNETT_MUTEX_INITIALIZER \
    { \
        PTHREAD_MUTEX_INITIALIZER, 0 \
    }
#elif AMPHORA_TOOLS_TRUE_LOCKS
#define GASNETT_MUTEX_INITIALIZER \
    { \
        PTHREAD_MUTEX_INITIALIZER \
    }
#else
#define GASNETT_MUTEX_INITIALIZER \
    { \
        0 \
    }
#endif

AMPHORA_INLINE int amphora_mutex_is_mine(const gasnett_mutex_t *pl)
{
#if AMPHORA_TOOLS_CHECK && AMPHORA_TOOLS_TRUE_LOCKS
    return __atomic_load_n(&pl->owner, __ATOMIC_RELAXED) == (uintptr_t)pthread_self();
#elif AMPHORA_TOOLS_CHECK
    return pl->owner == 1;
#else
    (void)pl;
    return 0;
#endif
}

AMPHORA_INLINE void amphora_mutex_note(gasnett_mutex_t *pl, int held)
{
#if AMPHORA_TOOLS_CHECK && AMPHORA_TOOLS_TRUE_LOCKS
    __atomic_store_n(&pl->owner, held ? (uintptr_t)pthread_self() : 0, __ATOMIC_RELAXED);
#elif AMPHORA_TOOLS_CHECK
    pl->owner = (uintptr_t)held;
#else
    (void)pl;
    (void)held;
#endif
}

AMPHORA_INLINE void amphora_mutex_init(gasnett_mutex_t *pl, AMPHORA_LOCK_PLACE)
{
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(pthread_mutex_init(&pl->mutex, NULL),
                      "gasnett_mutex_init: the system has no room for a mutex", pl);
#endif
    (void)file;
    (void)line;
    amphora_mutex_note(pl, 0);
}

AMPHORA_INLINE int amphora_mutex_destroy_quietly(gasnett_mutex_t *pl)
{
#if AMPHORA_TOOLS_TRUE_LOCKS
    return pthread_mutex_destroy(&pl->mutex);
#else
    (void)pl;
    return 0;
#endif
}

AMPHORA_INLINE void amphora_mutex_destroy(gasnett_mutex_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(pl->owner == 0, "gasnett_mutex_destroy: the mutex is locked", pl);
    AMPHORA_LOCK_MUST(amphora_mutex_destroy_quietly(pl),
                      "gasnett_mutex_destroy: the mutex is locked or no mutex", pl);
}

AMPHORA_INLINE void amphora_mutex_lock(gasnett_mutex_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(!amphora_mutex_is_mine(pl),
                       "gasnett_mutex_lock: this thread holds the mutex already", pl);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(pthread_mutex_lock(&pl->mutex), "gasnett_mutex_lock: this is no valid mutex",
                      pl);
#endif
    amphora_mutex_note(pl, 1);
}

AMPHORA_INLINE void amphora_mutex_unlock(gasnett_mutex_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(amphora_mutex_is_mine(pl),
                       "gasnett_mutex_unlock: this thread does not hold the mutex", pl);
    amphora_mutex_note(pl, 0);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(pthread_mutex_unlock(&pl->mutex),
                      "gasnett_mutex_unlock: this is no valid mutex", pl);
#endif
}

AMPHORA_INLINE int amphora_mutex_trylock(gasnett_mutex_t *pl)
{
#if AMPHORA_TOOLS_TRUE_LOCKS
    if (pthread_mutex_trylock(&pl->mutex))
        return EBUSY;
#else
    if (amphora_mutex_is_mine(pl))
        return EBUSY;
#endif
    amphora_mutex_note(pl, 1);
    return 0;
}

AMPHORA_INLINE void amphora_mutex_assert(gasnett_mutex_t *pl, int held, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(amphora_mutex_is_mine(pl) == held,
                       held ? "gasnett_mutex_assertlocked: this thread does not hold the mutex"
                            : "gasnett_mutex_assertunlocked: this thread holds the mutex",
                       pl);
    (void)pl;
    (void)held;
}

#define gasnett_mutex_init(pl) amphora_mutex_init(pl, AMPHORA_LOCK_HERE)
#define gasnett_mutex_destroy(pl) amphora_mutex_destroy(pl, AMPHORA_LOCK_HERE)
#define gasnett_mutex_destroy_ignoreerr(pl) amphora_mutex_destroy_quietly(pl)
#define gasnett_mutex_lock(pl) amphora_mutex_lock(pl, AMPHORA_LOCK_HERE)
#define gasnett_mutex_unlock(pl) amphora_mutex_unlock(pl, AMPHORA_LOCK_HERE)
#define gasnett_mutex_trylock(pl) amphora_mutex_trylock(pl)
#define gasnett_mutex_assertlocked(pl) amphora_mutex_assert(pl, 1, AMPHORA_LOCK_HERE)
#define gasnett_mutex_assertunlocked(pl) amphora_mutex_assert(pl, 0, AMPHORA_LOCK_HERE)

/* ---- condition variables; signal and broadcast by a thread that holds the mutex ---- */

#if AMPHORA_TOOLS_TRUE_LOCKS

typedef struct {
    pthread_cond_t cond;
} gasnett_cond_t;
#define GASNETT_COND_INITIALIZER \
    { \
        PTHREAD_COND_INITIALIZER \
    }

AMPHORA_INLINE void amphora_cond_wait(gasnett_cond_t *pc, gasnett_mutex_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(amphora_mutex_is_mine(pl),
                       "gasnett_cond_wait: this thread does not hold the mutex", pl);
    amphora_mutex_note(pl, 0);
    AMPHORA_LOCK_MUST(pthread_cond_wait(&pc->cond, &pl->mutex),
                      "gasnett_cond_wait: it or its mutex is not valid", pc);
    amphora_mutex_note(pl, 1);
}

AMPHORA_INLINE void amphora_cond_must(int err, const void *pc, const char *what, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_MUST(err, what, pc);
}
#define gasnett_cond_init(pc) \
    amphora_cond_must(pthread_cond_init(&(pc)->cond, NULL), pc, \
                      "gasnett_cond_init: there is no room for it", AMPHORA_LOCK_HERE)
#define gasnett_cond_destroy(pc) \
    amphora_cond_must(pthread_cond_destroy(&(pc)->cond), pc, \
                      "gasnett_cond_destroy: a thread waits for it", AMPHORA_LOCK_HERE)
#define gasnett_cond_signal(pc) \
    amphora_cond_must(pthread_cond_signal(&(pc)->cond), pc, \
                      "gasnett_cond_signal: it is not valid", AMPHORA_LOCK_HERE)
#define gasnett_cond_broadcast(pc) \
    amphora_cond_must(pthread_cond_broadcast(&(pc)->cond), pc, \
                      "gasnett_cond_broadcast: it is not valid", AMPHORA_LOCK_HERE)
#define gasnett_cond_wait(pc, pl) amphora_cond_wait(pc, pl, AMPHORA_LOCK_HERE)

#else

typedef struct {
    char unused;
} gasnett_cond_t;
#define GASNETT_COND_INITIALIZER \
    { \
        0 \
    }
#define gasnett_cond_init(pc) ((void)((pc)->unused = 0))
#define gasnett_cond_destroy(pc) ((void)(pc))
#define gasnett_cond_signal(pc) ((void)(pc))
#define gasnett_cond_broadcast(pc) ((void)(pc))
/* Nobody could ever wake the only thread. */
#define gasnett_cond_wait(pc, pl) \
    ((void)(pc), (void)(pl), \
     amphora_tools_misuse("gasnett_cond_wait: the only thread would wait for ever", pc, \
                          AMPHORA_LOCK_HERE))

#endif

/* ---- reader/writer locks ---- */

/* A pthread_rwlock_t lies inside; strict C hides that type, so its calls are the library's. */
typedef struct {
    uint64_t inside[AMPHORA_TOOLS_TRUE_LOCKS ? 8 : 1];
} gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER \
    { \
        { \
            0 \
        } \
    }

int amphora_tools_rwlock_init(void *rwlock);
int amphora_tools_rwlock_destroy(void *rwlock);
/* 1 for reading, 2 for writing; waits while there are too many readers */
int amphora_tools_rwlock_lock(void *rwlock, int kind);
int amphora_tools_rwlock_try(void *rwlock, int kind);
int amphora_tools_rwlock_unlock(void *rwlock);

#if AMPHORA_TOOLS_CHECK
#define AMPHORA_RWLOCK_NOTE(pl, kind) amphora_tools_rwlock_mark(pl, kind)
#else
#define AMPHORA_RWLOCK_NOTE(pl, kind) ((void)0)
#endif

AMPHORA_INLINE void amphora_rwlock_init(gasnett_rwlock_t *pl, AMPHORA_LOCK_PLACE)
{
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(amphora_tools_rwlock_init(pl),
                      "gasnett_rwlock_init: the system has no room for a lock", pl);
#else
    pl->inside[0] = 0;
#endif
    AMPHORA_LOCK_CHECK(!amphora_tools_rwlock_held(pl),
                       "gasnett_rwlock_init: this thread holds the lock", pl);
}

AMPHORA_INLINE void amphora_rwlock_destroy(gasnett_rwlock_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(!amphora_tools_rwlock_held(pl),
                       "gasnett_rwlock_destroy: this thread holds the lock", pl);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(amphora_tools_rwlock_destroy(pl),
                      "gasnett_rwlock_destroy: the lock is held or no lock", pl);
#endif
    (void)pl;
}

AMPHORA_INLINE void amphora_rwlock_rdlock(gasnett_rwlock_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(!amphora_tools_rwlock_held(pl),
                       "gasnett_rwlock_rdlock: this thread holds the lock already", pl);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(amphora_tools_rwlock_lock(pl, 1),
                      "gasnett_rwlock_rdlock: it is not valid, or this thread holds it", pl);
#endif
    (void)pl;
    AMPHORA_RWLOCK_NOTE(pl, 1);
}

AMPHORA_INLINE void amphora_rwlock_wrlock(gasnett_rwlock_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(!amphora_tools_rwlock_held(pl),
                       "gasnett_rwlock_wrlock: this thread holds the lock already", pl);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(amphora_tools_rwlock_lock(pl, 2),
                      "gasnett_rwlock_wrlock: it is not valid, or this thread holds it", pl);
#endif
    (void)pl;
    AMPHORA_RWLOCK_NOTE(pl, 2);
}

AMPHORA_INLINE void amphora_rwlock_unlock(gasnett_rwlock_t *pl, AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(amphora_tools_rwlock_held(pl),
                       "gasnett_rwlock_unlock: this thread does not hold the lock", pl);
    AMPHORA_RWLOCK_NOTE(pl, 0);
#if AMPHORA_TOOLS_TRUE_LOCKS
    AMPHORA_LOCK_MUST(amphora_tools_rwlock_unlock(pl),
                      "gasnett_rwlock_unlock: this is no valid lock", pl);
#endif
    (void)pl;
}

AMPHORA_INLINE int amphora_rwlock_try(gasnett_rwlock_t *pl, int kind)
{
#if AMPHORA_TOOLS_CHECK
    if (amphora_tools_rwlock_held(pl))
        return EBUSY;
#endif
#if AMPHORA_TOOLS_TRUE_LOCKS
    int err = amphora_tools_rwlock_try(pl, kind);
    if (err)
        return err == EAGAIN ? EAGAIN : EBUSY;
#endif
    (void)pl;
    (void)kind;
    AMPHORA_RWLOCK_NOTE(pl, kind);
    return 0;
}

AMPHORA_INLINE void amphora_rwlock_assert(gasnett_rwlock_t *pl, unsigned kinds, const char *what,
                                          AMPHORA_LOCK_PLACE)
{
    AMPHORA_LOCK_CHECK(kinds >> amphora_tools_rwlock_held(pl) & 1, what, pl);
    (void)pl;
    (void)kinds;
    (void)what;
}

#define gasnett_rwlock_init(pl) amphora_rwlock_init(pl, AMPHORA_LOCK_HERE)
#define gasnett_rwlock_destroy(pl) amphora_rwlock_destroy(pl, AMPHORA_LOCK_HERE)
#define gasnett_rwlock_rdlock(pl) amphora_rwlock_rdlock(pl, AMPHORA_LOCK_HERE)
#define gasnett_rwlock_wrlock(pl) amphora_rwlock_wrlock(pl, AMPHORA_LOCK_HERE)
#define gasnett_rwlock_unlock(pl) amphora_rwlock_unlock(pl, AMPHORA_LOCK_HERE)
/* 0, or EBUSY, or EAGAIN (too many readers). */
#define gasnett_rwlock_tryrdlock(pl) amphora_rwlock_try(pl, 1)
#define gasnett_rwlock_trywrlock(pl) amphora_rwlock_try(pl, 2)
#define gasnett_rwlock_assertrdlocked(pl) \
    amphora_rwlock_assert( \
        pl, 2, "gasnett_rwlock_assertrdlocked: this thread does not hold the lock for reading", \
        AMPHORA_LOCK_HERE)
#define gasnett_rwlock_assertwrlocked(pl) \
    amphora_rwlock_assert( \
        pl, 4, "gasnett_rwlock_assertwrlocked: this thread does not hold the lock for writing", \
        AMPHORA_LOCK_HERE)
#define gasnett_rwlock_assertlocked(pl) \
    amphora_rwlock_assert(pl, 6, \
                          "gasnett_rwlock_assertlocked: this thread does not hold the lock", \
                          AMPHORA_LOCK_HERE)
#define gasnett_rwlock_assertunlocked(pl) \
    amphora_rwlock_assert(pl, 1, "gasnett_rwlock_assertunlocked: this thread holds the lock", \
                          AMPHORA_LOCK_HERE)

AMPHORA_END_C

#endif
