/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs and libraries: where they are, and why one cannot be executed.  Layer: launcher.  Thread
 * rule: one thread. */
#ifndef AMPH_LAUNCHER_PROGRAM_H
#define AMPH_LAUNCHER_PROGRAM_H

#include <stdbool.h>

#define AMPH_PRELOAD_NAME "libiofwd_preload.so"

/* Finds a program as a shell does.  0 and an allocated path, or the exit code (126, 127) after a
 * sentence. */
int amph_program_find(const char *name, char **path_p);
/* The same in `dirs` (PATH's value, or NULL), without a sentence: allocated, or NULL. */
char *amph_program_search(const char *name, const char *dirs);
/* The exit code for a program that could not be executed, after a sentence; host: its name, where
 * that is another machine, or NULL. */
int amph_program_explain(const char *path, const char *host, int error);
/* A program or library of this installation: beside amphora-run, else in the directories given to
 * configure.  NULL: not there. */
char *amph_program_own(const char *name);
char *amph_library_own(const char *name);
/* LD_PRELOAD's list without our library, and with `add` (or NULL) at its end; allocated. */
char *amph_preload_list(const char *add);

#endif
