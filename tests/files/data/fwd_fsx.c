/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_fsx SEED OPERATIONS FILE: random reads, writes, truncations, maps and copies on one file,
 * each checked against a model in memory. Prints the seed and, where something is wrong, the last
 * operations.  The file is the last argument.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_MAX (256 << 10)
#define HISTORY 24

static unsigned char model[FILE_MAX], buf[FILE_MAX];
static size_t len;
static uint64_t state;
static int fd;
static const char *file;
static long count;
static bool maps = true;
static struct {
    const char *what;
    size_t from, n;
} history[HISTORY];

static uint32_t any(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

static void note(const char *what, size_t from, size_t n)
{
    history[count % HISTORY].what = what;
    history[count % HISTORY].from = from;
    history[count % HISTORY].n = n;
}

static void fail(const char *what, long got)
{
    printf("operation %ld: %s gave %ld (%s); the file should have %zu bytes; before that:\n", count,
           what, got, strerror(errno), len);
    for (long i = count < HISTORY ? 0 : count - HISTORY + 1; i <= count; i++)
        printf("  %ld %s at %zu, %zu bytes\n", i, history[i % HISTORY].what,
               history[i % HISTORY].from, history[i % HISTORY].n);

    exit(1);
}

static void compare(const char *what, const unsigned char *got, size_t from, size_t n)
{
    if (memcmp(got, model + from, n) == 0)
        return;

    size_t i = 0;

    while (got[i] == model[from + i])
        i++;

    printf("byte %zu is %d and should be %d\n", from + i, got[i], model[from + i]);
    fail(what, (long)n);
}

static size_t amount(void)
{
    return 1 + any(any(4) ? 3000 : 60000);
}

static void fill(size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t v = any(1U << 30);
        memcpy(buf + i, &v, n - i < 4 ? n - i : 4);
    }
}

/* Space for n bytes at a random place; the file grows now and then. */
static size_t place(size_t *n)
{
    size_t from = any(any(4) ? (uint32_t)len + 1 : FILE_MAX - 1);

    if (from + *n > FILE_MAX)
        *n = FILE_MAX - from;

    return from;
}

static void put(size_t from, size_t n)
{
    if (from > len)
        memset(model + len, 0, from - len);

    memcpy(model + from, buf, n);
    if (from + n > len)
        len = from + n;
}

static void op_read(void)
{
    size_t n = amount();
    size_t from = any((uint32_t)len + 10);

    if (from + n > FILE_MAX)
        n = from < FILE_MAX ? FILE_MAX - from : 0;

    note("read", from, n);

    bool seek = any(2);

    if (seek && lseek(fd, (off_t)from, SEEK_SET) != (off_t)from)
        fail("lseek", -1);

    ssize_t got = seek ? read(fd, buf, n) : pread(fd, buf, n, (off_t)from);
    size_t want = 0;

    if (from < len)
        want = len - from < n ? len - from : n;

    if (got != (ssize_t)want)
        fail("read", got);

    compare("read", buf, from, want);
}

static void op_write(void)
{
    size_t n = amount();
    size_t from = place(&n);

    note("write", from, n);
    fill(n);

    struct iovec iov[2] = { { buf, n / 3 }, { buf + n / 3, n - n / 3 } };
    ssize_t got;

    switch (any(3)) {
    case 0:
        if (lseek(fd, (off_t)from, SEEK_SET) != (off_t)from)
            fail("lseek", -1);
        got = write(fd, buf, n);
        break;
    case 1:
        got = pwritev(fd, iov, 2, (off_t)from);
        break;
    default:
        got = pwrite(fd, buf, n, (off_t)from);
    }
    if (got != (ssize_t)n)
        fail("write", got);

    put(from, n);
}

static void op_truncate(void)
{
    size_t n = any(3) ? any((uint32_t)len + 1) : any(FILE_MAX);

    note("truncate", n, 0);
    if ((any(2) ? ftruncate(fd, (off_t)n) : truncate(file, (off_t)n)) != 0)
        fail("truncate", -1);

    if (n > len)
        memset(model + len, 0, n - len);

    len = n;
}

