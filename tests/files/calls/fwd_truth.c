/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_truth SECTION DIRECTORY SCRATCH: what POSIX and Linux promise in the corners.  Prints what
 * each call gave; fwd_truth.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <pthread.h>

#include "tests/files/fwd_say.h"
#include "tests/files/calls/fwd_truth.h"

const char *scratch;

/* ---- memory that is not there ---- */

#define PAGE ((size_t)65536) /* as large as any */

/* Two pages, of which the second is not there, or may not be used like this. */
static char *half(int prot)
{
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(2);

    memset(p, 'h', 2 * PAGE);
    if (prot < 0 ? munmap(p + PAGE, PAGE) : mprotect(p + PAGE, PAGE, prot))
        exit(2);

    return p;
}

static void bad_data(int fd, char *nowhere, bool writable)
{
    char *some = nowhere - 10;
    struct iovec iov[] = { { some, 10 }, { some, 20 }, { some, 10 } };
    struct iovec none[] = { { nowhere, 10 }, { some, 10 } };

    T(lseek(fd, 0, SEEK_SET));
    T(read(fd, nowhere, 10));
    T(lseek(fd, 0, SEEK_CUR));
    T(pread(fd, nowhere, 10, 5));
    T(pread(fd, nowhere, 10, 1 << 20));
    T(pread(fd, nowhere, 0, 5));
    T(read(fd, some, 20));
    T(lseek(fd, 0, SEEK_CUR));
    T(preadv(fd, iov, 3, 0));
    T(preadv(fd, none, 2, 0));
    T(readv(fd, (struct iovec *)nowhere, 2));
    T(lseek(fd, 0, SEEK_SET));

    if (writable) {
        T(write(fd, nowhere, 10));
        T(lseek(fd, 0, SEEK_CUR));
        T(pwrite(fd, nowhere, 10, 5));
        T(write(fd, some, 20));
        T(lseek(fd, 0, SEEK_CUR));
        T(pwritev(fd, iov, 3, 7));
        T(pwritev(fd, none, 2, 7));
        T(writev(fd, (struct iovec *)nowhere, 2));
        T(pwrite(fd, nowhere - PAGE, 2 * PAGE, 3));
    }

    T(pread(fd, nowhere - PAGE, 2 * PAGE, 3));
    T(lseek(fd, 0, SEEK_CUR));
}

static void bad_names(char *nowhere)
{
    struct stat st;
    struct statfs fs;
    struct statvfs vfs;
    struct statx stx;
    char buf[64];

    /* an unended name right before the end of memory */
    char *cut = memcpy(nowhere - 5, "/fwd/", 5);

    T(open(nowhere, O_RDONLY));
    T(open(cut, O_RDONLY));
    char *volatile null = NULL;
    T(open(null, O_RDONLY));
    T(open((char *)-1L, O_RDONLY));
    T(openat(AT_FDCWD, nowhere, O_RDONLY));
    T(stat(nowhere, &st));
    T(lstat(nowhere, &st));
    T(fstatat(AT_FDCWD, nowhere, &st, 0));
    T(statx(AT_FDCWD, nowhere, 0, STATX_BASIC_STATS, &stx));
    T(access(nowhere, F_OK));
    T(mkdir(nowhere, 0700));
    T(rmdir(nowhere));
    T(unlink(nowhere));
    T(mkfifo(nowhere, 0600));
    T(rename(nowhere, in("x")));
    T(rename(in("data"), nowhere));
    T(link(in("data"), nowhere));
    T(symlink(nowhere, in("x")));
    T(symlink("x", nowhere));
    T(readlink(nowhere, buf, sizeof buf));
    T(chmod(nowhere, 0600));
    T(chown(nowhere, -1, -1));
    T(truncate(nowhere, 0));
    T(utimes(nowhere, NULL));
    T(statfs(nowhere, &fs));
    T(statvfs(nowhere, &vfs));
    T(chdir(nowhere));
    T(getxattr(nowhere, "user.a", buf, sizeof buf));
    T(getxattr(in("data"), nowhere, buf, sizeof buf));
    T(setxattr(in("data"), "user.a", nowhere, 5, 0));
    T(fopen(nowhere, "r") == NULL ? -1 : 0);
    T(syscall(SYS_openat, AT_FDCWD, nowhere, O_RDONLY, 0));
}

