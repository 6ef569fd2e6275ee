/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pthread_cancel.  The client disables cancellation while it works, and POSIX has no way to ask for
 * a pending one.  This file records cancellations, so that a forwarded call can act on them where it
 * begins and while it waits for a FIFO or a lock.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <pthread.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

static int find_pending(pthread_t thread)
{
    int i = 0;

    while (i < AMPH_IP_PENDING_CANCELS &&
           __atomic_load_n(&amph_ip_state.pending_cancel[i].thread, __ATOMIC_ACQUIRE) != thread)
        i++;

    return i < AMPH_IP_PENDING_CANCELS ? i : -1;
}

int amph_do_pthread_cancel(pthread_t thread)
{
    int err = libc_pthread_cancel(thread);

    if (!err) {
        unsigned number = __atomic_add_fetch(&amph_ip_state.cancels, 1, __ATOMIC_RELAXED);
        struct amph_ip_pending_cancel *entry =
            &amph_ip_state.pending_cancel[number % AMPH_IP_PENDING_CANCELS];

        __atomic_store_n(&entry->thread, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->number, number, __ATOMIC_RELEASE);
        __atomic_store_n(&entry->thread, thread, __ATOMIC_RELEASE);
    }

    return err;
}

unsigned amph_ip_cancels_now(void)
{
    return __atomic_load_n(&amph_ip_state.cancels, __ATOMIC_RELAXED);
}

void amph_ip_cancel_forget(pthread_t thread, unsigned until)
{
    for (int i = 0; until && i < AMPH_IP_PENDING_CANCELS; i++) {
        pthread_t it = thread;

        if (__atomic_load_n(&amph_ip_state.pending_cancel[i].thread, __ATOMIC_ACQUIRE) == thread &&
            __atomic_load_n(&amph_ip_state.pending_cancel[i].number, __ATOMIC_ACQUIRE) <= until)
            __atomic_compare_exchange_n(&amph_ip_state.pending_cancel[i].thread, &it, 0, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

bool amph_ip_is_cancelled(void)
{
    return __atomic_load_n(&amph_ip_state.cancels, __ATOMIC_RELAXED) &&
           find_pending(pthread_self()) >= 0;
}

void amph_ip_cancel_act(void)
{
    if (amph_ip_is_cancelled())
        pthread_testcancel(); /* returns if cancellation is disabled */
}

void amph_ip_wait_ended(void)
{
    if (!amph_ip_is_cancelled())
        return;

    amph_ip_cancel_forget(pthread_self(), amph_ip_cancels_now());
    pthread_testcancel();
}
