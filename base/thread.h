/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of our own inside a client's process.  Layer: base.  Thread rule: any thread. */
#ifndef AMPH_BASE_THREAD_H
#define AMPH_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts one with every signal held back: they are for the program's threads.  detached: nobody
 * joins it; *thread_p is set all the same. stack_bytes 0: as many as usual.  0 or an errno
 * value. */
int amph_thread_start(pthread_t *thread_p, bool detached, size_t stack_bytes,
                      void *(*run)(void *arg), void *arg);

#endif