static void bad_records(int fd, char *nowhere)
{
    char entries[4096];
    int here = open(dir, O_RDONLY | O_DIRECTORY);

    T(fstat(fd, (struct stat *)nowhere));
    T(fstat(fd, (struct stat *)(nowhere - 8)));
    T(stat(in("data"), (struct stat *)nowhere));
    T(stat(in("missing"), (struct stat *)nowhere));
    T(statx(AT_FDCWD, in("data"), 0, STATX_BASIC_STATS, (struct statx *)nowhere));
    T(statfs(dir, (struct statfs *)nowhere));
    T(fstatfs(fd, (struct statfs *)nowhere));
    T(readlink(in("link"), nowhere, 100));
    T(readlink(in("link"), nowhere - 4, 100));
    T(readlink(in("link"), nowhere - 2, 100));
    T(fcntl(fd, F_SETLK, nowhere));
    T(fcntl(fd, F_GETLK, nowhere));
    T(fcntl(fd, F_OFD_SETLK, nowhere));
    T(ioctl(fd, FIONREAD, nowhere));
    T(utimensat(AT_FDCWD, in("data"), (struct timespec *)nowhere, 0));
    T(futimens(fd, (struct timespec *)nowhere));
    T(syscall(SYS_getdents64, here, nowhere, sizeof entries));
    T(copy_file_range(fd, (off_t *)nowhere, fd, NULL, 10, 0));
    T(sendfile(fd, fd, (off_t *)nowhere, 10));
    T(chdir(dir));
    T(syscall(SYS_getcwd, nowhere, 100));
    T(chdir("/"));
    close(here);
}

/* What is not there yet, but will be: a stack, and a map that nobody has touched. */
static __attribute__((noinline)) void *deep(void *arg)
{
    char room[3 << 20];
    int fd = (int)(intptr_t)arg;

    T(pread(fd, room, sizeof room, 0));
    T(pread(fd, room + sizeof room / 2, 10, 2));
    return room[0] == 'd' ? NULL : arg;
}

