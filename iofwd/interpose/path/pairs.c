/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on two names: rename and link.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * Both paths are resolved; the call is local, or forwarded, or fails, as between two file systems.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "iofwd/calls/names.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/resolve.h"

#define CLIENT amph_ip_client.client

/* The two resolved paths of a call.  A pair of one local and one forwarded path fails with
 * EXDEV.  Two forwarded ones must be entered (pair_enter) before a server makes the call. */
struct pair {
    struct amph_ip_resolved from, to;
};

/* Writes the path of the directory that a path's last component is in, and a dot.  Returns 0, or an error of the
 * path. */
static int parent_of(const char *path, char parent[PATH_MAX])
{
    size_t len = strlen(path);

    if (len == 0)
        return ENOENT;
    if (len >= PATH_MAX)
        return ENAMETOOLONG;

    memcpy(parent, path, len + 1);
    while (len && parent[len - 1] == '/')
        parent[--len] = 0;

    while (len && parent[len - 1] != '/')
        parent[--len] = 0;

    memcpy(parent + len, ".",
           2); /* a look-up fails unless it is a directory with search permission */
    return 0;
}

/* The errors that the kernel reports before EXDEV: does the path's directory exist? */
static int parent_error(int dir, const char *path)
{
    struct stat st;
    char parent[PATH_MAX];
    int err = parent_of(path, parent);

    if (err)
        return err;

    return amph_do_fstatat(dir, parent, &st, 0) != 0 ? errno : 0;
}

/* Is that directory, which exists, forwarded? */
static bool is_parent_forwarded(int dir, const char *path)
{
    struct amph_ip_resolved w;
    char parent[PATH_MAX];

    if (parent_of(path, parent) || !amph_ip_resolve_near(&w, dir, parent, false))
        return false;
    if (!w.local)
        amph_ip_resolve_end(&w, 0);

    return !w.local;
}

/* Is it what amph_ip_text_error says of a path? */
static bool is_text_error(int err)
{
    return err == EFAULT || err == ENAMETOOLONG;
}

/* A path like /proc/self/fd/N that is not followed means that link, which lies on a file system of this host. */
static void take_number_itself(struct amph_ip_resolved *w, int dir, const char *path)
{
    if (w->local || w->by == AMPH_IP_BY_NAME)
        return;

    amph_ip_resolve_end(w, 0);
    w->local = true;
    w->by = AMPH_IP_BY_NAME;
    w->dir = NULL;
    w->dirfd = dir;
    w->path = path;
}

enum side {
    SIDE_LOCAL,
    SIDE_FORWARDED,
    SIDE_FAILED
};

/* flags: those of linkat about the old name. */
static enum side pair_find(struct pair *p, int from_dir, const char *from, int flags, int to_dir,
                           const char *to)
{
    if (!from) { /* which may have been left to the kernel, and to may be forwarded */
        errno = EFAULT;
        return SIDE_FAILED;
    }

    if (!amph_ip_resolve_near(&p->from, from_dir, from, flags & AT_EMPTY_PATH))
        return SIDE_FAILED;
    if (!(flags & AT_SYMLINK_FOLLOW))
        take_number_itself(&p->from, from_dir, from);

    bool ok = to && amph_ip_resolve_near(&p->to, to_dir, to, false);

    if (ok)
        take_number_itself(&p->to, to_dir, to);

    if (!to)
        errno = EFAULT;

    if (ok && p->from.local == p->to.local)
        return p->from.local ? SIDE_LOCAL : SIDE_FORWARDED;

    int err = ok ? EXDEV : errno;

    amph_ip_debug("%s and %s: %s", p->from.local ? "a local path" : "a forwarded path",
                  ok && p->to.local ? "a local one" : "a forwarded one", strerrorname_np(err));
    if (!p->from.local)
        amph_ip_resolve_end(&p->from, 0);

    if (ok && !p->to.local)
        amph_ip_resolve_end(&p->to, 0);

    errno = err;
    return SIDE_FAILED;
}

/* Opens the client for two forwarded paths.  false with errno: the pair has ended. */
static bool pair_enter(struct pair *p)
{
    bool entered = amph_ip_resolve_enter(&p->from);

    if (entered && amph_ip_resolve_enter(&p->to))
        return true;

    amph_ip_resolve_end(entered ? &p->from : &p->to, errno);
    return false;
}

