/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) with the numbers of file calls: each goes to the function of that name, which decides as always.  Layer: iofwd (preload).
 * Thread rule: as the functions.
 */
#include <linux/time_types.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/reach.h"
#include "iofwd/preload/numbers.h"
#include "iofwd/preload/procfs.h"
#include "iofwd/preload/ready.h"
#include "iofwd/preload/resolve.h"
#include "iofwd/preload/targets.h"

/* An argument as a descriptor or number, as a pointer, as a length. */
#define I(n) ((int)a[n])
#define P(n) ((void *)a[n])
#define L(n) ((size_t)a[n])

/* Kernel and C library differ in these. */

static long sys_getcwd(const long *a)
{
    char *buf = getcwd(P(0), L(1));
    return buf ? (long)strlen(buf) + 1 : -1;
}

static long sys_openat2(const long *a)
{
    struct open_how how;
    const char *path = fwd_path_in_root(P(1), P(2), L(3));
    if (!fwd_at(I(0), path))
        return real_syscall(SYS_openat2, a[0], a[1], a[2], a[3], a[4], a[5]);
    /* What is wrong with the record the kernel says before it looks at the path, of which this one stays without effect. */
    if (real_syscall(SYS_openat2, -1, (long)"", a[2], a[3], 0, 0) >= 0 || errno != ENOENT)
        return -1;
    memcpy(&how, P(2), sizeof how);
    if (!path || !path[0])
        return fwd_fail(path ? ENOENT : EFAULT);
    if (how.resolve & RESOLVE_CACHED) /* nothing of it is in this kernel's cache */
        return fwd_fail(EAGAIN);
    if (how.resolve & ~(uint64_t)RESOLVE_NO_MAGICLINKS) {
        int fd = fwd_open_resolved(I(0), path, &how);
        return fd == FWD_RESOLVE_LOCAL ? real_syscall(SYS_openat2, a[0], a[1], a[2], a[3], a[4], a[5]) : fd;
    }
    struct fwd_numbered number;
    if (how.resolve && fwd_numbered(path, &number)) /* below a prefix there are none */
        return fwd_fail(ELOOP);
    return openat(I(0), path, (int)how.flags, (mode_t)how.mode);
}

/* The kernel's oldest form of directory entries: name first, type last. */
struct old_entry {
    unsigned long ino, off;
    unsigned short reclen;
    char name[];
};

static long sys_getdents(const long *a)
{
    char entries[4096];
    char *out = P(1);
    size_t cap = L(2), used = 0;
    if (!fwd_fd(I(0)))
        return real_syscall(SYS_getdents, a[0], a[1], a[2], 0, 0, 0);
    ssize_t n = x_getdents64(I(0), entries, cap < sizeof entries ? cap : sizeof entries);
    if (n > 0 && !fwd_can_write(out, (size_t)n))
        return fwd_fail(EFAULT);
    for (ssize_t at = 0; at < n;) {
        const struct dirent *e = (const struct dirent *)(entries + at);
        size_t len = (offsetof(struct old_entry, name) + strlen(e->d_name) + 2 + 7) & ~(size_t)7;
        struct old_entry *o = (struct old_entry *)(out + used);
        if (used + len > cap)
            return fwd_fail(EINVAL);
        *o = (struct old_entry){ .ino = e->d_ino, .off = (unsigned long)e->d_off, .reclen = (unsigned short)len };
        strcpy(o->name, e->d_name);
        ((char *)o)[len - 1] = (char)e->d_type;
        used += len;
        at += e->d_reclen;
    }
    return n < 0 ? -1 : (long)used;
}

static long sys_futimens(const long *a)
{
    return P(1) ? utimensat(I(0), P(1), P(2), I(3)) : futimens(I(0), P(2));
}

/* ---- waiting: the kernel's calls have the length of a set of signals with it, and say in the limit what is left of it ---- */

#define SIGNALS_BYTES (size_t)(_NSIG / 8)

static bool has_length(const sigset_t *mask, size_t bytes)
{
    return !mask || bytes == SIGNALS_BYTES;
}

/* Calls a wait with a limit of its own, and tells the program's what is left of it.  -1: the kernel says what is wrong with it. */
static long limited(long number, const long *a, struct timespec *limit, long (*wait)(const long *a, const struct timespec *limit))
{
    if (limit && !fwd_can_read(limit, sizeof *limit))
        return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    struct timespec own = limit ? *limit : (struct timespec){ 0, 0 };
    bool valid = limit && own.tv_sec >= 0 && own.tv_nsec >= 0 && own.tv_nsec < 1000000000;
    int64_t until = valid ? fwd_until(&own) : INT64_MAX;
    long n = wait(a, limit ? &own : NULL);
    if (limit && until != INT64_MAX && fwd_can_write(limit, sizeof *limit))
        *limit = fwd_span(fwd_left(until));
    return n;
}

