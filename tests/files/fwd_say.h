/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the programs that run once in a local directory and once in a forwarded one, so that what
 * they say can be compared: paths below that directory, and a line for each call.
 */
#ifndef TESTS_MP_FWD_SAY_H
#define TESTS_MP_FWD_SAY_H

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Weak: one object for all files of a program. */
__attribute__((weak)) const char *dir;
__attribute__((weak)) FILE *report; /* NULL: the standard output */

/* A path below the directory; four may be in use at once. */
static inline const char *in(const char *name)
{
    static _Thread_local char buf[4][PATH_MAX];
    static _Thread_local int next;
    char *p = buf[next++ & 3];

    snprintf(p, PATH_MAX, "%s/%s", dir, name);
    return p;
}

/* Says at once what a call gave: a child must not find the line in its buffers. */
static inline long say(int line, const char *text, long result)
{
    int err = errno;
    FILE *to = report ? report : stdout;

    fprintf(to, "%d %s = %ld%s%s\n", line, text, result, result == -1 ? " " : "",
            result == -1 ? strerrorname_np(err) : "");
    fflush(to);
    return result;
}

#define T(call) (errno = 0, say(__LINE__, #call, (long)(call)))
/* descriptors are compared as valid or not */
#define OK(call) T((call) < 0 ? -1 : 0)

/* A part of such a program, asked for by its name. */
struct section {
    const char *name;
    void (*run)(void);
};

/* false: not found. */
static inline bool run_section(const struct section *sections, size_t n, const char *name)
{
    size_t i = 0;

    while (i < n && strcmp(sections[i].name, name) != 0)
        i++;

    if (i < n)
        sections[i].run();

    return i < n;
}

static inline void too_late(int sig)
{
    static const char text[] = "no end in sight\n";

    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(3);
}

/* A wait that does not end is a failure that is told. */
static inline void end_after(unsigned seconds)
{
    signal(SIGALRM, too_late);
    alarm(seconds);
}

#endif
