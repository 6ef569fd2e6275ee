/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handler-safe locks.  GASNet-EX spec, "Handler-safe locks"; GASNet-1 spec 3.4.  A handler runs
 * only inside a library call of a thread that holds no such lock; so with one thread a lock is no
 * more than a mark, and with several it is a mutex.
 */
#ifndef AMPHORA_LOCK_H
#define AMPHORA_LOCK_H

#include "amphora/job.h"

AMPHORA_BEGIN_C

/* Checked clients (GASNET_DEBUG) tell the library of each lock: it finds those that a thread takes
 * twice, gives back without holding them, or holds where that is not allowed. */
enum {
    AMPHORA_HSL_LOCK,
    AMPHORA_HSL_LOCKED,
    AMPHORA_HSL_TRIED,
    AMPHORA_HSL_UNLOCK,
    AMPHORA_HSL_DESTROY
};

void amphora_hsl_note(const void *hsl, int what);
#ifdef GASNET_DEBUG
#define AMPHORA_HSL_NOTE(hsl, what) amphora_hsl_note(hsl, what)
#else
#define AMPHORA_HSL_NOTE(hsl, what) ((void)0)
#endif

#if AMPHORA_THREADMODE == 1

typedef struct {
    int held;
} gex_HSL_t;

#define GEX_HSL_INITIALIZER \
    { \
        0 \
    }

AMPHORA_INLINE void gex_HSL_Init(gex_HSL_t *hsl)
{
    hsl->held = 0;
}

AMPHORA_INLINE void gex_HSL_Destroy(gex_HSL_t *hsl)
{
    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_DESTROY);
    hsl->held = 0;
}

AMPHORA_INLINE void gex_HSL_Lock(gex_HSL_t *hsl)
{
    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_LOCK);
    hsl->held = 1;
    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_LOCKED);
}

AMPHORA_INLINE void gex_HSL_Unlock(gex_HSL_t *hsl)
{
    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_UNLOCK);
    hsl->held = 0;
}

AMPHORA_INLINE int gex_HSL_Trylock(gex_HSL_t *hsl)
{
    if (hsl->held)
        return GASNET_ERR_NOT_READY;

    hsl->held = 1;
    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_TRIED);
    return GASNET_OK;
}

#else

AMPHORA_END_C
#include <pthread.h>
AMPHORA_BEGIN_C

typedef struct {
    pthread_mutex_t mutex;
} gex_HSL_t;

#define GEX_HSL_INITIALIZER \
    { \
        PTHREAD_MUTEX_INITIALIZER \
    }

AMPHORA_INLINE void gex_HSL_Init(gex_HSL_t *hsl)
{
    int err = pthread_mutex_init(&hsl->mutex, NULL);
    if (AMPHORA_UNLIKELY(err))
        amphora_lock_fail("gex_HSL_Init", err);
}

AMPHORA_INLINE void gex_HSL_Destroy(gex_HSL_t *hsl)
{
    int err;

    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_DESTROY);
    err = pthread_mutex_destroy(&hsl->mutex);

    if (AMPHORA_UNLIKELY(err))
        amphora_lock_fail("gex_HSL_Destroy", err);
}

AMPHORA_INLINE void gex_HSL_Lock(gex_HSL_t *hsl)
{
    int err;

    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_LOCK);
    err = pthread_mutex_lock(&hsl->mutex);

    if (AMPHORA_UNLIKELY(err))
        amphora_lock_fail("gex_HSL_Lock", err);

    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_LOCKED);
}

AMPHORA_INLINE void gex_HSL_Unlock(gex_HSL_t *hsl)
{
    int err;

    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_UNLOCK);
    err = pthread_mutex_unlock(&hsl->mutex);

    if (AMPHORA_UNLIKELY(err))
        amphora_lock_fail("gex_HSL_Unlock", err);
}

AMPHORA_INLINE int gex_HSL_Trylock(gex_HSL_t *hsl)
{
    if (pthread_mutex_trylock(&hsl->mutex))
        return GASNET_ERR_NOT_READY;

    AMPHORA_HSL_NOTE(hsl, AMPHORA_HSL_TRIED);
    return GASNET_OK;
}

#endif

AMPHORA_END_C

#endif