static void memory(void)
{
    pthread_t thread;
    int fd = open(in("data"), O_RDWR | O_CREAT, 0600);
    int prot[] = { -1, PROT_NONE, PROT_READ };
    char *large = malloc(9 << 20);

    /* what the preload library allocates for a first directory, or loads for a first call of a server, could get the
     * memory that is unmapped below */
    close(open(dir, O_RDONLY | O_DIRECTORY));
    chmod(in("data"), 0600);
    OK(symlink("target", in("link")));
    memset(large, 'd', 9 << 20);
    T(write(fd, large, 300000));

    for (int i = 0; i < 3; i++) {
        char *p = half(prot[i]);

        printf("memory of kind %d\n", i);
        bad_data(fd, p + PAGE, i < 2);
        if (i < 2)
            bad_names(p + PAGE);

        bad_records(fd, p + PAGE);
        munmap(p, 2 * PAGE);
    }

    T(read(fd, (char *)-20L, 10));
    T(read(fd, (char *)INTPTR_MIN, 10));
    T(pread(fd, (char *)INTPTR_MIN, 10, 1 << 20));
    char *volatile null = NULL, *nowhere = null;
    T(write(open(in("data"), O_RDONLY), nowhere, 10));
    T(read(open(in("data"), O_WRONLY), nowhere, 10));
    T(read(open(dir, O_RDONLY), nowhere, 10));
    deep((void *)(intptr_t)fd);
    if (pthread_create(&thread, NULL, deep, (void *)(intptr_t)fd) == 0)
        pthread_join(thread, NULL);

    char *fresh = mmap(NULL, 9 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    T(pread(fd, fresh, 9 << 20, 0));
    T(memcmp(fresh, large, 10));
    T(pwrite(fd, fresh + 300000, 8 << 20, 0));
    T(mprotect(fresh, 65536, PROT_NONE));
    T(pread(fd, fresh, 9 << 20, 0));
    T(pread(fd, fresh + 65536, 8 << 20, 0));
    T(mprotect(fresh + (8 << 20), 1 << 20, PROT_READ));
    T(pwrite(fd, fresh + 65536, 8 << 20, 0));
    T(munmap(fresh + (4 << 20), 65536));
    T(pwrite(fd, fresh + 65536, 8 << 20, 0));
    T(pread(fd, fresh + 65536, 8 << 20, 0));
    free(large);
    close(fd);
}

/* ---- several append to one file ---- */

#define WRITERS 4

static _Noreturn void append(char what, size_t len, int count, char *data)
{
    int fd = open(in("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);

    memset(data, what, len);
    for (int i = 0; i < count; i++)
        if (write(fd, data, len) != (ssize_t)len)
            _exit(1);

    _exit(close(fd) != 0);
}

static void appends(size_t len, int count)
{
    char *data = malloc(len);
    int torn = 0;
    int whole = 0;
    int failed = 0;
    int status;

    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0)
            append((char)('a' + i), len, count, data);

    while (wait(&status) > 0)
        failed += status != 0;

    int fd = open(in("log"), O_RDONLY);

    while (read(fd, data, len) == (ssize_t)len)
        if (memchr(data, data[0], len) && memcmp(data, data + 1, len - 1) == 0)
            whole++;
        else
            torn++;

    printf("%d processes appended %zu bytes %d times: %d whole, %d torn, %d failed\n", WRITERS, len,
           count, whole, torn, failed);
    close(fd);
    unlink(in("log"));
    free(data);
}

static void together(void)
{
    appends(10, 200);
    appends(999, 300);
    appends(60000, 40);
    appends(200000, 15);
    appends(3 << 20, 3);
}

/* Calls that succeed leave errno alone, which programs (netCDF) look at after a short read. */
#define ROUNDS 400

static void untouched(void)
{
    char data[100] = "x";
    struct stat st;
    int set = 0;

    for (int i = 0; i < ROUNDS; i++) {
        errno = 0;

        int fd = open(in("quiet"), O_RDWR | O_CREAT, 0600);
        bool ok = fd >= 0 && write(fd, data, sizeof data) == (ssize_t)sizeof data &&
                  pread(fd, data, sizeof data, 50) == 50;

        ok = ok && lseek(fd, 0, SEEK_SET) == 0 && read(fd, data, 10) == 10 && fstat(fd, &st) == 0 &&
             ftruncate(fd, 100) == 0;
        ok = ok && close(fd) == 0 && stat(in("quiet"), &st) == 0 &&
             rename(in("quiet"), in("still")) == 0;

        DIR *d = opendir(dir);

        ok = ok && d && readdir(d) && closedir(d) == 0 && rename(in("still"), in("quiet")) == 0;
        if (!ok)
            exit(1);

        set += errno != 0;
    }

    printf("errno set in %d of %d rounds\n", set, ROUNDS);
}

/* ---- what is told of a file beyond stat, and how it may be read and written ---- */

#define MOUNTS ((uint64_t)(STATX_ATTR_AUTOMOUNT | STATX_ATTR_MOUNT_ROOT))

static void tell(const char *what, int r, const struct statx *x)
{
    time_t now = time(NULL);

    printf("%s: %d %s mask %x mode %o size %llu born %d attributes %llx of %llx\n", what, r,
           r ? strerrorname_np(errno) : "", x->stx_mask & (STATX_BASIC_STATS | STATX_BTIME),
           x->stx_mode, (unsigned long long)x->stx_size,
           (x->stx_mask & STATX_BTIME) && now - x->stx_btime.tv_sec >= 0 &&
               now - x->stx_btime.tv_sec < 60,
           (unsigned long long)(x->stx_attributes & ~MOUNTS),
           (unsigned long long)(x->stx_attributes_mask & ~MOUNTS));
    fflush(stdout);
}

static void marks(void)
{
    struct statx x = { 0 };
    struct stat st;
    struct fsxattr ext = { 0 };
    int fd = open(in("marked"), O_RDWR | O_CREAT, 0640);
    int flags = 0;
    int before;
    int version = 0;

    T(write(fd, "0123456789", 10));
    tell("by path", statx(AT_FDCWD, in("marked"), 0, STATX_BASIC_STATS | STATX_BTIME, &x), &x);
    T(stat(in("marked"), &st) == 0 && st.st_ino == x.stx_ino &&
      st.st_ctim.tv_nsec == x.stx_ctime.tv_nsec && st.st_blocks == (blkcnt_t)x.stx_blocks);
    tell("by descriptor", statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x), &x);
    tell("nothing", statx(AT_FDCWD, in("nothing"), 0, STATX_BTIME, &x), &x);
    OK(symlink("marked", in("to-marked")));
    tell("a link", statx(AT_FDCWD, in("to-marked"), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x), &x);
    if (T(ioctl(fd, FS_IOC_GETFLAGS, &flags)) == 0)
        printf("flags %x\n", (unsigned)flags);

    T(ioctl(fd, FS_IOC_GETVERSION, &version));
    if (T(ioctl(fd, FS_IOC_FSGETXATTR, &ext)) == 0)
        printf("extended %x %u %u\n", ext.fsx_xflags, ext.fsx_extsize, ext.fsx_projid);

    before = flags;
    flags |= FS_NODUMP_FL | FS_APPEND_FL;

    if (T(ioctl(fd, FS_IOC_SETFLAGS, &flags)) == 0) {
        flags = 0;
        T(ioctl(fd, FS_IOC_GETFLAGS, &flags));
        printf("flags %x\n", (unsigned)flags);
        tell("marked", statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x), &x);
        T(open(in("marked"), O_WRONLY));
        T(unlink(in("marked")));

        /* not 0: ext4 would turn its extents into blocks, where it can just then */
        T(ioctl(fd, FS_IOC_SETFLAGS, &before));
    }

    T(ioctl(fd, FS_IOC_FSSETXATTR, &ext));
    T(ioctl(fd, FS_IOC_GETFLAGS, (int *)NULL));
    T(ioctl(fd, FS_IOC_FSGETXATTR, (int *)NULL));
    close(fd);
}

