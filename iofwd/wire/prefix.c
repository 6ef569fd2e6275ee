/* SPDX-License-Identifier: BSD-3-Clause */
/* The forwarded prefixes and the cleaning of paths; see prefix.h.  Layer: iofwd. */
#include "iofwd/wire/prefix.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The state of the cleaning of a path. */
struct walk {
    const struct amph_fwd_prefixes *set;
    char *out;
    size_t len, cap;
    const struct amph_fwd_prefix *inside;
    bool left;
    size_t depth; /* names below the prefix, less the ".." that follow them */
};

static const struct amph_fwd_prefix *equal_prefix(const struct amph_fwd_prefixes *set,
                                                  const char *path, size_t len)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->item[i].len_bytes == len && memcmp(set->item[i].path, path, len) == 0)
            return &set->item[i];

    return NULL;
}

static void drop_name(struct walk *w)
{
    while (w->len && w->out[--w->len] != '/')
        ;
}

static int append(struct walk *w, const char *name, size_t len)
{
    if (w->len + 1 + len + 2 > w->cap)
        return ENAMETOOLONG;

    w->out[w->len++] = '/';
    memcpy(w->out + w->len, name, len);
    w->len += len;

    return 0;
}

static int go_up(struct walk *w)
{
    if (!w->inside) {
        drop_name(w);
        return 0;
    }

    if (w->depth) {
        w->depth--;
        return append(w, "..", 2);
    }

    w->len = w->inside->len_bytes;
    w->inside = NULL;
    w->left = true;
    drop_name(w);

    return 0;
}

static int go_down(struct walk *w, const char *name, size_t len)
{
    int err = append(w, name, len);

    if (err)
        return err;

    if (w->inside)
        w->depth++;
    else
        w->inside = equal_prefix(w->set, w->out, w->len);

    return 0;
}

static int walk_text(struct walk *w, const char *text)
{
    int err = 0;

    while (*text && !err) {
        size_t len = strcspn(text, "/");

        if (len == 2 && text[0] == '.' && text[1] == '.')
            err = go_up(w);
        else if (len && !(len == 1 && text[0] == '.'))
            err = go_down(w, text, len);

        text += len + (text[len] == '/');
    }

    return err;
}

/* Returns whether the last component is ".".  It is kept, because it changes the result of rmdir,
 * mkdir and open with O_CREAT. */
static bool ends_with_dot(const char *path)
{
    size_t n = strlen(path);

    while (n && path[n - 1] == '/')
        n--;

    return n && path[n - 1] == '.' && (n == 1 || path[n - 2] == '/');
}

int amph_fwd_path_clean(const struct amph_fwd_prefixes *set, const char *base, const char *path,
                        char *out, size_t cap_bytes, struct amph_fwd_clean *clean_p)
{
    struct walk w = { .set = set, .out = out, .cap = cap_bytes };
    int err = 0;

    if (!path[0])
        return ENOENT;

    if (path[0] != '/' && base)
        err = walk_text(&w, base);

    if (!err)
        err = walk_text(&w, path);

    if (err)
        return err;

    bool dot = w.inside && ends_with_dot(path);
    if (w.len + 2 >= cap_bytes)
        return ENAMETOOLONG;

    if (w.len == 0 || dot || path[strlen(path) - 1] == '/' || (!w.inside && ends_with_dot(path)))
        out[w.len++] = '/';

    if (dot)
        out[w.len++] = '.';

    out[w.len] = 0;
    *clean_p = (struct amph_fwd_clean){ w.inside, w.left };
    return 0;
}

const struct amph_fwd_prefix *amph_fwd_prefix_match(const struct amph_fwd_prefixes *set,
                                                    const char *path)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct amph_fwd_prefix *p = &set->item[i];
        if (strncmp(path, p->path, p->len_bytes) == 0 &&
            (path[p->len_bytes] == 0 || path[p->len_bytes] == '/'))
            return p;
    }

    return NULL;
}

