/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: command line.
 *
 * Layer: iofwd.  Thread rule: one thread.
 */
#include "iofwd/trap/run.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/program/stdout_check.h"
#include "base/settings/env.h"
#include "iofwd/trap/trap.h"

enum {
    WRONG = 2
};

struct amph_trap amph_trap = { .listener = -1 };

/* Parses IOFWD_TRAP_FDS: FIRST-LAST, or 0-LOW,FIRST-LAST.  Returns false after a message. */
static bool parse_range(int *low_p, int *first_p, int *last_p)
{
    const char *text = amph_env_str(AMPH_ENV_IOFWD_TRAP_FDS);
    int used = 0;
    char rest;

    if (sscanf(text, "0-%d,%n", low_p, &used) != 1 || !used)
        *low_p = AMPH_TRAP_STD - 1;

    if (sscanf(text + used, "%d-%d%c", first_p, last_p, &rest) == 2 &&
        *low_p >= AMPH_TRAP_STD - 1 && *first_p > *low_p && *last_p > *first_p &&
        *last_p - *first_p <= 65535)
        return true;

    amph_trap_say("IOFWD_TRAP_FDS=%s: two numbers with a minus between them are needed, the first "
                  "of them at least %d, such as 512-1023, or 0-9,512-1023",
                  text, AMPH_TRAP_STD);
    return false;
}

/* Sets the descriptors of forwarded files: the low ones, and the range, which is moved below the
 * program's limit if it exceeds that.  Returns false after a message. */
static bool set_range(void)
{
    struct rlimit may;
    int low, first, last;

    if (!parse_range(&low, &first, &last))
        return false;

    if (getrlimit(RLIMIT_NOFILE, &may) == 0 && (rlim_t)last >= may.rlim_cur) {
        int room = last - first;

        last = (int)may.rlim_cur - 1;
        first = last - room > last / 2 ? last - room : last / 2;
        if (first <= low || last <= first) {
            amph_trap_say("the limit of %d open files leaves no room for forwarded ones: ulimit -n",
                          last + 1);
            return false;
        }
    }

    amph_trap.low_fds = low + 1;
    amph_trap.first_fd = first;
    amph_trap.last_fd = last;
    return true;
}

/* The supervisor writes for the program, and its own limit is another one. */
static void say_unbounded(void)
{
    struct rlimit size;

    if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY)
        amph_trap_say(
            "the limit of file sizes (ulimit -f) does not bound forwarded files under -trap: "
            "iofwd-run -mount PROGRAM keeps it");
}

/* Is the word the option with one or two dashes? */
static bool is_option(const char *word, const char *name)
{
    return word && word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

/* Runs the program: this process becomes the front, and a child the supervisor.  Returns the exit
 * code. */
static int run(const char *file, char **argv)
{
    int other;

    say_unbounded();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    pid_t child = amph_trap_fork(&other);

    if (child < 0)
        return 1;

    return child ? amph_trap_front(other) : amph_trap_supervise(file, argv, other);
}

int main(int argc, char **argv)
{
    amph_standard_hold(O_CLOEXEC); /* the program finds them closed */

    const char *option = argc == 2 ? argv[1] : NULL;
    bool checks = is_option(option, "check");
    bool helps = is_option(option, "help") || is_option(option, "h");

    if (is_option(option, "version")) {
        printf("iofwd-trap (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
        return 0;
    }

    if (option && option[0] == '-' && !checks && !helps) {
        amph_trap_say("%s is not an option of iofwd-trap; it takes -check, -help and -version",
                      option);
        return WRONG;
    }

    if (argc < 3 && !checks) {
        fprintf(helps ? stdout : stderr,
                "usage: iofwd-trap -check\n"
                "       iofwd-trap FILE NAME [ARGUMENT]...\n"
                "The first form says whether iofwd-run -trap is possible on this host.  The "
                "second one is a part of\niofwd-run -trap, which sets its environment.\n");
        return helps ? 0 : WRONG;
    }

    if (!set_range())
        return WRONG;

    return checks ? amph_trap_check() : run(argv[1], argv + 2);
}
