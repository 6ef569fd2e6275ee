/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searches PATH for programs if a directory of PATH, or a directory of their libraries, is
 * forwarded: the C library's own search sees this host only.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/start.h"
#include "iofwd/interpose/entry/targets.h"

/* Writes the next directory of *at_p, as the start of a path.  false: too long. */
static bool next_directory(const char **at_p, char *out, size_t cap, size_t *len_p)
{
    size_t len = strcspn(*at_p, ":");
    const char *dir = *at_p;

    *at_p += len + ((*at_p)[len] == ':');
    if (!len) {
        dir = ".";
        len = 1;
    }

    if (len + 2 > cap)
        return false;

    memcpy(out, dir, len);
    out[len] = '/';
    out[len + 1] = 0;
    *len_p = len + 1;

    return true;
}

static bool any_forwarded(const char *path)
{
    char dir[PATH_MAX];
    size_t len;
    bool found = false;

    for (bool last = false; !found && !last;) {
        last = path[strcspn(path, ":")] == 0;
        found = next_directory(&path, dir, sizeof dir, &len) && amph_ip_path(dir);
    }

    return found;
}

/* Finds the first program of that name in the directories of path. */
static bool find_in(const char *path, const char *file, char *out, size_t cap)
{
    struct stat st;
    size_t len;
    int saved = errno;
    bool found = false;

    for (bool last = false; !found && !last;) {
        last = path[strcspn(path, ":")] == 0;
        if (!next_directory(&path, out, cap, &len) || len + strlen(file) >= cap)
            continue;

        strcpy(out + len, file);
        found = amph_do_fstatat(AT_FDCWD, out, &st, 0) == 0 && S_ISREG(st.st_mode) &&
                amph_do_faccessat(AT_FDCWD, out, X_OK, AT_EACCESS) == 0;
    }

    errno = saved;
    return found;
}

bool amph_ip_find_program(const char *file, char *const *env, char *out, size_t cap)
{
    /* base/settings/env.c is not part of this library */
    const char *path = getenv("PATH");

    if (!path || !file[0] || (!any_forwarded(path) && !amph_ip_start_has_libraries(env)))
        return false;

    return find_in(path, file, out, cap);
}

bool amph_ip_find_local(const char *file, char *out, size_t cap)
{
    const char *path = getenv("PATH");

    return file[0] && find_in(path ? path : "/bin:/usr/bin", file, out, cap);
}
