/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do the servers export what -iofwd names?  Text only, because quick/ contains it without the C library.
 *
 * Layer: launcher.  Thread rule: pure functions.
 */
#ifndef AMPH_LAUNCHER_ATTACH_EXPORTED_H
#define AMPH_LAUNCHER_ATTACH_EXPORTED_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length of a list's first path (PATH[=DIR][:...]), without slashes at its end. */
static inline size_t amph_attach_path_len(const char *list)
{
    size_t len = 0;

    while (list[len] && list[len] != ':' && list[len] != '=')
        len++;

    while (len > 0 && list[len - 1] == '/')
        len--;

    return len;
}

/* Returns what follows a list's first entry: the next one, or "". */
static inline const char *amph_attach_next(const char *list)
{
    while (*list && *list != ':')
        list++;

    return *list ? list + 1 : list;
}

/* Is the first path of list below that of base, or the same? */
static inline bool amph_attach_is_below(const char *list, const char *base)
{
    size_t len = amph_attach_path_len(list);
    size_t base_len = amph_attach_path_len(base);

    if (base_len == 0 || len < base_len)
        return false;

    for (size_t i = 0; i < base_len; i++)
        if (list[i] != base[i])
            return false;

    return len == base_len || list[base_len] == '/';
}

/* Returns the first entry of asked that neither is, nor lies below, nor contains one of the exported
 * paths; NULL: there is none. */
static inline const char *amph_attach_not_exported(const char *asked, const char *exported)
{
    for (; *asked; asked = amph_attach_next(asked)) {
        bool found = *asked == ':';

        for (const char *e = exported; *e && !found; e = amph_attach_next(e))
            found = amph_attach_is_below(asked, e) || amph_attach_is_below(e, asked);

        if (!found)
            return asked;
    }

    return NULL;
}

#endif
