/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting the library's threads in a client's process; system calls that block while the caller
 * blocks signals.
 *
 * Layer: base.  Thread rule: any thread.
 */
#ifndef AMPH_BASE_THREAD_H
#define AMPH_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "base/os/clock.h"

/*
 * How long a thread of the library waits for work before it ends.  A program may end by the end of its
 * last thread (pthread_exit in main), and the C library calls exit only when no other thread is left; so
 * a thread that waits without limit would keep such a program from ending.  The next work starts a
 * thread again.
 */
#define AMPH_THREAD_IDLE_NS (AMPH_NS_PER_S / 2)

/* Starts a thread with every signal blocked, because signals are for the program's threads.
 * *thread_p is set also if the thread is detached.  stack_bytes 0: the system's default.  Returns 0
 * or an errno value. */
int amph_thread_start(pthread_t *thread_p, bool detached, size_t stack_bytes,
                      void *(*run)(void *arg), void *arg);

/* Have all threads of the program ended, so that only those of amph_thread_start are left?  The caller is
 * one of these, and should end.  Reads /proc. */
bool amph_thread_program_ended(void);

/*
 * Sets what removes from *mask_p, a signal mask, those signals that end or stop the program and that
 * only the library blocks.  The file client does: its calls block signals, and a program that waits for
 * a server or a launcher must end by a fatal signal all the same.
 */
void amph_thread_set_wait_mask(void (*fn)(sigset_t *mask_p));

/* Around each system call that may block for longer than an instant: lets such signals in.  errno stays
 * as it is. */
void amph_thread_wait_begin(sigset_t *before_p);
void amph_thread_wait_end(const sigset_t *before);

/* The number of the calling thread's descriptor table: a descriptor that was opened in one table is not
 * valid in another, unless it was opened before the tables parted.  0: the process's first table; only
 * the file interposer knows of others. */
uint32_t amph_thread_fd_table(void);
void amph_thread_fd_table_by(uint32_t (*number)(void));

#endif
