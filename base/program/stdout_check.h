/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's own output must not be lost in silence: a full disk or a closed standard output is
 * reported when the program ends, with exit code 1.  Nor may it get into a file, socket or mount
 * that the program opens while descriptor 0, 1 or 2 is closed.
 * Layer: base.  For main functions; a header alone, because some programs are linked without libamphora.
 */
#ifndef AMPH_STDOUT_CHECK_H
#define AMPH_STDOUT_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void amph_stdout_close(void)
{
    int failed = ferror(stdout);

    errno = 0;
    if (fflush(stdout) == 0 && !failed)
        return;

    fprintf(stderr, "%s: the output could not be written%s%s\n", program_invocation_short_name,
            errno ? ": " : "", errno ? strerror(errno) : "");
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

/*
 * Opens descriptors 0 to 2 where they are closed, so that no other file gets their numbers.  They are
 * opened for reading only: input is empty, and output fails and is reported.  `flags` is O_CLOEXEC if
 * programs that this one executes shall find them closed, or 0.
 */
static inline void amph_standard_hold(int flags)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY | flags)) >= 0 && fd <= STDERR_FILENO)
        ;

    if (fd > STDERR_FILENO)
        close(fd);
}

/* Has standard output checked at the program's end.  main calls it first. */
static inline void amph_stdout_check(void)
{
    amph_standard_hold(O_CLOEXEC);
    atexit(amph_stdout_close);
}

#endif
