/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the C library that walk trees by calls of their own, which a preload library cannot
 * intercept: scandir, glob, ftw, nftw.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

static DIR *any_opendir(const char *path)
{
    return amph_ip_led(path) ? amph_do_opendir(path) : libc_opendir(path);
}

static struct dirent *any_readdir(DIR *dir)
{
    return amph_ip_dir(dir) ? amph_do_readdir(dir) : libc_readdir64(dir);
}

/* ---- scandir ---- */

struct entries {
    struct dirent **list;
    size_t count, cap;
};

static int keep_entry(struct entries *e, const struct dirent *entry)
{
    if (e->count == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 32;
        struct dirent **list = realloc(e->list, cap * sizeof *list);

        if (!list)
            return -1;

        e->list = list;
        e->cap = cap;
    }

    struct dirent *copy = malloc(entry->d_reclen);
    if (!copy)
        return -1;

    e->list[e->count++] = memcpy(copy, entry, entry->d_reclen);
    return 0;
}

static int read_all(DIR *dir, struct entries *e, int (*choose)(const struct dirent *))
{
    struct dirent *entry;

    errno = 0;
    while ((entry = any_readdir(dir)) != NULL) {
        if (!choose || choose(entry))
            if (keep_entry(e, entry) != 0)
                return -1;

        errno = 0;
    }

    return errno ? -1 : 0;
}

static DIR *opendir_at(int at, const char *path)
{
    int fd = amph_do_openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
    DIR *dir = NULL;

    if (fd >= 0)
        dir = amph_ip_fd(fd) ? amph_do_fdopendir(fd) : libc_fdopendir(fd);

    int err = errno;

    if (!dir && fd >= 0)
        amph_do_close(fd);

    errno = err;
    return dir;
}

int amph_do_scandirat(int at, const char *path, struct dirent ***list,
                      int (*choose)(const struct dirent *), amph_ip_order_fn order)
{
    struct entries e = { 0 };
    int saved = errno;
    DIR *dir = opendir_at(at, path);
    int failed = dir ? read_all(dir, &e, choose) : -1;
    int err = errno;

    if (dir)
        amph_do_closedir(dir);

    if (failed) {
        while (e.count)
            free(e.list[--e.count]);

        free(e.list);
        return amph_ip_fail(err);
    }

    if (order && e.count)
        qsort(e.list, e.count, sizeof *e.list, (int (*)(const void *, const void *))order);

    *list = e.list;
    errno = saved;
    return (int)e.count;
}

/* ---- glob: the C library's, on our directory calls ---- */

static void *glob_opendir(const char *path)
{
    return any_opendir(path);
}

static struct dirent *glob_readdir(void *dir)
{
    return any_readdir(dir);
}

static void glob_closedir(void *dir)
{
    amph_do_closedir(dir);
}

static int glob_stat(const char *path, struct stat *st)
{
    return amph_do_fstatat(AT_FDCWD, path, st, 0);
}

