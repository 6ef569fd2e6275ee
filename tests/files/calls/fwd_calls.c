/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_calls DIRECTORY SCRATCH: one line for each file call and what it gave, errno included.
 * fwd_calls.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <linux/fs.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "tests/files/fwd_say.h"

static const char *scratch;

/* pointers are compared as NULL or not */
#define NOTNULL(call) T((call) ? 0 : -1)

static void opening(void)
{
    int fd;

    OK(fd = open(in("f"), O_RDWR | O_CREAT | O_EXCL, 0644));
    OK(open(in("f"), O_RDWR | O_CREAT | O_EXCL, 0644));
    T(fcntl(fd, F_GETFD));
    T(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
    T(fcntl(fd, F_SETFD, FD_CLOEXEC));
    T(fcntl(fd, F_GETFD));
    T(fcntl(fd, F_SETFL, O_APPEND));
    T(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
    T(close(fd));
    T(close(fd));
    T(read(fd, &fd, 1));
    OK(open(in("none"), O_RDONLY));
    OK(open(in("f/x"), O_RDONLY));
    OK(open(in("f/"), O_RDONLY));
    OK(open(in(""), O_WRONLY));
    OK(open(in("d/none"), O_CREAT | O_WRONLY, 0600));
    OK(open(in("f"), O_DIRECTORY));
    OK(fd = open64(in("g"), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
    T(fcntl64(fd, F_GETFD));
    T(read(fd, &fd, 0));
    T(read(fd, (char[1]){ 0 }, 1));
    T(write(fd, "", 0));
    T(close(fd));
    OK(fd = creat(in("h"), 0640));
    T(write(fd, "12345", 5));
    T(lseek(fd, 0, SEEK_CUR));
    T(close(fd));
    OK(fd = open(in("h"), O_RDONLY));
    T(write(fd, "x", 1));
    T(ftruncate(fd, 0));
    T(close(fd));
    OK(fd = open(in("h"), O_PATH));
    T(read(fd, (char[1]){ 0 }, 1));
    T(sync_file_range(fd, 0, 1, 8));
    T(fcntl(fd, F_GETLK, &(struct flock){ .l_type = F_UNLCK }));
    T(fcntl(fd, F_OFD_SETLK, &(struct flock){ .l_type = F_RDLCK, .l_pid = 1 }));
    T(fcntl(fd, F_NOTIFY, 0));
    T(close(fd));
}

/* The lowest free number, as open and dup promise; the first argument of dup2 stays what it is. */
static void numbers(void)
{
    int fd;
    int low = dup(2);

    close(low);
    T((fd = open(in("h"), O_RDONLY)) - low);
    T(dup(fd) - low);
    T(fcntl(fd, F_DUPFD, low + 10) - low);
    T(fcntl(fd, F_DUPFD_CLOEXEC, low + 10) - low);
    T(fcntl(low + 11, F_GETFD));
    T(dup2(fd, low + 20) - low);
    T(dup2(fd, fd) - low);
    T(dup3(fd, fd, 0));
    T(dup3(fd, low + 21, O_CLOEXEC) - low);
    T(fcntl(low + 21, F_GETFD));
    T(dup2(low + 99, low + 3));
    T(read(low + 1, (char[2]){ 0 }, 2));
    T(lseek(low + 20, 0, SEEK_CUR)); /* one offset */
    T(close(fd));
    T(lseek(low + 10, 1, SEEK_CUR));
    T(dup2(2, low + 10) - low); /* a forwarded number becomes local */
    T(lseek(low + 11, 0, SEEK_CUR));
    T(close_range((unsigned)low, (unsigned)low + 30, 0));
    T(lseek(low + 11, 0, SEEK_CUR));
    T(fcntl(low + 20, F_GETFD));
}

static void data(void)
{
    char buf[64] = "";
    struct iovec iov[3] = { { "ab", 2 }, { "", 0 }, { "cdefg", 5 } };
    struct iovec into[2] = { { buf, 3 }, { buf + 10, 50 } };
    int fd = open(in("data"), O_RDWR | O_CREAT | O_TRUNC, 0644);

    T(write(fd, "0123456789", 10));
    T(pwrite(fd, "XY", 2, 4));
    T(pwrite64(fd, "Z", 1, 20));
    T(lseek(fd, 0, SEEK_CUR));
    T(pread(fd, buf, 64, 2));
    printf("%.18s\n", buf);
    T(lseek(fd, -3, SEEK_END));
    T(lseek(fd, -300, SEEK_END));
    T(lseek(fd, 0, 77));
    T(writev(fd, iov, 3));
    T(lseek(fd, 0, SEEK_SET));
    T(readv(fd, into, 2));
    printf("%.3s|%.7s\n", buf, buf + 10);
    T(preadv(fd, into, 2, 18));
    printf("%.3s|%.4s\n", buf, buf + 10);
    T(pwritev(fd, iov, 3, 100));
    T(preadv(fd, into, 2, -1));
    T(preadv2(fd, into, 2, -1, 0));
    T(pwritev2(fd, iov, 1, 0, RWF_DSYNC));
    T(preadv(fd, into, 2, -5));
    T(pread(fd, buf, 1, -1));
    T(pread(fd, buf, 64, 5000));
    T(lseek(fd, 0, SEEK_HOLE));
    T(lseek(fd, 0, SEEK_DATA));
    T(ftruncate(fd, 50));
    T(ftruncate(fd, -1));
    T(posix_fallocate(fd, 0, 200));
    T(posix_fallocate(fd, 0, 0));
    T(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    T(sync_file_range(fd, 0, 1, 8));
    T(sync_file_range(fd, INT64_MAX, 1, 0));
    T(fsync(fd));
    T(fdatasync(fd));
    T(dprintf(fd, "%d-%s", 42, "text"));
    T(lseek(fd, 3L << 30, SEEK_SET));
    T(write(fd, "far", 3));
    T(lseek(fd, 0, SEEK_CUR));
    T(pread(fd, buf, 3, 3L << 30));
    T(ftruncate(fd, 300));
    T(ioctl(fd, 0x5401 /* TCGETS */, buf));
    T(isatty(fd));

    int left = 0;

    lseek(fd, 290, SEEK_SET);
    T(ioctl(fd, FIONREAD, &left));
    T(left);
    T(close(fd));
    OK(fd = open(in("data"), O_WRONLY | O_APPEND));
    T(lseek(fd, 0, SEEK_SET));
    T(write(fd, "end", 3));
    T(lseek(fd, 0, SEEK_CUR));
    T(close(fd));
}

static void moving(void)
{
    static char big[3 << 20];
    struct stat st;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/local", scratch);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 + i / 251);

    int a = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    int b = open(in("moved"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    int c = open(in("moved2"), O_RDWR | O_CREAT | O_TRUNC, 0644);

    T(write(a, big, sizeof big));

    off_t off = 1000;

    for (ssize_t n = 1, sum = 0;
         n > 0 && (n = copy_file_range(a, &off, b, NULL, sizeof big, 0)) >= 0; sum += n)
        if (n == 0)
            T(sum);

    T(off);
    T(lseek(a, 0, SEEK_SET));

    for (ssize_t n = 1, sum = 0; n > 0 && (n = sendfile(b, a, NULL, sizeof big)) >= 0; sum += n)
        if (n == 0)
            T(sum);

    T(lseek(b, 0, SEEK_SET));
    for (ssize_t n = 1, sum = 0; n > 0 && (n = copy_file_range(b, NULL, c, NULL, 1 << 30, 0)) >= 0;
         sum += n)
        if (n == 0)
            T(sum);

    T(fstat(c, &st));
    T(st.st_size);
    T(copy_file_range(a, NULL, c, NULL, 1, 5));

    char *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, c, 0);

    T(m == MAP_FAILED ? -1 : memcmp(m, big + 1000, sizeof big - 1000));
    T(munmap(m, (size_t)st.st_size));
    m = mmap64(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, c, 4096);
    T(m == MAP_FAILED ? -1 : memcmp(m, big + 1000 + 4096, 8192));
    m[0] = 1;
    munmap(m, 8192);
    m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, c, 0);
    T(m == MAP_FAILED ? -1 : memcmp(m, big + 1000, 4096));
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, c, 1) == MAP_FAILED ? -1 : 0);
    close(a);
    close(b);
    close(c);
}

/* What the kernel looks at first where more than one thing is wrong; and a chdir that fails leaves
 * the locks alone. */
static void order_of_errors(const char *fifo, const char *file)
{
    int pipe_end = open(fifo, O_RDWR | O_NONBLOCK);
    int fd = open(file, O_RDWR);
    int other = open(file, O_RDWR);
    struct flock whole = { .l_type = F_WRLCK };
    off_t off = 5;

    T(preadv(pipe_end, NULL, 0, 5));
    T(preadv(pipe_end, NULL, 0, -1));
    T(sendfile(-1, pipe_end, &off, 5));
    T(sendfile(-1, pipe_end, NULL, 5));
    T(open(in("d/../none/"), O_RDWR | O_CREAT, 0644));
    T(fcntl(fd, F_SETLK, &whole));
    T(fchdir(fd));
    T(fcntl(other, F_OFD_SETLK, &whole));
    close(pipe_end);
    close(fd);
    T(fcntl(other, F_OFD_SETLK, &whole));
    close(other);
}

static void new_names(void)
{
    struct stat st;
    char buf[PATH_MAX] = "";

    T(mkdir(in("d"), 0750));
    T(mkdir(in("d"), 0750));
    T(mkdir(in("d/e/"), 0777));
    T(mkdir(in("none/e"), 0777));
    T(mknod(in("d/node"), S_IFREG | 0600, 0));
    T(mkfifo(in("d/fifo"), 0644));
    order_of_errors(in("d/fifo"), in("d/node"));
    T(stat(in("d/fifo"), &st));
    T(S_ISFIFO(st.st_mode));
    T(symlink("node", in("d/link")));
    T(symlink("nowhere", in("d/dangling")));
    T(symlink("x", in("d/link")));
    T(readlink(in("d/link"), buf, sizeof buf));
    T(readlink(in("d/link"), buf, 2));
    T(readlink(in("d/node"), buf, sizeof buf));
    T(lstat(in("d/link"), &st));
    T(S_ISLNK(st.st_mode));
    T(st.st_size);
    T(stat(in("d/link"), &st));
    T(st.st_mode);
    T(stat(in("d/dangling"), &st));
    T(stat(in("d/node/"), &st));
    T(stat(in("d/e/.."), &st));
    T(stat(in("d/none/../node"), &st));
    T(link(in("d/node"), in("d/hard")));
    T(link(in("d/none"), in("d/hard2")));
    T(stat(in("d/hard"), &st));
    T(st.st_nlink);
}

static void attributes(void)
{
    struct stat st;
    struct statx stx;
    struct timespec times[2] = { { 1000000000, 1 }, { 1500000000, 999999999 } };
    struct timeval tv[2] = { { 5, 6 }, { 7, 8 } };
    struct utimbuf ut = { 11, 12 };

    T(access(in("d/node"), R_OK | W_OK));
    T(access(in("d/none"), F_OK));
    T(faccessat(AT_FDCWD, in("d/node"), F_OK, AT_EACCESS));
    T(euidaccess(in("d"), X_OK));
    T(chmod(in("d/node"), 0604));
    T(lstat(in("d/node"), &st));
    T(st.st_mode);
    T(chmod(in("none"), 0604));
    T(chown(in("d/node"), (uid_t)-1, getgid()));
    T(lchown(in("d/link"), getuid(), (gid_t)-1));
    T(utimensat(AT_FDCWD, in("d/node"), times, 0));
    T(stat(in("d/node"), &st));
    T(st.st_atim.tv_sec);
    T(st.st_mtim.tv_nsec);
    T(utimes(in("d/node"), tv));
    T(stat(in("d/node"), &st));
    T(st.st_mtim.tv_nsec);
    T(utime(in("d/node"), &ut));
    T(statx(AT_FDCWD, in("d/node"), 0, STATX_BASIC_STATS, &stx));
    T(stx.stx_mtime.tv_sec);
    T(stx.stx_mode);
    T(lutimes(in("d/link"), tv));
    T(lstat(in("d/link"), &st));
    T(st.st_mtim.tv_sec);
    T(truncate(in("d/node"), 33));
    T(truncate(in("d"), 33));
    T(truncate(in("none"), 33));
    T(truncate(in("none"), -1));
    T(truncate("", -1));
}

static void renaming(void)
{
    char buf[PATH_MAX];

    T(rename(in("d/node"), in("d/renamed")));
    T(rename(in("d/node"), in("d/renamed")));
    T(rename(in("d"), in("d/sub")));
    T(rename(in("d/renamed"), in("d/e")));
    T(rename(in("d/renamed/"), ""));
    T(rename(in("d/renamed/x"), ""));
    T(rename("", ""));
    snprintf(buf, sizeof buf, "%s/%0256d/x", in(""), 0);
    T(rename(buf, ""));
    T(renameat2(AT_FDCWD, in("d/renamed"), AT_FDCWD, in("d/hard"), RENAME_NOREPLACE));
    T(renameat2(AT_FDCWD, in("d/e"), AT_FDCWD, in("d/hard"), RENAME_EXCHANGE));
    T(renameat2(AT_FDCWD, in("d/e"), AT_FDCWD, in("d/hard"), RENAME_EXCHANGE));
}

/* An absolute link on the way, and then no name: nothing of it is removed or renamed. */
static void no_last_name(void)
{
    char buf[PATH_MAX];

    T(mkdir(in("d/e/under"), 0755));
    OK(symlink(in("d/e"), in("d/away")));
    T(rmdir(in("d/away/under/.")));
    T(rmdir(in("d/away/under/./")));
    T(unlink(in("d/away/under/.")));
    T(rename(in("d/away/under/."), in("d/moved")));
    T(rename(in("d/hard"), in("d/away/under/..")));
    T(rename(in("d/away/under/.."), in("d/moved")));
    T(renameat2(AT_FDCWD, in("d/hard"), AT_FDCWD, in("d/away/."), RENAME_NOREPLACE));
    snprintf(buf, sizeof buf, "%s/%0256d", in("d/away"), 0);
    T(rename(buf, in("d/none/x"))); /* both ways come before the names */
    T(rename(buf, in("d/x")));
    T(mkdir(buf, 0755));
    OK(symlink(in("d/ring"), in("d/ring")));
    T(linkat(AT_FDCWD, in("d/ring"), AT_FDCWD, "", AT_SYMLINK_FOLLOW));
    T(linkat(AT_FDCWD, in("d/ring"), AT_FDCWD, "", 0));
    T(unlink(in("d/ring")));
    T(mkdir(in("d/away/."), 0755));
    T(mkdir(in("d/away/none/."), 0755));
    T(rmdir(in("d/away/under/..")));
    T(rmdir(in("d/away/under")));
    T(unlink(in("d/away")));
}

static void removing(void)
{
    T(rmdir(in("d")));
    T(rmdir(in("d/renamed")));
    T(unlink(in("d/e")));
    T(unlink(in("d/none")));
    T(remove(in("d/e")));
    T(remove(in("d/hard")));
    T(remove(in("d/hard")));
}

static void limits_and_masks(void)
{
    struct stat st;
    struct statfs fs;
    struct statvfs vfs;
    char buf[PATH_MAX] = "";

    T(statfs(in("d"), &fs));
    T(fs.f_namelen);
    T(statvfs(in("d"), &vfs));
    T(vfs.f_namemax);
    T(pathconf(in("d"), _PC_NAME_MAX));
    T(getxattr(in("d"), "user.none", buf, 10));
    T(setxattr(in("none"), "user.a", "", 0, 0) < 0);
    memset(buf, 'n', 300);
    buf[300] = 0;
    OK(open(in(buf), O_CREAT | O_WRONLY, 0600));
    buf[255] = 0;
    OK(close(open(in(buf), O_CREAT | O_WRONLY, 0600)));
    T(unlink(in(buf)));
    OK(close(open(in("a\nb\001\377 c"), O_CREAT | O_WRONLY, 0600)));
    T(umask(027));
    OK(close(open(in("masked"), O_CREAT | O_WRONLY, 0666)));
    T(stat(in("masked"), &st));
    T(st.st_mode);
    T(umask(022));
}

/* d: a directory; root: the one above it; fd: the file "at" in d. */
static void find_at(int d, int root, int fd)
{
    struct stat st, st2;
    struct statx stx;

    T(fstatat(d, "at", &st, 0));
    T(fstatat(fd, "", &st2, AT_EMPTY_PATH));
    T(st.st_ino == st2.st_ino && st.st_dev == st2.st_dev);
    T(fstatat(fd, "", &st, 0));
    T(fstatat(fd, "x", &st, 0));
    T(fstatat(9999, "x", &st, 0));
    T(fstatat(d, "at", &st, 0x40000000));
    T(faccessat(d, "at", R_OK, 0x40000000));
    T(faccessat(d, "at", 8, 0));
    T(statx(d, "at", 0x40000000, STATX_SIZE, &stx));
    T(statx(d, "at", AT_STATX_SYNC_TYPE, STATX_SIZE, &stx));
    T(statx(d, "at", 0, STATX__RESERVED, &stx));

    int named = openat(d, "at", O_PATH);
    int block = 0;

    T(fchownat(named, "", getuid(), (gid_t)-1, AT_EMPTY_PATH));
    T(fchown(named, getuid(), (gid_t)-1));
    T(fcntl(named, F_GETFL) == O_PATH);
    T(close(named));
    T(fcntl(fd, F_GETFL));
    T(ioctl(fd, FIGETBSZ, &block));
    T(block > 0);

    static char longer[PATH_MAX + 100];

    memset(longer, '/', sizeof longer - 1);
    memcpy(longer, dir, strlen(dir));
    T(stat(longer, &st));
    T(open(longer, O_RDONLY));
    T(fstatat(d, "..", &st, 0));
    T(fstat(root, &st2));
    T(st.st_ino == st2.st_ino);
}

static void change_at(int d, int root)
{
    char buf[PATH_MAX] = "";

    T(mkdirat(d, "atdir", 0700));
    T(symlinkat("at", d, "atlink"));
    T(readlinkat(d, "atlink", buf, sizeof buf));
    T(linkat(d, "at", root, "at2", 0));
    T(renameat(root, "at2", d, "at3"));
    T(unlinkat(d, "at3", 0));
    T(unlinkat(d, "atdir", 0));
    T(unlinkat(d, "atdir", AT_REMOVEDIR));
}

static void own_at(int d, int fd)
{
    struct stat st;

    T(fchmodat(d, "at", 0400, 0));
    T(fchmod(fd, 0640));
    T(fchown(fd, getuid(), (gid_t)-1));
    T(fchownat(d, "at", getuid(), (gid_t)-1, 0));
    T(futimens(fd, NULL));
    T(futimens(fd, (struct timespec[2]){ { 1, 2 }, { 3, 4 } }));

    /* Java sets the times of a copy in this way */
    T(futimesat(fd, NULL, (struct timeval[2]){ { 5, 6 }, { 7, 8 } }));
    T(fstat(fd, &st));
    T(st.st_mtim.tv_nsec);
    T(faccessat(d, "at", W_OK, 0));
    T(fstat(fd, &st));
    T(st.st_mtim.tv_nsec);
    T(flock(fd, LOCK_EX | LOCK_NB));
    T(flock(fd, LOCK_UN));
    T(lockf(fd, F_TLOCK, 0));
    T(lockf(fd, F_TEST, 0));
    T(lockf(fd, F_ULOCK, 0));

    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };

    T(fcntl(fd, F_SETLK, &lock));
    T(fcntl(fd, F_GETLK, &lock));
    T(lock.l_type == F_UNLCK);
}

static void at_calls(void)
{
    struct stat st;
    char buf[2];
    int d = open(in("d"), O_RDONLY | O_DIRECTORY);
    int fd;
    int root = open(dir, O_PATH | O_DIRECTORY);

    OK(fd = openat(d, "at", O_CREAT | O_RDWR, 0600));
    T(write(fd, "at", 2));
    find_at(d, root, fd);
    change_at(d, root);
    own_at(d, fd);
    T(unlinkat(d, "at", 0));
    T(pread(fd, buf, 2, 0)); /* an unlinked file lives on */
    T(fstat(fd, &st));
    T(st.st_nlink);
    T(read(d, buf, 1));
    T(write(d, buf, 1));
    close(fd);
    close(d);
    close(root);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visited, bytes;
static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
    visited += type * 100 + at->level;
    bytes += (int)strlen(path) - (int)strlen(dir);
    return 0;
}

static void directories(void)
{
    struct dirent **list, *entry;

    T(mkdir(in("many"), 0755));
    for (int i = 0; i < 2500; i++) {
        char name[64];

        snprintf(name, sizeof name, "many/entry-%d", i);
        close(open(in(name), O_CREAT | O_WRONLY, 0600));
    }

    T(scandir(in("many"), &list, NULL, by_name));
    printf("%s %s\n", list[0]->d_name, list[2501]->d_name);

    int seen = 0;
    DIR *d = opendir(in("many"));

    NOTNULL(d);
    while ((entry = readdir(d)) != NULL)
        seen += entry->d_name[0] == '.' ? 1000000 : entry->d_type == DT_REG;

    T(seen);
    rewinddir(d);
    for (int i = 0; i < 700; i++)
        entry = readdir(d);

    long at = telldir(d);
    char name[256];

    strcpy(name, readdir(d)->d_name);
    for (int i = 0; i < 900; i++)
        readdir(d);

    seekdir(d, at);
    T(strcmp(name, readdir(d)->d_name));
    OK(dirfd(d));
    T(closedir(d));
    NOTNULL(opendir(in("f")));
    NOTNULL(opendir(in("none")));

    int fd = open(in("many"), O_RDONLY | O_DIRECTORY);

    NOTNULL(d = fdopendir(fd));
    NOTNULL(readdir(d));
    T(dirfd(d) == fd);
    T(closedir(d));
    T(close(fd));
    T(nftw(dir, visit, 10, FTW_PHYS));
    T(visited);
    T(bytes);

    glob_t g = { 0 };

    T(glob(in("many/entry-1?"), 0, NULL, &g));
    T(g.gl_pathc);
    printf("%s\n", strrchr(g.gl_pathv[9], '/'));
    globfree(&g);
    T(glob(in("nothing*"), 0, NULL, &g));
}

/* What realpath leaves in the buffer where it fails, and paths that are long only before they are
 * resolved. */
static void real_paths(void)
{
    static const char *const paths[] = {
        "none",
        "none/x",
        "f/x",
        "real/dangling",
        "real/dangling/x",
        "real/../real/none",
        "real/around",
        "real/around/x",
        "f/",
        "f/..",
        "real/none/..",
        "real/./..//none/",
        "real/back/f",
        "real/back/real/none",
    };
    char buf[PATH_MAX];
    char *large = malloc(20000);

    T(mkdir(in("real"), 0755));
    T(symlink("nowhere/further", in("real/dangling")));
    T(symlink("around", in("real/around")));
    T(symlink("..", in("real/back")));

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        strcpy(buf, "untouched");
        NOTNULL(realpath(in(paths[i]), buf));
        printf("%s: %s\n", paths[i], buf);
    }

    static const char *const fillers[] = { "/", "/.", "/real/..", "/real/back" };

    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        char *end = stpcpy(large, dir);

        while (end - large < 9000)
            end = stpcpy(end, fillers[i]);

        strcpy(end, "/real/none");
        NOTNULL(realpath(large, buf));
        printf("%s: %s\n", fillers[i], buf);
        *strrchr(large, '/') = 0;
        NOTNULL(realpath(large, buf));
        printf("%s: %s\n", fillers[i], buf);
    }

    strcpy(buf, "untouched");
    NOTNULL(realpath("", buf));
    puts(buf);
    T(chdir(in("real")));
    NOTNULL(realpath("none/x", buf));
    puts(buf);
    T(mkdir("gone", 0755));
    T(chdir("gone"));
    T(rmdir("../gone"));
    NOTNULL(realpath("x", buf));
    puts(buf);
    T(chdir("/"));
    free(large);
}

