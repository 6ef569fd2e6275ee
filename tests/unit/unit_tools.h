/* SPDX-License-Identifier: BSD-3-Clause */
/* What the unit tests of the tools share.  Include after gasnet_tools.h. */
#ifndef TESTS_UNIT_TOOLS_H
#define TESTS_UNIT_TOOLS_H

#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs fn in a child whose standard error goes to text (at most len bytes, terminated); its wait
 * status. */
static inline int in_child(void (*fn)(void), char *text, size_t len)
{
    int ends[2], status;
    size_t got = 0;
    ssize_t n;

    cr_assert_eq(pipe(ends), 0);

    pid_t pid = fork();

    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        fn();
        _exit(0);
    }

    close(ends[1]);
    while (got < len - 1 && (n = read(ends[0], text + got, len - 1 - got)) > 0)
        got += (size_t)n;

    text[got] = 0;
    close(ends[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);

    return status;
}

#endif
