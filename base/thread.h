/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting the library's threads in a client's process.
 *
 * Layer: base.  Thread rule: any thread.
 */
#ifndef AMPH_BASE_THREAD_H
#define AMPH_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a thread with every signal blocked, because signals are for the program's threads.
 * *thread_p is set also if the thread is detached.  stack_bytes 0: the system's default.  Returns 0
 * or an errno value. */
int amph_thread_start(pthread_t *thread_p, bool detached, size_t stack_bytes,
                      void *(*run)(void *arg), void *arg);

#endif
