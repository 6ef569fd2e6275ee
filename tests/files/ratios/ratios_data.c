/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of calls that move data, and maps. */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/files/ratios/ratios.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define FILE_BYTES (4 * MIB)
#define LARGE_BYTES (64 * MIB)
#define SMALL_FILES 100

static int fd = -1;
static int other = -1;
static char buf[64 * KIB];

static void make_data(void)
{
    make_file(at("data"), FILE_BYTES);
    fd = open(at("data"), O_RDWR | O_CLOEXEC);
    other = open(at("copy"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0 && other >= 0, "open");
}

static void close_data(void)
{
    must(close(fd) == 0 && close(other) == 0, "close");
}

/* ---- plain calls ---- */

static void call_pread(int worker, int i)
{
    char piece[64];

    must(pread(fd, piece, sizeof piece, pick(FILE_BYTES - 64)) == 64, "pread");
}

static void call_pwrite(int worker, int i)
{
    must(pwrite(fd, buf, 64, pick(FILE_BYTES - 64)) == 64, "pwrite");
}

static void call_pread_4k(int worker, int i)
{
    char piece[4 * KIB];

    must(pread(fd, piece, sizeof piece, (off_t)pick(FILE_BYTES / sizeof piece) * 4096) == 4096,
         "pread");
}

static void call_lseek_read(int worker, int i)
{
    must(lseek(fd, pick(FILE_BYTES - 64), SEEK_SET) >= 0 && read(fd, buf, 64) == 64, "read");
}

static void call_pwritev(int worker, int i)
{
    struct iovec v[4];

    for (size_t k = 0; k < 4; k++)
        v[k] = (struct iovec){ buf + k * 100, 16 };

    must(pwritev(fd, v, 4, i % 100 * 64) == 64, "pwritev");
}

static void call_write_fstat(int worker, int i)
{
    struct stat st;

    must(pwrite(fd, buf, 64, pick(FILE_BYTES - 64)) == 64 && fstat(fd, &st) == 0, "pwrite");
}

static void call_ftruncate(int worker, int i)
{
    must(ftruncate(fd, (off_t)FILE_BYTES - (i & 1)) == 0, "ftruncate");
}

static void call_fallocate(int worker, int i)
{
    must(fallocate(fd, 0, 0, 64 * KIB) == 0, "fallocate");
}

static void call_fdatasync(int worker, int i)
{
    must(pwrite(fd, buf, 64, i % 100 * 64) == 64 && fdatasync(fd) == 0, "fdatasync");
}

static void call_fadvise(int worker, int i)
{
    must(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0, "posix_fadvise");
}

static void call_seek_data(int worker, int i)
{
    must(lseek(fd, 4096, SEEK_DATA) == 4096, "lseek");
}

static void call_copy_range(int worker, int i)
{
    off_t from = 0;
    off_t to = 0;

    must(copy_file_range(fd, &from, other, &to, 64 * KIB, 0) == 64 * KIB, "copy_file_range");
}

static void call_sendfile(int worker, int i)
{
    off_t from = 0;

    must(lseek(other, 0, SEEK_SET) == 0 && sendfile(other, fd, &from, 64 * KIB) == 64 * KIB,
         "sendfile");
}

static void call_aio(int worker, int i)
{
    struct aiocb cb = { .aio_fildes = fd, .aio_buf = buf, .aio_nbytes = 4 * KIB };
    const struct aiocb *const list[] = { &cb };

    must(aio_read(&cb) == 0, "aio_read");
    while (aio_error(&cb) == EINPROGRESS)
        must(aio_suspend(list, 1, NULL) == 0, "aio_suspend");

    must(aio_return(&cb) == 4 * KIB, "aio_return");
}

/* ---- files that several processes append to ---- */

static void open_to_append(int worker)
{
    fd = open(at("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    must(fd >= 0, "open");
}

static void call_append(int worker, int i)
{
    must(write(fd, buf, 100) == 100, "write");
}

static void call_open_append(int worker, int i)
{
    open_to_append(worker);
    must(write(fd, buf, 100) == 100 && close(fd) == 0, "write");
}

/* ---- streams ---- */

static FILE *stream;

static void open_stream(void)
{
    stream = fopen(at("lines"), "w+");
    must(stream != NULL && setvbuf(stream, NULL, _IOLBF, 0) == 0, "fopen");
}

static void close_stream(void)
{
    must(fclose(stream) == 0, "fclose");
}

static void call_line(int worker, int i)
{
    must(fprintf(stream, "line %d\n", i) > 0, "fprintf");
}

static void call_fopen(int worker, int i)
{
    FILE *f = fopen(at("lines"), "r");

    must(f != NULL, "fopen");
    fgetc(f);
    must(fclose(f) == 0, "fclose");
}

/* ---- maps ---- */

static void make_small_files(void)
{
    for (int i = 0; i < SMALL_FILES; i++)
        make_file(at("small%d", i), 4 * KIB);
}

static void make_large(void)
{
    make_file(at("large"), LARGE_BYTES);
    fd = open(at("large"), O_RDWR | O_CLOEXEC);
    must(fd >= 0, "open");
}

static void close_fd(void)
{
    must(close(fd) == 0, "close");
}

static void call_map_small(int worker, int i)
{
    int small = open(at("small%d", i % SMALL_FILES), O_RDONLY | O_CLOEXEC);
    char *map = mmap(NULL, 4 * KIB, PROT_READ, MAP_PRIVATE, small, 0);

    must(map != MAP_FAILED && map[100] == 'x', "mmap");
    must(munmap(map, 4 * KIB) == 0 && close(small) == 0, "munmap");
}

static void change_map(size_t bytes)
{
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    must(map != MAP_FAILED, "mmap");
    map[0]++;
    must(munmap(map, bytes) == 0, "munmap");
}

static void call_map_shared(int worker, int i)
{
    change_map(64 * KIB);
}

static char *large;

static void map_large(int worker)
{
    large = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(large != MAP_FAILED, "mmap");
}

static void call_msync(int worker, int i)
{
    large[pick(LARGE_BYTES)]++;
    must(msync(large, LARGE_BYTES, MS_SYNC) == 0, "msync");
}

static void unmap_large(void)
{
    must(munmap(large, LARGE_BYTES) == 0, "munmap");
    close_fd();
}

const struct pattern patterns_data[] = {
    /* clang-format off */
    { "pread_64", make_data, close_data, NULL, call_pread, 4000 },
    { "pwrite_64", make_data, close_data, NULL, call_pwrite, 4000 },
    { "pread_4K", make_data, close_data, NULL, call_pread_4k, 4000 },
    { "pread_64_by_4_threads", make_data, close_data, NULL, call_pread, 2000, .threads = 4 },
    { "pwrite_64_by_4_threads", make_data, close_data, NULL, call_pwrite, 2000, .threads = 4 },
    { "lseek+read", make_data, close_data, NULL, call_lseek_read, 2000 },
    { "pwritev_4", make_data, close_data, NULL, call_pwritev, 2000 },
    { "pwrite+fstat", make_data, close_data, NULL, call_write_fstat, 2000 },
    { "ftruncate", make_data, close_data, NULL, call_ftruncate, 1000 },
    { "fallocate", make_data, close_data, NULL, call_fallocate, 1000 },
    { "pwrite+fdatasync", make_data, close_data, NULL, call_fdatasync, 1000 },
    { "posix_fadvise", make_data, close_data, NULL, call_fadvise, 1000 },
    { "lseek_data", make_data, close_data, NULL, call_seek_data, 1000 },
    { "copy_file_range_64K", make_data, close_data, NULL, call_copy_range, 200 },
    { "sendfile_64K", make_data, close_data, NULL, call_sendfile, 200 },
    { "aio_read_4K", make_data, close_data, NULL, call_aio, 500 },
    { "append", NULL, NULL, open_to_append, call_append, 2000 },
    { "append_by_4_processes", NULL, NULL, open_to_append, call_append, 1000, .processes = 4 },
    { "open+append+close", NULL, NULL, NULL, call_open_append, 1000 },
    { "line_to_stream", open_stream, close_stream, NULL, call_line, 2000 },
    { "fopen+fgetc+fclose", open_stream, close_stream, NULL, call_fopen, 500 },
    { "map_small_files", make_small_files, NULL, NULL, call_map_small, 500 },
    { "map_shared_64K_of_4M", make_data, close_data, NULL, call_map_shared, 100 },
    { "map_shared_64K_of_64M", make_large, close_fd, NULL, call_map_shared, 100 },
    { "msync_64M", make_large, unmap_large, map_large, call_msync, 5 },
    { NULL },
    /* clang-format on */
};
