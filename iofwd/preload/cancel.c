/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pthread_cancel.  The client keeps cancellation out while it works, and nothing tells it that a cancellation is waiting: so those that
 * come are noted here, and a call that waits at a FIFO or for a lock ends for them.  Layer: iofwd (preload).  Thread rule: any thread.
 */
#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"

#define NOTED 64 /* the oldest makes room: it has been acted on, or its thread waits for nothing here */

static pthread_t noted[NOTED]; /* 0: none */
static unsigned next;

static pthread_t *note_of(pthread_t thread)
{
    for (int i = 0; i < NOTED; i++)
        if (__atomic_load_n(&noted[i], __ATOMIC_ACQUIRE) == thread)
            return &noted[i];
    return NULL;
}

int x_pthread_cancel(pthread_t thread)
{
    int err = real_pthread_cancel(thread);
    if (!err && !note_of(thread))
        __atomic_store_n(&noted[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % NOTED], thread, __ATOMIC_RELEASE);
    return err;
}

void fwd_cancel_forget(pthread_t thread)
{
    pthread_t *note = __atomic_load_n(&next, __ATOMIC_RELAXED) ? note_of(thread) : NULL;
    if (note)
        __atomic_compare_exchange_n(note, &thread, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool fwd_is_cancelled(void)
{
    return __atomic_load_n(&next, __ATOMIC_RELAXED) && note_of(pthread_self());
}

void fwd_wait_ended(void)
{
    if (!fwd_is_cancelled())
        return;
    fwd_cancel_forget(pthread_self());
    pthread_testcancel();
}
