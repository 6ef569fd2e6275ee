/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of exports; see exports.h.  Layer: iofwd. */
#include "iofwd/server/fs/exports.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "iofwd/wire/prefix.h"

/* Is a prefix of this name exported already, with another directory? */
static bool is_elsewhere(const struct amph_server_exports *ex, const struct amph_server_export *e)
{
    for (size_t i = 0; i < ex->n; i++)
        if (strcmp(ex->item[i].name, e->name) == 0 && strcmp(ex->item[i].dir, e->dir) != 0)
            return true;

    return false;
}

static void free_export(struct amph_server_export *e)
{
    if (e->fd >= 0)
        close(e->fd);

    free(e->name);
    free(e->dir);
}

/* An entry of IOFWD_PREFIX: its two paths, of which the second may be the first. */
struct entry {
    char name[PATH_MAX], dir[PATH_MAX];
    size_t name_len; /* 0: the root */
};

/* Parses PATH or PATH=DIR.  Returns false after a message. */
static bool parse_entry(const char *text, size_t len, struct entry *entry_p)
{
    const char *eq = memchr(text, '=', len);
    size_t name_len = eq ? (size_t)(eq - text) : len;
    size_t dir_len = eq ? len - name_len - 1 : name_len;
    const char *dir = eq ? eq + 1 : text;

    if (name_len == 0 || name_len >= PATH_MAX || dir_len == 0 || dir_len >= PATH_MAX ||
        text[0] != '/' || dir[0] != '/') {
        amph_error("IOFWD_PREFIX: \"%.*s\" is no PATH or PATH=DIR with absolute paths", (int)len,
                   text);
        return false;
    }

    memcpy(entry_p->dir, dir, dir_len);
    entry_p->dir[dir_len] = 0;
    while (name_len > 0 && text[name_len - 1] == '/')
        name_len--;

    memcpy(entry_p->name, text, name_len);
    entry_p->name[name_len] = 0;
    entry_p->name_len = name_len;
    return true;
}

/* Opens the directory of an entry.  On errors e has nothing that must be freed. */
static enum amph_status open_export(const struct entry *entry, struct amph_server_export *e)
{
    *e = (struct amph_server_export){ .name = strdup(entry->name),
                                      .name_len = entry->name_len,
                                      .fd = -1 };

    if (!e->name) {
        amph_error("there is no memory for the I/O server's prefix %s", entry->name);
        return AMPH_ERR_NOMEM;
    }

    e->dir = realpath(entry->dir, NULL);
    e->fd = e->dir ? open(e->dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (e->fd >= 0) {
        e->dir_len = strcmp(e->dir, "/") == 0 ? 0 : strlen(e->dir);
        return AMPH_OK;
    }

    amph_error("the I/O server cannot open directory %s, which %s is mapped to: %m; "
               "make it or change -iofwd (IOFWD_PREFIX)",
               entry->dir, entry->name_len ? entry->name : "/");
    free_export(e);
    return AMPH_ERR_NOENT;
}

static enum amph_status add_export(struct amph_server_exports *ex, const char *text, size_t len)
{
    struct entry entry;
    struct amph_server_export e;

    if (!parse_entry(text, len, &entry))
        return AMPH_ERR_ARG;

    enum amph_status st = open_export(&entry, &e);

    if (st != AMPH_OK)
        return st;

    if (is_elsewhere(ex, &e)) {
        amph_error(
            "%s is mapped to two directories, one of them %s; name each prefix once in -iofwd "
            "(IOFWD_PREFIX)",
            e.name, e.dir);
        free_export(&e);
        return AMPH_ERR_ARG;
    }

    struct amph_server_export *more = realloc(ex->item, (ex->n + 1) * sizeof *more);

    if (!more) {
        amph_error("there is no memory for the I/O server's prefix %s", e.name);
        free_export(&e);
        return AMPH_ERR_NOMEM;
    }

    ex->item = more;
    ex->item[ex->n++] = e;
    return AMPH_OK;
}

/* Marks the exports whose names contain the names of others. */
static void find_outer(struct amph_server_exports *ex)
{
    for (size_t i = 0; i < ex->n; i++)
        for (size_t k = 0; k < ex->n; k++)
            if (ex->item[i].name_len < ex->item[k].name_len &&
                amph_fwd_path_below(ex->item[k].name, ex->item[i].name, ex->item[i].name_len))
                ex->item[i].outer = true;
}

enum amph_status amph_server_exports_open(const char *spec, struct amph_server_exports *ex)
{
    memset(ex, 0, sizeof *ex);
    while (*spec) {
        size_t len = strcspn(spec, ":");
        enum amph_status st = len ? add_export(ex, spec, len) : AMPH_OK;

        if (st != AMPH_OK) {
            amph_server_exports_close(ex);
            return st;
        }

        spec += len + (spec[len] == ':');
    }

