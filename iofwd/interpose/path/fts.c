/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fts on trees that contain a forwarded path; the C library's own would walk this host only.
 *
 * Layer: iofwd (interposer).  Thread rule: one thread at a time uses a walk.
 *
 * Without FTS_NOCHDIR the walk changes the working directory as the C library's does, by the
 * functions that the program would call: it enters a directory before its entries are examined and
 * leaves it after the last of them, so that fts_accpath is a name in it.  A directory's entries are
 * read when it is entered and freed when it is left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

struct walk {
    uint64_t magic; /* at the offset of a pointer in the C library's FTS */
    FTS fts;        /* options and order */
    FTSENT root;    /* parent of the paths that were given */
    FTSENT *now;    /* the entry returned last */
    FTSENT *first;  /* the first entry to return */
    FTSENT *asked;  /* children listed by fts_children and not yet walked */
    bool listed;    /* asked holds now's children */
    bool lost;      /* the way back up is lost: the walk has ended */
    int start;      /* the initial working directory; -1: it is not changed */
    dev_t dev;
    char name[];
};

static struct walk *walk_of(FTS *f)
{
    return (struct walk *)f;
}

static unsigned short kind(struct walk *w, FTSENT *e, bool follow)
{
    struct stat *st = e->fts_statp;

    if (fstatat(AT_FDCWD, e->fts_accpath, st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        e->fts_errno = errno;
        if (follow && fstatat(AT_FDCWD, e->fts_accpath, st, AT_SYMLINK_NOFOLLOW) == 0)
            return FTS_SLNONE;

        memset(st, 0, sizeof *st);
        return FTS_NS;
    }

    if (S_ISLNK(st->st_mode))
        return FTS_SL;
    if (!S_ISDIR(st->st_mode))
        return S_ISREG(st->st_mode) ? FTS_F : FTS_DEFAULT;

    e->fts_dev = st->st_dev;
    e->fts_ino = st->st_ino;
    e->fts_nlink = st->st_nlink;
    if (strcmp(e->fts_name, ".") == 0 || strcmp(e->fts_name, "..") == 0)
        return e->fts_level == FTS_ROOTLEVEL ? FTS_D : FTS_DOT;

    for (FTSENT *up = e->fts_parent; up && up->fts_level >= FTS_ROOTLEVEL; up = up->fts_parent)
        if (up->fts_ino == st->st_ino && up->fts_dev == st->st_dev) {
            e->fts_cycle = up;
            return FTS_DC;
        }

    return FTS_D;
}

/* ---- the working directory ---- */

/* Makes dir the working directory, by fd or, if fd is -1, by path.  If that names another directory
 * by now, nothing changes: -1 and errno. */
static int go_to(struct walk *w, const FTSENT *dir, int fd, const char *path)
{
    struct stat st;
    int opened = -1;
    int moved = -1;

    if (w->start < 0)
        return 0;
    if (fd < 0 && (fd = opened = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return -1;

    if (fstat(fd, &st) == 0) {
        bool same = st.st_dev == dir->fts_dev && st.st_ino == dir->fts_ino;
        moved = same ? fchdir(fd) : amph_ip_fail(ENOENT);
    }

    int err = errno;

    if (opened >= 0)
        close(opened);

    errno = err;
    return moved;
}

static int go_to_start(const struct walk *w)
{
    return w->start < 0 ? 0 : fchdir(w->start);
}

/* Returns from a directory to the one it was entered from; ".." would not lead back over a link. */
static int go_up(struct walk *w, FTSENT *dir)
{
    int moved = 0;

    if (dir->fts_level == FTS_ROOTLEVEL)
        moved = go_to_start(w);
    else if (dir->fts_flags & FTS_SYMFOLLOW)
        moved = fchdir(dir->fts_symfd);
    else if (!(dir->fts_flags & FTS_DONTCHDIR))
        moved = go_to(w, dir->fts_parent, -1, "..");

    if (moved != 0)
        w->lost = true;

    return moved;
}

static void forget_link(FTSENT *e)
{
    if (e->fts_flags & FTS_SYMFOLLOW)
        close(e->fts_symfd);

    e->fts_flags &= (unsigned short)~FTS_SYMFOLLOW;
}

/* Replaces the stat of a link by that of its target. */
static void go_through(struct walk *w, FTSENT *e)
{
    e->fts_info = kind(w, e, true);
    if (e->fts_info != FTS_D || w->start < 0)
        return;

    e->fts_symfd = open(".", O_RDONLY | O_CLOEXEC);
    if (e->fts_symfd >= 0)
        e->fts_flags |= FTS_SYMFOLLOW;
    else {
        e->fts_errno = errno;
        e->fts_info = FTS_ERR;
    }
}

/* ---- entries ---- */

/* Allocates an entry with its path and its stat in one block. */
static FTSENT *new_entry(struct walk *w, FTSENT *parent, const char *dir, const char *name,
                         int cd_err)
{
    size_t dir_len = dir ? strlen(dir) : 0;
    size_t name_len = strlen(name);
    bool slash = dir_len && dir[dir_len - 1] != '/';
    FTSENT *e = calloc(1, sizeof *e + name_len + 1 + sizeof(struct stat) + 16 + dir_len + name_len +
                              2);

    if (!e)
        return NULL;

    memcpy(e->fts_name, name, name_len + 1);
    e->fts_namelen = (unsigned short)name_len;
    e->fts_statp = (struct stat *)(((uintptr_t)(e->fts_name + name_len + 1) + 15) & ~(uintptr_t)15);
    e->fts_path = (char *)(e->fts_statp + 1);
    e->fts_pathlen = (unsigned short)sprintf(e->fts_path, "%s%s%s", dir ? dir : "",
                                             slash ? "/" : "", name);
    e->fts_parent = parent;
    e->fts_level = (short)(parent->fts_level + 1);
    if (cd_err)
        e->fts_accpath = parent->fts_accpath;
    else
        e->fts_accpath = w->start < 0 || e->fts_level == FTS_ROOTLEVEL ? e->fts_path : e->fts_name;

    e->fts_instr = 3; /* no instruction, as in the C library */

    bool follow = (w->fts.fts_options & FTS_LOGICAL) ||
                  ((w->fts.fts_options & FTS_COMFOLLOW) && e->fts_level == FTS_ROOTLEVEL);

    e->fts_info = cd_err ? FTS_NS : kind(w, e, follow);
    if (cd_err)
        e->fts_errno = cd_err;

    return e;
}

static void free_list(FTSENT *e)
{
    while (e) {
        FTSENT *next = e->fts_link;

        free(e);
        e = next;
    }
}

static FTSENT *sorted(struct walk *w, FTSENT *list)
{
    size_t n = 0;

    for (FTSENT *e = list; e; e = e->fts_link)
        n++;

    FTSENT **all = n > 1 && w->fts.fts_compar ? malloc(n * sizeof *all) : NULL;
    if (!all)
        return list;

    for (size_t i = 0; i < n; i++, list = list->fts_link)
        all[i] = list;

    qsort(all, n, sizeof *all, (int (*)(const void *, const void *))w->fts.fts_compar);
    for (size_t i = 0; i < n; i++)
        all[i]->fts_link = i + 1 < n ? all[i + 1] : NULL;

    list = all[0];
    free(all);
    return list;
}

/* Lists the entries of a directory, which becomes the working directory if the walk continues in
 * it.  *failed_p: it cannot be read, see errno. */
static FTSENT *entries_of(struct walk *w, FTSENT *dir, bool goes_on, bool *failed_p)
{
    FTSENT *list = NULL;
    FTSENT **end = &list;
    DIR *d = opendir(dir->fts_accpath);

    *failed_p = !d;
    if (!d)
        return NULL;

    int cd_err = go_to(w, dir, dirfd(d), NULL) == 0 ? 0 : errno;

    if (cd_err) {
        dir->fts_flags |= FTS_DONTCHDIR;
        if (goes_on)
            dir->fts_errno = cd_err;
    }

    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        bool dot = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

        if (dot && !(w->fts.fts_options & FTS_SEEDOT))
            continue;

        if ((*end = new_entry(w, dir, dir->fts_path, entry->d_name, cd_err)) != NULL)
            end = &(*end)->fts_link;
    }

    closedir(d);
    if (!cd_err && (!goes_on || !list) && go_up(w, dir) != 0)
        dir->fts_info = FTS_ERR;

    return sorted(w, list);
}

FTS *amph_do_fts_open(char *const *paths, int options,
                      int (*order)(const FTSENT **, const FTSENT **))
{
    bool any = false;

    for (size_t i = 0; paths[i]; i++)
        any |= amph_ip_path(paths[i]);

    if (!any)
        return libc_fts64_open(paths, options, order);

    struct walk *w = options & ~FTS_OPTIONMASK ? NULL : calloc(1, sizeof *w + 1);

    if (!w) {
        errno = options & ~FTS_OPTIONMASK ? EINVAL : ENOMEM;
        return NULL;
    }

    w->magic = AMPH_IP_FTS_MAGIC;
    w->fts.fts_options = options;

    /* links have no way back up */
    w->start = options & (FTS_NOCHDIR | FTS_LOGICAL) ? -1 : open(".", O_RDONLY | O_CLOEXEC);
    w->fts.fts_compar = (__typeof__(w->fts.fts_compar))order;
    w->root.fts_level = FTS_ROOTPARENTLEVEL;

    FTSENT **end = &w->first;

    for (size_t i = 0; paths[i]; i++) {
        if (!paths[i][0] || !(*end = new_entry(w, &w->root, NULL, paths[i], 0))) {
            free_list(w->first);
            if (w->start >= 0)
                close(w->start);

            free(w);
            errno = paths[i][0] ? ENOMEM : ENOENT;
            return NULL;
        }

        end = &(*end)->fts_link;
    }

    w->first = sorted(w, w->first);
    return (FTS *)w;
}

/* fts_children has made the list and has left the directory again. */
static FTSENT *take_list(struct walk *w, FTSENT *dir)
{
    FTSENT *list = w->asked;

    w->asked = NULL;
    w->listed = false;

    if (list && go_to(w, dir, -1, dir->fts_accpath) != 0) {
        dir->fts_errno = errno;
        dir->fts_flags |= FTS_DONTCHDIR;
        for (FTSENT *e = list; e; e = e->fts_link)
            e->fts_accpath = dir->fts_accpath;
    }

    return list;
}

/* Enters the directory that was returned last.  NULL: it is empty, or cannot be read. */
static FTSENT *descend(struct walk *w, FTSENT *dir)
{
    bool failed = false;

    if (w->listed)
        return take_list(w, dir);

    FTSENT *list = entries_of(w, dir, true, &failed);

    if (failed) {
        dir->fts_errno = errno;
        dir->fts_info = FTS_DNR;
    }

    return list;
}

static FTSENT *give(struct walk *w, FTSENT *e)
{
    w->now = e;
    if (e->fts_level != FTS_ROOTLEVEL)
        return e;

    w->dev = e->fts_dev;

    /* from here on the name of a path's root is its last part */
    const char *slash = strrchr(e->fts_name, '/');

    if (slash && (slash != e->fts_name || slash[1])) {
        e->fts_namelen = (unsigned short)strlen(slash + 1);
        memmove(e->fts_name, slash + 1, e->fts_namelen + 1U);
    }

    return e;
}

/* The successor of a finished entry: its neighbour, or its directory in post-order. */
static FTSENT *after(struct walk *w, FTSENT *e)
{
    FTSENT *next = e->fts_link;
    FTSENT *up = e->fts_parent;

    forget_link(e);
    free(e);

    while (next && next->fts_instr == FTS_SKIP && up != &w->root) {
        e = next->fts_link;
        free(next);
        next = e;
    }

    if (next && up == &w->root && go_to_start(w) != 0)
        w->lost = true;

    if (next && next->fts_instr == FTS_FOLLOW && up != &w->root) {
        go_through(w, next);
        next->fts_instr = 3;
    }

    if (next)
        return w->lost ? NULL : give(w, next);

    if (up == &w->root) {
        w->now = NULL;
        w->first = NULL;
        errno = 0;
        return NULL;
    }

    if (go_up(w, up) != 0) {
        w->now = up; /* the rest of the tree */
        return NULL;
    }

    if (up->fts_info != FTS_DNR)
        up->fts_info = up->fts_errno ? FTS_ERR : FTS_DP;

    return give(w, up);
}

FTSENT *amph_do_fts_read(FTS *walk)
{
    struct walk *w = walk_of(walk);
    FTSENT *e = w->now;

    if (w->lost)
        return NULL;
    if (!e)
        return w->first ? give(w, w->first) : NULL;

    unsigned short instr = e->fts_instr;

    e->fts_instr = 3;
    if (instr == FTS_AGAIN) {
        e->fts_info = kind(w, e, w->fts.fts_options & FTS_LOGICAL);
        return e;
    }

    if (instr == FTS_FOLLOW && (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)) {
        go_through(w, e);
        return e;
    }

    if (e->fts_info == FTS_D) {
        bool skip = instr == FTS_SKIP || ((w->fts.fts_options & FTS_XDEV) && e->fts_dev != w->dev);
        FTSENT *inside = skip ? NULL : descend(w, e);

        if (skip && w->listed) {
            free_list(w->asked);
            w->asked = NULL;
            w->listed = false;
        }

        if (skip)
            forget_link(e);

        if (inside)
            return give(w, inside);

        if (e->fts_info == FTS_D)
            e->fts_info = FTS_DP;

        return e;
    }

    return after(w, e);
}

FTSENT *amph_do_fts_children(FTS *walk, int options)
{
    struct walk *w = walk_of(walk);
    bool failed = false;

    if (options && options != FTS_NAMEONLY) {
        errno = EINVAL;
        return NULL;
    }

    errno = 0;
    if (!w->now)
        return w->first;
    if (w->now->fts_info != FTS_D)
        return NULL;
    if (w->listed)
        return w->asked;

    /* a relative path does not survive the change into it and back */
    int here = w->start >= 0 && w->now->fts_level == FTS_ROOTLEVEL && w->now->fts_accpath[0] != '/'
                   ? open(".", O_RDONLY | O_CLOEXEC)
                   : -1;

    w->asked = entries_of(w, w->now, false, &failed);
    if (here >= 0) {
        int saved = errno;

        (void)!fchdir(here);
        close(here);
        errno = saved;
    }

    w->listed = !failed;
    return w->asked;
}

int amph_do_fts_set(FTSENT *entry, int option)
{
    if (option && option != FTS_AGAIN && option != FTS_FOLLOW && option != FTS_SKIP && option != 3)
        return amph_ip_fail(EINVAL);

    entry->fts_instr = (unsigned short)option;
    return 0;
}

int amph_do_fts_close(FTS *walk)
{
    struct walk *w = walk_of(walk);
    FTSENT *e = w->now ? w->now : w->first;

    if (w->listed)
        free_list(w->asked);

    while (e && e != &w->root) {
        FTSENT *up = e->fts_parent;

        forget_link(e);
        free_list(e);
        e = up;
    }

    int moved = go_to_start(w);
    int err = errno;

    if (w->start >= 0)
        close(w->start);

    free(w);
    return moved == 0 ? 0 : amph_ip_fail(err);
}