static void working_directory(void)
{
    char buf[PATH_MAX];
    size_t skip = strlen(dir);

    T(chdir(in("none")));
    T(chdir(in("f")));
    T(chdir(dir));
    T(strcmp(getcwd(buf, sizeof buf), dir));
    T(getcwd(buf, 2) ? 0 : -1);
    T(mkdir("cw", 0755));
    T(chdir("cw"));
    printf("%s\n", getcwd(buf, sizeof buf) + skip);
    OK(close(open("rel", O_CREAT | O_WRONLY, 0644)));
    OK(open("", O_RDONLY));
    T(access("../cw/./rel", F_OK));
    T(symlink("cw", "../tocw"));
    T(chdir("../tocw"));
    printf("%s\n", getcwd(NULL, 0) + skip);
    printf("%s\n", realpath("../tocw/rel", buf) + skip);
    NOTNULL(realpath("../tocw/none", buf));
    NOTNULL(realpath("rel/x", buf));

    int fd = open("..", O_RDONLY | O_DIRECTORY);

    T(fchdir(fd));
    printf("%s.\n", getcwd(buf, sizeof buf) + skip);
    T(close(fd));
    T(unlink("cw/rel"));
    T(chdir("/"));
    printf("%s\n", getcwd(buf, sizeof buf));
}

