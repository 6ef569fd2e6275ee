/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fts: walks of trees that hold a forwarded path; the C library's own would look at this host only.  Layer: iofwd (preload).
 * Thread rule: one thread at a time has a walk.
 *
 * The working directory stays where it is (as with FTS_NOCHDIR): fts_accpath is the whole path.  A directory's entries are read when
 * it is entered, and freed when it is left.
 */
#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"

struct walk {
    uint64_t magic; /* where the C library's FTS has a pointer */
    FTS fts;        /* options and order */
    FTSENT root;    /* above the paths that were given */
    FTSENT *now;    /* what was given last */
    FTSENT *first;  /* what comes first of all */
    FTSENT *asked;  /* by fts_children, not yet walked */
    bool listed;    /* asked is now's children */
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
    if (x_fstatat(AT_FDCWD, e->fts_accpath, st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        e->fts_errno = errno;
        if (follow && x_fstatat(AT_FDCWD, e->fts_accpath, st, AT_SYMLINK_NOFOLLOW) == 0)
            return FTS_SLNONE;
        memset(st, 0, sizeof *st);
        return FTS_NS;
    }
    e->fts_dev = st->st_dev;
    e->fts_ino = st->st_ino;
    e->fts_nlink = st->st_nlink;
    if (S_ISLNK(st->st_mode))
        return FTS_SL;
    if (!S_ISDIR(st->st_mode))
        return S_ISREG(st->st_mode) ? FTS_F : FTS_DEFAULT;
    if (strcmp(e->fts_name, ".") == 0 || strcmp(e->fts_name, "..") == 0)
        return e->fts_level == FTS_ROOTLEVEL ? FTS_D : FTS_DOT;
    for (FTSENT *up = e->fts_parent; up && up->fts_level >= FTS_ROOTLEVEL; up = up->fts_parent)
        if (up->fts_ino == st->st_ino && up->fts_dev == st->st_dev) {
            e->fts_cycle = up;
            return FTS_DC;
        }
    return FTS_D;
}

/* An entry with its path and its stat in one piece of memory. */
static FTSENT *new_entry(struct walk *w, FTSENT *parent, const char *dir, const char *name)
{
    size_t dir_len = dir ? strlen(dir) : 0, name_len = strlen(name);
    bool slash = dir_len && dir[dir_len - 1] != '/';
    FTSENT *e = calloc(1, sizeof *e + name_len + 1 + sizeof(struct stat) + 16 + dir_len + name_len + 2);
    if (!e)
        return NULL;
    memcpy(e->fts_name, name, name_len + 1);
    e->fts_namelen = (unsigned short)name_len;
    e->fts_statp = (struct stat *)(((uintptr_t)(e->fts_name + name_len + 1) + 15) & ~(uintptr_t)15);
    e->fts_path = (char *)(e->fts_statp + 1);
    e->fts_pathlen = (unsigned short)sprintf(e->fts_path, "%s%s%s", dir ? dir : "", slash ? "/" : "", name);
    e->fts_accpath = e->fts_path;
    e->fts_parent = parent;
    e->fts_level = (short)(parent->fts_level + 1);
    e->fts_instr = 3; /* nothing asked for, as the C library has it */
    bool follow = (w->fts.fts_options & FTS_LOGICAL) || ((w->fts.fts_options & FTS_COMFOLLOW) && e->fts_level == FTS_ROOTLEVEL);
    e->fts_info = kind(w, e, follow);
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

/* The entries of a directory; *failed_p: it cannot be read, with errno. */
static FTSENT *entries_of(struct walk *w, FTSENT *dir, bool *failed_p)
{
    FTSENT *list = NULL, **end = &list;
    DIR *d = fwd_path(dir->fts_accpath) ? x_opendir(dir->fts_accpath) : real_opendir(dir->fts_accpath);
    *failed_p = !d;
    for (struct dirent *entry; d && (entry = fwd_dir(d) ? x_readdir(d) : real_readdir64(d)) != NULL;) {
        bool dot = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (dot && !(w->fts.fts_options & FTS_SEEDOT))
            continue;
        if ((*end = new_entry(w, dir, dir->fts_path, entry->d_name)) != NULL)
            end = &(*end)->fts_link;
    }
    if (d)
        x_closedir(d);
    return sorted(w, list);
}

FTS *x_fts_open(char *const *paths, int options, int (*order)(const FTSENT **, const FTSENT **))
{
    bool any = false;
    for (size_t i = 0; paths[i]; i++)
        any |= fwd_path(paths[i]);
    if (!any)
        return real_fts64_open(paths, options, order);
    struct walk *w = options & ~FTS_OPTIONMASK ? NULL : calloc(1, sizeof *w + 1);
    if (!w) {
        errno = options & ~FTS_OPTIONMASK ? EINVAL : ENOMEM;
        return NULL;
    }
    w->magic = FWD_FTS_MAGIC;
    w->fts.fts_options = options | FTS_NOCHDIR;
    w->fts.fts_compar = (__typeof__(w->fts.fts_compar))order;
    w->root.fts_level = FTS_ROOTPARENTLEVEL;
    FTSENT **end = &w->first;
    for (size_t i = 0; paths[i]; i++) {
        if (!paths[i][0] || !(*end = new_entry(w, &w->root, NULL, paths[i]))) {
            free_list(w->first);
            free(w);
            errno = paths[i][0] ? ENOMEM : ENOENT;
            return NULL;
        }
        end = &(*end)->fts_link;
    }
    w->first = sorted(w, w->first);
    return (FTS *)w;
}

/* Goes into the directory that was given last; NULL: it is empty, or cannot be read. */
static FTSENT *descend(struct walk *w, FTSENT *dir)
{
    bool failed = false;
    FTSENT *list = w->listed ? w->asked : entries_of(w, dir, &failed);
    w->asked = NULL;
    w->listed = false;
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
    const char *slash = strrchr(e->fts_name, '/'); /* from here on a path's last part is its name */
    if (slash && (slash != e->fts_name || slash[1])) {
        e->fts_namelen = (unsigned short)strlen(slash + 1);
        memmove(e->fts_name, slash + 1, e->fts_namelen + 1U);
    }
    return e;
}

/* What comes after an entry that is done with: its neighbour, or its directory once more. */
static FTSENT *after(struct walk *w, FTSENT *e)
{
    FTSENT *next = e->fts_link, *up = e->fts_parent;
    free(e);
    while (next && next->fts_instr == FTS_SKIP) {
        e = next->fts_link;
        free(next);
        next = e;
    }
    if (next)
        return give(w, next);
    if (up == &w->root) {
        w->now = NULL;
        w->first = NULL;
        errno = 0;
        return NULL;
    }
    if (up->fts_info != FTS_DNR)
        up->fts_info = FTS_DP;
    return give(w, up);
}

FTSENT *x_fts_read(FTS *walk)
{
    struct walk *w = walk_of(walk);
    FTSENT *e = w->now;
    if (!e)
        return w->first ? give(w, w->first) : NULL;
    unsigned short instr = e->fts_instr;
    e->fts_instr = 3;
    if (instr == FTS_AGAIN) {
        e->fts_info = kind(w, e, w->fts.fts_options & FTS_LOGICAL);
        return e;
    }
    if (instr == FTS_FOLLOW && (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)) {
        e->fts_info = kind(w, e, true);
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
        if (inside)
            return give(w, inside);
        if (e->fts_info == FTS_D)
            e->fts_info = FTS_DP;
        return e;
    }
    return after(w, e);
}

FTSENT *x_fts_children(FTS *walk, int options)
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
    if (!w->listed)
        w->asked = entries_of(w, w->now, &failed);
    w->listed = !failed;
    return w->asked;
}

int x_fts_set(FTSENT *entry, int option)
{
    if (option && option != FTS_AGAIN && option != FTS_FOLLOW && option != FTS_SKIP && option != 3)
        return fwd_fail(EINVAL);
    entry->fts_instr = (unsigned short)option;
    return 0;
}

int x_fts_close(FTS *walk)
{
    struct walk *w = walk_of(walk);
    FTSENT *e = w->now ? w->now : w->first;
    if (w->listed)
        free_list(w->asked);
    while (e && e != &w->root) {
        FTSENT *up = e->fts_parent;
        free_list(e);
        e = up;
    }
    free(w);
    return 0;
}
