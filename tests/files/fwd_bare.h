/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out of the interposition library for a test of libiofwd alone: every exec that it catches
 * would set it again. */
#ifndef FWD_BARE_H
#define FWD_BARE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The C library's own function: dlsym would give that of the interposition library.  The versions are the first ones of
 * the C library, which differ by machine. */
static inline void *bare_function(const char *name)
{
    static const char *const first[] = { "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.2",
                                         "GLIBC_2.0",   "GLIBC_2.4",  "GLIBC_2.27" };
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = NULL;

    for (size_t i = 0; libc && !symbol && i < sizeof first / sizeof *first; i++)
        symbol = dlvsym(libc, name, first[i]);

    return symbol;
}

/* Where preload (the value of LD_PRELOAD, or NULL) names the library, this program starts again
 * without it, by libc's own execve. */
static inline void without_preload(const char *preload, char **argv)
{
    int (*bare)(const char *, char *const[], char *const[]) = NULL;

    if (!preload || !strstr(preload, "iofwd") || unsetenv("LD_PRELOAD") != 0)
        return;

    void *symbol = bare_function("execve");

    memcpy(&bare, &symbol, sizeof bare);
    if (bare)
        bare("/proc/self/exe", argv, environ);

    fprintf(stderr, "the interposition library cannot be left\n");
    exit(1);
}

#endif
