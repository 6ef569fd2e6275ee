/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher changes in its own process (signal mask, ignored signals, limit of open files)
 * and the processes of the job must find unchanged.  Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_INHERIT_H
#define AMPH_LAUNCHER_INHERIT_H

#include <signal.h>
#include <sys/resource.h>

#define AMPH_INHERIT_IGNORED 3 /* SIGPIPE, SIGTTIN, SIGTTOU */

struct amph_inherit {
    sigset_t mask;
    struct sigaction action[AMPH_INHERIT_IGNORED];
    struct rlimit files;
};

/* Saves the state, then blocks the signals in `handled` (for signalfd), ignores those above, and
 * raises the limit of open files. */
void amph_inherit_save(struct amph_inherit *inherit, const sigset_t *handled);
/* Puts all back; for a child between fork and exec (only system calls, legal after vfork). */
void amph_inherit_restore(const struct amph_inherit *inherit);

#endif