static int pair_end(struct pair *p, int err)
{
    amph_ip_resolve_end(&p->from, 0);
    return amph_ip_resolve_end(&p->to, err);
}

/* A forwarded call has failed with err: do absolute links lead out of the tree?  SIDE_LOCAL: in
 * both paths, so the pair is local.  SIDE_FAILED: the call fails with errno (only one path does:
 * EXDEV).  SIDE_FORWARDED: in neither. */
static enum side pair_went_out(struct pair *p, int err, bool itself)
{
    bool from = amph_ip_went_out(&p->from, err, itself);
    bool to = amph_ip_went_out(&p->to, err, true);

    if (from && to)
        return SIDE_LOCAL;
    if (!from && !to)
        return SIDE_FORWARDED;

    amph_ip_resolve_end(from ? &p->to : &p->from, 0);
    errno = EXDEV;
    return SIDE_FAILED;
}

/* Is the last component "." or ".."? */
static bool ends_in_dots(const char *path)
{
    size_t end = strlen(path);

    while (end && path[end - 1] == '/')
        end--;

    size_t start = end;

    while (start && path[start - 1] != '/')
        start--;

    return (end - start == 1 && path[start] == '.') ||
           (end - start == 2 && path[start] == '.' && path[start + 1] == '.');
}

/* The error of a rename between a forwarded and a local path.  Both may be names in directories of one side: a prefix
 * itself, which is what a mount point would be, or ".." of it. */
static int rename_over_sides(int from_dir, const char *from, int to_dir, const char *to,
                             unsigned flags)
{
    struct stat st;
    int err = parent_error(from_dir, from);

    if (!err)
        err = parent_error(to_dir, to);
    if (err)
        return err;

    if (is_parent_forwarded(from_dir, from) != is_parent_forwarded(to_dir, to))
        return EXDEV;
    if (ends_in_dots(from))
        return EBUSY;
    if (ends_in_dots(to))
        return flags & RENAME_NOREPLACE ? EEXIST : EBUSY;
    if (amph_do_fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;

    return EBUSY;
}

/* The error of a rename whose pair was not found because of err.  A missing directory of the old name
 * has precedence over a bad and over an empty new name. */
static int rename_error(int err, int from_dir, const char *from, int to_dir, const char *to,
                        unsigned flags)
{
    if (is_text_error(err)) {
        int parent = amph_ip_can_read_text(from) ? parent_error(from_dir, from) : 0;
        return parent ? parent : err;
    }

    int bad = amph_ip_text_error(to); /* it was not looked at if the old name was not found */

    if ((bad || !to[0]) && from[0]) {
        int parent = parent_error(from_dir, from);
        int other = bad ? bad : ENOENT;
        return parent ? parent : other;
    }

    if (!from[0])
        return ENOENT;

    return err == EXDEV ? rename_over_sides(from_dir, from, to_dir, to, flags) : err;
}

int amph_do_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    struct pair p;

    if ((flags & ~7U) ||
        ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))))
        return amph_ip_fail(EINVAL);

    enum side side = pair_find(&p, from_dir, from, 0, to_dir, to);
    if (side == SIDE_LOCAL && !flags)
        return libc_renameat(p.from.dirfd, p.from.path, p.to.dirfd, p.to.path);
    if (side == SIDE_LOCAL)
        return libc_renameat2(p.from.dirfd, p.from.path, p.to.dirfd, p.to.path, flags);
    if (side == SIDE_FAILED)
        return amph_ip_fail(rename_error(errno, from_dir, from, to_dir, to, flags));

    int err;

    if (amph_ip_near_rename(&p.from, &p.to, flags, &err))
        return pair_end(&p, err);
    if (!pair_enter(&p))
        return -1;

    err = amph_ip_client.fwd.rename(CLIENT, AMPH_IP_AT(&p.from), AMPH_IP_AT(&p.to), flags);

    side = pair_went_out(&p, err, true);
    if (side == SIDE_LOCAL)
        return libc_renameat2(p.from.dirfd, p.from.path, p.to.dirfd, p.to.path, flags);

    return side == SIDE_FAILED ? -1 : pair_end(&p, err);
}

/* The error of a new name that is otherwise on another file system than the file that is to get it: the kernel looks
 * whether there could be one first. */
