/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on names: what a file is, and changes of the tree.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * Each call has three parts: resolve the path; call the C library if the path is local; else
 * forward the call.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/file_size_limit.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/wire/file.h"

#define CLIENT amph_ip_client.client

/* The result of a call that wrote to `to` in place of `at`: EFAULT if `at` is not writable. */
static int delivered(int err, const void *to, const void *at)
{
    return err || to == at ? err : EFAULT;
}

int amph_do_fstat(int fd, struct stat *st)
{
    struct stat spare;
    struct stat *to = AMPH_IP_ROOM(st, &spare);
    struct amph_fd_file *of;

    if (AMPH_UNLIKELY(amph_ip_is_cwd(fd)))
        return amph_ip_fail(EBADF); /* the program does not know it */
    if (amph_fdtab_is_near(fd))
        return amph_ip_kernel_fstat(fd, st);

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(
                     of, delivered(amph_ip_client.fwd.fstat(CLIENT, &of->file, to), to, st));
}

/* The permission bits of a link to a descriptor with these flags. */
static mode_t link_mode(int flags)
{
    if (flags & O_PATH)
        return 0;
    if ((flags & O_ACCMODE) == O_RDONLY)
        return 0500;
    if ((flags & O_ACCMODE) == O_WRONLY)
        return 0300;

    return 0700;
}

/* Is the link itself the object of the call, /proc/self/fd/N or /dev/stdin?  Then w has been ended,
 * and *mode_p is the access mode of the forwarded descriptor, which replaces the placeholder's; 0:
 * leave it as it is. */
static bool is_number_itself(struct amph_ip_resolved *w, int flags, mode_t *mode_p)
{
    int how = 0;

    *mode_p = 0;
    if (AMPH_LIKELY(w->by == AMPH_IP_BY_NAME) || !(flags & AT_SYMLINK_NOFOLLOW))
        return false;

    if (w->by == AMPH_IP_BY_NUMBER && w->dir &&
        amph_ip_client.fwd.getflags(CLIENT, &w->dir->file, &how) == 0)
        *mode_p = S_IFLNK | link_mode(how);

    amph_ip_resolve_end(w, 0);
    return true;
}

/* Links of /proc/PID/fd have their owner's access rights to the descriptor and no other bits;
 * /proc/PID/cwd has all. */
static bool has_access_mode(mode_t mode, mode_t seen)
{
    return mode && !(seen & 077);
}

static int lstat_number(int dir, const char *path, struct stat *st, mode_t mode)
{
    int failed = libc_fstatat64(dir, path, st, AT_SYMLINK_NOFOLLOW);

    if (!failed && has_access_mode(mode, st->st_mode))
        st->st_mode = mode;

    return failed;
}

#define STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)

int amph_do_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    struct amph_ip_resolved w;

    struct stat spare, *to;
    int err;

    if (flags & ~STAT_FLAGS)
        return amph_ip_fail(EINVAL);

    to = AMPH_IP_ROOM(st, &spare);
    if (amph_ip_near_stat_simple(dir, path, flags, to, &err))
        return amph_ip_result(delivered(err, to, st));
    if (!amph_ip_resolve_near(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;

    if (!w.local && amph_ip_near_stat(&w, flags, to, &err))
        return amph_ip_resolve_end(&w, delivered(err, to, st));
    if (!amph_ip_resolve_enter(&w))
        return -1;

    mode_t mode;
    if (!w.local && is_number_itself(&w, flags, &mode))
        return lstat_number(dir, path, st, mode);

    if (!w.local) {
        err = w.path[0]
                  ? amph_ip_client.fwd.stat(CLIENT, AMPH_IP_AT(&w), flags & AT_SYMLINK_NOFOLLOW, to)
                  : amph_ip_client.fwd.fstat(CLIENT, &w.dir->file, to);

        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, delivered(err, to, st));
    }

    return libc_fstatat64(w.dirfd, w.path, st, flags);
}

