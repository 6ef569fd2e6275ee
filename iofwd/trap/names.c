/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls on paths.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl
#define SERVER_ATFLAGS (AT_SYMLINK_NOFOLLOW | AT_SYMLINK_FOLLOW | AT_REMOVEDIR | AT_EACCESS)

/* ---- what all have in common ---- */

/* Looks at the path in argument `at`, relative to dir.  Returns true if it is forwarded; else the
 * result of the call is in *ret_p.  renamed: can the supervisor make the call itself? */
static bool leads(struct amph_trap_call *c, int dir, int at, bool empty_ok, bool renamed,
                  struct amph_trap_path *p, int *ret_p)
{
    int err = amph_trap_look(c, dir, A(at), empty_ok, p);

    *ret_p = err;
    if (err)
        return false;

    if (p->where == AMPH_TRAP_AHEAD)
        return true;

    if (p->where == AMPH_TRAP_LOCAL)
        *ret_p = AMPH_TRAP_CONTINUE;
    else if (renamed)
        *ret_p = amph_trap_local_path(c, p->path, at, NULL, -1);
    else {
        amph_trap_say(
            "%s of %s, which is not below the forwarded working directory, is refused: use "
            "an absolute path",
            amph_trap_rows[c->n.data.nr].name, p->path);
        *ret_p = EOPNOTSUPP;
    }

    return false;
}

/* ---- open ---- */

static int open_ahead(struct amph_trap_call *c, const struct amph_trap_path *p, int dir, int flags,
                      mode_t mode)
{
    struct amph_fwd_file file;
    struct amph_trap_file *made;
    char name[PATH_MAX];
    mode_t mask = 0;
    int own_fd;
    int server_flags = flags & ~(O_CLOEXEC | O_NOCTTY | O_DIRECT);
    int err = 0;

    if (flags & (O_CREAT | __O_TMPFILE))
        err = amph_trap_umask(c, &mask);

    if (err)
        return err;

    amph_trap_wait_begin(c);
    err = amph_fwd_open(CL, AMPH_TRAP_AT(p), server_flags, amph_fwd_new_mode(mode, mask), &file);
    amph_trap_wait_end();
    if (err)
        return err == EINTR ? amph_trap_wait_result(c) : err;

    if (amph_trap_absolute(c, p, dir, name) != 0)
        name[0] = 0;

    err = amph_trap_file_make(&file, name, flags, &made, &own_fd);
    if (err)
        return err;

    err = amph_trap_process_place(c, own_fd, 0, flags & O_CLOEXEC);
    close(own_fd);
    amph_trap_file_put(made);
    return err;
}

