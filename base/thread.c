/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads; see thread.h.  Layer: base. */
#include "base/thread.h"

#include <signal.h>

int amph_thread_start(pthread_t *thread_p, bool detached, size_t stack_bytes,
                      void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr,
                                detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    if (stack_bytes)
        pthread_attr_setstacksize(&attr, stack_bytes);

    int err = pthread_create(thread_p, &attr, run, arg);

    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}