static void op_map_read(void)
{
    size_t n = amount();
    size_t page = 4096;
    size_t from = any((uint32_t)len + 1);

    if (len == 0 || !maps)
        return;

    if (from + n > len)
        n = len - from;

    size_t start = from / page * page;

    note("map and read", from, n);

    unsigned char *p = mmap(NULL, n + from - start + 1, PROT_READ,
                            any(2) ? MAP_SHARED : MAP_PRIVATE, fd, (off_t)start);

    if (p == MAP_FAILED)
        fail("mmap", -1);

    compare("map", p + (from - start), from, n);
    munmap(p, n + from - start + 1);
}

static void op_map_write(void)
{
    size_t n = amount();
    size_t page = 4096;
    size_t from = any((uint32_t)len + 1);

    if (len == 0 || !maps)
        return;

    if (from + n > len)
        n = len - from;

    if (n == 0)
        return;

    size_t start = from / page * page;
    size_t whole = n + from - start;

    note("map and write", from, n);

    unsigned char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);

    if (p == MAP_FAILED)
        fail("mmap for writing", -1);

    fill(n);
    memcpy(p + (from - start), buf, n);
    put(from, n);

    if (any(3) == 0) {
        if (msync(p, whole, MS_SYNC) != 0)
            fail("msync", -1);

        ssize_t got = pread(fd, buf, n, (off_t)from);

        if (got != (ssize_t)n)
            fail("pread after msync", got);

        compare("read after msync", buf, from, n);
    }

    if (munmap(p, whole) != 0)
        fail("munmap", -1);
}

static void op_zero(void)
{
    size_t n = amount();
    size_t from = any((uint32_t)len + 1);

    if (from + n > len)
        n = len - from;

    if (n == 0)
        return;

    note("punch", from, n);
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)n) != 0) {
        if (errno == EOPNOTSUPP)
            return;

        fail("fallocate", -1);
    }

    memset(model + from, 0, n);
}

static void op_copy(void)
{
    size_t n = amount();
    size_t from, to;

    if (len < 100)
        return;

    from = any((uint32_t)len / 2);
    if (n > len / 2 - from % (len / 2))
        n = len / 2 - from;

    to = len / 2 + any((uint32_t)(FILE_MAX - len / 2 - n + 1));
    if (n == 0 || from + n > to || to + n > FILE_MAX)
        return;

    off_t in = (off_t)from;
    off_t out = (off_t)to;

    note("copy", from, n);

    ssize_t got = copy_file_range(fd, &in, fd, &out, n, 0);

    if (got <= 0)
        fail("copy_file_range", got);

    memcpy(buf, model + from, (size_t)got);
    put(to, (size_t)got);
}

static void op_again(void)
{
    note("close and open", 0, 0);
    if (close(fd) != 0)
        fail("close", -1);

    fd = open(file, O_RDWR);
    if (fd < 0)
        fail("open", -1);
}

static void op_look(void)
{
    struct stat st;

    note("fstat", 0, 0);
    if ((any(2) ? fstat(fd, &st) : stat(file, &st)) != 0 || st.st_size != (off_t)len)
        fail("stat: size", (long)st.st_size);

    if (any(20) == 0 && fsync(fd) != 0)
        fail("fsync", -1);
}

int main(int argc, char **argv)
{
    static void (*const ops[])(void) = { op_read,  op_read,     op_read,     op_write,     op_write,
                                         op_write, op_truncate, op_map_read, op_map_write, op_zero,
                                         op_copy,  op_look,     op_look };
    if (argc < 4)
        return 2;

    long n = atol(argv[2]);

    state = strtoull(argv[1], NULL, 10) * 2654435761U + 1;

    /* by fwd_both the directory comes third, and a scratch directory after it */
    char path[4096];
    struct stat st;

    snprintf(path, sizeof path, "%s%s", argv[3],
             stat(argv[3], &st) == 0 && S_ISDIR(st.st_mode) ? "/fsx" : "");
    file = path;
    fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);

    if (fd < 0) {
        perror(file);
        return 1;
    }

    for (count = 0; count < n; count++)
        if (any(200) == 0)
            op_again();
        else
            ops[any(sizeof ops / sizeof ops[0])]();

    printf("%ld operations, %zu bytes at the end\n", n, len);
    return close(fd) != 0;
}
