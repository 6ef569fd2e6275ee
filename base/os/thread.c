/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads, and blocking calls; see thread.h.  Layer: base. */
#include "base/os/thread.h"

#include <stddef.h>

static struct {
    void (*wait_mask)(sigset_t *mask_p);
    uint32_t (*fd_table)(void);
} state;

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

void amph_thread_set_wait_mask(void (*fn)(sigset_t *mask_p))
{
    __atomic_store_n(&state.wait_mask, fn, __ATOMIC_RELAXED);
}

void amph_thread_wait_begin(sigset_t *before_p)
{
    void (*fn)(sigset_t *) = __atomic_load_n(&state.wait_mask, __ATOMIC_RELAXED);
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, before_p);
    if (!fn)
        return;

    mask = *before_p;
    fn(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void amph_thread_wait_end(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void amph_thread_fd_table_by(uint32_t (*number)(void))
{
    state.fd_table = number;
}

uint32_t amph_thread_fd_table(void)
{
    return state.fd_table ? state.fd_table() : 0;
}