static int glob_lstat(const char *path, struct stat *st)
{
    return amph_do_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int amph_do_glob(const char *pattern, int flags, int (*onerror)(const char *, int), glob_t *found)
{
    if (flags & GLOB_ALTDIRFUNC)
        return libc_glob64(pattern, flags, onerror, found);

    found->gl_opendir = glob_opendir;
    found->gl_readdir = glob_readdir;
    found->gl_closedir = glob_closedir;
    found->gl_stat = glob_stat;
    found->gl_lstat = glob_lstat;
    amph_ip_links++;

    int r = libc_glob64(pattern, flags | GLOB_ALTDIRFUNC, onerror, found);

    amph_ip_links--;
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return r;
}

/* ---- ftw and nftw ---- */

#define DEPTH 20 /* open directories at most, in the C library */

struct tree {
    int (*nftw_fn)(const char *, const struct stat *, int, struct FTW *);
    int (*ftw_fn)(const char *, const struct stat *, int);
    int flags;
    int start; /* FTW_CHDIR: the directory that relative paths begin at; else AT_FDCWD */
    dev_t dev;
    struct seen {
        dev_t dev;
        ino_t ino;
    } * seen; /* the directories visited: if links are followed, each is walked once */
    size_t nseen, cap;
    char path[PATH_MAX];
};

static int visit(struct tree *t, const struct stat *st, int type, size_t base, int level)
{
    struct FTW at = { .base = (int)base, .level = level };
    int links = amph_ip_links;

    amph_ip_links = 0; /* by the program's own calls */

    int ftw_type = type == FTW_SLN ? FTW_NS : type;
    int r = t->nftw_fn ? t->nftw_fn(t->path, st, type, &at) : t->ftw_fn(t->path, st, ftw_type);

    amph_ip_links = links;
    return r;
}

static int tree_node(struct tree *t, size_t base, int level);

/* FTW_ACTIONRETVAL: does this return value skip entries instead of ending the walk? */
static bool skips(const struct tree *t, int r)
{
    return (t->flags & FTW_ACTIONRETVAL) && (r == FTW_SKIP_SUBTREE || r == FTW_SKIP_SIBLINGS);
}

/* FTW_CHDIR: makes the first len bytes of the path the working directory. */
static int tree_change(struct tree *t, size_t len)
{
    char name[PATH_MAX] = ".";

    if (AMPH_LIKELY(!(t->flags & FTW_CHDIR)))
        return 0;

    if (len) {
        memcpy(name, t->path, len);
        name[len] = 0;
    }

    int fd = amph_do_openat(t->start, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    int failed = fd < 0 ? -1 : amph_do_fchdir(fd);
    int err = errno;

    if (fd >= 0)
        amph_do_close(fd);

    errno = err;
    return failed;
}

static int tree_entries(struct tree *t, DIR *dir, int level)
{
    size_t len = strlen(t->path);
    struct dirent *entry;
    int r = 0;

    while (!r && (entry = any_readdir(dir)) != NULL) {
        size_t n = strlen(entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;

        size_t base = len + (t->path[len - 1] != '/');

        if (base + n >= sizeof t->path) {
            r = amph_ip_fail(ENAMETOOLONG);
            break;
        }

        t->path[base - 1] = '/';
        strcpy(t->path + base, entry->d_name);
        r = tree_node(t, base, level + 1);
        t->path[len] = 0;
    }

    return skips(t, r) ? 0 : r;
}

/* Returns 1 on the first visit of this directory, 0 on later ones, -1: no memory. */
static int note_seen(struct tree *t, const struct stat *st)
{
    for (size_t i = 0; i < t->nseen; i++)
        if (t->seen[i].dev == st->st_dev && t->seen[i].ino == st->st_ino)
            return 0;

    if (t->nseen == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct seen *more = realloc(t->seen, cap * sizeof *more);

        if (!more)
            return -1;

        t->seen = more;
        t->cap = cap;
    }

    t->seen[t->nseen++] = (struct seen){ st->st_dev, st->st_ino };
    return 1;
}

static int tree_directory(struct tree *t, const struct stat *st, size_t base, int level)
{
    int fresh = t->flags & FTW_PHYS ? 1 : note_seen(t, st);

    if (fresh <= 0)
        return fresh;
    if ((t->flags & FTW_MOUNT) && st->st_dev != t->dev)
        return 0;

    DIR *dir = opendir_at(t->start, t->path);
    if (!dir)
        return errno == EACCES ? visit(t, st, FTW_DNR, base, level) : -1;

    int r = t->flags & FTW_DEPTH ? 0 : visit(t, st, FTW_D, base, level);

    if (!r && !(r = tree_change(t, strlen(t->path))))
        r = tree_entries(t, dir, level);

    amph_do_closedir(dir);
    if (!r && (t->flags & FTW_DEPTH)) /* FTW_CHDIR: called from inside, as the C library does */
        r = visit(t, st, FTW_DP, base, level);

    if (r && !skips(t, r))
        return r;

    return tree_change(t, base) ? -1 : r;
}

/* An entry that stat does not find is reported (FTW_NS), a dangling link also if it is the root;
 * other errors end the walk. */
static int tree_unfound(struct tree *t, size_t base, int level, int err)
{
    struct stat st = { 0 };
    bool may_report = err == ENOENT || (err == EACCES && level > 0);
    bool link = may_report && !(t->flags & FTW_PHYS) &&
                amph_do_fstatat(t->start, t->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(st.st_mode);

    if (!may_report || (level == 0 && !link))
        return amph_ip_fail(err);

    return visit(t, &st, link ? FTW_SLN : FTW_NS, base, level);
}

static int tree_node(struct tree *t, size_t base, int level)
{
    struct stat st;
    bool found = amph_do_fstatat(t->start, t->path, &st,
                                 t->flags & FTW_PHYS ? AT_SYMLINK_NOFOLLOW : 0) == 0;

    if (found && level == 0)
        t->dev = st.st_dev;

    int r;

    if (!found)
        r = tree_unfound(t, base, level, errno);
    else if (S_ISDIR(st.st_mode))
        r = tree_directory(t, &st, base, level);
    else
        r = visit(t, &st, S_ISLNK(st.st_mode) ? FTW_SL : FTW_F, base, level);

    return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SUBTREE ? 0 : r;
}

static int changing_walk(struct tree *t, size_t base)
{
    t->start = amph_do_openat(AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (t->start < 0)
        return -1;

    int r = base ? tree_change(t, base) : 0;

    if (!r)
        r = tree_node(t, base, 0);

    int err = errno;

    if (amph_do_fchdir(t->start) != 0 && r == 0) {
        r = -1;
        err = errno;
    }

    amph_do_close(t->start);
    errno = err;
    return r;
}

static int tree_walk(struct tree *t, const char *path)
{
    size_t len = strlen(path);

    if (len == 0)
        return amph_ip_fail(ENOENT);
    if (len >= sizeof t->path)
        return amph_ip_fail(ENAMETOOLONG);

    strcpy(t->path, path);
    while (len > 1 && t->path[len - 1] == '/')
        t->path[--len] = 0;

    const char *slash = strrchr(t->path, '/');
    size_t base = slash && slash[1] ? (size_t)(slash + 1 - t->path) : 0;

    amph_ip_links++;

    int r = t->flags & FTW_CHDIR ? changing_walk(t, base) : tree_node(t, base, 0);

    amph_ip_links--;
    free(t->seen);
    return skips(t, r) ? 0 : r;
}

int amph_do_nftw(const char *path, int (*fn)(const char *, const struct stat *, int, struct FTW *),
                 int flags)
{
    struct tree t = { .nftw_fn = fn, .flags = flags, .start = AT_FDCWD };
    struct stat st;

    if ((flags & FTW_PHYS) && !amph_ip_path(path) && libc_lstat64(path, &st) == 0)
        return libc_nftw64(path, fn, DEPTH, flags); /* the root itself is a local link */

    return tree_walk(&t, path);
}

int amph_do_ftw(const char *path, int (*fn)(const char *, const struct stat *, int))
{
    struct tree t = { .ftw_fn = fn, .start = AT_FDCWD };
    return tree_walk(&t, path);
}
