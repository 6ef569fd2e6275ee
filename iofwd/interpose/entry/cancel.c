/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pthread_cancel.  The client keeps cancellation out while it works, and nothing tells it that a
 * cancellation is waiting: so those that come are noted here, and a call that begins, or waits at a
 * FIFO or for a lock, ends for them.  Layer: iofwd (preload).  Thread rule: any thread.
 */
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

#define NOTED \
    64 /* the oldest makes room: it has been acted on, or its thread waits for nothing here */

static struct {
    pthread_t thread; /* 0: none */
    unsigned number;  /* of the cancellation */
} noted[NOTED];

static int note_of(pthread_t thread)
{
    int i = 0;

    while (i < NOTED && __atomic_load_n(&noted[i].thread, __ATOMIC_ACQUIRE) != thread)
        i++;

    return i < NOTED ? i : -1;
}

int amph_do_pthread_cancel(pthread_t thread)
{
    int err = libc_pthread_cancel(thread);

    if (!err) {
        unsigned number = __atomic_add_fetch(&amph_ip_state.cancels, 1, __ATOMIC_RELAXED);

        __atomic_store_n(&noted[number % NOTED].thread, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&noted[number % NOTED].number, number, __ATOMIC_RELEASE);
        __atomic_store_n(&noted[number % NOTED].thread, thread, __ATOMIC_RELEASE);
    }

    return err;
}

unsigned amph_ip_cancels_now(void)
{
    return __atomic_load_n(&amph_ip_state.cancels, __ATOMIC_RELAXED);
}

void amph_ip_cancel_forget(pthread_t thread, unsigned until)
{
    for (int i = 0; until && i < NOTED; i++) {
        pthread_t it = thread;

        if (__atomic_load_n(&noted[i].thread, __ATOMIC_ACQUIRE) == thread &&
            __atomic_load_n(&noted[i].number, __ATOMIC_ACQUIRE) <= until)
            __atomic_compare_exchange_n(&noted[i].thread, &it, 0, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED);
    }
}

bool amph_ip_is_cancelled(void)
{
    return __atomic_load_n(&amph_ip_state.cancels, __ATOMIC_RELAXED) &&
           note_of(pthread_self()) >= 0;
}

void amph_ip_cancel_act(void)
{
    if (amph_ip_is_cancelled())
        pthread_testcancel(); /* comes back where cancellation is switched off */
}

void amph_ip_wait_ended(void)
{
    if (!amph_ip_is_cancelled())
        return;

    amph_ip_cancel_forget(pthread_self(), amph_ip_cancels_now());
    pthread_testcancel();
}
