/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs below a forwarded prefix; see forwarded.h.
 *
 * Layer: launcher.  Thread rule: any thread.
 */
#include "launcher/common/forwarded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"

bool amph_program_is_elsewhere(const char *path)
{
    return path[0] == '/' && access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* len: of the prefix, without slashes at its end */
static bool is_below(const char *path, const char *prefix, size_t len)
{
    return strncmp(path, prefix, len) == 0 && path[len] == '/';
}

bool amph_program_is_forwarded(const char *path, const char *prefixes)
{
    if (!prefixes || !amph_program_is_elsewhere(path))
        return false;

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

char **amph_program_by_shell(char *const *argv)
{
    static char *const before[] = { "sh", "-c", "exec \"$0\" \"$@\"" };
    size_t n = 0;

    while (argv[n])
        n++;

    char **words = calloc(AMPH_COUNTOF(before) + n + 1, sizeof *words);

    if (words) {
        memcpy(words, before, sizeof before);
        memcpy(words + AMPH_COUNTOF(before), argv, n * sizeof *argv);
    }

    return words;
}
