/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2's RESOLVE flags on forwarded paths.  The path is walked part by part: each part is opened
 * relative to the directory of the part before it, without following links, so that a concurrent
 * change of the tree cannot redirect the walk.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; a struct walk is one call's.
 *
 * A prefix is like a mount: a path that crosses its boundary under RESOLVE_NO_XDEV fails with
 * EXDEV.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/path/openat2.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

#define LINKS_MAX 40
#define CONFINED (RESOLVE_BENEATH | RESOLVE_IN_ROOT)

struct walk {
    uint64_t resolve;
    int flags;
    mode_t mode;
    int links;
    size_t n; /* directories on the way; the last is the current one */
    /* the directories that ".." returns to, if it may not pass the first; otherwise only the
     * current one */
    int way[PATH_MAX / 2];
    char todo[2 * PATH_MAX];
};

static int here(const struct walk *w)
{
    return w->way[w->n - 1];
}

static void leave_last(struct walk *w)
{
    int saved = errno;

    close(w->way[--w->n]);
    errno = saved;
}

static int close_with(int fd, int err)
{
    close(fd);
    return amph_ip_fail(err);
}

/* Makes fd the current directory; takes it over. */
static int stand_at(struct walk *w, int fd)
{
    if (w->n == AMPH_COUNTOF(w->way))
        return close_with(fd, ENAMETOOLONG);

    if (w->n && !(w->resolve & CONFINED))
        leave_last(w);

    w->way[w->n++] = fd;
    return 0;
}

/* Is fd, with stat *st, on another mount than the current directory?  Only directories are
 * compared, since only they are mount points. */
static bool is_across(const struct walk *w, int fd, const struct stat *st)
{
    struct stat from;

    if (!(w->resolve & RESOLVE_NO_XDEV) || !S_ISDIR(st->st_mode))
        return false;

    return amph_ip_fd(fd) != amph_ip_fd(here(w)) || fstat(here(w), &from) != 0 ||
           from.st_dev != st->st_dev;
}

/* Puts a link's target of len bytes in front of what is left to walk. */
static int follow(struct walk *w, const char *target, size_t len, const char *rest)
{
    char next[2 * PATH_MAX];

    if ((w->resolve & RESOLVE_NO_SYMLINKS) || ++w->links > LINKS_MAX)
        return amph_ip_fail(ELOOP);
    if (len == 0)
        return amph_ip_fail(ENOENT);

    if (target[0] == '/') {
        if (!(w->resolve & RESOLVE_IN_ROOT))
            return amph_ip_fail(EXDEV);

        while (w->n > 1)
            leave_last(w);
    }

    int n = snprintf(next, sizeof next, "%.*s%s", (int)len, target, rest);
    if (n < 0 || (size_t)n >= sizeof next)
        return amph_ip_fail(ELOOP); /* it leads to itself */

    memcpy(w->todo, next, (size_t)n + 1);
    return 0;
}

/* Enters a part that is not the last; rest begins with the slash that follows it. */
static int enter(struct walk *w, const char *part, const char *rest)
{
    char target[PATH_MAX];
    struct stat st;
    int fd = openat(here(w), part, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0)
        return close_with(fd, errno);

    if (S_ISLNK(st.st_mode)) {
        ssize_t len = readlinkat(fd, "", target, sizeof target);

        close(fd);
        return len < 0 ? -1 : follow(w, target, (size_t)len, rest);
    }

    if (!S_ISDIR(st.st_mode) || is_across(w, fd, &st))
        return close_with(fd, S_ISDIR(st.st_mode) ? EXDEV : ENOTDIR);

    memmove(w->todo, rest, strlen(rest) + 1);
    return stand_at(w, fd);
}

/* ".." in a walk that may not pass its first directory. */
static int climb(struct walk *w)
{
    if (faccessat(here(w), ".", F_OK, 0) != 0)
        return -1;

    if (w->n > 1)
        leave_last(w);
    else if (w->resolve & RESOLVE_BENEATH)
        return amph_ip_fail(EXDEV);

    return 0;
}

/* The flags of the last part's own openat. */
static int flags_of_last(const struct walk *w, bool dots, bool slash)
{
    int flags = w->flags;

    if (!dots)
        flags |= O_NOFOLLOW;

    if (slash && !(w->flags & O_CREAT))
        flags |= O_DIRECTORY;

    return flags;
}

/* Opens the last part, which slashes may follow.  Returns a descriptor, -1 with errno, or -2: it
 * was a link that must be followed. */
