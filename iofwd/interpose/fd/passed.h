/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files that the process has sent in messages: passed.c.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread and signal handlers.
 */
#ifndef AMPH_IOFWD_INTERPOSE_FD_PASSED_H
#define AMPH_IOFWD_INTERPOSE_FD_PASSED_H

/* Keeps the open file behind a forwarded descriptor, for its receiver, when the process closes its own. */
void amph_ip_passed_keep(int fd);

/* In a forked child, before amph_fdtab_recount: what its parent has sent is kept by the parent. */
void amph_ip_passed_forked(void);

#endif
