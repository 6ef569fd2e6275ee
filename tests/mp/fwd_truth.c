/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_truth SECTION DIRECTORY SCRATCH: what POSIX and Linux promise in the corners.  Prints what each call gave; fwd_truth.sh runs it in a
 * local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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
#include <unistd.h>
#include <utime.h>

#include "fwd_say.h"

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
    struct iovec iov[] = { { some, 10 }, { some, 20 }, { some, 10 } }, none[] = { { nowhere, 10 }, { some, 10 } };
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
    int fd = open(in("data"), O_RDWR | O_CREAT, 0600), prot[] = { -1, PROT_NONE, PROT_READ };
    char *large = malloc(9 << 20);
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
    int torn = 0, whole = 0, failed = 0, status;
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
    printf("%d processes appended %zu bytes %d times: %d whole, %d torn, %d failed\n", WRITERS, len, count, whole, torn, failed);
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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } sections[] = { { "memory", memory }, { "together", together } };
    if (argc != 4)
        return 2;
    dir = argv[2];
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strcmp(argv[1], sections[i].name) == 0)
            sections[i].run();
    return 0;
}