static void flagged(void)
{
    char text[100] = "";
    struct iovec one = { (char *)"abc", 3 };
    struct iovec two[] = { { (char *)"de", 2 }, { (char *)"fgh", 3 } };
    struct iovec back[] = { { text, 5 }, { text + 5, 90 } };
    size_t len = 900000;
    struct iovec large = { calloc(1, len), len };
    int fd = open(in("flagged"), O_RDWR | O_CREAT, 0600);

    T(write(fd, "0123456789", 10));
    T(lseek(fd, 2, SEEK_SET));
    T(pwritev2(fd, &one, 1, 4, RWF_APPEND));
    T(lseek(fd, 0, SEEK_CUR));
    T(pwritev2(fd, two, 2, -1, RWF_APPEND));
    T(lseek(fd, 0, SEEK_CUR));
    T(pwritev2(fd, &one, 1, 0, RWF_DSYNC));
    T(pwritev2(fd, &one, 1, -1, RWF_SYNC));
    T(preadv2(fd, back, 2, 0, RWF_HIPRI));
    printf("%s\n", text);
    T(lseek(fd, 1, SEEK_SET));
    T(preadv2(fd, back, 1, -1, RWF_HIPRI));
    T(lseek(fd, 0, SEEK_CUR));
    T(preadv2(fd, back, 2, 0, 1 << 20));
    T(pwritev2(fd, &one, 1, 0, 1 << 20));
    T(mkfifo(in("no places"), 0600));

    int fifo = open(in("no places"), O_RDWR | O_NONBLOCK);

    T(pwritev2(fifo, &one, 1, 0, 1 << 20));
    T(preadv2(fifo, back, 2, 0, 1 << 20));
    T(pwritev2(fifo, &one, 1, -1, 1 << 20));
    close(fifo);
    T(pwritev2(fd, &large, 1, 1, RWF_APPEND));
    T(pwritev2(fd, &large, 1, 1, RWF_DSYNC));
    T(lseek(fd, 0, SEEK_END));

    /* pwrite appends, too, on Linux, and leaves the offset alone */
    int end = open(in("flagged"), O_WRONLY | O_APPEND);

    T(pwrite(end, large.iov_base, len, 3));
    T(lseek(end, 0, SEEK_CUR));
    T(write(end, large.iov_base, len));
    T(lseek(end, 0, SEEK_CUR));
    free(large.iov_base);
    close(end);
    close(fd);
}

