/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: allocation number NO_MEMORY_AT, counted from 1 in each process whose name is
 * NO_MEMORY_PROGRAM, fails, and the file NO_MEMORY_NOTE is made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long calls;
static long at; /* 0: none fails */

__attribute__((constructor)) static void start(void)
{
    const char *program = getenv("NO_MEMORY_PROGRAM");
    const char *number = getenv("NO_MEMORY_AT");

    if (program && number && strcmp(program, program_invocation_short_name) == 0)
        at = atol(number);
}

static bool fails(void)
{
    if (!at || atomic_fetch_add(&calls, 1) + 1 != at)
        return false;

    int fd = open(getenv("NO_MEMORY_NOTE"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);

    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
