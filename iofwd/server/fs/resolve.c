/* SPDX-License-Identifier: BSD-3-Clause */
/* Confined resolution of paths below exports; see exports.h.  Layer: iofwd. */
#include "iofwd/server/fs/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "iofwd/wire/prefix.h"

#define LINKS_MAX 40

bool amph_server_path_is_export(const struct amph_server_path *pl, bool above)
{
    return amph_server_export_at(pl->all, pl->export, pl->rel, above);
}

int amph_server_path_find(const struct amph_server_exports *ex,
                          const struct amph_server_export *dir_export, int dir_fd, const char *path,
                          struct amph_server_path *pl)
{
    pl->all = ex;
    pl->walked = false;
    pl->reason = NULL;
    pl->buf[0] = 0;
    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;

    if (dir_export && path[0] != '/') {
        pl->export = dir_export;
        pl->base = dir_fd;
        pl->rel = path[0] ? path : ".";
        return 0;
    }

    if (!path[0])
        return ENOENT;

    pl->export = amph_server_export_of(ex, path, false, &pl->rel);
    if (!pl->export) {
        pl->reason = "the path lies under no directory that this server exports";
        amph_debug("%s: %s", path, pl->reason);
        return EACCES;
    }

    amph_debug("%s is %s in the export %s%s", path, pl->rel[0] ? pl->rel : ".", pl->export->dir,
               pl->export->readonly ? ", which is read-only" : "");

    pl->base = pl->export->fd;
    if (!pl->rel[0])
        pl->rel = ".";

    return 0;
}

/* ---- walking by hand ---- */

struct walk {
    const struct amph_server_exports *all;
    const struct amph_server_export *export;
    char done[PATH_MAX]; /* link-free path from the export's directory; "" is that directory */
    char todo[2 * PATH_MAX];
    int links;
};

static int refuse(struct amph_server_path *pl)
{
    pl->reason = "a symbolic link or .. on the path leads out of what this server exports";
    return -EACCES;
}

/* Puts the target of a link in front of the components that remain. */
static int follow(struct amph_server_path *pl, struct walk *wk, const char *target,
                  const char *rest)
{
    char next[2 * PATH_MAX];
    const char *from = target;

    if (++wk->links > LINKS_MAX)
        return -ELOOP;

    if (target[0] == '/') {
        const struct amph_server_export *e = amph_server_export_of(wk->all, target, false, &from);

        if (!e)
            e = amph_server_export_of(wk->all, target, true, &from);

        if (!e)
            return refuse(pl);

        wk->export = e;
        wk->done[0] = 0;
    }

    int n = snprintf(next, sizeof next, "%s%s%s", from, rest[0] ? "/" : "", rest);
    if (n < 0 || (size_t)n >= sizeof next)
        return -ELOOP; /* the link leads to a path through itself */

    memcpy(wk->todo, next, (size_t)n + 1);
    return 0;
}

/* Walks one component: enters it, or follows it if it is a link.  Returns 1 if it does not exist,
 * which the last one need not. */
static int step(struct amph_server_path *pl, struct walk *wk, const char *part, const char *rest,
                bool follow_it)
{
    char at[PATH_MAX], target[PATH_MAX];
    struct stat st;
    int n = snprintf(at, sizeof at, "%s%s%s", wk->done, wk->done[0] ? "/" : "", part);

    if (n < 0 || (size_t)n >= sizeof at)
        return -ENAMETOOLONG;

    const struct amph_server_export *other = amph_server_export_at(wk->all, wk->export, at, false);

    if (other) {
        wk->export = other;
        wk->done[0] = 0;
        return 0;
    }

    int fd = amph_server_open_beneath(wk->export->fd, at, O_PATH | O_NOFOLLOW, 0,
                                      RESOLVE_NO_SYMLINKS);

    if (fd == -ENOENT && !rest[0]) {
        memcpy(wk->done, at, (size_t)n + 1);
        return 1;
    }

    if (fd < 0)
        return fd == -EXDEV ? refuse(pl) : fd;

    int err = fstat(fd, &st) == 0 ? 0 : -errno;
    ssize_t len = 0;

    if (!err && S_ISLNK(st.st_mode) && follow_it) {
        len = readlinkat(fd, "", target, sizeof target - 1);
        err = len < 0 ? -errno : 0;
    }

    close(fd);
    if (err)
        return err;

    if (len > 0) {
        target[len] = 0;
        return follow(pl, wk, target, rest);
    }

    memcpy(wk->done, at, (size_t)n + 1);
    return 0;
}

/* Returns "." or ".." if that is the first component of `last`; else NULL. */
static const char *dots(const char *last)
{
    size_t n = strcspn(last, "/");

    if (n == 1 && last[0] == '.')
        return ".";
    if (n == 2 && last[0] == '.' && last[1] == '.')
        return "..";

    return NULL;
}