/* ---- the limit of file sizes ---- */

static int signals;

static void on_limit(int sig)
{
    signals++;
}

#define L(call) (signals = 0, T(call), printf("signals %d\n", signals))

static void grow(void)
{
    char *data = calloc(1, 300000);
    struct iovec v = { data, 300000 };
    int fd = open(in("limited"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int end = open(in("limited"), O_WRONLY | O_APPEND);
    int status;

    L(write(fd, data, 60000));
    L(write(fd, data, 60000));
    L(write(fd, data, 60000));
    L(write(fd, data, 0));
    L(lseek(fd, 0, SEEK_CUR));
    L(pwrite(fd, data, 300000, 10));
    L(pwrite(fd, data, 300000, 200000));
    L(write(end, data, 10));
    L(pwritev2(fd, &v, 1, 0, RWF_APPEND));

    int from = open(in("from"), O_RDWR | O_CREAT, 0600);
    off_t start = 10;
    off_t past = 300000;
    off_t beyond = 100001;

    L(write(from, data, 90000));
    L(lseek(fd, 50000, SEEK_SET));
    L(sendfile(fd, from, &start, 80000)); /* a part of it is sent, and yet there is a signal */
    T(start);
    L(lseek(fd, 50000, SEEK_SET));
    L(sendfile(fd, fd, NULL, 80000)); /* likewise to itself */
    close(from);
    L(copy_file_range(fd, &past, fd, &beyond, 10, 0)); /* though there is nothing to copy */
    L(copy_file_range(fd, &beyond, fd, &beyond, 0, 0));
    L(ftruncate(fd, 100000));
    L(ftruncate(fd, 100001));
    L(truncate(in("limited"), 200000));
    L(truncate(in("none"), 200000));
    L(fallocate(fd, 0, 0, 200000));
    L(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 200000));
    L(ftruncate(open(in("limited"), O_RDONLY), 200000));
    L(write(open(in("limited"), O_RDONLY), data, 10));

    FILE *f = fopen(in("stream"), "w");

    L(fwrite(data, 1, 300000, f));
    L(fclose(f));

    pid_t pid = fork();

    if (pid == 0) {
        L(write(fd, data, 10));
        L(open(in("other"), O_RDWR | O_CREAT, 0600) < 0);
        fflush(stdout);
        _exit(0);
    }

    T(waitpid(pid, &status, 0) == pid && status == 0);
    free(data);
    close(fd);
    close(end);
}

static void limit(void)
{
    struct rlimit lim;
    char command[3 * PATH_MAX];

    signal(SIGXFSZ, on_limit);
    T(getrlimit(RLIMIT_FSIZE, &lim));
    lim.rlim_cur = 100000;
    T(setrlimit(RLIMIT_FSIZE, &lim));
    grow();
    signal(SIGXFSZ, SIG_DFL);
    snprintf(command, sizeof command, "head -c 150000 /dev/zero >%s; echo $?; wc -c <%s", in("cut"),
             in("cut"));
    T(system(command));
    lim.rlim_cur = 120000;
    T(prlimit(0, RLIMIT_FSIZE, &lim, NULL));
    T(system(command));
    lim.rlim_cur = RLIM_INFINITY;
    T(setrlimit(RLIMIT_FSIZE, &lim));
    T(system(command));
}

/* ---- links that lead out ---- */

/* What the kernel says of flags that it does not know, and where there is nothing to do. */
static void unknown(void)
{
    const struct timespec omit[2] = { { 1, UTIME_OMIT }, { 2, UTIME_OMIT } };
    int fd = open(in("unknown"), O_RDWR | O_CREAT, 0600);
    int path = open(in("unknown"), O_PATH);

    T(write(fd, "0123456789", 10));
    T(fallocate(fd, 0x100, 0, 1));
    T(fallocate(fd, 0x100 | FALLOC_FL_KEEP_SIZE, 0, 1));
    T(fallocate(fd, 0x100, 0, 0));
    T(fallocate(fd, 0x100, -1, 1));
    T(utimensat(AT_FDCWD, in("unknown"), NULL, 0x40));
    T(utimensat(AT_FDCWD, in("not there"), NULL, 0x40));
    T(utimensat(AT_FDCWD, in("unknown"), NULL, AT_SYMLINK_FOLLOW));
    T(utimensat(fd, "", NULL, AT_EMPTY_PATH));
    T(utimensat(AT_FDCWD, in("not there"), omit, 0));
    T(utimensat(AT_FDCWD, in("not there"), omit, 0x40));
    T(utimensat(AT_FDCWD, in("not there"), NULL, 0));
    T(futimens(fd, omit));
    T(futimens(path, omit));
    T(futimens(path, NULL));
    close(path);
    close(fd);
}

static void links(void)
{
    struct stat st;
    struct statfs fs;
    struct statvfs vfs;
    char buf[100];

    OK(symlink(scratch, in("out")));
    OK(mkdir(in("inside"), 0755));
    T(close(open(in("out/made"), O_CREAT | O_WRONLY, 0644)));
    T(write(open(in("inside/file"), O_CREAT | O_WRONLY, 0644), "inside", 6));
    T(mkdir(in("out/d"), 0755));
    T(mkfifo(in("out/fifo"), 0600));
    T(symlink("made", in("out/link")));
    T(readlink(in("out/link"), buf, sizeof buf));
    T(link(in("out/made"), in("out/second")));
    T(rename(in("out/second"), in("out/third")));

    bool mounted = strcmp(dir, "/fwd") == 0; /* else all lies in one file system */

    T(!mounted || (rename(in("out/third"), in("inside/third")) == -1 && errno == EXDEV));
    T(!mounted || (rename(in("inside/file"), in("out/file")) == -1 && errno == EXDEV));
    T(!mounted || (link(in("inside/file"), in("out/file")) == -1 && errno == EXDEV));
    T(renameat2(AT_FDCWD, in("out/third"), AT_FDCWD, in("out/made"), RENAME_NOREPLACE));
    T(chmod(in("out/made"), 0600));
    T(chmod(in("out/link"), 0640));
    T(chown(in("out/made"), -1, -1));
    T(lchown(in("out/link"), -1, -1));
    T(truncate(in("out/made"), 4321));
    T(utimensat(AT_FDCWD, in("out/made"), (struct timespec[]){ { 1000, 0 }, { 2000, 0 } }, 0));
    T(stat(in("out/link"), &st));
    printf("%o %ld %ld\n", st.st_mode, (long)st.st_size, (long)st.st_mtime);
    T(lstat(in("out/link"), &st) == 0 && S_ISLNK(st.st_mode));
    T(statfs(in("out"), &fs));
    T(statvfs(in("out/d"), &vfs));
    T(setxattr(in("out/made"), "user.a", "b", 1, 0));
    T(getxattr(in("out/link"), "user.a", buf, sizeof buf));
    T(listxattr(in("out/made"), buf, sizeof buf));
    T(removexattr(in("out/made"), "user.a"));
    T(access(in("out/made"), R_OK));
    T(unlink(in("out/link")));
    T(unlink(in("out/third")));
    T(rmdir(in("out/d")));
    T(rmdir(in("out/nothing")));
    T(mkdir(in("out/made/x"), 0700));
    T(unlink(in("out")));
    T(lstat(in("out"), &st));
    snprintf(buf, sizeof buf, "ls %s", scratch);
    T(system(buf));
}

/* ---- record locks belong to the process, whatever program it is ---- */

const char *self;

/* ---- cancellation ---- */

static int cleaned, at_fifo;

static void clean(void *arg)
{
    cleaned++;
}

static void *opens(void *arg)
{
    pthread_cleanup_push(clean, NULL);

    int fd = open(in("fifo"), O_RDONLY);

    printf("opened %d\n", fd);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *reads(void *arg)
{
    char c;

    pthread_cleanup_push(clean, NULL);
    printf("has read %d\n", (int)read(at_fifo, &c, 1));
    pthread_cleanup_pop(0);

    return NULL;
}

/* Calls on files act on what came before them: nothing of the call is done. */
static int at_file, which_call;
static ssize_t calm;

static void *calls_file(void *arg)
{
    char c[16] = "new";
    struct iovec v = { c, 3 };

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    calm = pread(at_file, c, 3, 0); /* not while it is off */
    pthread_cleanup_push(clean, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    switch (which_call) {
    case 0:
        (void)!read(at_file, c, 3);
        break;
    case 1:
        (void)!write(at_file, "new", 3);
        break;
    case 2:
        (void)!pread(at_file, c, 3, 0);
        break;
    case 3:
        (void)!pwrite(at_file, "new", 3, 0);
        break;
    case 4:
        fsync(at_file);
        break;
    case 5:
        open(in("made"), O_CREAT | O_RDWR, 0600);
        break;
    case 6:
        close(at_file);
        break;
    case 7:
        (void)!readv(at_file, &v, 1);
        break;
    case 8:
        (void)!writev(at_file, &v, 1);
        break;
    case 9:
        fdatasync(at_file);
        break;
    default:
        lseek(at_file, 0, SEEK_CUR);
        break; /* no cancellation point */
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_before(void)
{
    char text[8] = "";

    at_file = open(in("calm"), O_RDWR | O_CREAT, 0600);
    T(write(at_file, "old", 3));
    T(lseek(at_file, 0, SEEK_SET));

    for (which_call = 0; which_call <= 10; which_call++) {
        pthread_t thread;
        void *result = NULL;

        T(pthread_create(&thread, NULL, calls_file, NULL));
        T(pthread_join(thread, &result));
        T(calm);
        T(result == PTHREAD_CANCELED);
        T(cleaned);
        T(lseek(at_file, 0, SEEK_CUR));
    }

    T(access(in("made"), F_OK));
    T(pread(at_file, text, 7, 0));
    printf("%s\n", text);
}

static void cancelled(void)
{
    void *(*const ways[])(void *) = { opens, reads, reads };
    OK(mkfifo(in("fifo"), 0600));
    at_fifo = open(in("fifo"), O_RDWR);

    int guard = open(in("fifo2"), O_RDWR | O_CREAT, 0600);

    T(write(guard, "guard", 5));
    unlink(in("fifo"));
    OK(mkfifo(in("fifo"), 0600)); /* nobody is at this one */

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        pthread_t thread;
        void *result = NULL;

        T(pthread_create(&thread, NULL, ways[i], NULL));
        T(pthread_cancel(thread));
        T(pthread_join(thread, &result));
        T(result == PTHREAD_CANCELED);
        T(cleaned);
    }

    T(write(at_fifo, "x", 1));
    reads(NULL);
    close(guard);
}

/* ---- the umask, and what takes its place ---- */

static void made(const char *under, const char *what, int r)
{
    struct stat st = { 0 };
    char name[64];

    snprintf(name, sizeof name, "%s/%s", under, what);
    T(r);
    T(lstat(in(name), &st));
    printf("%s: %o\n", name, st.st_mode);
    T(S_ISDIR(st.st_mode) ? rmdir(in(name)) : unlink(in(name)));
}

static void make_all(const char *under)
{
    struct stat st = { 0 };
    char name[64];

    snprintf(name, sizeof name, "%s/new", under);

    int fd = open(in(name), O_WRONLY | O_CREAT | O_EXCL, 0666);

    T(write(fd, "x", 1));
    made(under, "new", fd < 0 ? fd : close(fd));
    made(under, "new", mkdir(in(name), 01777));
    made(under, "new", mkfifo(in(name), 0664));
    made(under, "new", mknod(in(name), S_IFREG | 0777, 0));
    made(under, "new", symlink("nowhere", in(name)));
    fd = open(in(under), O_WRONLY | O_TMPFILE, 0666);
    T(fstat(fd, &st));
    printf("no name: %o\n", st.st_mode);
    close(fd);
}

/* A directory's default ACL decides alone on the modes of what is made in it: the umask does not
 * count there. */
static void masked(void)
{
    /* version; then tag, rights and number of the owner, the group and others */
    static const unsigned char acl[] = { 2,   0,   0, 0, 1,   0,   7,   0,   255, 255,
                                         255, 255, 4, 0, 6,   0,   255, 255, 255, 255,
                                         32,  0,   5, 0, 255, 255, 255, 255 };
    static const mode_t masks[] = { 0, 022, 077, 0777 };

    T(mkdir(in("plain"), 0755));
    T(mkdir(in("with"), 0755));
    T(setxattr(in("with"), "system.posix_acl_default", acl, sizeof acl, 0));

    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        T(umask(masks[i]));
        printf("umask %o\n", masks[i]);
        make_all("with");
        make_all("plain");
    }

    /* Several at once, each with a mask of its own. */
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            struct stat st;
            char name[32];
            int wrong = 0;

            umask((mode_t)i * 011);
            for (int k = 0; k < 300; k++) {
                snprintf(name, sizeof name, "plain/%d-%d", i, k);
                wrong += mkdir(in(name), 0777) || stat(in(name), &st) ||
                         (st.st_mode & 07777) != 0777 - (mode_t)i * 011 || rmdir(in(name));
            }

            _exit(wrong ? 1 : 0);
        }

    for (int i = 0, status; i < 4; i++)
        T(wait(&status) > 0 && status == 0);
}

int main(int argc, char **argv)
{
    /* clang-format off */
    static const struct section sections[] = {
        { "memory", memory }, { "together", together }, { "marks", marks }, { "flagged", flagged }, { "lately", flagged_lately },
        { "limit", limit }, { "links", links },
        { "untouched", untouched }, { "locked", locked },
        { "ranges", ranges }, { "many-files", many_files }, { "went-on", went_on }, { "cancelled", cancelled },
        { "cancelled-before", cancelled_before }, { "gone-on", gone_on }, { "held-by", held_by },
        { "masked", masked }, { "unknown", unknown }, { "copy-gone", copy_gone }, { "other-gone", other_gone },
        { "still-held", still_held },
    };

    /* clang-format on */
    if (argc != 4)
        return 2;

    self = argv[0];
    dir = argv[2];
    scratch = argv[3];

    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
