/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is another process of this host at work?  For callers that wait for its answer: a process that is slow is worth more
 * patience, one that is stopped or asleep for long is not.
 *
 * Layer: base; uses the C library only, and allocates no memory.  Thread rule: any thread.
 */
#ifndef AMPH_OS_WORK_H
#define AMPH_OS_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct amph_work {
    uint64_t ticks; /* processor time that it has used, in clock ticks */
    bool wants;     /* one of its threads runs, or waits for a processor or a disk */
};

/* Looks at the process.  false: it does not exist, or cannot be seen. */
bool amph_work_look(pid_t pid, struct amph_work *work_p);

/* Has the process worked since `before`, which may be some seconds ago, or does it want to now?  *before_p is the new
 * look. */
bool amph_work_goes_on(pid_t pid, struct amph_work *before_p);

/* The process at the other end of a UNIX socket; 0: there is none, or it cannot be named here. */
pid_t amph_work_peer(int fd);

#endif
