/* SPDX-License-Identifier: BSD-3-Clause */
/* Times calls on local files, for ways_figures.sh: PROGRAM DIRECTORY.  Prints "NAME NANOSECONDS" a line, each the
 * median of ROUNDS means. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files/bench.h"

#define ROUNDS 31

static char byte;
static int fd;
static FILE *stream;

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(1);
    }
}

static void call_pread(int i)
{
    must(pread(fd, &byte, 1, 0) == 1, "pread");
}

static void call_read(int i)
{
    must(read(fd, &byte, 0) == 0, "read");
}

static void call_pwrite(int i)
{
    must(pwrite(fd, &byte, 1, 0) == 1, "pwrite");
}

static void call_lseek(int i)
{
    must(lseek(fd, 0, SEEK_SET) == 0, "lseek");
}

static void call_fstat(int i)
{
    struct stat st;

    must(fstat(fd, &st) == 0, "fstat");
}

static void call_fcntl(int i)
{
    must(fcntl(fd, F_GETFL) >= 0, "fcntl");
}

static void call_stat(int i)
{
    struct stat st;

    must(stat("bench", &st) == 0, "stat");
}

static void call_stat_absolute(int i)
{
    struct stat st;

    must(stat("/etc/passwd", &st) == 0, "stat");
}

static void call_access(int i)
{
    must(access("bench", F_OK) == 0, "access");
}

static void call_open_close(int i)
{
    int other = open("bench", O_RDONLY);

    must(other >= 0 && close(other) == 0, "open");
}

static void call_map(int i)
{
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

    must(map != MAP_FAILED && munmap(map, 4096) == 0, "mmap");
}

static void call_fputc(int i)
{
    must(fputc('x', stream) == 'x', "fputc");
}

static void call_fwrite(int i)
{
    must(fwrite("12345678", 1, 8, stream) == 8, "fwrite");
}

static const struct {
    const char *name;
    void (*call)(int i);
    int calls;
} rows[] = {
    /* clang-format off */
    { "pread", call_pread, 5000 },
    { "read", call_read, 5000 },
    { "pwrite", call_pwrite, 5000 },
    { "lseek", call_lseek, 5000 },
    { "fstat", call_fstat, 5000 },
    { "fcntl", call_fcntl, 5000 },
    { "stat", call_stat, 3000 },
    { "stat_absolute", call_stat_absolute, 3000 },
    { "access", call_access, 3000 },
    { "open+close", call_open_close, 3000 },
    { "mmap+munmap", call_map, 2000 },
    { "fputc", call_fputc, 100000 },
    { "fwrite_8", call_fwrite, 100000 },
    /* clang-format on */
};

int main(int argc, char **argv)
{
    must(argc == 2 && chdir(argv[1]) == 0, "chdir");
    fd = open("bench", O_RDWR | O_CREAT, 0600);
    stream = fopen("/dev/null", "w");
    must(fd >= 0 && stream && write(fd, "x", 1) == 1, "open");

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < rows[i].calls; k++)
            rows[i].call(k);

        bench(rows[i].name, ROUNDS, rows[i].calls, rows[i].call, NULL);
    }

    unlink("bench");
    return 0;
}
