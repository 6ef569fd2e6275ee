/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that make, remove and read names.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl
#define SERVER_ATFLAGS (AT_SYMLINK_NOFOLLOW | AT_SYMLINK_FOLLOW | AT_REMOVEDIR | AT_EACCESS)

static int mkdir_at(struct amph_trap_call *c, int dir, int at, mode_t mode)
{
    struct amph_trap_path p;
    mode_t mask;
    int err;

    if (amph_trap_leads(c, dir, at, AT_SYMLINK_NOFOLLOW, true, &p, &err)) {
        err = amph_trap_umask(c, &mask);
        if (!err)
            err = amph_fwd_mkdir(CL, AMPH_TRAP_AT(&p), amph_fwd_new_mode(mode & 07777, mask));
    }

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_mkdir(struct amph_trap_call *c)
{
    return mkdir_at(c, AT_FDCWD, 0, (mode_t)A(1));
}

int amph_trap_do_mkdirat(struct amph_trap_call *c)
{
    return mkdir_at(c, I(0), 1, (mode_t)A(2));
}

static int mknod_at(struct amph_trap_call *c, int dir, int at, mode_t mode, dev_t dev)
{
    struct amph_trap_path p;
    mode_t mask;
    int err;

    if (amph_trap_leads(c, dir, at, AT_SYMLINK_NOFOLLOW, true, &p, &err)) {
        err = amph_trap_umask(c, &mask);
        if (!err)
            err = amph_fwd_mknod(CL, AMPH_TRAP_AT(&p), amph_fwd_new_mode(mode, mask), dev);
    }

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_mknod(struct amph_trap_call *c)
{
    return mknod_at(c, AT_FDCWD, 0, (mode_t)A(1), (dev_t)A(2));
}

int amph_trap_do_mknodat(struct amph_trap_call *c)
{
    return mknod_at(c, I(0), 1, (mode_t)A(2), (dev_t)A(3));
}

static int unlink_at(struct amph_trap_call *c, int dir, int at, int flags)
{
    struct amph_trap_path p;
    int err;

    if (amph_trap_leads(c, dir, at, AT_SYMLINK_NOFOLLOW, true, &p, &err))
        err = amph_fwd_unlink(CL, AMPH_TRAP_AT(&p), flags);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_unlink(struct amph_trap_call *c)
{
    return unlink_at(c, AT_FDCWD, 0, 0);
}

int amph_trap_do_rmdir(struct amph_trap_call *c)
{
    return unlink_at(c, AT_FDCWD, 0, AT_REMOVEDIR);
}

int amph_trap_do_unlinkat(struct amph_trap_call *c)
{
    return unlink_at(c, I(0), 1, I(2));
}

/* Calls with two paths. */
struct two {
    struct amph_trap_path from, to;
};

/* Finds out where two paths lead, as amph_trap_leads does for one.  They are the arguments number at and at2, relative
 * to dir and dir2; flags are those of the first.  Returns whether both are forwarded; if not, *ret_p is the call's
 * result. */
static bool both_lead(struct amph_trap_call *c, struct two *two, int dir, int at, int dir2, int at2,
                      int flags, int *ret_p)
{
    char from[PATH_MAX], to[PATH_MAX];

    two->to.dir = NULL;

    int err = amph_trap_look(c, dir, A(at), flags, &two->from);

    if (!err)
        err = amph_trap_look(c, dir2, A(at2), AT_SYMLINK_NOFOLLOW, &two->to);

    *ret_p = err;
    if (err)
        return false;

    bool from_forwarded = two->from.where == AMPH_TRAP_FORWARDED;
    bool to_forwarded = two->to.where == AMPH_TRAP_FORWARDED;

    if (from_forwarded && to_forwarded)
        return true;

    if (from_forwarded || to_forwarded) {
        c->refused = true;
        *ret_p = EXDEV;
        return false;
    }

    if (two->from.where == AMPH_TRAP_LOCAL && two->to.where == AMPH_TRAP_LOCAL) {
        *ret_p = AMPH_TRAP_CONTINUE;
        return false;
    }

    err = amph_trap_absolute(c, &two->from, dir, from);
    if (!err)
        err = amph_trap_absolute(c, &two->to, dir2, to);

    *ret_p = err ? err : amph_trap_local_path(c, from, at, to, at2);
    return false;
}

static void both_end(struct two *two)
{
    amph_trap_look_end(&two->from);
    amph_trap_look_end(&two->to);
}

/* A call of the supervisor's own: records do not show it. */
static int stat_by_itself(const struct amph_trap_path *p, int flags, struct stat *st)
{
    const struct amph_fwd_caller caller = amph_fwd_set_caller(AMPH_FWD_NO_CALLER);
    int err = amph_fwd_stat(CL, AMPH_TRAP_AT(p), flags, st);

    amph_fwd_set_caller(caller);
    return err;
}

/* Looks whether the file exists to which the path leads.  Returns 0 or an error. */
static int look_at(struct amph_trap_call *c, const struct amph_trap_path *p, int dir, int flags)
{
    char seen[AMPH_TRAP_SEEN_MAX];
    struct stat st;

    if (p->where == AMPH_TRAP_FORWARDED)
        return stat_by_itself(p, flags & AT_SYMLINK_NOFOLLOW, &st);

    amph_trap_seen(c, p, dir, seen);
    if (!p->raw[0]) /* an open file, by its number */
        flags = 0;

    return fstatat(AT_FDCWD, seen, &st, flags & AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

static int look_at_text(struct amph_trap_call *c, int dir, const char *text, int flags)
{
    struct amph_trap_path p;
    int err = amph_trap_look_text(c, dir, text, flags, &p);

    if (!err)
        err = look_at(c, &p, dir, flags);

    amph_trap_look_end(&p);
    return err;
}

/* Looks whether the directory exists in which the name is.  Returns 0 or an error. */
static int look_at_parent(struct amph_trap_call *c, int dir, const char *name)
{
    char parent[PATH_MAX + 1];
    size_t len = strlen(name);

    if (!len)
        return ENOENT;

    memcpy(parent, name, len);
    while (len && parent[len - 1] == '/')
        len--;

    while (len && parent[len - 1] != '/')
        len--;

    memcpy(parent + len, ".", 2);
    return look_at_text(c, dir, parent, 0);
}

/* The errors that the kernel finds before it finds two file systems, or EXDEV. */
static int rename_error(struct amph_trap_call *c, int dir, int at, int dir2, int at2)
{
    char from[PATH_MAX], to[PATH_MAX];
    int err = amph_trap_get_text(c, from, sizeof from, A(at));

    if (!err)
        err = look_at_parent(c, dir, from);
    if (!err)
        err = amph_trap_get_text(c, to, sizeof to, A(at2));
    if (!err)
        err = look_at_parent(c, dir2, to);

    return err ? err : EXDEV;
}

/* The same of a link: the old name must exist, and the new one not. */
static int link_error(struct amph_trap_call *c, const struct amph_trap_path *from, int dir, int at,
                      int dir2, int at2, int flags)
{
    char name[PATH_MAX];
    int err = amph_trap_get_text(c, name, sizeof name, A(at));

    if (!err)
        err = name[0] || (flags & AT_EMPTY_PATH) ? look_at(c, from, dir, flags) : ENOENT;
    if (!err)
        err = amph_trap_get_text(c, name, sizeof name, A(at2));
    if (!err)
        err = look_at_parent(c, dir2, name);
    if (err)
        return err;

    size_t len = strlen(name);
    bool slash = name[len - 1] == '/';

    while (len > 1 && name[len - 1] == '/')
        name[--len] = 0;

    err = look_at_text(c, dir2, name, AT_SYMLINK_NOFOLLOW);
    if (err != ENOENT)
        return err ? err : EEXIST;

    return slash ? ENOENT : EXDEV;
}

static int rename_at(struct amph_trap_call *c, int dir, int at, int dir2, int at2, unsigned flags)
{
    struct two two;
    int err;

    if (both_lead(c, &two, dir, at, dir2, at2, AT_SYMLINK_NOFOLLOW, &err))
        err = amph_fwd_rename(CL, AMPH_TRAP_AT(&two.from), AMPH_TRAP_AT(&two.to), flags);
    else if (err == EXDEV)
        err = rename_error(c, dir, at, dir2, at2);

    both_end(&two);
    return err;
}

int amph_trap_do_rename(struct amph_trap_call *c)
{
    return rename_at(c, AT_FDCWD, 0, AT_FDCWD, 1, 0);
}

int amph_trap_do_renameat(struct amph_trap_call *c)
{
    return rename_at(c, I(0), 1, I(2), 3, c->n.data.nr == SYS_renameat2 ? (unsigned)A(4) : 0);
}

static int link_at(struct amph_trap_call *c, int dir, int at, int dir2, int at2, int flags)
{
    struct two two;
    int how = (flags & AT_EMPTY_PATH) | (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
    int err;

    if (both_lead(c, &two, dir, at, dir2, at2, how, &err))
        err = amph_fwd_link(CL, AMPH_TRAP_AT(&two.from), AMPH_TRAP_AT(&two.to),
                            flags & SERVER_ATFLAGS);
    else if (err == EXDEV)
        err = link_error(c, &two.from, dir, at, dir2, at2, how);

    both_end(&two);
    return err;
}

int amph_trap_do_link(struct amph_trap_call *c)
{
    return link_at(c, AT_FDCWD, 0, AT_FDCWD, 1, 0);
}

int amph_trap_do_linkat(struct amph_trap_call *c)
{
    if (I(4) & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
        return EINVAL;

    return link_at(c, I(0), 1, I(2), 3, I(4));
}

static int symlink_at(struct amph_trap_call *c, int target, int dir, int at)
{
    struct amph_trap_path p;
    char text[PATH_MAX];
    int err = amph_trap_look(c, dir, A(at), AT_SYMLINK_NOFOLLOW, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err)
        err = amph_trap_get_text(c, text, sizeof text, A(target));

    if (!err && p.where == AMPH_TRAP_RENAMED)
        err = amph_trap_local_path(c, text, target, p.path, at);
    else if (!err)
        err = amph_fwd_symlink(CL, text, AMPH_TRAP_AT(&p));

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_symlink(struct amph_trap_call *c)
{
    return symlink_at(c, 0, AT_FDCWD, 1);
}

int amph_trap_do_symlinkat(struct amph_trap_call *c)
{
    return symlink_at(c, 0, I(1), 2);
}

static int readlink_at(struct amph_trap_call *c, int dir, int at, int buf)
{
    struct amph_trap_path p;
    char target[PATH_MAX];
    size_t len = 0;
    size_t room = A(buf + 1);
    int err = amph_trap_look(c, dir, A(at),
                             AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AMPH_TRAP_MAGIC_LINK, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL) {
        err = amph_trap_cwd_named(c, p.raw, target);
        len = strlen(target);
        if (!err && !len)
            err = AMPH_TRAP_CONTINUE;
    } else if (!err && p.where == AMPH_TRAP_RENAMED) {
        ssize_t n = readlink(p.path, target, sizeof target);

        err = n < 0 ? errno : 0;
        len = n < 0 ? 0 : (size_t)n;
    } else if (!err && p.dir && !p.path[0] && p.raw[0] && p.dir->name) {
        /* a link of /proc to an open file */
        snprintf(target, sizeof target, "%s", p.dir->name);
        len = strlen(target);
    } else if (!err) {
        err = amph_fwd_readlink(CL, AMPH_TRAP_AT(&p), target, sizeof target, &len);
    }

    amph_trap_look_end(&p);
    if (!err && (int)room <= 0)
        err = EINVAL;

    if (len > room)
        len = room;

    c->value = (int64_t)len;
    return err ? err : amph_trap_put(c, A(buf), target, len);
}

int amph_trap_do_readlink(struct amph_trap_call *c)
{
    return readlink_at(c, AT_FDCWD, 0, 1);
}

int amph_trap_do_readlinkat(struct amph_trap_call *c)
{
    return readlink_at(c, I(0), 1, 2);
}
