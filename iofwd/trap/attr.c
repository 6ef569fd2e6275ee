/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: what a path's file is, and changes of it: attributes, rights, times, size.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl
#define SERVER_ATFLAGS (AT_SYMLINK_NOFOLLOW | AT_SYMLINK_FOLLOW | AT_REMOVEDIR | AT_EACCESS)

/* ---- asking ---- */

static int stat_at(struct amph_trap_call *c, int dir, int at, int buf, int flags)
{
    struct amph_trap_path p;
    struct stat st;
    int err = amph_trap_look(c, dir, A(at), flags, &p);

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
    int err = amph_trap_look(c, I(0), A(1), flags, &p);

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

    if (amph_trap_leads(c, dir, at, flags, true, &p, &err))
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
    bool ahead = amph_trap_leads(c, AT_FDCWD, 0, 0, false, &p, &err);

    if (ahead)
        err = amph_fwd_statfs(CL, AMPH_TRAP_AT(&p), &fs);

    amph_trap_look_end(&p);
    return err ? err : amph_trap_put(c, A(1), &fs, sizeof fs);
}

int amph_trap_do_truncate(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err;

    if (amph_trap_leads(c, AT_FDCWD, 0, 0, true, &p, &err))
        err = (int64_t)A(1) < 0 ? EINVAL : amph_fwd_truncate(CL, AMPH_TRAP_AT(&p), (off_t)A(1));

    amph_trap_look_end(&p);
    return err;
}

/* ---- changing attributes ---- */

static int chmod_at(struct amph_trap_call *c, int dir, int at, mode_t mode, int flags)
{
    struct amph_trap_path p;
    int err;

    if (amph_trap_leads(c, dir, at, flags, true, &p, &err))
        err = amph_fwd_chmod(CL, AMPH_TRAP_AT(&p), mode & 07777, flags & SERVER_ATFLAGS);

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

    if (amph_trap_leads(c, dir, at, flags, true, &p, &err))
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
    int none_ok = dir != AT_FDCWD ? AT_EMPTY_PATH : 0; /* futimens passes no path */
    int err = amph_trap_look(c, dir, A(at), flags | none_ok, &p);

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

    for (int i = 0; i < 2 && from && !err; i++) {
        if (given[i].tv_usec < 0 || given[i].tv_usec >= 1000000)
            return EINVAL;

        times[i] = (struct timespec){ given[i].tv_sec, given[i].tv_usec * 1000 };
    }

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