    find_outer(ex);
    return AMPH_OK;
}

enum amph_status amph_server_exports_protect(struct amph_server_exports *ex, const char *names)
{
    while (*names) {
        size_t len = strcspn(names, ":");
        size_t bare = len;
        bool known = len == 0;

        while (bare > 0 && names[bare - 1] == '/')
            bare--;

        for (size_t i = 0; i < ex->n && len; i++)
            if (ex->item[i].name_len == bare && memcmp(ex->item[i].name, names, bare) == 0)
                known = ex->item[i].readonly = true;

        if (!known) {
            amph_error("IOFWD_READONLY: \"%.*s\" is none of the paths of IOFWD_PREFIX", (int)len,
                       names);
            return AMPH_ERR_ARG;
        }

        names += len + (names[len] == ':');
    }

    return AMPH_OK;
}

void amph_server_exports_close(struct amph_server_exports *ex)
{
    for (size_t i = 0; i < ex->n; i++)
        free_export(&ex->item[i]);

    free(ex->item);
    memset(ex, 0, sizeof *ex);
}

const struct amph_server_export *amph_server_export_of(const struct amph_server_exports *ex,
                                                       const char *path, bool own,
                                                       const char **rest_p)
{
    const struct amph_server_export *best = NULL;
    size_t best_len = 0;

    for (size_t i = 0; i < ex->n; i++) {
        const struct amph_server_export *e = &ex->item[i];
        size_t len = own ? e->dir_len : e->name_len;
        const char *rest = amph_fwd_path_below(path, own ? e->dir : e->name, len);

        if (rest && (!best || len > best_len)) {
            best = e;
            best_len = len;
            *rest_p = rest;
        }
    }

    return best;
}

/* Warns if files of the read-only export e can be changed under the name of o, a writable export of
 * the same directory.  Files below the name of a third export do not count, because clients reach
 * them by that export only. */
static void warn_of(const struct amph_server_exports *ex, const struct amph_server_export *e,
                    const struct amph_server_export *o)
{
    char name[2 * PATH_MAX];
    const char *found;
    const char *rest = o->readonly ? NULL : amph_fwd_path_below(e->dir, o->dir, o->dir_len);

    if (!rest)
        return;

    snprintf(name, sizeof name, "%s%s%s", o->name, rest[0] ? "/" : "", rest);
    if (amph_server_export_of(ex, name, false, &found) == o)
        amph_warn(
            "the read-only export %s (%s) can be changed as %s, below the export %s; make that "
            "one read-only too, or export the directory as %s",
            e->name_len ? e->name : "/", e->dir, name, o->name_len ? o->name : "/", name);
}

void amph_server_exports_warn(const struct amph_server_exports *ex)
{
    for (size_t i = 0; i < ex->n; i++)
        for (size_t k = 0; k < ex->n && ex->item[i].readonly; k++)
            warn_of(ex, &ex->item[i], &ex->item[k]);
}

const struct amph_server_export *amph_server_export_at(const struct amph_server_exports *ex,
                                                       const struct amph_server_export *e,
                                                       const char *at, bool above)
{
    size_t n = strlen(at);

    while (n > 0 && at[n - 1] == '/')
        n--;

    for (size_t i = 0; i < ex->n && e->outer && n > 0; i++) {
        const struct amph_server_export *o = &ex->item[i];
        const char *rest = o->name_len > e->name_len
                               ? amph_fwd_path_below(o->name, e->name, e->name_len)
                               : NULL;

        if (rest && strncmp(rest, at, n) == 0 && (rest[n] == 0 || (above && rest[n] == '/')))
            return o;
    }

    return NULL;
}

const struct amph_server_export *amph_server_export_around(const struct amph_server_exports *ex,
                                                           const struct amph_server_export *e,
                                                           const char **at_p)
{
    const struct amph_server_export *best = NULL;

    for (size_t i = 0; i < ex->n; i++) {
        const struct amph_server_export *o = &ex->item[i];
        const char *rest = o->outer && o->name_len < e->name_len
                               ? amph_fwd_path_below(e->name, o->name, o->name_len)
                               : NULL;

        if (rest && (!best || o->name_len > best->name_len)) {
            best = o;
            *at_p = rest;
        }
    }

    return best;
}
