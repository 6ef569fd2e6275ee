/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files spread over several servers against a model in memory: random reads and writes at the
 * offset and at places, seeks, truncations, a second descriptor, appends, a forked child; sizes and
 * contents are compared after each step, and every server must have moved its share.  Run under
 * amphora-run -iofwd /fwd=DIRECTORY with IOFWD_STRIPE set.   fwd_stripe WIDTH SEED
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_is.h"

enum {
    MODEL_BYTES = 6 << 20,
    STEPS = 150,
    CALL_MAX = 3 << 20
};

static uint8_t model[MODEL_BYTES], buf[CALL_MAX], got[CALL_MAX];
static size_t size, offset; /* of the model */

static size_t below(size_t n)
{
    return n ? (size_t)((unsigned long)random() % n) : 0;
}

/* Mostly large, with odd ends; some small and some empty. */
static size_t some_length(void)
{
    switch (below(6)) {
    case 0:
        return below(3000);
    case 1:
        return 0;
    default:
        return below(CALL_MAX);
    }
}

static void put(size_t at, size_t len)
{
    if (len && at > size)
        memset(model + size, 0, at - size);

    memcpy(model + at, buf, len);
    if (len && at + len > size)
        size = at + len;
}

static void fill(size_t len)
{
    unsigned char start = (unsigned char)random();
    for (size_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(start + i * 7 + (i >> 12));
}

static size_t readable(size_t at, size_t len)
{
    if (at >= size)
        return 0;

    return len < size - at ? len : size - at;
}

static void check_read(ssize_t n, size_t at, size_t len)
{
    IS(n, readable(at, len));
    if (n > 0)
        IS(memcmp(got, model + at, (size_t)n), 0);
}

static void do_write(int fd)
{
    size_t len = some_length();

    len = len < MODEL_BYTES - offset ? len : MODEL_BYTES - offset;
    fill(len);
    IS(write(fd, buf, len), len);
    put(offset, len);
    offset += len;
}

static void do_pwrite(int fd)
{
    size_t at = below(MODEL_BYTES - CALL_MAX);
    size_t len = some_length();

    fill(len);
    IS(pwrite(fd, buf, len, (off_t)at), len);
    put(at, len);
}

static void do_read(int fd)
{
    size_t len = some_length();
    size_t n = readable(offset, len);

    check_read(read(fd, got, len), offset, len);
    offset += n;
}

static void do_pread(int fd)
{
    size_t at = below(MODEL_BYTES);
    size_t len = some_length();

    check_read(pread(fd, got, len, (off_t)at), at, len);
}

static void do_seek(int fd)
{
    size_t at = below(MODEL_BYTES - CALL_MAX);

    IS(lseek(fd, (off_t)at, SEEK_SET), at);
    offset = at;
}

static void do_truncate(int fd)
{
    size_t at = below(MODEL_BYTES);

    IS(ftruncate(fd, (off_t)at), 0);
    if (at > size)
        memset(model + size, 0, at - size);

    size = at;
}

static void do_stat(int fd)
{
    struct stat st;

    IS(fsync(fd), 0);
    IS(fstat(fd, &st), 0);
    IS(st.st_size, size);
    IS(lseek(fd, 0, SEEK_CUR), offset);
    IS(lseek(fd, 0, SEEK_END), size);
    IS(lseek(fd, (off_t)offset, SEEK_SET), offset);
}

static void walk(int fd, int twin)
{
    static void (*const action[])(int) = { do_write, do_pwrite,   do_read, do_pread,
                                           do_seek,  do_truncate, do_stat };
    for (step = 0; step < STEPS; step++)
        action[below(sizeof action / sizeof action[0])](below(4) ? fd : twin);
}

static void write_whole(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, (const char *)data + at, len - at);

        if (n <= 0)
            fail("write", n, 1);

        at += (size_t)n;
    }

    IS(close(fd), 0);
}

/* An append must land at the end whatever the file is spread over; a child's and an exec'd
 * program's descriptors are whole files too. */
static void others(const char *path)
{
    enum {
        MORE = 400000
    };

    char command[200];

    if (size > MODEL_BYTES - MORE)
        IS(truncate(path, (off_t)(size = MODEL_BYTES - MORE)), 0);

    int fd = open(path, O_WRONLY | O_APPEND);

    fill(MORE);
    IS(write(fd, buf, MORE), MORE);
    IS(close(fd), 0);
    put(size, MORE);
    fd = open(path, O_RDWR);

    pid_t pid = fork();

    if (pid == 0) {
        IS(pread(fd, got, CALL_MAX, 1000), readable(1000, CALL_MAX));
        _exit(memcmp(got, model + 1000, readable(1000, CALL_MAX)) != 0);
    }

    int status;

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    write_whole("/fwd/copy", model, size);
    snprintf(command, sizeof command, "cmp %s /fwd/copy && cmp - /fwd/copy <%s", path, path);
    IS(system(command), 0);
    IS(close(fd), 0);
}

static void shares(unsigned width)
{
    uint32_t servers[8];
    size_t n = iofwd_servers(servers, 8);

    IS(n >= width, 1);
    n = width;

    for (size_t i = 0; i < n; i++) {
        struct iofwd_stats s;

        IS(iofwd_stats(servers[i], &s), 0);
        if (s.bytes_written < 1 << 16 || s.bytes_read < 1 << 16)
            fail("bytes of a server",
                 (long)(s.bytes_written < s.bytes_read ? s.bytes_written : s.bytes_read), 1 << 16);

        /* A child's end is noticed by its connection; that is not part of its wait. */
        for (int tries = 0; s.open_files && tries < 1000; tries++) {
            usleep(10000);
            IS(iofwd_stats(servers[i], &s), 0);
        }

        IS(s.open_files, 0);
    }
}

int main(int argc, char **argv)
{
    char path[64];
    unsigned width = (unsigned)atoi(argv[1]);

    seed = strtoul(argv[2], NULL, 10);
    srandom((unsigned)seed);
    snprintf(path, sizeof path, "/fwd/file.%d", (int)getpid());

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    int twin = dup(fd);

    if (fd < 0)
        fail("open", fd, 3);

    walk(fd, twin);
    IS(pread(fd, got, CALL_MAX, 0), readable(0, CALL_MAX));
    IS(close(fd), 0);
    IS(close(twin), 0);
    others(path);

    struct stat st;

    IS(stat(path, &st), 0);
    IS(st.st_size, size);
    IS(iofwd_set_stripe("*.one", 9, 0), EINVAL);
    IS(iofwd_set_stripe("*.one", 1, 0), 0);
    IS(iofwd_servers(NULL, 0), width);
    IS(iofwd_set_stripe("*.wide", 8, 0), 0);
    IS(iofwd_servers(NULL, 0) >= width, 1);
    write_whole("/fwd/plain.one", model, size < 1000 ? size : 1000);
    shares(width);

    iofwd_file_t *f;

    IS(iofwd_open("/fwd/unasked", O_RDWR | O_CREAT, 0600, &f), 0);
    IS(iofwd_write(f, "x", 1, NULL), 0);
    IS(iofwd_pread(f, path, 1, 0, NULL), 0);
    IS(path[0], 'x');
    IS(iofwd_close(f), 0);

    return 0;
}