static void temporaries(void)
{
    char path[PATH_MAX];
    int fd;

    strcpy(path, in("tmp-XXXXXX"));
    OK(fd = mkstemp(path));
    T(strstr(path, "XXXXXX") == NULL);
    T(write(fd, "t", 1));
    T(close(fd));
    T(unlink(path));
    strcpy(path, in("tmp-XXXXXX.c"));
    OK(fd = mkostemps(path, 2, O_CLOEXEC));
    T(strcmp(path + strlen(path) - 2, ".c"));
    close(fd);
    T(unlink(path));
    strcpy(path, in("tmp-XXXXX"));
    T(mkstemp(path));
    strcpy(path, in("tmpd-XXXXXX"));
    NOTNULL(mkdtemp(path));
    T(rmdir(path));
}

/* ---- trees whose names are longer than a path may be ---- */

#define LEVELS 30

static void deep_by_descriptor(int fd)
{
    struct stat st;

    OK(openat(fd, "file", O_CREAT | O_RDWR, 0644));
    T(fstatat(fd, "file", &st, 0));
    T(fstatat(fd, "..", &st, 0));
    T(fstatat(fd, "./../..", &st, 0));
    T(fstatat(fd, "../../missing", &st, 0));
    T(mkdirat(fd, "../beside", 0755));
    T(mkdirat(fd, "../..", 0755));
    T(unlinkat(fd, "../beside", AT_REMOVEDIR));
    T(symlinkat("file", fd, "link"));
    T(faccessat(fd, "link", R_OK, 0));
    T(linkat(fd, "file", fd, "second", 0));
    T(renameat(fd, "second", fd, "../second"));
    T(unlinkat(fd, "../second", 0));
}

