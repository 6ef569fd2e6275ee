/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds and ends descendants.
 *
 * The launcher and its agents are child subreapers: a process that a process of the job leaves
 * behind becomes their child, whatever its session.  So a walk over their descendants finds it.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_REAP_H
#define AMPH_LAUNCHER_REAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Has this process of this machine ended?  Its parent may not have noticed it yet. */
bool amph_reap_has_ended(pid_t pid);

/* Has it ended, or has the kernel begun to end it?  The kernel closes the process's descriptors one
 * after the other, and may let others run between two of them. */
bool amph_reap_is_ending(pid_t pid);

/* Sends sig to every living descendant of the caller, except the processes `skip` and their
 * descendants.  Returns the number of signalled processes. */
size_t amph_reap_signal(int sig, const pid_t *skip, size_t nskip);

/* Kills (SIGKILL) and reaps the same processes repeatedly, until none is left or limit_ms have
 * passed.  Returns the number of remaining processes. */
size_t amph_reap_kill(const pid_t *skip, size_t nskip, int limit_ms);

#endif