static long ppoll_for(const long *a, const struct timespec *limit)
{
    return ppoll(P(0), (nfds_t)a[1], limit, P(3));
}

static long sys_ppoll(const long *a)
{
    return has_length(P(3), L(4)) ? limited(SYS_ppoll, a, P(2), ppoll_for) : fwd_fail(EINVAL);
}

/* The last argument of pselect6. */
struct signals {
    const sigset_t *mask;
    size_t bytes;
};

static long pselect_for(const long *a, const struct timespec *limit)
{
    const struct signals *signals = P(5);
    return pselect(I(0), P(1), P(2), P(3), limit, signals ? signals->mask : NULL);
}

static long sys_pselect6(const long *a)
{
    const struct signals *signals = P(5);
    if (signals && !fwd_can_read(signals, sizeof *signals))
        return fwd_fail(EFAULT);
    return !signals || has_length(signals->mask, signals->bytes) ? limited(SYS_pselect6, a, P(4), pselect_for) : fwd_fail(EINVAL);
}

static long sys_epoll_pwait(const long *a)
{
    return has_length(P(4), L(5)) ? epoll_pwait(I(0), P(1), I(2), I(3), P(4)) : fwd_fail(EINVAL);
}

static long sys_epoll_pwait2(const long *a)
{
    const struct __kernel_timespec *given = P(3); /* on 32-bit machines, too */
    if (given && !fwd_can_read(given, sizeof *given))
        return fwd_fail(EFAULT);
    const struct timespec limit = { .tv_sec = given ? (time_t)given->tv_sec : 0, .tv_nsec = given ? (long)given->tv_nsec : 0 };
    return has_length(P(4), L(5)) ? epoll_pwait2(I(0), P(1), I(2), given ? &limit : NULL, P(4)) : fwd_fail(EINVAL);
}