static int open_at(struct amph_trap_call *c, int dir, int at, int flags, mode_t mode)
{
    struct amph_trap_path p;
    int err = amph_trap_look(c, dir, A(at), false, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_RENAMED)
        err = amph_trap_local_open(c, p.path, flags, mode);
    else if (!err)
        err = open_ahead(c, &p, dir, flags, mode);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_open(struct amph_trap_call *c)
{
    return open_at(c, AT_FDCWD, 0, I(1), (mode_t)A(2));
}

int amph_trap_do_creat(struct amph_trap_call *c)
{
    return open_at(c, AT_FDCWD, 0, O_CREAT | O_WRONLY | O_TRUNC, (mode_t)A(1));
}

int amph_trap_do_openat(struct amph_trap_call *c)
{
    return open_at(c, I(0), 1, I(2), (mode_t)A(3));
}

int amph_trap_do_openat2(struct amph_trap_call *c)
{
    struct open_how how;
    struct amph_trap_path p;
    int err = A(3) < sizeof how ? EINVAL : amph_trap_get(c, &how, A(2), sizeof how);

    if (err)
        return err == EINVAL || err == EFAULT ? AMPH_TRAP_CONTINUE : err;

    if (!how.resolve)
        return open_at(c, I(0), 1, (int)how.flags, (mode_t)how.mode);

    /* programs that ask for a special way of looking have another for older kernels */
    if (leads(c, I(0), 1, false, false, &p, &err))
        err = ENOSYS;

    amph_trap_look_end(&p);
    return err;
}

/* ---- attributes ---- */

static int stat_at(struct amph_trap_call *c, int dir, int at, int buf, int flags)
{
    struct amph_trap_path p;
    struct stat st;
    int err = amph_trap_look(c, dir, A(at), flags & AT_EMPTY_PATH, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_RENAMED)
        err = fstatat(AT_FDCWD, p.path, &st, flags & ~AT_EMPTY_PATH) == 0 ? 0 : errno;
    else if (!err && p.dir && !p.path[0])
        err = amph_fwd_fstat(CL, &p.dir->file, &st);
    else if (!err)
        err = amph_fwd_stat(CL, AMPH_TRAP_AT(&p), flags & AT_SYMLINK_NOFOLLOW, &st);

    amph_trap_look_end(&p);
    return err ? err : amph_trap_put(c, A(buf), &st, sizeof st);
}

int amph_trap_do_stat(struct amph_trap_call *c)
{
    return stat_at(c, AT_FDCWD, 0, 1, 0);
}

int amph_trap_do_lstat(struct amph_trap_call *c)
{
    return stat_at(c, AT_FDCWD, 0, 1, AT_SYMLINK_NOFOLLOW);
}

int amph_trap_do_newfstatat(struct amph_trap_call *c)
{
    return stat_at(c, I(0), 1, 2, I(3));
}

int amph_trap_do_statx(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    struct statx stx;
    int flags = I(2);
    int err = amph_trap_look(c, I(0), A(1), flags & AT_EMPTY_PATH, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_RENAMED)
        err = statx(AT_FDCWD, p.path, flags, (unsigned)A(3), &stx) == 0 ? 0 : errno;
    else if (!err && p.dir && !p.path[0])
        err = amph_fwd_fstatx(CL, &p.dir->file, (unsigned)A(3), &stx);
    else if (!err)
        err = amph_fwd_statx(CL, AMPH_TRAP_AT(&p), flags & AT_SYMLINK_NOFOLLOW, (unsigned)A(3),
                             &stx);

    amph_trap_look_end(&p);
    return err ? err : amph_trap_put(c, A(4), &stx, sizeof stx);
}

static int access_at(struct amph_trap_call *c, int dir, int at, int mode, int flags)
{
    struct amph_trap_path p;
    int err;

    if (leads(c, dir, at, flags & AT_EMPTY_PATH, true, &p, &err))
        err = amph_fwd_access(CL, AMPH_TRAP_AT(&p), mode, flags & SERVER_ATFLAGS);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_access(struct amph_trap_call *c)
{
    return access_at(c, AT_FDCWD, 0, I(1), 0);
}

int amph_trap_do_faccessat(struct amph_trap_call *c)
{
    return access_at(c, I(0), 1, I(2), 0);
}

int amph_trap_do_faccessat2(struct amph_trap_call *c)
{
    return access_at(c, I(0), 1, I(2), I(3));
}

int amph_trap_do_statfs(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    struct statfs fs;
    int err;
    bool ahead = leads(c, AT_FDCWD, 0, false, false, &p, &err);

    if (ahead)
        err = amph_fwd_statfs(CL, AMPH_TRAP_AT(&p), &fs);

    amph_trap_look_end(&p);
    return err ? err : amph_trap_put(c, A(1), &fs, sizeof fs);
}

int amph_trap_do_truncate(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err;

    if (leads(c, AT_FDCWD, 0, false, true, &p, &err))
        err = (int64_t)A(1) < 0 ? EINVAL : amph_fwd_truncate(CL, AMPH_TRAP_AT(&p), (off_t)A(1));

    amph_trap_look_end(&p);
    return err;
}

/* ---- making and removing names ---- */

static int mkdir_at(struct amph_trap_call *c, int dir, int at, mode_t mode)
{
    struct amph_trap_path p;
    mode_t mask;
    int err;

    if (leads(c, dir, at, false, true, &p, &err)) {
        err = amph_trap_umask(c, &mask);
        if (!err)
            err = amph_fwd_mkdir(CL, AMPH_TRAP_AT(&p), amph_fwd_new_mode(mode, mask));
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

    if (leads(c, dir, at, false, true, &p, &err)) {
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

    if (leads(c, dir, at, false, true, &p, &err))
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

/* As leads: both forwarded, or the result.  at, at2: the arguments; their directories. */
static bool both_lead(struct amph_trap_call *c, struct two *two, int dir, int at, int dir2, int at2,
                      bool empty_ok, int *ret_p)
{
    char from[PATH_MAX], to[PATH_MAX];

    two->to.dir = NULL;

    int err = amph_trap_look(c, dir, A(at), empty_ok, &two->from);

    if (!err)
        err = amph_trap_look(c, dir2, A(at2), false, &two->to);

    *ret_p = err;
    if (err)
        return false;

    bool from_ahead = two->from.where == AMPH_TRAP_AHEAD;
    bool to_ahead = two->to.where == AMPH_TRAP_AHEAD;

    if (from_ahead && to_ahead)
        return true;

    if (from_ahead || to_ahead) {
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

static int rename_at(struct amph_trap_call *c, int dir, int at, int dir2, int at2, unsigned flags)
{
    struct two two;
    int err;

    if (both_lead(c, &two, dir, at, dir2, at2, false, &err))
        err = amph_fwd_rename(CL, AMPH_TRAP_AT(&two.from), AMPH_TRAP_AT(&two.to), flags);

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
    int err;

    if (both_lead(c, &two, dir, at, dir2, at2, flags & AT_EMPTY_PATH, &err))
        err = amph_fwd_link(CL, AMPH_TRAP_AT(&two.from), AMPH_TRAP_AT(&two.to),
                            flags & SERVER_ATFLAGS);

    both_end(&two);
    return err;
}

int amph_trap_do_link(struct amph_trap_call *c)
{
    return link_at(c, AT_FDCWD, 0, AT_FDCWD, 1, 0);
}

int amph_trap_do_linkat(struct amph_trap_call *c)
{
    return link_at(c, I(0), 1, I(2), 3, I(4));
}

static int symlink_at(struct amph_trap_call *c, int target, int dir, int at)
{
    struct amph_trap_path p;
    char text[PATH_MAX];
    int err = amph_trap_look(c, dir, A(at), false, &p);

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
    int err = amph_trap_look(c, dir, A(at), true, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL) {
        bool own_cwd = strcmp(p.raw, "/proc/self/cwd") == 0;

        target[0] = 0;
        if (own_cwd)
            err = amph_trap_cwd(c, target);

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

/* ---- changing attributes ---- */

static int chmod_at(struct amph_trap_call *c, int dir, int at, mode_t mode, int flags)
{
    struct amph_trap_path p;
    int err;

    if (leads(c, dir, at, flags & AT_EMPTY_PATH, true, &p, &err))
        err = amph_fwd_chmod(CL, AMPH_TRAP_AT(&p), mode, flags & SERVER_ATFLAGS);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_chmod(struct amph_trap_call *c)
{
    return chmod_at(c, AT_FDCWD, 0, (mode_t)A(1), 0);
}

int amph_trap_do_fchmodat(struct amph_trap_call *c)
{
    return chmod_at(c, I(0), 1, (mode_t)A(2), 0);
}

int amph_trap_do_fchmodat2(struct amph_trap_call *c)
{
    return chmod_at(c, I(0), 1, (mode_t)A(2), I(3));
}

static int chown_at(struct amph_trap_call *c, int dir, int at, uid_t uid, gid_t gid, int flags)
{
    struct amph_trap_path p;
    int err;

    if (leads(c, dir, at, flags & AT_EMPTY_PATH, true, &p, &err))
        err = amph_fwd_chown(CL, AMPH_TRAP_AT(&p), uid, gid, flags & SERVER_ATFLAGS);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_chown(struct amph_trap_call *c)
{
    return chown_at(c, AT_FDCWD, 0, (uid_t)A(1), (gid_t)A(2), 0);
}

int amph_trap_do_lchown(struct amph_trap_call *c)
{
    return chown_at(c, AT_FDCWD, 0, (uid_t)A(1), (gid_t)A(2), AT_SYMLINK_NOFOLLOW);
}

int amph_trap_do_fchownat(struct amph_trap_call *c)
{
    return chown_at(c, I(0), 1, (uid_t)A(2), (gid_t)A(3), I(4));
}

/* times NULL: now. */
static int set_times(struct amph_trap_call *c, int dir, int at, const struct timespec *times,
                     int flags)
{
    struct amph_trap_path p;
    int err = amph_trap_look(c, dir, A(at), dir != AT_FDCWD || (flags & AT_EMPTY_PATH), &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_RENAMED)
        err = utimensat(AT_FDCWD, p.path, times, flags & ~AT_EMPTY_PATH) == 0 ? 0 : errno;
    else if (!err && p.dir && !p.path[0])
        err = amph_fwd_futimens(CL, &p.dir->file, times);
    else if (!err)
        err = amph_fwd_utimens(CL, AMPH_TRAP_AT(&p), times, flags & AT_SYMLINK_NOFOLLOW);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_utimensat(struct amph_trap_call *c)
{
    struct timespec times[2];
    const struct timespec *given = A(2) ? times : NULL;
    int err = given ? amph_trap_get(c, times, A(2), sizeof times) : 0;

    return err ? err : set_times(c, I(0), 1, given, I(3));
}

static int utimes_at(struct amph_trap_call *c, int dir, int at, uint64_t from)
{
    struct timeval given[2];
    struct timespec times[2];
    const struct timespec *converted = from ? times : NULL;
    int err = from ? amph_trap_get(c, given, from, sizeof given) : 0;

    for (int i = 0; i < 2 && from && !err; i++)
        times[i] = (struct timespec){ given[i].tv_sec, given[i].tv_usec * 1000 };

    return err ? err : set_times(c, dir, at, converted, 0);
}

int amph_trap_do_utimes(struct amph_trap_call *c)
{
    return utimes_at(c, AT_FDCWD, 0, A(1));
}

int amph_trap_do_futimesat(struct amph_trap_call *c)
{
    return utimes_at(c, I(0), 1, A(2));
}

int amph_trap_do_utime(struct amph_trap_call *c)
{
    struct utimbuf given;
    struct timespec times[2];
    int err = A(1) ? amph_trap_get(c, &given, A(1), sizeof given) : 0;

    if (err)
        return err;

    if (A(1)) {
        times[0] = (struct timespec){ .tv_sec = given.actime };
        times[1] = (struct timespec){ .tv_sec = given.modtime };
    }

    const struct timespec *converted = A(1) ? times : NULL;

    return set_times(c, AT_FDCWD, 0, converted, 0);
}

/* ---- the working directory ---- */

/* The directory of an open file becomes the caller's. */
static int enter(struct amph_trap_call *c, const struct amph_fwd_file *file, const char *name)
{
    char real[PATH_MAX];
    size_t len = 0;
    struct stat st;
    int err = amph_fwd_fstat(CL, file, &st);

    if (!err && !S_ISDIR(st.st_mode))
        err = ENOTDIR;

    if (!err)
        err = amph_fwd_access(CL, file, "", X_OK, 0);

    if (err)
        return err;

    if (amph_fwd_nameof(CL, file, real, sizeof real - 1, &len) == 0 && len) {
        real[len] = 0;
        name = real;
    }

    return amph_trap_cwd_set(c, name);
}

static int enter_ahead(struct amph_trap_call *c, const struct amph_trap_path *p)
{
    struct amph_fwd_file file;
    char name[PATH_MAX];
    int err = amph_fwd_open(CL, AMPH_TRAP_AT(p), O_PATH | O_DIRECTORY, 0, &file);

    if (err)
        return err;

    err = amph_trap_absolute(c, p, AT_FDCWD, name);
    if (!err)
        err = enter(c, &file, name);

    amph_fwd_close(CL, &file);
    return err;
}

/* A local directory, of which the kernel may have to be told. */
static int enter_local(struct amph_trap_call *c, const struct amph_trap_path *p)
{
    char now[PATH_MAX], real[PATH_MAX];
    struct stat st;
    int err = amph_trap_cwd(c, now);

    if (err || (!now[0] && p->where == AMPH_TRAP_LOCAL))
        return err ? err : AMPH_TRAP_CONTINUE;

    if (!realpath(p->path, real) || stat(real, &st) != 0)
        return errno;

    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;

    if (faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) != 0)
        return errno;

    /* the kernel goes to an absolute path; else it would start from elsewhere */
    err = amph_trap_cwd_set(c, p->where == AMPH_TRAP_LOCAL ? NULL : real);
    if (err)
        return err;

    return p->where == AMPH_TRAP_LOCAL ? AMPH_TRAP_CONTINUE : 0;
}

int amph_trap_do_chdir(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err = amph_trap_look(c, AT_FDCWD, A(0), false, &p);

    if (!err)
        err = p.where == AMPH_TRAP_AHEAD ? enter_ahead(c, &p) : enter_local(c, &p);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_fchdir(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    char name[PATH_MAX];
    int err = amph_trap_file_of(c, I(0), &file, NULL);

    if (err)
        return err;

    if (file) {
        err = enter(c, &file->file, file->name);
        amph_trap_file_put(file);
        return err;
    }

    /* the kernel refuses what is no directory; then nothing has changed */
    err = amph_trap_cwd(c, name);
    if (err || !name[0])
        return err ? err : AMPH_TRAP_CONTINUE;

    struct stat st;
    int own_fd = amph_trap_fd_of(c->process, I(0));
    bool dir = own_fd >= 0 && fstat(own_fd, &st) == 0 && S_ISDIR(st.st_mode);

    if (own_fd >= 0)
        close(own_fd);

    err = dir ? amph_trap_cwd_set(c, NULL) : 0;
    return err ? err : AMPH_TRAP_CONTINUE;
}

/* ---- programs ---- */

static int execute_at(struct amph_trap_call *c, int dir, int at, int flags)
{
    struct amph_trap_path p;
    char name[PATH_MAX] = "";
    int err = amph_trap_look(c, dir, A(at), flags & AT_EMPTY_PATH, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_AHEAD)
        err = amph_fwd_access(CL, AMPH_TRAP_AT(&p), X_OK, 0);
    else if (!err)
        err = access(p.path, X_OK) == 0 ? 0 : errno;

    if (!err) {
        amph_trap_absolute(c, &p, dir, name);
        amph_trap_say("%s cannot be executed from there under -trap: copy it to this host, or use "
                      "iofwd-run -mount",
                      name[0] ? name : p.raw);
        err = EACCES;
    }

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_execve(struct amph_trap_call *c)
{
    return execute_at(c, AT_FDCWD, 0, 0);
}

int amph_trap_do_execveat(struct amph_trap_call *c)
{
    return execute_at(c, I(0), 1, I(4));
}

/* ---- what only the kernel of the file's host could do ---- */

static int refuse_at(struct amph_trap_call *c, int dir, int at, int err)
{
    struct amph_trap_path p;
    int ret;

    if (leads(c, dir, at, false, false, &p, &ret))
        ret = err;

    amph_trap_look_end(&p);
    return ret;
}

int amph_trap_do_watch(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 1, EOPNOTSUPP);
}

int amph_trap_do_fanotify_mark(struct amph_trap_call *c)
{
    return A(4) ? refuse_at(c, I(3), 4, EOPNOTSUPP) : AMPH_TRAP_CONTINUE;
}

int amph_trap_do_name_to_handle(struct amph_trap_call *c)
{
    return refuse_at(c, I(0), 1, EOPNOTSUPP);
}

int amph_trap_do_refused_path(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 0, EPERM);
}

int amph_trap_do_refused_at(struct amph_trap_call *c)
{
    return refuse_at(c, I(0), 1, EPERM);
}

int amph_trap_do_mount(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 1, EPERM);
}

/* A ring's calls on files come past every filter. */
int amph_trap_do_ring(struct amph_trap_call *c)
{
    return ENOSYS;
}