/* Checks that the path so far is a directory, as "." and ".." require.  0 or a negative errno. */
static int is_directory(const struct walk *wk)
{
    int fd = wk->done[0] ? amph_server_open_beneath(wk->export->fd, wk->done, O_PATH | O_DIRECTORY,
                                                    0, RESOLVE_NO_SYMLINKS)
                         : -1;

    if (fd >= 0)
        close(fd);

    return wk->done[0] && fd < 0 ? fd : 0;
}

static int climb(struct amph_server_path *pl, struct walk *wk)
{
    if (!wk->done[0]) {
        const char *at;
        const struct amph_server_export *around = amph_server_export_around(wk->all, wk->export,
                                                                            &at);

        if (!around)
            return refuse(pl);

        wk->export = around;
        snprintf(wk->done, sizeof wk->done, "%s", at);
    }

    char *slash = strrchr(wk->done, '/');

    if (slash)
        *slash = 0;
    else
        wk->done[0] = 0;

    return 0;
}

/* Stores the path of a directory, relative to the export, in wk->done. */
static int path_of(struct amph_server_path *pl, struct walk *wk, int dir)
{
    char link[64], path[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);

    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return -errno;

    path[n] = 0;

    const char *rest = amph_fwd_path_below(path, pl->export->dir, pl->export->dir_len);
    if (!rest)
        return refuse(pl);

    memcpy(wk->done, rest, strlen(rest) + 1);
    return 0;
}

static bool is_removed(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && st.st_nlink == 0;
}

/* Stores the start of a lookup that is relative to a directory's descriptor. */
static int start_of(struct amph_server_path *pl, struct walk *wk)
{
    if (pl->base == pl->export->fd)
        return 0;

    return is_removed(pl->base) ? -ENOENT : path_of(pl, wk, pl->base);
}

/* Appends the last component without looking it up: it is not followed, and the call itself reports
 * its errors. */
static int keep_last(struct walk *wk, const char *part, size_t n)
{
    size_t len = strlen(wk->done);

    if (len + n + 2 > sizeof wk->done)
        return -ENAMETOOLONG;

    if (len)
        wk->done[len++] = '/';

    memcpy(wk->done + len, part, n);
    wk->done[len + n] = 0;
    return 0;
}

/* Which links a walk follows: those before the last component; also the last one if a slash follows
 * it, as open does; or all. */
enum follow {
    FOLLOW_WAY,
    FOLLOW_SLASH,
    FOLLOW_ALL
};

/* Returns the error for a path with a component of n bytes, more than NAME_MAX.  That the directory
 * does not exist takes precedence. */
static int too_long(const struct walk *wk)
{
    int fd = amph_server_open_beneath(wk->export->fd, wk->done[0] ? wk->done : ".",
                                      O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);

    if (fd < 0)
        return fd;

    close(fd);
    return -ENAMETOOLONG;
}

/* Removes the first component, n bytes at `at`, from wk->todo and stores it in part, and what
 * follows in rest. */
static void split_first(struct walk *wk, const char *at, size_t n, char part[NAME_MAX + 2],
                        char rest[2 * PATH_MAX])
{
    memcpy(part, at, n);
    part[n] = 0;

    at += n;
    at += strspn(at, "/");
    memcpy(rest, at, strlen(at) + 1);
    memcpy(wk->todo, rest, strlen(rest) + 1);
}

/* Walks through all components in wk->todo.  slash: the path ends with one.  0 or a negative errno.
 */
static int walk_components(struct amph_server_path *pl, struct walk *wk, enum follow last,
                           bool slash)
{
    int err = 0;

    while (err == 0) {
        char part[NAME_MAX + 2], rest[2 * PATH_MAX];
        const char *at = wk->todo + strspn(wk->todo, "/");
        size_t n = strcspn(at, "/");

        if (n == 0)
            break;

        bool is_last = !at[n + strspn(at + n, "/")];

        if ((last == FOLLOW_WAY || n > NAME_MAX) && is_last && !dots(at))
            return keep_last(wk, at, n);
        if (n > NAME_MAX)
            return too_long(wk);

        split_first(wk, at, n, part, rest);

        bool up = strcmp(part, "..") == 0;
        bool here = strcmp(part, ".") == 0;

        if (up || here)
            err = is_directory(wk);

        if (up && !err)
            err = climb(pl, wk);
        else if (!up && !here)
            err = step(pl, wk, part, rest,
                       rest[0] || last == FOLLOW_ALL || (last == FOLLOW_SLASH && slash));
    }

    return err;
}

