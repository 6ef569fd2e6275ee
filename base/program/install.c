/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the files of this installation are; see install.h.  Layer: base. */
#include "base/program/install.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the last part of a path; "/" stays. */
static void cut(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash && slash != path)
        *slash = 0;
}

char *amph_install_bin(void)
{
    static const char hidden[] = "/.libs";
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (n <= 0)
        return NULL;

    exe[n] = 0;
    cut(exe);

    size_t len = strlen(exe);

    if (len >= sizeof hidden && strcmp(exe + len - (sizeof hidden - 1), hidden) == 0)
        exe[len - (sizeof hidden - 1)] = 0;

    return strdup(exe);
}

char *amph_install_moved(const char *dir, const char *bin)
{
    static const char was[] = AMPH_BINDIR;
    char *up = strdup(bin);
    char *to;
    size_t common = 0;

    if (!up)
        return NULL;

    for (size_t i = 0; was[i] && was[i] == dir[i]; i++)
        if (was[i] == '/')
            common = i;

    for (const char *p = was + common; *p; p++)
        if (*p == '/')
            cut(up);

    int n = asprintf(&to, "%s%s", up, dir + common);

    free(up);
    return n < 0 ? NULL : to;
}

char *amph_install_modules(const char *bin)
{
    char *path;

    if (asprintf(&path, "%s/libiofwd.la", bin) < 0)
        return NULL;

    bool build_tree = access(path, R_OK) == 0;

    free(path);
    if (!build_tree)
        return amph_install_moved(AMPH_MODULEDIR, bin);

    return asprintf(&path, "%s/.libs", bin) < 0 ? NULL : path;
}
