/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that leave the process's working directory and mask for their own: unshare(CLONE_FS), and clone with CLONE_VM
 * and CLONE_VFORK but without CLONE_FS.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_OWN_CWD_H
#define AMPH_IOFWD_OWN_CWD_H

#include "iofwd/interpose/entry/state.h"

/* Returns a copy of the caller's, which one task uses: give it to use, or to leave.  NULL and ENOMEM: no memory. */
struct amph_ip_cwd *amph_ip_cwd_copy(void);

/* Makes it the calling thread's from now on, in place of another one, which it leaves. */
void amph_ip_cwd_use(struct amph_ip_cwd *own);

/* One task less uses it.  NULL: the process's. */
void amph_ip_cwd_leave(struct amph_ip_cwd *own);

/* Counts one more task, which the caller is about to start, and returns the caller's own one, or NULL. */
struct amph_ip_cwd *amph_ip_cwd_join(void);

#endif