/* Resolves the path so that only its last component may be a link.  0 or a negative errno. */
static int walk(struct amph_server_path *pl, enum follow last)
{
    struct walk *wk = calloc(1, sizeof *wk);

    if (!wk)
        return -ENOMEM;

    wk->all = pl->all;
    wk->export = pl->export;
    memcpy(wk->todo, pl->rel, strlen(pl->rel) + 1);

    bool slash = pl->rel[0] && pl->rel[strlen(pl->rel) - 1] == '/';
    int err = start_of(pl, wk);

    if (err == 0)
        err = walk_components(pl, wk, last, slash);

    if (err >= 0) {
        pl->export = wk->export;
        pl->base = wk->export->fd;
        snprintf(pl->buf, sizeof pl->buf, "%s%s", wk->done[0] ? wk->done : ".",
                 slash && wk->done[0] ? "/" : "");
        pl->rel = pl->buf;
        pl->walked = true;
        err = 0;
    }

    free(wk);
    return err;
}

/* ---- out of a directory without a name ---- */

/* Removes a leading "." (with up: "..") from rel and returns the rest; NULL: rel does not begin
 * with it. */
static const char *after_dots(const char *rel, bool up)
{
    const char *dot = dots(rel);

    if (!dot || (dot[1] != 0) != up)
        return NULL;

    rel += strlen(dot);
    return rel + strspn(rel, "/");
}

static bool is_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is a directory inside the export?  Goes up from it by "..", because it may have no name. */
static bool is_inside(const struct amph_server_path *pl, int dir)
{
    int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool inside = false;
    bool top = at < 0;

    while (!inside && !top) {
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

        inside = is_same(at, pl->export->fd);
        top = up < 0 || is_same(at, up);
        close(at);
        at = up;
    }

    if (at >= 0)
        close(at);

    return inside;
}

/*
 * Resolves a path that begins with ".." at a directory that has been removed, or whose path is
 * longer than PATH_MAX.  Such a directory has no path below the export, but the kernel knows its
 * parent.  -EXDEV: the directory is not of this kind, or the path has to be walked.
 */
static int open_climbing(struct amph_server_path *pl, const char *rel, int flags, mode_t mode)
{
    struct walk *wk = malloc(sizeof *wk);
    bool nameless = wk && pl->base != pl->export->fd &&
                    (is_removed(pl->base) || path_of(pl, wk, pl->base) == -ENAMETOOLONG);
    int dir = pl->base;

    free(wk);
    for (const char *next; nameless && (next = after_dots(rel, false)) != NULL;)
        rel = next;

    if (!nameless || !after_dots(rel, true))
        return -EXDEV;

    for (const char *next;
         (next = after_dots(rel, true)) != NULL || (next = after_dots(rel, false)) != NULL;
         rel = next) {
        int up = rel[1] == '.' ? openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC) : dir;
        int err = errno;

        if (up != dir && dir != pl->base)
            close(dir);

        if (up < 0)
            return -err;

        dir = up;
    }

    int fd = is_inside(pl, dir) ? 0 : refuse(pl);

    if (fd == 0) {
        struct amph_server_path from = *pl;

        from.base = dir;
        from.rel = rel[0] ? rel : ".";
        fd = amph_server_path_open(&from, flags, mode);
        pl->reason = from.reason;
        pl->export = from.export;
    }

    if (dir != pl->base)
        close(dir);

    return fd;
}

/* Opens the same file again by its link in /proc, which checks rights like any open.  The file
 * cannot lead out of the export, because no path is resolved. */
static int open_again(const struct amph_server_path *pl, int flags, mode_t mode)
{
    char link[64];

    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EEXIST;

    snprintf(link, sizeof link, "/proc/self/fd/%d", pl->base);

    int fd = open(link, (flags & ~(O_CREAT | O_NOFOLLOW)) | O_CLOEXEC, mode & 07777);

    return fd < 0 ? -errno : fd;
}

void amph_server_path_reopen(struct amph_server_path *pl)
{
    pl->rel = "";
}

/* Is the walk of rel unnecessary, provided that no links are followed?  True if rel has no dots and
 * enters no other export. */
static bool leads_straight(const struct amph_server_path *pl)
{
    char part[PATH_MAX];

    for (const char *at = pl->rel, *end; *at && strcmp(pl->rel, ".") != 0;
         at = end + strspn(end, "/")) {
        end = at + strcspn(at, "/");
        if (dots(at) || (end[0] == '/' && end[1] == '/'))
            return false;

        snprintf(part, sizeof part, "%.*s", (int)(end - pl->rel), pl->rel);
        if (amph_server_export_at(pl->all, pl->export, part, false))
            return false;
    }

    return pl->base == pl->export->fd;
}

