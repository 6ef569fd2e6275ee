/* SPDX-License-Identifier: BSD-3-Clause */
/* For the static programs of the tests of iofwd-run -trap: checks, and the table of a program's cases. */
#ifndef TRAP_CHECK_H
#define TRAP_CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is the directory forwarded?  Else the same case runs on a local one, whose answers are the measure. */
static bool forwarded;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

struct test_case {
    const char *name;
    void (*run)(void);
};

/* PROGRAM CASE DIRECTORY: runs the case there. */
static inline int run_case(const struct test_case *cases, int argc, char **argv,
                           int (*enter)(const char *))
{
    if (argc < 3)
        return 2;

    forwarded = strncmp(argv[2], "/fwd", 4) == 0;
    CHECK(enter(argv[2]) == 0);
    for (; cases->name; cases++)
        if (strcmp(cases->name, argv[1]) == 0) {
            cases->run();
            return 0;
        }

    return 2;
}

#endif
