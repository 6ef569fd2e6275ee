/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that pass no function of the C library except syscall().
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * Some programs overwrite functions of the C library (UCX, Open MPI and libfabric overwrite mmap
 * and similar ones), and their replacement makes the call by syscall(), which is the preload
 * library's.  What that does with its own objects, and what a program asks for by syscall(), must
 * therefore not go to the overwritten function: it would arrive here again, endlessly.
 */
#ifndef AMPH_IOFWD_KERNEL_H
#define AMPH_IOFWD_KERNEL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "iofwd/calls/names.h"

/* The way in which a call is made that is left to this host.  LIBC: the program called the C
 * library's function, and gets it, overwritten or not.  KERNEL: the program called syscall(), or
 * the call is the preload library's own. */
enum amph_client_route {
    AMPH_IP_LIBC,
    AMPH_IP_KERNEL
};

static inline int amph_ip_kernel_openat(int dir, const char *path, int flags, mode_t mode)
{
#ifdef O_LARGEFILE
    flags |= O_LARGEFILE;
#endif
    return (int)libc_syscall(SYS_openat, dir, (long)path, flags, (long)mode, 0, 0);
}

/* libfaketime has a getpid of its own, which needs the environment: before main there is none. */
static inline pid_t amph_ip_kernel_getpid(void)
{
    return (pid_t)libc_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_close(int fd)
{
    return (int)libc_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_dup(int fd)
{
    return (int)libc_syscall(SYS_dup, fd, 0, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_dup3(int from, int to, int flags)
{
    return (int)libc_syscall(SYS_dup3, from, to, flags, 0, 0, 0);
}

static inline int amph_ip_kernel_close_range(unsigned first, unsigned last, int flags)
{
    return (int)libc_syscall(SYS_close_range, (long)first, (long)last, flags, 0, 0, 0);
}

static inline int amph_ip_kernel_fcntl(int fd, int command, void *arg)
{
#ifdef __NR_fcntl64
    return (int)libc_syscall(__NR_fcntl64, fd, command, (long)arg, 0, 0, 0);
#else
    return (int)libc_syscall(__NR_fcntl, fd, command, (long)arg, 0, 0, 0);
#endif
}

static inline ssize_t amph_ip_kernel_readlinkat(int dir, const char *path, char *buf, size_t len)
{
    return libc_syscall(SYS_readlinkat, dir, (long)path, (long)buf, (long)len, 0, 0);
}

static inline ssize_t amph_ip_kernel_readlink(const char *path, char *buf, size_t len)
{
    return amph_ip_kernel_readlinkat(AT_FDCWD, path, buf, len);
}

static inline ssize_t amph_ip_kernel_read(int fd, void *buf, size_t len)
{
    return libc_syscall(SYS_read, fd, (long)buf, (long)len, 0, 0, 0);
}

/* On 32-bit machines an offset takes two words, in an order of each machine, so these calls are
 * left to the C library there. */
#if __SIZEOF_POINTER__ == 8
static inline off_t amph_ip_kernel_lseek(int fd, off_t off, int whence)
{
    return libc_syscall(__NR_lseek, fd, off, whence, 0, 0, 0);
}

static inline ssize_t amph_ip_kernel_pread(int fd, void *buf, size_t len, off_t off)
{
    return libc_syscall(__NR_pread64, fd, (long)buf, (long)len, off, 0, 0);
}

static inline ssize_t amph_ip_kernel_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    return libc_syscall(__NR_pwrite64, fd, (long)buf, (long)len, off, 0, 0);
}

static inline int amph_ip_kernel_ftruncate(int fd, off_t len)
{
    return (int)libc_syscall(__NR_ftruncate, fd, len, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_fallocate(int fd, int how, off_t off, off_t len)
{
    return (int)libc_syscall(__NR_fallocate, fd, how, off, len, 0, 0);
}
#else
static inline off_t amph_ip_kernel_lseek(int fd, off_t off, int whence)
{
    return libc_lseek64(fd, off, whence);
}

static inline ssize_t amph_ip_kernel_pread(int fd, void *buf, size_t len, off_t off)
{
    return libc_pread64(fd, buf, len, off);
}

static inline ssize_t amph_ip_kernel_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    return libc_pwrite64(fd, buf, len, off);
}

static inline int amph_ip_kernel_ftruncate(int fd, off_t len)
{
    return libc_ftruncate64(fd, len);
}

static inline int amph_ip_kernel_fallocate(int fd, int how, off_t off, off_t len)
{
    return libc_fallocate64(fd, how, off, len);
}
#endif

/* Where the kernel's struct stat is the C library's. */
#if __SIZEOF_POINTER__ == 8 && defined __NR_newfstatat
static inline int amph_ip_kernel_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return (int)libc_syscall(__NR_newfstatat, dir, (long)path, (long)st, flags, 0, 0);
}
#else
static inline int amph_ip_kernel_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return libc_fstatat64(dir, path, st, flags);
}
#endif

#if __SIZEOF_POINTER__ == 8 && defined __NR_fstat
static inline int amph_ip_kernel_fstat(int fd, struct stat *st)
{
    return (int)libc_syscall(__NR_fstat, fd, (long)st, 0, 0, 0, 0);
}
#else
static inline int amph_ip_kernel_fstat(int fd, struct stat *st)
{
    return libc_fstat64(fd, st);
}
#endif

static inline int amph_ip_kernel_fsync(int fd)
{
    return (int)libc_syscall(SYS_fsync, fd, 0, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_fdatasync(int fd)
{
    return (int)libc_syscall(SYS_fdatasync, fd, 0, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_memfd_create(const char *name, unsigned flags)
{
    return (int)libc_syscall(SYS_memfd_create, (long)name, (long)flags, 0, 0, 0, 0);
}

/* Calls of Linux 6.13, which the C library's headers may not know.  New calls have the same numbers on all machines but
 * a few. */
#if defined SYS_getxattrat
#define AMPH_IP_GETXATTRAT SYS_getxattrat
#define AMPH_IP_LISTXATTRAT SYS_listxattrat
#elif SYS_openat2 == 437
#define AMPH_IP_GETXATTRAT 464
#define AMPH_IP_LISTXATTRAT 465
#endif

/* The value of an attribute of a file below a directory; name NULL: the names of all. */
static inline ssize_t amph_ip_kernel_xattrat(int dir, const char *path, int flags, const char *name,
                                             void *value, size_t cap)
{
#ifdef AMPH_IP_GETXATTRAT
    /* struct xattr_args */
    const struct {
        uint64_t value __attribute__((aligned(8)));
        uint32_t size, flags;
    } args = { (uintptr_t)value, cap < UINT32_MAX ? (uint32_t)cap : UINT32_MAX, 0 };

    return name ? libc_syscall(AMPH_IP_GETXATTRAT, dir, (long)path, flags, (long)name, (long)&args,
                               sizeof args)
                : libc_syscall(AMPH_IP_LISTXATTRAT, dir, (long)path, flags, (long)value, (long)cap,
                               0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

static inline int amph_ip_kernel_chdir(const char *path)
{
    return (int)libc_syscall(SYS_chdir, (long)path, 0, 0, 0, 0, 0);
}

static inline bool amph_ip_kernel_getcwd(char *name, size_t cap)
{
    return libc_syscall(SYS_getcwd, (long)name, (long)cap, 0, 0, 0, 0) > 0;
}

static inline int amph_ip_kernel_fchdir(int fd)
{
    return (int)libc_syscall(SYS_fchdir, fd, 0, 0, 0, 0, 0);
}

/* Reads or sets a limit of this process. */
static inline int amph_ip_kernel_prlimit(int what, const void *limit, void *old)
{
    return (int)libc_syscall(SYS_prlimit64, 0, what, (long)limit, (long)old, 0, 0);
}

static inline int amph_ip_kernel_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
    return (int)libc_syscall(SYS_epoll_ctl, ep, op, fd, (long)event, 0, 0);
}

static inline int amph_ip_kernel_execve(const char *path, char *const argv[], char *const envp[])
{
    return (int)libc_syscall(SYS_execve, (long)path, (long)argv, (long)envp, 0, 0, 0);
}

static inline void *amph_ip_kernel_mmap(void *at, size_t len, int prot, int flags, int fd,
                                        off_t off)
{
#ifdef __s390x__
    unsigned long args[] = { (unsigned long)at,   len,
                             (unsigned long)prot, (unsigned long)flags,
                             (unsigned long)fd,   (unsigned long)off };
    return (void *)libc_syscall(__NR_mmap, (long)args, 0, 0, 0, 0, 0);
#elif defined __NR_mmap2 /* offsets in units of 4096 bytes */
    if (off & 4095) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return (void *)libc_syscall(__NR_mmap2, (long)at, (long)len, prot, flags, fd,
                                (long)(off >> 12));
#else
    return (void *)libc_syscall(__NR_mmap, (long)at, (long)len, prot, flags, fd, off);
#endif
}

static inline int amph_ip_kernel_munmap(void *at, size_t len)
{
    return (int)libc_syscall(SYS_munmap, (long)at, (long)len, 0, 0, 0, 0);
}

static inline int amph_ip_kernel_mprotect(void *at, size_t len, int prot)
{
    return (int)libc_syscall(SYS_mprotect, (long)at, (long)len, prot, 0, 0, 0);
}

static inline int amph_ip_kernel_msync(void *at, size_t len, int flags)
{
    return (int)libc_syscall(SYS_msync, (long)at, (long)len, flags, 0, 0, 0);
}

static inline void *amph_ip_kernel_mremap(void *old, size_t old_len, size_t len, int flags,
                                          void *at)
{
    return (void *)libc_syscall(SYS_mremap, (long)old, (long)old_len, (long)len, flags, (long)at,
                                0);
}

#endif