static void deep_by_directory(const char *part)
{
    char buf[10000];
    struct stat st;

    T(chdir(in("deep")));
    for (int i = 0, r = 0; i < LEVELS && r == 0; i++)
        if ((r = chdir(part)) != 0)
            T(r);

    NOTNULL(getcwd(buf, PATH_MAX));
    NOTNULL(getcwd(buf, 10));
    NOTNULL(getcwd(buf, sizeof buf));
    T(strncmp(buf, dir, strlen(dir)) || strcmp(strrchr(buf, '/') + 1, part)
          ? -1
          : (long)(strlen(buf) - strlen(dir)));

    char *own = getcwd(NULL, 0);

    T(own ? strcmp(own, buf) : -1);
    free(own);
    T(stat("file", &st));
    T(stat(".", &st));
    T(stat("..", &st));
    OK(open("new", O_CREAT | O_WRONLY, 0600));
    T(unlink("new"));
    T(access("link", F_OK));
    NOTNULL(realpath("file", NULL));
    T(system("ls; ls ..; cat file")); /* a program that is started there */
    T(chdir("../.."));
    T(stat(part, &st));
    T(chdir("/"));
}

static void deep(void)
{
    char part[201], command[1000];

    memset(part, 'd', sizeof part - 1);
    part[sizeof part - 1] = 0;
    T(mkdir(in("deep"), 0755));

    int fd = open(in("deep"), O_RDONLY | O_DIRECTORY);

    for (int i = 0, r = 0; i < LEVELS && r == 0; i++) {
        if ((r = mkdirat(fd, part, 0755)) != 0)
            T(r);

        int next = openat(fd, part, O_RDONLY | O_DIRECTORY);

        close(fd);
        fd = next;
    }

    deep_by_descriptor(fd);
    deep_by_directory(part);
    T(fchdir(fd));
    T(access("file", F_OK));
    T(chdir(".."));
    T(access(part, F_OK));
    T(chdir("/"));
    close(fd);
    snprintf(
        command, sizeof command,
        "cd %s && find deep | wc -l; find deep -name file | wc -l; du -a deep | wc -l; rm -r deep",
        dir);
    T(system(command));
    T(access(in("deep"), F_OK));
}

