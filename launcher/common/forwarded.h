/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose file is below a forwarded prefix: the kernel of this host does not find them, an exec
 * of a process that forwards does.  So a launcher's program becomes such a process first, and executes
 * the user's program then ("iofwd-run -exec PROGRAM", with the preload library).  It is no shell, which
 * would drop variables whose names it does not accept, such as functions that another shell exports.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_FORWARDED_H
#define AMPH_LAUNCHER_FORWARDED_H

#include <stdbool.h>

/* May the program be one that only the servers have?  It is a path, or is searched in a directory of dirs
 * (the value of PATH, or NULL), that is not on this host. */
bool amph_program_is_elsewhere(const char *name, const char *dirs);

/* Is it, and below one of the prefixes (PREFIX[=DIR][:...], or NULL)? */
bool amph_program_is_forwarded(const char *name, const char *dirs, const char *prefixes);

/* Returns the command line, allocated, that executes that of argv when it forwards, and its program's
 * path, allocated; the words are those of argv and constants.  NULL with errno: after a message. */
char **amph_program_by_exec(char *const *argv, char **path_p);

/* Is this the start of a process by such a command line?  Executes the program, or returns its exit code
 * after a message; -1: it is not. */
int amph_program_exec(char **argv);

#endif
