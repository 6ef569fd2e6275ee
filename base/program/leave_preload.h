/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that bring another way into the I/O servers (mount, trap) and are started by a program under
 * the preload library, such as a shell under iofwd-run.
 *
 * Layer: base.  Thread rule: for main, before it starts threads.
 */
#ifndef AMPH_BASE_LEAVE_PRELOAD_H
#define AMPH_BASE_LEAVE_PRELOAD_H

/* Executes the running program again without the preload library, if that is loaded, and returns
 * otherwise.  argv: main's.  LD_PRELOAD keeps the other libraries. */
void amph_leave_preload(char **argv);

#endif
