/* SPDX-License-Identifier: BSD-3-Clause */
/* What fwd_tables.c and fwd_tables_race.c share. */
#ifndef TESTS_FILES_FWD_TABLES_H
#define TESTS_FILES_FWD_TABLES_H

#include <fcntl.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

static inline int make(const char *name, const char *text)
{
    int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -1;

    return fd;
}

/* Prints what descriptor fd gives at the beginning of its file. */
static inline void show(const char *who, int fd)
{
    char text[64] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    printf("%s: %s\n", who, n < 0 ? strerrorname_np(errno) : text);
    fflush(stdout);
}

#endif