#define CALLS(X) \
    X(read, read(I(0), P(1), L(2))) X(write, write(I(0), P(1), L(2))) X(close, close(I(0))) \
    X(open, open(P(0), I(1), (mode_t)a[2])) X(openat, openat(I(0), P(1), I(2), (mode_t)a[3])) X(openat2, sys_openat2(a)) \
    X(creat, creat(P(0), (mode_t)a[1])) X(close_range, close_range((unsigned)a[0], (unsigned)a[1], I(2))) \
    X(lseek, lseek(I(0), a[1], I(2))) X(pread64, pread(I(0), P(1), L(2), a[3])) X(pwrite64, pwrite(I(0), P(1), L(2), a[3])) \
    X(readv, readv(I(0), P(1), I(2))) X(writev, writev(I(0), P(1), I(2))) X(preadv, preadv(I(0), P(1), I(2), a[3])) \
    X(pwritev, pwritev(I(0), P(1), I(2), a[3])) X(preadv2, preadv2(I(0), P(1), I(2), a[3], I(5))) \
    X(pwritev2, pwritev2(I(0), P(1), I(2), a[3], I(5))) X(dup, dup(I(0))) X(dup2, dup2(I(0), I(1))) X(dup3, dup3(I(0), I(1), I(2))) \
    X(fcntl, fcntl(I(0), I(1), P(2))) X(ioctl, ioctl(I(0), (unsigned long)a[1], P(2))) X(flock, flock(I(0), I(1))) \
    X(fsync, fsync(I(0))) X(fdatasync, fdatasync(I(0))) X(syncfs, syncfs(I(0))) X(truncate, truncate(P(0), a[1])) \
    X(ftruncate, ftruncate(I(0), a[1])) X(fallocate, fallocate(I(0), I(1), a[2], a[3])) \
    X(sync_file_range, sync_file_range(I(0), a[1], a[2], (unsigned)a[3])) X(readahead, readahead(I(0), a[1], L(2))) \
    X(copy_file_range, copy_file_range(I(0), P(1), I(2), P(3), L(4), (unsigned)a[5])) X(sendfile, sendfile(I(0), I(1), P(2), L(3))) \
    X(splice, splice(I(0), P(1), I(2), P(3), L(4), (unsigned)a[5])) X(tee, tee(I(0), I(1), L(2), (unsigned)a[3])) \
    X(stat, stat(P(0), P(1))) X(lstat, lstat(P(0), P(1))) X(fstat, fstat(I(0), P(1))) \
    X(newfstatat, fstatat(I(0), P(1), P(2), I(3))) X(statx, statx(I(0), P(1), I(2), (unsigned)a[3], P(4))) \
    X(access, access(P(0), I(1))) X(faccessat, faccessat(I(0), P(1), I(2), 0)) X(faccessat2, faccessat(I(0), P(1), I(2), I(3))) \
    X(statfs, statfs(P(0), P(1))) X(fstatfs, fstatfs(I(0), P(1))) X(getdents, sys_getdents(a)) X(getdents64, getdents64(I(0), P(1), L(2))) \
    X(mkdir, mkdir(P(0), (mode_t)a[1])) X(mkdirat, mkdirat(I(0), P(1), (mode_t)a[2])) X(rmdir, rmdir(P(0))) \
    X(mknod, mknod(P(0), (mode_t)a[1], (dev_t)a[2])) X(mknodat, mknodat(I(0), P(1), (mode_t)a[2], (dev_t)a[3])) \
    X(unlink, unlink(P(0))) X(unlinkat, unlinkat(I(0), P(1), I(2))) X(rename, rename(P(0), P(1))) \
    X(renameat, renameat(I(0), P(1), I(2), P(3))) X(renameat2, renameat2(I(0), P(1), I(2), P(3), (unsigned)a[4])) \
    X(link, link(P(0), P(1))) X(linkat, linkat(I(0), P(1), I(2), P(3), I(4))) X(symlink, symlink(P(0), P(1))) \
    X(symlinkat, symlinkat(P(0), I(1), P(2))) X(readlink, readlink(P(0), P(1), L(2))) X(readlinkat, readlinkat(I(0), P(1), P(2), L(3))) \
    X(chmod, chmod(P(0), (mode_t)a[1])) X(fchmod, fchmod(I(0), (mode_t)a[1])) X(fchmodat, fchmodat(I(0), P(1), (mode_t)a[2], 0)) \
    X(fchmodat2, fchmodat(I(0), P(1), (mode_t)a[2], I(3))) X(chown, chown(P(0), (uid_t)a[1], (gid_t)a[2])) \
    X(lchown, lchown(P(0), (uid_t)a[1], (gid_t)a[2])) X(fchown, fchown(I(0), (uid_t)a[1], (gid_t)a[2])) \
    X(fchownat, fchownat(I(0), P(1), (uid_t)a[2], (gid_t)a[3], I(4))) X(utimensat, sys_futimens(a)) X(utimes, utimes(P(0), P(1))) \
    X(utime, utime(P(0), P(1))) X(futimesat, futimesat(I(0), P(1), P(2))) X(chdir, chdir(P(0))) X(fchdir, fchdir(I(0))) \
    X(getcwd, sys_getcwd(a)) X(umask, (long)umask((mode_t)a[0])) X(setrlimit, setrlimit(I(0), P(1))) \
    X(prlimit64, prlimit64(I(0), I(1), P(2), P(3))) X(mmap, (long)mmap(P(0), L(1), I(2), I(3), I(4), a[5])) \
    X(munmap, munmap(P(0), L(1))) X(msync, msync(P(0), L(1), I(2))) X(setxattr, setxattr(P(0), P(1), P(2), L(3), I(4))) \
    X(lsetxattr, lsetxattr(P(0), P(1), P(2), L(3), I(4))) X(fsetxattr, fsetxattr(I(0), P(1), P(2), L(3), I(4))) \
    X(getxattr, getxattr(P(0), P(1), P(2), L(3))) X(lgetxattr, lgetxattr(P(0), P(1), P(2), L(3))) \
    X(fgetxattr, fgetxattr(I(0), P(1), P(2), L(3))) X(listxattr, listxattr(P(0), P(1), L(2))) \
    X(llistxattr, llistxattr(P(0), P(1), L(2))) X(flistxattr, flistxattr(I(0), P(1), L(2))) X(removexattr, removexattr(P(0), P(1))) \
    X(lremovexattr, lremovexattr(P(0), P(1))) X(fremovexattr, fremovexattr(I(0), P(1))) X(execve, execve(P(0), P(1), P(2))) \
    X(poll, poll(P(0), (nfds_t)a[1], I(2))) X(ppoll, sys_ppoll(a)) X(select, select(I(0), P(1), P(2), P(3), P(4))) \
    X(pselect6, sys_pselect6(a)) X(epoll_ctl, epoll_ctl(I(0), I(1), I(2), P(3))) X(epoll_wait, epoll_wait(I(0), P(1), I(2), I(3))) \
    X(epoll_pwait, sys_epoll_pwait(a)) X(epoll_pwait2, sys_epoll_pwait2(a)) \
    X(fork, x_fork_call(SYS_fork, a)) X(vfork, x_fork_call(SYS_fork, a)) X(clone, x_fork_call(SYS_clone, a)) \
    X(clone3, x_fork_call(SYS_clone3, a)) X(exit_group, (_exit(I(0)), 0L))

#define FUNCTION(name, call) static long call_##name(const long *a) { return (long)(call); }
CALLS(FUNCTION)
#undef FUNCTION

static long (*const calls[FWD_ALL_NUMBERS])(const long *a) = {
#define ROW(name, call) [SYS_##name] = call_##name,
    CALLS(ROW)
#undef ROW
};

long x_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5)
{
    const long a[6] = { a0, a1, a2, a3, a4, a5 };
    if (!fwd_state.on || fwd_inside || number < 0 || number >= FWD_REAL_NUMBERS || !calls[number])
        return real_syscall(number, a0, a1, a2, a3, a4, a5);
    return calls[number](a);
}
