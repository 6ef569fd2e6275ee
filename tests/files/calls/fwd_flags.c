/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_flags SECTION DIRECTORY SCRATCH: flags that no kernel knows, descriptors of O_PATH, and
 * arguments in the corners.  Prints what each call gave; fwd_flags.sh runs it in a local directory
 * and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "tests/files/fwd_say.h"

static int make(const char *name)
{
    int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, "some data", 9) != 9)
        exit(1);

    return fd;
}

/* ---- flags ---- */

/* Each bit by itself: which of them a call refuses with EINVAL. */
#define EXECVE_CHECK 0x10000U /* AT_EXECVE_CHECK, of kernels after 6.13 */

#define EACH_BIT(call) \
    do { \
        uint32_t refused = 0; \
        for (int bit_ = 0; bit_ < 32; bit_++) { \
            unsigned flags = 1U << bit_; \
            errno = 0; \
            if ((long)(call) == -1 && errno == EINVAL) \
                refused |= flags; \
        } \
        printf("%s refuses %08x\n", #call, refused); \
        fflush(stdout); \
    } while (0)

static void flags(void)
{
    struct stat st;
    struct statx stx;
    int fd = make("file");
    int here = open(dir, O_RDONLY | O_DIRECTORY);
    char *const words[] = { "name", NULL };
    struct iovec iov = { &st, 5 };

    T(chmod(in("file"), 0600));
    EACH_BIT(linkat(here, "none", here, "other", (int)flags));
    EACH_BIT(linkat(here, "file", here, "file", (int)flags));
    EACH_BIT(fchownat(here, "file", -1, -1, (int)flags));
    EACH_BIT(fchownat(here, "none", -1, -1, (int)flags));
    EACH_BIT(unlinkat(here, "none", (int)flags));
    EACH_BIT(fstatat(here, "file", &st, (int)flags));
    EACH_BIT(statx(here, "file", (int)flags, STATX_SIZE, &stx));
    EACH_BIT(statx(here, "file", 0, flags, &stx));
    EACH_BIT(syscall(SYS_faccessat2, here, "file", F_OK, (int)flags));
    EACH_BIT(faccessat(here, "file", (int)flags, 0));
    EACH_BIT(fchmodat(here, "none", 0600, (int)(flags & ~AT_SYMLINK_NOFOLLOW)));
    EACH_BIT(utimensat(here, "file", NULL, (int)flags));
    EACH_BIT(renameat2(here, "none", here, "other", flags));
    EACH_BIT(execveat(here, "none", words, words, (int)(flags & ~EXECVE_CHECK)));
    EACH_BIT(dup3(fd, 50, (int)flags));
    EACH_BIT(copy_file_range(fd, NULL, fd, NULL, 0, flags));
    EACH_BIT(sync_file_range(fd, 0, 5, flags));
    EACH_BIT(syscall(SYS_close_range, 60, 61, (int)(flags & ~CLOSE_RANGE_UNSHARE)));
    EACH_BIT(setxattr(in("file"), "user.a", "b", 1, (int)flags));
    EACH_BIT(flock(fd, (int)flags | LOCK_NB));
    T(flock(fd, LOCK_MAND | LOCK_READ | LOCK_EX));
    EACH_BIT(lseek(fd, 0, (int)flags));
    EACH_BIT(preadv2(fd, &iov, 1, 0, (int)flags & ~0x20));
    EACH_BIT(posix_fadvise(fd, 0, 0, (int)flags) ? (errno = EINVAL, -1) : 0);
    EACH_BIT(lockf(fd, (int)flags, 0) && errno != EINVAL ? 0 : -1);
    T(fstat(fd, &st)); /* nothing has closed it */
    close(here);
    close(fd);
}

/* ---- O_PATH ---- */

static void only_path(int fd)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
    struct timeval now = { 0 };
    struct stat st;
    struct statfs fs;
    char text[100] = "";
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    int set = epoll_create1(0);
    int data = make("other");
    int n = 1;
    fd_set reads;

    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    T(poll(&p, 1, 0));
    printf("revents %x\n", p.revents);
    T(select(fd + 1, &reads, NULL, NULL, &now));
    T(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    T(read(fd, text, 5));
    T(write(fd, text, 5));
    T(pread(fd, text, 5, 0));
    T(lseek(fd, 0, SEEK_CUR));
    T(fstat(fd, &st));
    T(fstatfs(fd, &fs));
    T(fsync(fd));
    T(ftruncate(fd, 5));
    T(fallocate(fd, 0, 0, 5));
    T(fchmod(fd, 0600));
    T(fchown(fd, -1, -1));
    T(futimens(fd, NULL));
    T(flock(fd, LOCK_SH));
    T(fgetxattr(fd, "user.a", text, 5));
    T(flistxattr(fd, text, sizeof text));
    T(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
    T(readahead(fd, 0, 5));
    T(sync_file_range(fd, 0, 5, 0));
    T(syncfs(fd));
    T(syscall(SYS_getdents64, fd, text, sizeof text));
    T(copy_file_range(fd, NULL, data, NULL, 5, 0));
    T(copy_file_range(data, NULL, fd, NULL, 5, 0));
    T(sendfile(data, fd, NULL, 5));
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    T(ioctl(fd, FIOCLEX));
    T(ioctl(fd, FIONCLEX));
    T(ioctl(fd, FIONBIO, &n));
    T(ioctl(fd, FIOASYNC, &n));
    T(ioctl(fd, FIONREAD, &n));
    T(ioctl(fd, FIGETBSZ, &n));
    T(ioctl(fd, FS_IOC_GETFLAGS, &n));
    T(ioctl(fd, FICLONE, data));
    T(ioctl(fd, 0x1234, &n));
    T(fcntl(fd, F_SETLK, &lock));
    T(fcntl(fd, F_GETLK, &lock));
    T(fcntl(fd, F_SETOWN, getpid()));
    T(fcntl(fd, F_GETOWN));
    T(fcntl(fd, F_SETSIG, 0));
    T(fcntl(fd, F_GETSIG));
    T(fcntl(fd, F_GETLEASE));
    T(fcntl(fd, F_SETFL, O_APPEND));
    T(fcntl(fd, F_GETPIPE_SZ));
    T(fcntl(fd, F_GET_SEALS));
    T(fcntl(fd, 12345));
    T(fcntl(fd, F_SETFD, FD_CLOEXEC));
    T(fcntl(fd, F_GETFD));
    T(fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE));
    T(fstatat(fd, "", &st, AT_EMPTY_PATH));

    int copy = fcntl(fd, F_DUPFD, 40);

    T(copy);
    T(fcntl(copy, F_GETFL) & O_PATH);
    T(fcntl(copy, F_GETFD));
    T(write(copy, text, 1));
    T(close(copy));
    T(dup2(fd, 41));
    p.fd = 41;
    T(poll(&p, 1, 0));
    T(close(41));
    close(data);
    close(set);
    T(close(fd));
}

static void path_only(void)
{
    close(make("file"));
    T(mkfifo(in("fifo"), 0600));
    T(symlink("file", in("link")));

    puts("a file");
    only_path(open(in("file"), O_PATH));
    puts("a directory");
    only_path(open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
    puts("a FIFO");
    only_path(open(in("fifo"), O_PATH));
    puts("a link");
    only_path(open(in("link"), O_PATH | O_NOFOLLOW));

    /* what such a descriptor is for */
    int here = open(dir, O_PATH | O_DIRECTORY);

    OK(openat(here, "file", O_RDONLY));
    T(fchdir(here));
    T(access("file", F_OK));
    T(chdir("/"));
    T(close(here));
}

/* ---- corners ---- */

static void corners(void)
{
    char text[100];
    int fd = make("file");
    int here = open(dir, O_RDONLY | O_DIRECTORY);
    int n = 77;
    volatile size_t huge = (size_t)-1; /* the compiler does not look into it */

    T(symlink("a target", in("link")));
    T(readlink(in("link"), text, huge));
    T(readlink(in("none"), text, huge));
    T(readlink(in("none"), text, 0));
    T(readlink(in("link"), text, huge - (huge - INT32_MAX) + 1));
    T(readlink(in("link"), text, huge - (huge - UINT32_MAX) + 4));
    T(readlinkat(here, "link", text, huge - 4));
    T(syscall(SYS_readlink, in("link"), text, -1));

    T(mmap(NULL, 4096, PROT_READ, 0, fd, 0) == MAP_FAILED ? -1 : 0);
    T(mmap(NULL, 4096, PROT_READ, 4, fd, 0) == MAP_FAILED ? -1 : 0);
    T(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE, fd, 0) == MAP_FAILED ? -1 : 0);
    T(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | 1 << 25, fd, 0) == MAP_FAILED ? -1 : 0);
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | 1 << 25, fd, 0) == MAP_FAILED ? -1 : 0);
    T(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);

    T(ioctl(here, FIONREAD, &n));
    T(n);
    T(lseek(fd, 4, SEEK_SET));
    T(ioctl(fd, FIONREAD, &n));
    T(n);
    T(lseek(fd, 20, SEEK_SET));
    T(ioctl(fd, FIONREAD, &n));
    T(n);
    close(here);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "flags", flags },
        { "path-only", path_only },
        { "corners", corners },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(90);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
