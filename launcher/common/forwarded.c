/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs below a forwarded prefix; see forwarded.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/forwarded.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

#define EXEC_OPTION "-exec" /* of iofwd-run, for this file only */

static bool is_missing(const char *path)
{
    return path[0] == '/' && access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* len: of the prefix, without slashes at its end */
static bool is_below(const char *path, const char *prefix, size_t len)
{
    return strncmp(path, prefix, len) == 0 && path[len] == '/';
}

static bool is_below_any(const char *path, const char *prefixes)
{
    for (const char *at = prefixes; *at; at += strspn(at, ":")) {
        size_t len = strcspn(at, "=:");

        while (len && at[len - 1] == '/')
            len--;

        if (at[0] == '/' && is_below(path, at, len))
            return true;

        at += strcspn(at, ":");
    }

    return false;
}

/* Is the path that of a file that is not on this host, and below one of the prefixes, unless they are
 * NULL? */
static bool is_candidate(const char *path, const char *prefixes)
{
    return is_missing(path) && (!prefixes || is_below_any(path, prefixes));
}

/* The same of the directories that come before the one where this host has the program. */
static bool is_searched_there(const char *name, const char *dirs, const char *prefixes)
{
    const char *at = dirs;

    while (at && *at) {
        int len = (int)strcspn(at, ":");
        char dir[PATH_MAX], path[PATH_MAX];
        int dir_len = snprintf(dir, sizeof dir, "%.*s", len, at);
        int path_len = snprintf(path, sizeof path, "%.*s/%s", len, at, name);

        if (dir_len < (int)sizeof dir && path_len < (int)sizeof path) {
            if (is_missing(dir) && is_candidate(path, prefixes))
                return true;
            if (access(path, X_OK) == 0)
                return false;
        }

        at += len + (at[len] == ':');
    }

    return false;
}

static bool is_found_there(const char *name, const char *dirs, const char *prefixes)
{
    if (strchr(name, '/'))
        return is_candidate(name, prefixes);

    return name[0] && is_searched_there(name, dirs, prefixes);
}

bool amph_program_is_elsewhere(const char *name, const char *dirs)
{
    return is_found_there(name, dirs, NULL);
}

bool amph_program_is_forwarded(const char *name, const char *dirs, const char *prefixes)
{
    return prefixes && is_found_there(name, dirs, prefixes);
}

char **amph_program_by_exec(char *const *argv, char **path_p)
{
    char *const before[] = { program_invocation_short_name, EXEC_OPTION };
    size_t n = 0;

    while (argv[n])
        n++;

    char **words = calloc(AMPH_COUNTOF(before) + n + 1, sizeof *words);
    char *path = amph_program_own(AMPH_ATTACH_NAME);

    if (!path) /* without a quick start iofwd-run is the whole one */
        path = amph_program_own("iofwd-run");

    if (!words || !path) {
        amph_say("cannot start %s: %s", argv[0],
                 words ? "iofwd-run is not installed" : "no memory");
        errno = words ? ENOENT : ENOMEM;
        free(words);
        free(path);
        return NULL;
    }

    memcpy(words, before, sizeof before);
    memcpy(words + AMPH_COUNTOF(before), argv, n * sizeof *argv);
    *path_p = path;
    return words;
}

int amph_program_exec(char **argv)
{
    char *path;

    if (!argv[0] || !argv[1] || strcmp(argv[1], EXEC_OPTION) != 0 || !argv[2])
        return -1;

    int code = amph_program_find(argv[2], &path);

    if (code != 0)
        return code;

    execve(path, argv + 2, environ);
    return amph_program_explain(path, NULL, errno);
}
