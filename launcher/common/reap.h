/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding and ending descendants.  The launcher and its agents are child subreapers: whatever a
 * process of the job leaves behind, in whatever session, becomes their child, so that walking down
 * from themselves finds it. Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_REAP_H
#define AMPH_LAUNCHER_REAP_H

#include <stddef.h>
#include <sys/types.h>

/* Sends sig to every living descendant of the caller, except the processes `skip` and what lies
 * below them.  Gives their number. */
size_t amph_signal_descendants(int sig, const pid_t *skip, size_t nskip);

/* Kills (SIGKILL) them all and reaps them, again and again until none is left, for at most
 * limit_ms.  Gives the number left. */
size_t amph_kill_descendants(const pid_t *skip, size_t nskip, int limit_ms);

#endif
