/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's own output must not be lost in silence: a full disk or a closed standard output is
 * reported when the program ends, with exit code 1.
 * Layer: base.  For main functions; a header alone, because some programs are linked without libamphora.
 */
#ifndef AMPH_STDOUT_CHECK_H
#define AMPH_STDOUT_CHECK_H

#include <errno.h>
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

/* Has standard output checked at the program's end.  main calls it first. */
static inline void amph_stdout_check(void)
{
    atexit(amph_stdout_close);
}

#endif
