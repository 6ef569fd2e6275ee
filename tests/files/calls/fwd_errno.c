/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_errno SECTION DIRECTORY SCRATCH: what a call that succeeds leaves in errno.  POSIX lets the C
 * library change it, the kernel never does, and programs rely on that: LMDB reads errno after five
 * calls that all succeeded.  Prints what each call gave; fwd_errno.sh runs it in a local directory
 * and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
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
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>
#include <wchar.h>

#include "tests/files/fwd_say.h"

#define MARK 4321 /* no errno value */

static void tell(int line, const char *text, bool ok)
{
    int err = errno;

    printf("%d %s: %s, %s\n", line, text, ok ? "done" : "failed",
           err == MARK ? "errno as before" : strerrorname_np(err));
    fflush(stdout);
}

static void tell_result(int line, const char *text, bool ok)
{
    printf("%d %s: %s\n", line, text, ok ? "done" : "failed");
    fflush(stdout);
}

/* K: a call of which 0 or more is success; P: one that gives a pointer; R: the C library's own changes
 * errno, so that only the result is compared. */
#define K(call) (errno = MARK, tell(__LINE__, #call, (long)(call) >= 0))
#define R(call) tell_result(__LINE__, #call, (long)(call) == 0)
#define P(call) (errno = MARK, tell(__LINE__, #call, (call) != NULL))

static int make(const char *path, off_t len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0 && ftruncate(fd, len) == 0
               ? fd
               : -1;
}

/* ---- maps ---- */

static void *map(int fd, size_t len, int prot, int flags)
{
    void *at = mmap(NULL, len, prot, flags, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void map_kinds(int fd, size_t len)
{
    char *kept[4];

    P(kept[0] = map(fd, len, PROT_READ, MAP_PRIVATE));
    P(kept[1] = map(fd, len, PROT_READ, MAP_SHARED));
    P(kept[2] = map(fd, len, PROT_READ | PROT_WRITE, MAP_SHARED));
    P(kept[3] = map(fd, len, PROT_READ | PROT_WRITE, MAP_SHARED));
    if (!kept[0] || !kept[1] || !kept[2] || !kept[3])
        exit(1);

    K(mprotect(kept[1], len, PROT_READ | PROT_WRITE));
    K(msync(kept[2], len, MS_SYNC));
    kept[2][len / 2] = 'm';
    K(msync(kept[2], len, MS_SYNC | MS_INVALIDATE));
    K(pread(fd, kept[0], 10, 0));
    K(pwrite(fd, "0123456789", 10, 4090));
    K(fsync(fd));
    P(kept[3] = mremap(kept[3], len, 2 * len, MREMAP_MAYMOVE));
    K(munmap(kept[3], 2 * len));

    for (int i = 0; i < 3; i++)
        K(munmap(kept[i], len));
}

/* Files without data, with data at their beginning, in their middle, and everywhere. */
static void maps(void)
{
    static const off_t sizes[] = { 100, 8192, 3 << 20 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = (size_t)(sizes[i] + 4095) & ~(size_t)4095;

        printf("%ld bytes\n", (long)sizes[i]);
        for (int kind = 0; kind < 3; kind++) {
            int fd = make(in("mapped"), sizes[i]);

            if (kind)
                K(pwrite(fd, "data", 4, kind == 1 ? 0 : sizes[i] / 2));

            map_kinds(fd, len);
            K(close(fd));
        }
    }

    /* As LMDB opens its lock file: this errno, of a lock that another holds, is looked at last. */
    int fd = make(in("lock"), 8192);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

    K(fcntl(fd, F_SETLK, &lock));
    fflush(stdout);
    if (fork() == 0) {
        int other = open(in("lock"), O_RDWR);

        errno = 0;
        long got = fcntl(other, F_SETLK, &lock);
        long size = lseek(other, 0, SEEK_END);
        void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);

        printf("lock %ld, size %ld, mapped %d, errno %s\n", got, size, at != MAP_FAILED,
               strerrorname_np(errno));
        fflush(stdout);
        _exit(0);
    }

    wait(NULL);
    K(close(fd));
}

/* ---- data ---- */

static void data(void)
{
    char some[200] = "some data";
    struct iovec iov[] = { { some, 10 }, { some + 10, 30 } };
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    int fd, again, n;

    K(fd = open(in("data"), O_RDWR | O_CREAT, 0600));
    K(again = openat(AT_FDCWD, in("more"), O_RDWR | O_CREAT, 0600));
    K(write(fd, some, sizeof some));
    K(pwrite(fd, some, sizeof some, 100));
    K(writev(fd, iov, 2));
    K(pwritev(fd, iov, 2, 10));
    K(lseek(fd, 0, SEEK_SET));
    K(lseek(fd, 0, SEEK_DATA));
    K(lseek(fd, 0, SEEK_HOLE));
    K(lseek(fd, 0, SEEK_SET));
    K(read(fd, some, 10));
    K(read(fd, some, 0));
    K(pread(fd, some, 100, 1 << 20));
    K(readv(fd, iov, 2));
    K(preadv2(fd, iov, 2, -1, 0));
    K(copy_file_range(fd, NULL, again, NULL, 10, 0));
    K(sendfile(again, fd, NULL, 10));
    K(fdatasync(fd));
    K(sync_file_range(fd, 0, 10, 0));
    K(syncfs(fd));
    K(ftruncate(fd, 500));
    K(truncate(in("data"), 400));
    K(fallocate(fd, 0, 0, 600));
    K(posix_fallocate(fd, 0, 700));
    K(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    K(readahead(fd, 0, 100));
    K(flock(fd, LOCK_EX));
    K(flock(fd, LOCK_UN));
    K(fcntl(fd, F_SETLK, &lock));
    K(fcntl(fd, F_SETLKW, &lock));
    K(fcntl(fd, F_GETLK, &lock));
    lock.l_type = F_UNLCK;
    K(fcntl(fd, F_SETLK, &lock));
    K(lockf(fd, F_TLOCK, 10));
    K(lockf(fd, F_ULOCK, 10));
    K(fcntl(fd, F_GETFL));
    K(fcntl(fd, F_SETFL, O_APPEND));
    K(fcntl(fd, F_GETFD));
    K(fcntl(fd, F_SETFD, FD_CLOEXEC));
    K(ioctl(fd, FIONREAD, &n));
    K(ioctl(fd, FIOCLEX));
    K(n = dup(fd));
    K(dup2(fd, n));
    K(dup3(again, n, O_CLOEXEC));
    K(dup2(1, n));
    K(close(n));
    K(n = fcntl(fd, F_DUPFD, 10));
    K(close(n));
    K(syscall(SYS_pread64, fd, some, 10, 0));
    K(syscall(SYS_write, again, some, 10));
    K(dprintf(again, "%d\n", 5));
    K(isatty(1));
    K(close(again));
    K(close(fd));
    K(syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, in("data"), O_RDONLY, 0)));
}