bool amph_fwd_prefix_may_enter(const struct amph_fwd_prefixes *set, const char *path)
{
    if (path[0] == '.')
        return true;

    size_t len = strcspn(path, "/");

    for (size_t i = 0; i < set->count; i++) {
        const char *at = set->item[i].path + 1;

        for (;;) {
            size_t n = strcspn(at, "/");

            if (n == len && memcmp(at, path, len) == 0)
                return true;
            if (!at[n])
                break;

            at += n + 1;
        }
    }

    return false;
}

bool amph_fwd_prefix_may_share_top(const struct amph_fwd_prefixes *set, const char *path)
{
    for (size_t i = 0; i < set->count; i++) {
        const char *top = set->item[i].path;
        size_t len = 1 + strcspn(top + 1, "/");

        if (len >= FWD_TOP_BYTES || strncmp(path, top, len) == 0)
            return true;
    }

    return false;
}

/* Fills starts from the prefixes. */
static void note_starts(struct amph_fwd_prefixes *set)
{
    memset(set->starts, 0, sizeof set->starts);
    for (size_t i = 0; i < set->count; i++) {
        const char *at = set->item[i].path;

        set->starts[(unsigned char)at[1]] |= FWD_STARTS_TOP;
        for (; at; at = strchr(at + 1, '/'))
            set->starts[(unsigned char)at[1]] |= FWD_STARTS_ANY;
    }
}

static const char *add_entry(struct amph_fwd_prefixes *set, const char *entry, size_t len,
                             size_t *used_p)
{
    static const struct amph_fwd_prefixes none;
    struct amph_fwd_clean unused;
    char raw[4096];
    size_t path_len = 0;

    while (path_len < len && entry[path_len] != '=')
        path_len++;

    if (path_len == 0 || entry[0] != '/')
        return "each entry must begin with an absolute path";
    if (path_len >= sizeof raw || set->count == FWD_PREFIX_MAX)
        return "it holds too many prefixes or too long ones";

    memcpy(raw, entry, path_len);
    raw[path_len] = 0;

    char *out = set->text + *used_p;
    if (amph_fwd_path_clean(&none, NULL, raw, out, sizeof set->text - *used_p, &unused) != 0)
        return "it holds too many prefixes or too long ones";

    size_t n = strlen(out);

    if (n > 1 && out[n - 1] == '/')
        out[--n] = 0;

    if (n == 1)
        return "the root directory cannot be forwarded as a whole";

    set->item[set->count++] = (struct amph_fwd_prefix){ out, n };
    *used_p += n + 1;
    return NULL;
}

bool amph_fwd_prefix_parse(struct amph_fwd_prefixes *set, const char *spec, const char **why_p)
{
    size_t used = 0;

    set->count = 0;
    while (*spec) {
        size_t len = strcspn(spec, ":");

        if (len) {
            const char *why = add_entry(set, spec, len, &used);

            if (why) {
                *why_p = why;
                return false;
            }
        }

        spec += len + (spec[len] == ':');
    }

    note_starts(set);
    return true;
}

ssize_t amph_fwd_path_last_link(amph_fwd_readlinkat readlinkat, int dir, char *path, char *target,
                                size_t *end_p)
{
    size_t len = strlen(path);

    for (;;) {
        while (len && path[len - 1] == '/')
            len--;

        if (!len)
            return -1;

        char cut = path[len];

        path[len] = 0;

        ssize_t n = readlinkat(dir, path, target, PATH_MAX - 1);

        path[len] = cut;
        *end_p = len;
        if (n >= 0 || errno != ENOENT)
            return n;

        while (len && path[len - 1] != '/')
            len--;
    }
}

bool amph_fwd_path_replace_link(const char *base, const char *path, size_t end, const char *target,
                                char *out, size_t cap_bytes)
{
    size_t kept = end; /* bytes of the directory in which the link is */

    while (kept && path[kept - 1] != '/')
        kept--;

    if (target[0] == '/')
        kept = 0;

    int len = snprintf(out, cap_bytes, "%s%s%.*s%s%s", base ? base : "", base ? "/" : "", (int)kept,
                       path, target, path + end);

    return len >= 0 && (size_t)len < cap_bytes;
}
