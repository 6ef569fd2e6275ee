/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the dynamic linker would print about a program that it cannot start (a missing library or version,
 * a damaged file).  It writes with system calls of its own before the interposer runs, so its text never
 * reaches a forwarded file.  Each exec and spawn with a forwarded standard error asks here first.
 *
 * Layer: iofwd (interposer).  Thread rule: as execve, also in a child of vfork; no allocation.
 */
#ifndef AMPH_IOFWD_INTERPOSE_PROCESS_LINKER_CHECK_H
#define AMPH_IOFWD_INTERPOSE_PROCESS_LINKER_CHECK_H

#include <stdbool.h>

/*
 * Will the dynamic linker print something about the program at path, started with env, that a pipe must
 * carry to the forwarded standard error fd (amph_ip_relay)?  Asks the linker itself, as ldd does, once for
 * a program that has all it needs.  Undefined symbols, which end a program only when they are used, are
 * reported on fd here.  fd < 0: false.  Keeps errno.
 */
bool amph_ip_linker_has_text(const char *path, char *const argv[], char *const env[], int fd);

/* Does env ask the dynamic linker for texts about a program (LD_TRACE_LOADED_OBJECTS, LD_DEBUG)? */
bool amph_ip_linker_is_asked(char *const env[]);

#endif
