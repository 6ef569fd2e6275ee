/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_proc share.  Thread rule: as the test. */
#ifndef FWD_PROC_H
#define FWD_PROC_H

#include <fcntl.h>
#include <stdbool.h>

int wait_for(pid_t pid);
/* Handlers write to a file, and hold a lock that another thread has while it does so: neither waits
 * for the other. */
void handled(void);
/* A fork inside the C library */
void on_terminal(void);
/* A process whose standard input has been read ahead leads it to a file, by dup2 or by freopen:
 * what it has read stays its own, or is dropped, and what inherits the file finds it where the
 * process has left it. */
void led_input(bool by_freopen);
/* A child in our memory with descriptors of its own waits at a FIFO; afterwards so do we. */
void waited_in_our_memory(void);
extern volatile bool counting; /* volatile: execv is said not to come back into this file */
extern volatile int counted;

#endif
