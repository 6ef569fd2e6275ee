/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of iofwd-run.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_ATTACH_OPTIONS_H
#define AMPH_LAUNCHER_ATTACH_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

#include "launcher/attach/way.h"

enum {
    AMPH_ATTACH_WRONG = 2 /* exit code of a wrong command line or environment */
};

struct amph_attach_options {
    const char *file;     /* -servers, or NULL */
    const char *prefixes; /* -iofwd, or NULL */
    double wait_s;
    enum amph_way way;
    bool check;
    bool verbose;
    bool records;   /* calls are recorded: -record, or -trace with a folder */
    bool alone;     /* they are recorded only: there are no servers */
    char **program; /* its name and arguments */
};

/* Parses main's argv, which must outlive o.  Sets the environment of the options about recording and
 * tracing.  Returns -1 to continue, or an exit code after -help, -version or a message. */
int amph_attach_parse(struct amph_attach_options *o, char **argv);

/* Makes a path absolute.  The file need not exist; a symbolic link in the last component is not
 * followed.  Returns false if the folder does not exist or the path is too long. */
bool amph_attach_absolute(const char *file, char path[PATH_MAX]);

#endif
