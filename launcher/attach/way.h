/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways into a program of iofwd-run: which one suits the program and this host, and what each sets
 * up before the program is executed.  A process has one way only.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_WAY_H
#define AMPH_LAUNCHER_WAY_H

#include <stdbool.h>

enum amph_way {
    AMPH_WAY_ANY, /* not chosen yet */
    AMPH_WAY_PRELOAD,
    AMPH_WAY_MOUNT,
    AMPH_WAY_TRAP
};

/* What iofwd-run knows before it chooses. */
struct amph_way_question {
    const char *program;      /* the path of its file */
    const char *only_preload; /* why no other way is possible, or NULL */
    bool preloaded; /* the preload library forwards in this process already, and warns at exec */
    bool verbose;   /* print the answer */
    bool records;   /* calls are recorded */
    bool forwards;  /* calls are forwarded */
};

/* The word that follows the dash of its option. */
const char *amph_attach_way_name(enum amph_way way);

/* Chooses preload if the library catches the program's calls, else mount, else trap, if this host
 * allows it.  Nothing but the program's file is looked at if the answer is preload.  If no way suits:
 * preload after a warning, or false after a message with IOFWD_STRICT. */
bool amph_attach_way_choose(const struct amph_way_question *q, enum amph_way *way_p);

/* Prints the warning about a program that the chosen preload library does not catch.  Returns false if
 * it must not be started therefore (IOFWD_STRICT). */
bool amph_attach_way_check_preload(const struct amph_way_question *q);

/* Take the library of another way out of LD_PRELOAD, and prepare the environment and the namespaces of
 * the program.  Return false after a message. */
bool amph_attach_way_set_preload(void);
bool amph_attach_way_set_mount(const char *address_file);

/* For servers that cannot be found, which was printed: prepares the program to run without forwarding.
 * Returns false if it must not (IOFWD_OPTIONAL is not set). */
bool amph_attach_way_set_none(void);

/* Executes the supervisor, which executes `program` with the arguments argv.  Returns the exit code if
 * that fails, after a message. */
int amph_attach_way_execute_trapped(char *program, char *const *argv);

#endif
