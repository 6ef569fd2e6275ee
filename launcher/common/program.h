/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds programs and libraries, and explains why a program cannot be executed.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_PROGRAM_H
#define AMPH_LAUNCHER_PROGRAM_H

#include <stdbool.h>

#include "base/program/program_look.h"

enum {
    AMPH_PROGRAM_NOT_EXECUTABLE = 126,
    AMPH_PROGRAM_NOT_FOUND = 127
};

#define AMPH_ATTACH_NAME \
    "iofwd-attach" /* what iofwd-run executes if its quick start does not suffice */
#define AMPH_PRELOAD_NAME "libiofwd_preload.so"
#define AMPH_MESSAGES_NAME "libiofwd_messages.so" /* beside it, if IOFWD_RECORD is set */

/* Finds a program like a shell.  Returns 0 and an allocated path, or the exit code (126, 127) after
 * a message. */
int amph_program_find(const char *name, char **path_p);
/* Finds a program in `dirs` (the value of PATH, or NULL).  Returns an allocated path or NULL, without
 * a message. */
char *amph_program_search(const char *name, const char *dirs);
/* Prints a warning if the calls of the program at path cannot be recorded. */
void amph_program_warn_record(const char *path);
/* Prints a warning if the preload library cannot catch the file calls of the program at path.  Returns
 * false if it must not be started therefore (IOFWD_STRICT). */
bool amph_program_may_forward(const char *path);
/* Prints the warning about a program that the preload library does not catch, followed by further
 * information (or "").  Returns false if the program must not be started; see
 * amph_program_may_forward. */
bool amph_program_warn(const struct amph_image *image, const char *more);
/* Prints why a program could not be executed and returns the exit code.  host: the name of another
 * machine, or NULL. */
int amph_program_explain(const char *path, const char *host, int error);
/* Return the path of a program or library of this installation: in the directory of amphora-run, else
 * in those given to configure.  NULL if it does not exist. */
char *amph_program_own(const char *name);
char *amph_program_library(const char *name);
/* Can the dynamic linker preload the library at path?  It would print a line and start the program
 * without.  If not, prints why and returns false. */
bool amph_program_can_preload(const char *path);
/* Returns the list of LD_PRELOAD without our library, with `add` (unless NULL) appended; allocated. */
char *amph_program_preload_list(const char *add);

#endif