/* The mount point on the server means nothing on this host. */
#define ATTRIBUTES_OF_MOUNTS ((uint64_t)(STATX_ATTR_AUTOMOUNT | STATX_ATTR_MOUNT_ROOT))

static int without_mounts(int err, struct statx *stx)
{
    if (!err) {
        stx->stx_attributes &= ~ATTRIBUTES_OF_MOUNTS;
        stx->stx_attributes_mask &= ~ATTRIBUTES_OF_MOUNTS;
    }

    return err;
}

int amph_do_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx)
{
    struct amph_ip_resolved w;
    struct statx spare, *to;
    int err = 0;

    if ((flags & ~STAT_FLAGS) || (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE ||
        (mask & STATX__RESERVED))
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;

    to = w.local ? stx : AMPH_IP_ROOM(stx, &spare);
    if (!w.local && amph_ip_near_statx(&w, flags, mask, to, &err))
        return amph_ip_resolve_end(&w, delivered(without_mounts(err, to), to, stx));
    if (!amph_ip_resolve_enter(&w))
        return -1;

    mode_t mode;

    if (!w.local && is_number_itself(&w, flags, &mode)) {
        int failed = libc_statx(dir, path, flags, mask, stx);

        if (!failed && has_access_mode(mode, stx->stx_mode))
            stx->stx_mode = (uint16_t)mode;

        return failed;
    }

    if (!w.local) {
        err = w.path[0] ? amph_ip_client.fwd.statx(CLIENT, AMPH_IP_AT(&w),
                                                   flags & AT_SYMLINK_NOFOLLOW, mask, to)
                        : amph_ip_client.fwd.fstatx(CLIENT, &w.dir->file, mask, to);
        err = without_mounts(err, to);

        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, delivered(err, to, stx));
    }

    return libc_statx(w.dirfd, w.path, flags, mask, stx);
}