/* ---- names ---- */

static void names(void)
{
    struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = 6 } };
    struct timeval small_times[2] = { { .tv_sec = 5 }, { .tv_sec = 6 } };
    struct stat st;
    struct statx stx;
    struct statfs fs;
    struct statvfs vfs;
    char text[PATH_MAX];
    int fd = make(in("file"), 10);
    int under;

    K(mkdir(in("sub"), 0755));
    K(under = open(in("sub"), O_RDONLY | O_DIRECTORY));
    K(mkdirat(under, "deep", 0755));
    K(mknod(in("node"), S_IFREG | 0600, 0));
    K(mkfifo(in("fifo"), 0600));
    K(symlink("file", in("link")));
    K(symlink(dir, in("sub/up")));
    K(link(in("file"), in("hard")));
    K(linkat(AT_FDCWD, in("file"), under, "hard", 0));
    K(rename(in("hard"), in("harder")));
    K(renameat(under, "hard", AT_FDCWD, in("hard")));
    K(renameat2(AT_FDCWD, in("hard"), AT_FDCWD, in("harder"), RENAME_EXCHANGE));
    K(readlink(in("link"), text, sizeof text));
    K(readlinkat(under, "up", text, sizeof text));
    K(stat(in("link"), &st));
    K(stat(in("sub/up/file"), &st));
    K(lstat(in("link"), &st));
    K(fstat(fd, &st));
    K(fstatat(under, "up/link", &st, 0));
    K(fstatat(under, "", &st, AT_EMPTY_PATH));
    K(statx(under, "up/file", 0, STATX_ALL, &stx));
    K(access(in("file"), R_OK));
    K(faccessat(under, "deep", F_OK, AT_EACCESS));
    K(statfs(dir, &fs));
    K(fstatfs(fd, &fs));
    K(statvfs(dir, &vfs));
    K(fstatvfs(fd, &vfs));
    K(pathconf(dir, _PC_NAME_MAX));
    K(fpathconf(fd, _PC_LINK_MAX));
    K(chmod(in("file"), 0640));
    K(fchmod(fd, 0644));
    K(fchmodat(under, "deep", 0700, 0));
    K(chown(in("file"), -1, -1));
    K(lchown(in("link"), -1, -1));
    K(fchown(fd, -1, -1));
    K(utimensat(under, "deep", times, 0));
    K(futimens(fd, times));
    K(utimes(in("file"), small_times));
    K(utime(in("file"), NULL));
    K(setxattr(in("file"), "user.a", "b", 1, 0));
    K(getxattr(in("file"), "user.a", text, sizeof text));
    K(listxattr(in("file"), text, sizeof text));
    K(removexattr(in("file"), "user.a"));
    K(umask(022));
    K(chdir(in("sub")));
    P(getcwd(text, sizeof text));
    R(realpath("deep", text) == NULL);
    K(access("deep", F_OK));
    K(fchdir(under));
    K(chdir(".."));
    K(chdir("/"));
    K(unlink(in("harder")));
    K(unlinkat(under, "up", 0));
    K(rmdir(in("sub/deep")));
    K(remove(in("hard")));
    R(remove(in("sub")));
    K(close(under));
    K(close(fd));
}

