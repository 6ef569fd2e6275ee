/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose file is below a forwarded prefix: the kernel of this host does not find them, an exec
 * of a program that forwards does.  So a shell of this host executes them.
 *
 * Layer: launcher.  Thread rule: any thread.
 */
#ifndef AMPH_LAUNCHER_FORWARDED_H
#define AMPH_LAUNCHER_FORWARDED_H

#include <stdbool.h>

#define AMPH_PROGRAM_SHELL "/bin/sh"

/* Is this the path of a file that is not on this host, so that it may be the servers'? */
bool amph_program_is_elsewhere(const char *path);

/* Is it, and below one of the prefixes (PREFIX[=DIR][:...], or NULL)? */
bool amph_program_is_forwarded(const char *path, const char *prefixes);

/* Returns the command line, allocated, by which AMPH_PROGRAM_SHELL executes that of argv; its words are
 * those of argv and constants.  NULL: there is no memory. */
char **amph_program_by_shell(char *const *argv);

#endif
