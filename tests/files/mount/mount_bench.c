/* SPDX-License-Identifier: BSD-3-Clause */
/* Times calls below a directory, for mount_figures.sh: mount_bench SET DIRECTORY, where SET is `far`, calls that
 * reach the file system's process, or `warm`, reads from the kernel's cache.  Prints "CALL NANOSECONDS" a line,
 * each the median of ROUNDS means. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files/bench.h"

#define ROUNDS 7
#define FILE_BYTES ((off_t)32 << 20)
#define LISTED 1000

static char data[1 << 20] __attribute__((aligned(4096)));
static int file;

static void need(int ok, const char *what)
{
    if (ok)
        return;

    perror(what);
    exit(1);
}

static void measure(const char *name, int calls, void (*call)(int i), void (*before)(void))
{
    bench(name, ROUNDS, calls, call, before);
}

/* ---- names ---- */

static void do_stat(int i)
{
    struct stat st;

    need(stat("file", &st) == 0, "stat");
}

static void do_missing(int i)
{
    need(access("none", F_OK) != 0, "access of no file");
}

static void do_open(int i)
{
    int fd = open("file", O_RDONLY);

    need(fd >= 0 && close(fd) == 0, "open");
}

static void do_create(int i)
{
    int fd = open("new", O_WRONLY | O_CREAT | O_EXCL, 0600);

    need(fd >= 0 && close(fd) == 0 && unlink("new") == 0, "create and unlink");
}

static void do_mkdir(int i)
{
    need(mkdir("dir", 0700) == 0 && rmdir("dir") == 0, "mkdir and rmdir");
}

static void do_rename(int i)
{
    need(rename(i % 2 ? "b" : "a", i % 2 ? "a" : "b") == 0, "rename");
}

static void do_list(int i)
{
    DIR *d = opendir("listed");
    int n = 0;

    need(d != NULL, "opendir");
    while (readdir(d))
        n++;

    closedir(d);
    need(n == LISTED + 2, "readdir");
}

/* ---- data ---- */

static void drop_pages(void)
{
    need(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
}

/* Each page of the file once, in an order in which nothing is read ahead. */
static void do_read_4k(int i)
{
    off_t page = (off_t)((uint32_t)i * 2654435761u % (uint32_t)(FILE_BYTES / 4096));

    need(pread(file, data, 4096, page * 4096) == 4096, "pread");
}

static void do_read_1m(int i)
{
    off_t at = i * (off_t)sizeof data % FILE_BYTES;

    need(pread(file, data, sizeof data, at) == sizeof data, "pread");
}

static void do_write_4k(int i)
{
    need(pwrite(file, data, 4096, (off_t)i * 4096 % FILE_BYTES) == 4096, "pwrite");
}

static void do_write_1m(int i)
{
    off_t at = i * (off_t)sizeof data % FILE_BYTES;

    need(pwrite(file, data, sizeof data, at) == sizeof data, "pwrite");
}

static void prepare(void)
{
    char name[32];
    int fd = open("a", O_CREAT | O_WRONLY, 0600);

    need(fd >= 0 && close(fd) == 0, "a");
    file = open("file", O_RDWR | O_CREAT, 0600);
    need(file >= 0, "file");
    for (int i = 0; i < FILE_BYTES / (off_t)sizeof data; i++)
        do_write_1m(i);

    if (mkdir("listed", 0700) != 0)
        return;

    for (int i = 0; i < LISTED; i++) {
        snprintf(name, sizeof name, "listed/%d", i);
        fd = open(name, O_CREAT | O_WRONLY, 0600);
        need(fd >= 0 && close(fd) == 0, name);
    }
}

static void measure_far(void)
{
    measure("stat", 2000, do_stat, NULL);
    measure("access_missing", 2000, do_missing, NULL);
    measure("open_close", 2000, do_open, NULL);
    measure("create_unlink", 1000, do_create, NULL);
    measure("mkdir_rmdir", 1000, do_mkdir, NULL);
    measure("rename", 1000, do_rename, NULL);
    measure("list_1000", 5, do_list, NULL);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    measure("read_4k", 2000, do_read_4k, drop_pages);
    posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL);
    measure("read_1m", 32, do_read_1m, drop_pages);
    measure("write_4k", 2000, do_write_4k, NULL);
    measure("write_1m", 32, do_write_1m, NULL);
}

static void measure_warm(void)
{
    for (int i = 0; i < 32; i++)
        do_read_1m(i);

    measure("warm_4k", 20000, do_read_4k, NULL);
    measure("warm_1m", 320, do_read_1m, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;

    need(chdir(argv[2]) == 0, argv[2]);
    prepare();
    if (strcmp(argv[1], "warm") == 0)
        measure_warm();
    else
        measure_far();

    return 0;
}