/* What has been removed with all above it still knows what that was. */
static void removed_with_parents(void)
{
    struct stat st;

    T(mkdir(in("up"), 0755));
    T(mkdir(in("up/gone"), 0755));
    T(mkdir(in("up/gone/too"), 0755));
    T(chdir(in("up/gone/too")));

    int fd = open(".", O_RDONLY | O_DIRECTORY);

    T(rmdir(in("up/gone/too")));
    T(rmdir(in("up/gone")));
    T(stat("..", &st));
    T(st.st_nlink);
    T(stat("./..", &st));
    T(fstatat(fd, "../", &st, 0));
    T(stat("../..", &st));
    T(st.st_nlink);
    T(stat("../too", &st));
    OK(open("..", O_RDONLY));
    OK(open("../new", O_RDWR | O_CREAT, 0600));
    T(mkdir("../new", 0700));
    T(mkdir("../../new", 0700));
    T(rmdir("../../new"));
    T(access("..", X_OK));
    T(chdir(".."));
    T(stat("..", &st));
    T(st.st_nlink);
    T(chdir(".."));
    T(rmdir(in("up")));
    T(chdir(".."));
    T(stat("missing", &st));
    T(chdir("/"));
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;

    dir = argv[1];
    scratch = argv[2];
    umask(022);
    opening();
    numbers();
    data();
    moving();
    new_names();
    attributes();
    renaming();
    no_last_name();
    removing();
    limits_and_masks();
    at_calls();
    directories();
    working_directory();
    real_paths();
    temporaries();
    deep();
    removed_with_parents();

    return 0;
}
