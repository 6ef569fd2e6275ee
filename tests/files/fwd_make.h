/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs of fwd_say.h that make a tree of files before they begin. */
#ifndef TESTS_MP_FWD_MAKE_H
#define TESTS_MP_FWD_MAKE_H

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_say.h"

/* Makes a file with this text below the directory. */
static inline void make_file(const char *name, const char *text)
{
    int fd = open(in(name), O_CREAT | O_WRONLY | O_TRUNC, 0644);

    IS(fd >= 0, 1);
    IS(write(fd, text, strlen(text)), (long)strlen(text));
    close(fd);
}

#endif
