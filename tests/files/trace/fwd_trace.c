/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose calls are traced: fwd_trace.sh compares the lines of IOFWD_TRACE with strace's of
 * the same run in a local directory.  The calls are those of which the C library makes one system
 * call each.
 *
 *   fwd_trace DIRECTORY LOCAL-FILE
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char buf[64];
    struct stat st;

    if (argc != 3 || chdir("/") != 0)
        return 2;

    int dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dir, "file", O_RDWR | O_CREAT | O_TRUNC, 0640);

    if (write(fd, "some\ttext \"and\" \\ \001\n", 20) != 20 ||
        pwrite(fd, "0123456789", 10, 100) != 10)
        return 1;

    (void)!pread(fd, buf, 10, 100);
    lseek(fd, -5, SEEK_END);
    (void)!read(fd, buf, sizeof buf);
    (void)!read(fd, buf, sizeof buf);
    fstat(fd, &st);
    ftruncate(fd, 50);
    fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096);
    flock(fd, LOCK_EX | LOCK_NB);
    fsync(fd);
    fcntl(fd, F_GETFL);
    fchmod(fd, 0600);
    mkdirat(dir, "sub", 0755);
    mknodat(dir, "from", S_IFREG | 0600, 0);
    renameat2(dir, "from", dir, "moved", RENAME_NOREPLACE);
    renameat2(dir, "from", dir, "moved", RENAME_EXCHANGE);
    linkat(dir, "moved", dir, "linked", 0);
    symlinkat("moved", dir, "link");
    (void)!readlinkat(dir, "link", buf, sizeof buf);
    fstatat(dir, "link", &st, AT_SYMLINK_NOFOLLOW);
    faccessat(dir, "moved", R_OK | W_OK, 0);
    openat(dir, "none", O_RDONLY);
    unlinkat(dir, "sub", AT_REMOVEDIR);
    unlinkat(dir, "sub", AT_REMOVEDIR);
    fchmodat(dir, "moved", 0444, 0);
    if (dup2(fd, 77) != 77)
        return 1;

    close(77);
    close(fd);
    write(fd, "x", 1);
    close(dir);

    int local = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)!write(local, "local", 5);
    close(local);
    return 0;
}