static int new_name_error(int dir, const char *path)
{
    struct stat st;
    char name[PATH_MAX];
    int err = parent_error(dir, path);

    if (err)
        return err;

    size_t len = strlen(path); /* which parent_error has found to be short enough */
    bool slash = path[len - 1] == '/';

    memcpy(name, path, len + 1);
    while (len > 1 && name[len - 1] == '/')
        name[--len] = 0;

    if (amph_do_fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    if (errno != ENOENT)
        return errno;

    return slash ? ENOENT : EXDEV;
}

/* The error of a link whose pair was not found because of err: that of the old name has precedence. */
static int link_error(int err, int from_dir, const char *from, int to_dir, const char *to,
                      int flags)
{
    struct stat st;
    int how = (flags & AT_EMPTY_PATH) | (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);

    if (amph_do_fstatat(from_dir, from, &st, how) != 0)
        return errno;

    return err == EXDEV ? new_name_error(to_dir, to) : err;
}

/* Does this link to an open file lead below an export: has a process of this host opened the file by itself? */
static bool leads_to_near(int dir, const char *path)
{
    char link[2][PATH_MAX], name[PATH_MAX];

    for (int i = 0; i < 2; i++) { /* /dev/stdin leads to /proc/self/fd/0 */
        ssize_t n = libc_readlinkat(dir, path, link[i], sizeof link[i] - 1);

        if (n <= 0)
            return false;

        link[i][n] = 0;
        if (!amph_ip_may_be_numbered(link[i]))
            return amph_ip_near_name_of(link[i], name);

        dir = AT_FDCWD;
        path = link[i];
    }

    return false;
}

/* Does the old name of a link mean an open file that no server knows? */
static bool is_near_file(int dir, const char *path, int flags)
{
    struct amph_ip_resolved w;
    struct amph_ip_by_fd link;

    if (!(flags & (AT_EMPTY_PATH | AT_SYMLINK_FOLLOW)) || amph_ip_text_error(path))
        return false;
    if (!path[0])
        return (flags & AT_EMPTY_PATH) && amph_ip_near_has(dir) &&
               leads_to_near(AT_FDCWD, amph_ip_name_by_fd(dir, &link));
    if (!(flags & AT_SYMLINK_FOLLOW) ||
        (!amph_ip_may_be_numbered(path) && !amph_ip_is_number(path)) ||
        !amph_ip_resolve_near(&w, dir, path, false))
        return false;
    if (!w.local)
        amph_ip_resolve_end(&w, 0);

    return w.local && w.numbered && leads_to_near(w.dirfd, w.path);
}

/* Gives such a file another name below a prefix, by this process too: no server has the file. */
static int link_open_file(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    struct amph_ip_resolved w;
    int err = amph_ip_text_error(to);

    if (err)
        return amph_ip_fail(err);
    if (!amph_ip_resolve_near(&w, to_dir, to, false))
        return -1;
    if (w.local)
        return amph_ip_fail(new_name_error(to_dir, to));

    bool linked = amph_ip_near_link_file(from_dir, from, &w, flags, &err);

    amph_ip_resolve_end(&w, 0);
    if (!linked) {
        int wrong = new_name_error(to_dir, to);

        if (wrong != EXDEV)
            err = wrong;
    }

    return err ? amph_ip_fail(err) : 0;
}

int amph_do_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    struct pair p;

    if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
        return amph_ip_fail(EINVAL);
    if (is_near_file(from_dir, from, flags))
        return link_open_file(from_dir, from, to_dir, to, flags);

    enum side side = pair_find(&p, from_dir, from, flags, to_dir, to);

    if (side == SIDE_LOCAL)
        return libc_linkat(p.from.dirfd, p.from.path, p.to.dirfd, p.to.path, flags);

    if (side == SIDE_FAILED)
        return amph_ip_fail(link_error(errno, from_dir, from, to_dir, to, flags));

    int err;

    if (amph_ip_near_link(&p.from, &p.to, flags, &err))
        return pair_end(&p, err);
    if (!pair_enter(&p))
        return -1;

    err = amph_ip_client.fwd.link(CLIENT, AMPH_IP_AT(&p.from), AMPH_IP_AT(&p.to),
                                  flags & AT_SYMLINK_FOLLOW);

    side = pair_went_out(&p, err, !(flags & AT_SYMLINK_FOLLOW));
    if (side == SIDE_LOCAL)
        return libc_linkat(p.from.dirfd, p.from.path, p.to.dirfd, p.to.path, flags);

    return side == SIDE_FAILED ? -1 : pair_end(&p, err);
}
