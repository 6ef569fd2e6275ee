/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves the process state that the launcher changes for itself (signal mask, ignored signals, limit
 * of open files), and restores it in the processes of the job.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_INHERIT_H
#define AMPH_LAUNCHER_INHERIT_H

#include <signal.h>
#include <sys/resource.h>

#define AMPH_INHERIT_IGNORED 4 /* SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ */

struct amph_inherit {
    sigset_t mask;
    struct sigaction action[AMPH_INHERIT_IGNORED];
    struct rlimit files;
};

/* Saves the state, then blocks the signals in `handled` (for signalfd), ignores those above, and
 * raises the limit of open files. */
void amph_inherit_save(struct amph_inherit *inherit, const sigset_t *handled);
/* Restores the state in a child between fork and exec.  Makes system calls only, so it is legal after
 * vfork. */
void amph_inherit_restore(const struct amph_inherit *inherit);

#endif