int amph_do_faccessat(int dir, const char *path, int amode, int flags)
{
    struct amph_ip_resolved w;
    int err;

    if ((amode & ~(R_OK | W_OK | X_OK)) ||
        (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EACCESS | AT_EMPTY_PATH)))
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;
    if (!w.local && amph_ip_near_access(&w, amode, flags, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.access(CLIENT, AMPH_IP_AT(&w), amode,
                                        flags & (AT_SYMLINK_NOFOLLOW | AT_EACCESS));
        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_faccessat(w.dirfd, w.path, amode, flags);
}

int amph_do_statfs(const char *path, struct statfs *fs)
{
    struct amph_ip_resolved w;

    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    if (!w.local) {
        struct statfs spare;
        struct statfs *to = AMPH_IP_ROOM(fs, &spare);
        int err = w.path[0] ? amph_ip_client.fwd.statfs(CLIENT, AMPH_IP_AT(&w), to)
                            : amph_ip_client.fwd.fstatfs(CLIENT, &w.dir->file, to);

        if (!amph_ip_went_out(&w, err, false))
            return amph_ip_resolve_end(&w, delivered(err, to, fs));
    }

    return libc_statfs64(w.path, fs);
}

int amph_do_fstatfs(int fd, struct statfs *fs)
{
    struct statfs spare;
    struct statfs *to = AMPH_IP_ROOM(fs, &spare);
    struct amph_fd_file *of;

    if (amph_fdtab_is_near(fd))
        return libc_fstatfs64(fd, fs);

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(
                     of, delivered(amph_ip_client.fwd.fstatfs(CLIENT, &of->file, to), to, fs));
}

static void to_statvfs(const struct statfs *fs, struct statvfs *v)
{
    *v = (struct statvfs){
        .f_bsize = (unsigned long)fs->f_bsize,
        .f_frsize = (unsigned long)(fs->f_frsize ? fs->f_frsize : fs->f_bsize),
        .f_blocks = fs->f_blocks,
        .f_bfree = fs->f_bfree,
        .f_bavail = fs->f_bavail,
        .f_files = fs->f_files,
        .f_ffree = fs->f_ffree,
        .f_favail = fs->f_ffree,
        .f_fsid = (unsigned long)((unsigned)fs->f_fsid.__val[0] |
                                  (uint64_t)(unsigned)fs->f_fsid.__val[1] << 32),
        .f_flag = (unsigned long)fs->f_flags &
                  ~0x20UL, /* without the kernel's "these flags are valid" bit */
        .f_namemax = (unsigned long)fs->f_namelen,
    };
}

int amph_do_statvfs(const char *path, struct statvfs *v)
{
    struct amph_ip_resolved w;
    struct statfs fs;

    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    if (!w.local) {
        int err = w.path[0] ? amph_ip_client.fwd.statfs(CLIENT, AMPH_IP_AT(&w), &fs)
                            : amph_ip_client.fwd.fstatfs(CLIENT, &w.dir->file, &fs);

        if (!err)
            to_statvfs(&fs, v);

        if (!amph_ip_went_out(&w, err, false))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_statvfs64(w.path, v);
}

int amph_do_fstatvfs(int fd, struct statvfs *v)
{
    struct statfs fs;

    if (amph_do_fstatfs(fd, &fs) != 0)
        return -1;

    to_statvfs(&fs, v);
    return 0;
}

int amph_do_mkdirat(int dir, const char *path, mode_t mode)
{
    struct amph_ip_resolved w;
    int err;

    if (!amph_ip_resolve_near(&w, dir, path, false))
        return -1;
    if (!w.local && amph_ip_near_mkdir(&w, mode, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.mkdir(CLIENT, AMPH_IP_AT(&w),
                                       amph_fwd_new_mode(mode & 07777, amph_ip_cwd()->umask));
        if (!amph_ip_went_out(&w, err, true))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_mkdirat(w.dirfd, w.path, mode);
}

int amph_do_mknodat(int dir, const char *path, mode_t mode, dev_t dev)
{
    struct amph_ip_resolved w;

    if (!amph_ip_resolve(&w, dir, path, false))
        return -1;

    if (!w.local) {
        int err = amph_ip_client.fwd.mknod(CLIENT, AMPH_IP_AT(&w),
                                           amph_fwd_new_mode(mode, amph_ip_cwd()->umask), dev);
        if (!amph_ip_went_out(&w, err, true))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_mknodat(w.dirfd, w.path, mode, dev);
}

int amph_do_unlinkat(int dir, const char *path, int flags)
{
    struct amph_ip_resolved w;
    int err;

    if (flags & ~AT_REMOVEDIR)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, false))
        return -1;
    if (!w.local && amph_ip_near_unlink(&w, flags, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.unlink(CLIENT, AMPH_IP_AT(&w), flags);
        if (!amph_ip_went_out(&w, err, true))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_unlinkat(w.dirfd, w.path, flags);
}

int amph_do_remove(const char *path)
{
    int saved = errno;

    if (amph_do_unlinkat(AT_FDCWD, path, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;

    errno = saved;
    return amph_do_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int amph_do_symlinkat(const char *target, int dir, const char *path)
{
    struct amph_ip_resolved w;
    int bad = amph_ip_text_error(target);
    int err;

    if (bad)
        return amph_ip_fail(bad);
    if (!amph_ip_resolve_near(&w, dir, path, false))
        return -1;
    if (!w.local && amph_ip_near_symlink(target, &w, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.symlink(CLIENT, target, AMPH_IP_AT(&w));
        if (!amph_ip_went_out(&w, err, true))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_symlinkat(target, w.dirfd, w.path);
}

/* Reading /proc/self/fd/N of a forwarded descriptor returns the name of its file. */
static int readlink_fd(struct amph_ip_resolved *w, char *buf, size_t cap, size_t *len_p)
{
    char name[PATH_MAX];
    size_t len = 0;
    int err = amph_ip_client.fwd.nameof(CLIENT, &w->dir->file, name, sizeof name, &len);

    if (err == ENOENT)
        len = (size_t)snprintf(name, sizeof name, "%s (deleted)", w->dir->path);
    else if (err)
        return err;

    *len_p = len < cap ? len : cap;
    memcpy(buf, name, *len_p);
    return 0;
}

ssize_t amph_do_readlinkat(int dir, const char *path, char *buf, size_t cap)
{
    struct amph_ip_resolved w;
    size_t len = 0;
    int err;

    if ((int)cap <= 0) /* the kernel has an int for it */
        return amph_ip_fail(EINVAL);

    cap = (size_t)(int)cap;
    if (!path)
        return amph_ip_fail(EFAULT);

    if (amph_ip_is_exe(path)) {
        len = strlen(amph_ip_state.exe);
        memcpy(buf, amph_ip_state.exe, len < cap ? len : cap);
        return (ssize_t)(len < cap ? len : cap);
    }

    if (!amph_ip_resolve_near(&w, dir, path, dir != AT_FDCWD))
        return -1;
    if (w.local)
        return w.numbered && !w.alias ? amph_ip_readlink_numbered(w.dirfd, w.path, buf, cap)
                                      : libc_readlinkat(w.dirfd, w.path, buf, cap);

    char spare[PATH_MAX];
    char *to = amph_ip_can_write(buf, cap < sizeof spare ? cap : sizeof spare) ? buf : spare;

    if (to == spare && cap > sizeof spare)
        cap = sizeof spare;

    if (amph_ip_near_readlink(&w, to, cap, &len, &err))
        return amph_ip_resolve_end(&w, delivered(err, to, buf)) ? -1 : (ssize_t)len;
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (w.by == AMPH_IP_BY_ALIAS) {
        amph_ip_resolve_end(&w, 0);
        return libc_readlinkat(dir, path, buf, cap);
    }

    bool by_fd = w.by == AMPH_IP_BY_NUMBER && w.dir;

    err = by_fd ? readlink_fd(&w, to, cap, &len)
                : amph_ip_client.fwd.readlink(CLIENT, AMPH_IP_AT(&w), to, cap, &len);

    if (amph_ip_went_out(&w, err, true))
        return libc_readlinkat(w.dirfd, w.path, buf, cap);

    /* the kernel reads only as much as it writes */
    if (!err && to == spare && amph_ip_can_write(buf, len))
        memcpy(buf, spare, len);
    else
        err = delivered(err, to, buf);

    return amph_ip_resolve_end(&w, err) ? -1 : (ssize_t)len;
}

int amph_do_fchmodat(int dir, const char *path, mode_t mode, int flags)
{
    struct amph_ip_resolved w;
    int err;

    if (flags & ~AT_SYMLINK_NOFOLLOW)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, false))
        return -1;
    if (!w.local && amph_ip_near_chmod(&w, mode, flags, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.chmod(CLIENT, AMPH_IP_AT(&w), mode & 07777, flags);
        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_fchmodat(w.dirfd, w.path, mode, flags);
}

int amph_do_fchmod(int fd, mode_t mode)
{
    struct amph_fd_file *of;
    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.fchmod(CLIENT, &of->file, mode & 07777));
}

int amph_do_fchownat(int dir, const char *path, uid_t uid, gid_t gid, int flags)
{
    struct amph_ip_resolved w;
    int err;

    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;
    if (!w.local && amph_ip_near_chown(&w, uid, gid, flags, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.chown(CLIENT, AMPH_IP_AT(&w), uid, gid,
                                       flags & AT_SYMLINK_NOFOLLOW);
        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_fchownat(w.dirfd, w.path, uid, gid, flags);
}

int amph_do_fchown(int fd, uid_t uid, gid_t gid)
{
    struct amph_fd_file *of;
    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.fchown(CLIENT, &of->file, uid, gid));
}

int amph_do_truncate(const char *path, off_t length)
{
    struct amph_ip_resolved w;

    if (length < 0)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    if (!w.local) {
        if (AMPH_UNLIKELY(amph_ip_is_limited()) && !amph_ip_may_grow(-1, path, length))
            return amph_ip_resolve_end(&w, EFBIG);

        int err = amph_ip_client.fwd.truncate(CLIENT, AMPH_IP_AT(&w), length);
        if (!amph_ip_went_out(&w, err, false))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_truncate64(w.path, length);
}