/* Opens rel by the kernel alone, if that is possible.  -EXDEV: the path has to be walked. */
static int open_unwalked(const struct amph_server_path *pl, const char *rel, int flags, mode_t mode)
{
    if (!pl->export->outer)
        return amph_server_open_beneath(pl->base, rel, flags, mode, 0);

    int fd = leads_straight(pl)
                 ? amph_server_open_beneath(pl->base, rel, flags, mode, RESOLVE_NO_SYMLINKS)
                 : -EXDEV;

    return fd == -ELOOP ? -EXDEV : fd;
}

static bool changes(int flags)
{
    return !(flags & O_PATH) && ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)));
}

int amph_server_path_open(struct amph_server_path *pl, int flags, mode_t mode)
{
    if (!pl->rel[0])
        return open_again(pl, flags, mode);

    int fd = pl->walked
                 ? amph_server_open_beneath(pl->base, pl->rel, flags, mode, RESOLVE_NO_SYMLINKS)
                 : open_unwalked(pl, pl->rel, flags, mode);

    if (fd != -EXDEV || pl->walked)
        return fd == -EXDEV ? refuse(pl) : fd;

    fd = open_climbing(pl, pl->rel, flags, mode);
    if (fd != -EXDEV)
        return fd;

    const struct amph_server_export *began = pl->export;
    bool itself = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    int err = walk(pl, itself ? FOLLOW_SLASH : FOLLOW_ALL);

    if (err)
        return err;
    if (pl->export != began && pl->export->readonly && changes(flags))
        return -EXDEV;

    /* a link that has been created meanwhile is not followed */
    fd = amph_server_open_beneath(pl->base, pl->rel, flags, mode, RESOLVE_NO_SYMLINKS);
    return fd == -EXDEV ? refuse(pl) : fd;
}

/* Splits rel into its last component and the path before it, which goes to parent. */
static int split(const struct amph_server_path *pl, char *parent, size_t room, const char **last_p)
{
    const char *rel = pl->rel;
    const char *end = rel + strlen(rel);

    while (end > rel && end[-1] == '/')
        end--;

    const char *last = end;

    while (last > rel && last[-1] != '/')
        last--;

    size_t n = (size_t)(last - rel);
    if (n >= room)
        return ENAMETOOLONG;

    memcpy(parent, rel, n);
    parent[n] = 0;
    *last_p = last;

    return 0;
}

/* Opens the directory in which a last "." or ".." is looked up.  The path before it is walked
 * alone, so that all links in it are followed. */
static int walk_to_parent(struct amph_server_path *pl, char *parent)
{
    pl->rel = parent;

    int err = walk(pl, FOLLOW_ALL);

    pl->rel = pl->buf;

    int fd = err ? err
                 : amph_server_open_beneath(pl->base, pl->rel, O_PATH | O_DIRECTORY, 0,
                                            RESOLVE_NO_SYMLINKS);

    return fd == -EXDEV ? refuse(pl) : fd;
}

/* Does a path of one component have to be walked?  refused: the component if it is "." or "..". */
static bool needs_walk(const struct amph_server_path *pl, const char *refused)
{
    /* The calls that use the parent refuse "." and ".." as the last component without a lookup, each
     * with its own errno.  So only the parent of the export must not be reached. */
    if (refused && refused[1])
        return pl->base == pl->export->fd;

    return !refused && !pl->walked && pl->export->outer && !leads_straight(pl);
}

/* Opens the directory that contains the last component of the path; parent: the path before it.
 * -EXDEV: links have to be walked. */
static int open_parent(struct amph_server_path *pl, const char *parent, const char *refused)
{
    if (!parent[0])
        return needs_walk(pl, refused) ? -EXDEV : pl->base;
    if (!pl->walked)
        return open_unwalked(pl, parent, O_PATH | O_DIRECTORY, 0);

    return amph_server_open_beneath(pl->base, parent, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
}

int amph_server_path_parent(struct amph_server_path *pl, const char **last_p)
{
    char parent[PATH_MAX];

    for (;;) {
        int err = split(pl, parent, sizeof parent, last_p);

        if (err)
            return -err;

        const char *refused = dots(*last_p);
        int fd = open_parent(pl, parent, refused);

        if (fd != -EXDEV)
            return fd;
        if (pl->walked)
            return refuse(pl);

        if (refused && parent[0])
            *last_p = refused;

        fd = parent[0] ? open_climbing(pl, parent, O_PATH | O_DIRECTORY, 0) : -EXDEV;
        if (fd != -EXDEV)
            return fd;
        if (refused && parent[0])
            return walk_to_parent(pl, parent);

        err = walk(pl, FOLLOW_WAY);
        if (err)
            return err;
    }
}

void amph_server_path_put_parent(struct amph_server_path *pl, int fd)
{
    if (fd >= 0 && fd != pl->base)
        close(fd);
}