/* ---- directories, waiting, streams, processes ---- */

static void lists(void)
{
    struct dirent **list, *entry;
    DIR *d = NULL;
    char raw[4096];
    int fd;

    make(in("one"), 0);
    make(in("two"), 0);
    P(d = opendir(dir));
    for (int i = 0; i < 4; i++) {
        errno = MARK;
        entry = readdir(d);
        tell(__LINE__, "readdir", entry != NULL);
    }

    errno = MARK;
    entry = readdir(d);
    tell(__LINE__, "the end", entry == NULL);
    K(telldir(d));
    errno = MARK;
    rewinddir(d);
    tell(__LINE__, "rewinddir", true);
    K(dirfd(d));
    K(closedir(d));
    K(scandir(dir, &list, NULL, alphasort));
    K(fd = open(dir, O_RDONLY | O_DIRECTORY));
    K(syscall(SYS_getdents64, fd, raw, sizeof raw));
    K(syscall(SYS_getdents64, fd, raw, sizeof raw));
    K(close(fd));
}

static void waits(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct timeval now = { 0 };
    int set = epoll_create1(0);
    int fd = -1;
    fd_set reads;

    mkfifo(in("pipe"), 0600);
    K(fd = open(in("pipe"), O_RDWR));

    struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    K(poll(&p, 1, 0));
    K(poll(&p, 1, 1000));
    K(select(fd + 1, &reads, NULL, NULL, &now));
    K(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    K(epoll_wait(set, &event, 1, 0));
    K(write(fd, "x", 1));
    K(epoll_wait(set, &event, 1, 1000));
    K(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    K(read(fd, &event, 1));
    K(close(set));
    K(close(fd));
}

static void streams(void)
{
    char text[300];
    FILE *f;

    P(f = fopen(in("stream"), "w+"));
    K(fputs("some text\nmore text\n", f));
    K(fflush(f));
    K(fseek(f, 0, SEEK_SET));
    P(fgets(text, sizeof text, f));
    K(ftell(f));
    K(fread(text, 1, sizeof text, f));
    K(fseek(f, 5, SEEK_SET));
    K(fgetc(f));
    K(fprintf(f, "%d", 7));
    K(fclose(f));
    P(f = fopen(in("stream"), "r"));
    K(fscanf(f, "%99s", text));
    P(f = freopen(in("stream"), "a", f));
    K(fputc('x', f));
    K(fclose(f));
    P(f = fopen(in("stream"), "r"));
    K(fgetwc(f) == WEOF ? -1 : 0);
    K(fclose(f));
}

extern char **environ;

static void processes(void)
{
    char *const words[] = { "true", NULL };
    posix_spawn_file_actions_t actions;
    int fd = make(in("kept"), 0);
    pid_t pid;

    errno = MARK;
    pid = fork();
    if (pid == 0)
        _exit(errno == MARK && write(fd, "child", 5) == 5 && errno == MARK ? 0 : 1);

    tell(__LINE__, "fork", pid > 0);

    int status = -1;

    K(waitpid(pid, &status, 0));
    printf("the child ended with %d\n", status);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, in("output"), O_WRONLY | O_CREAT, 0600);
    R(posix_spawnp(&pid, "true", &actions, NULL, words, environ));
    K(waitpid(pid, &status, 0));
    K(system("true"));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "maps", maps },   { "data", data },       { "names", names },         { "lists", lists },
        { "waits", waits }, { "streams", streams }, { "processes", processes },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(60);

    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