static int open_last(struct walk *w, const char *part, bool slash)
{
    char target[PATH_MAX], name[NAME_MAX + 3];
    struct stat st;
    bool creates = w->flags & O_CREAT;
    bool dots = strcmp(part, ".") == 0 || strcmp(part, "..") == 0;
    bool itself = !slash && ((w->flags & O_NOFOLLOW) || (creates && (w->flags & O_EXCL)));
    ssize_t len = itself || dots ? -1 : readlinkat(here(w), part, target, sizeof target);

    if (len >= 0)
        return follow(w, target, (size_t)len, slash ? "/" : "") != 0 ? -1 : -2;

    snprintf(name, sizeof name, "%s%s", part, slash && creates ? "/" : "");

    int fd = openat(here(w), name, flags_of_last(w, dots, slash), w->mode);

    if (fd < 0)
        return errno == ELOOP && !itself && ++w->links <= LINKS_MAX ? -2 : -1;

    if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode) && !itself) {
        close(fd);
        return ++w->links > LINKS_MAX ? amph_ip_fail(ELOOP) : -2;
    }

    return is_across(w, fd, &st) ? close_with(fd, EXDEV) : fd;
}

/* Walks todo from the current directory. */
static int go(struct walk *w)
{
    for (;;) {
        char part[NAME_MAX + 2];
        const char *at = w->todo + strspn(w->todo, "/");
        const char *rest = at + strcspn(at, "/");
        size_t n = (size_t)(rest - at);
        bool last = !rest[strspn(rest, "/")];

        if (n > NAME_MAX)
            return amph_ip_fail(ENAMETOOLONG);

        memcpy(part, n ? at : ".", n ? n : 1);
        part[n ? n : 1] = 0;

        bool up = strcmp(part, "..") == 0 && (w->resolve & CONFINED);
        if (up && climb(w) != 0)
            return -1;

        if (last) {
            int fd = open_last(w, up ? "." : part, rest[0] == '/');
            if (fd != -2)
                return fd;
        } else if (up)
            memmove(w->todo, rest, strlen(rest) + 1);
        else if (enter(w, part, rest) != 0)
            return -1;
    }
}

/* Moves the result to the lowest free number, as open promises: the walk used descriptors of its
 * own. */
static int lowered(int fd, int flags)
{
    if (fd < 0)
        return fd;

    int low = fcntl(fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);

    if (low < 0)
        return fd;

    close(low < fd ? fd : low);
    return low < fd ? low : fd;
}

/* Opens the forwarded directory where the walk begins and sets what is left to walk.  1: the kernel
 * does it all. */
static int begin(struct walk *w, int dir, const char *path)
{
    struct amph_ip_resolved where;
    bool relative = path[0] != '/';

    if (!relative && (w->resolve & RESOLVE_BENEATH))
        return amph_ip_fail(EXDEV);
    if (strlen(path) >= PATH_MAX)
        return amph_ip_fail(ENAMETOOLONG);

    strcpy(w->todo, path);
    if (relative && (dir == AT_FDCWD ? amph_ip_cwd()->name != NULL : amph_ip_fd(dir))) {
        int fd = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -1 : stand_at(w, fd);
    }

    if (!amph_ip_resolve(&where, dir, path, false))
        return -1;

    if (where.local || where.dir) {
        bool to_kernel = where.local;

        amph_ip_resolve_end(&where, 0);
        return to_kernel ? 1 : amph_ip_fail(ELOOP); /* by a link of /proc */
    }

    const struct amph_fwd_prefix *prefix = amph_fwd_prefix_match(&amph_ip_state.prefixes,
                                                                 where.path);

    amph_ip_resolve_end(&where, 0);
    if (!prefix || (w->resolve & (RESOLVE_NO_XDEV | RESOLVE_IN_ROOT)))
        /* a root above the prefix */
        return amph_ip_fail(w->resolve & RESOLVE_NO_XDEV ? EXDEV : ENOSYS);

    strcpy(w->todo, where.path[prefix->len_bytes] ? where.path + prefix->len_bytes : "/");

    int fd = openat(AT_FDCWD, prefix->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -1 : stand_at(w, fd);
}

const char *amph_ip_path_in_root(const char *path, const struct open_how *how, size_t size)
{
    if (!amph_ip_state.on || amph_ip_inside || size < sizeof *how ||
        !amph_ip_can_read(how, sizeof *how) || !(how->resolve & RESOLVE_IN_ROOT) || !path ||
        !amph_ip_can_read_text(path) || path[0] != '/')
        return path;

    path += strspn(path, "/");
    return path[0] ? path : ".";
}

int amph_ip_open_resolved(int dir, const char *path, const struct open_how *how)
{
    struct walk *w = malloc(sizeof *w);

    if (!w)
        return amph_ip_fail(ENOMEM);

    w->resolve = how->resolve;
    w->flags = (int)how->flags;
    w->mode = (mode_t)how->mode;
    w->links = 0;
    w->n = 0;

    int begun = begin(w, dir, path);
    int fd = begun == 0 ? go(w) : -1;

    while (w->n)
        leave_last(w);

    int err = errno;

    free(w);
    errno = err;
    return begun == 1 ? AMPH_IP_RESOLVE_LOCAL : lowered(fd, (int)how->flags);
}
