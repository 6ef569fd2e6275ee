/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For writers_figures.sh: processes that each write (or read) a file of their own, over and over.
 *
 *   writers_bench DIR PROCESSES CALL-BYTES FILE-BYTES SECONDS write|read
 *
 * Prints the GB/s of all processes together.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/bench.h"

static struct common {
    atomic_int ready;
    atomic_bool begin;
    atomic_long bytes;
} * common;

static size_t call_bytes, file_bytes;
static double seconds;
static bool reads;

static void fail(const char *what)
{
    fprintf(stderr, "writers_bench: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void move(int fd, char *data, size_t at, bool read_it)
{
    ssize_t n = read_it ? pread(fd, data, call_bytes, (off_t)at)
                        : pwrite(fd, data, call_bytes, (off_t)at);

    if (n != (ssize_t)call_bytes)
        fail(read_it ? "pread" : "pwrite");
}

static void run_one(const char *dir, int number)
{
    char name[4096];
    char *data = malloc(call_bytes);
    long done = 0;

    snprintf(name, sizeof name, "%s/writer.%d", dir, number);

    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || !data)
        fail(name);

    memset(data, number + 1, call_bytes);
    for (size_t at = 0; at < file_bytes; at += call_bytes)
        move(fd, data, at, false);

    atomic_fetch_add(&common->ready, 1);
    while (!atomic_load(&common->begin))
        usleep(100);

    double end_ns = bench_now_ns() + seconds * 1e9;

    for (size_t at = 0; bench_now_ns() < end_ns; at = (at + call_bytes) % file_bytes) {
        move(fd, data, at, reads);
        done += (long)call_bytes;
    }

    atomic_fetch_add(&common->bytes, done);
    close(fd);
    unlink(name);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;

    int processes = atoi(argv[2]);
    int status, failed = 0;

    call_bytes = strtoul(argv[3], NULL, 10);
    file_bytes = strtoul(argv[4], NULL, 10);
    seconds = strtod(argv[5], NULL);
    reads = strcmp(argv[6], "read") == 0;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        fail("mmap");

    for (int i = 0; i < processes; i++)
        if (fork() == 0)
            run_one(argv[1], i);

    while (atomic_load(&common->ready) < processes)
        usleep(100);

    double begin_ns = bench_now_ns();

    atomic_store(&common->begin, true);
    while (wait(&status) > 0)
        failed |= status;

    printf("%.2f\n", (double)atomic_load(&common->bytes) / (bench_now_ns() - begin_ns));
    return failed != 0;
}
