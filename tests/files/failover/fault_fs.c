/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded into a process whose file system is to have faults: a file whose name begins with
 * an error's (EDQUOT, EIO, ENOSPC, EFBIG) takes 100,000 bytes and then gives that error; one named
 * EINTR is interrupted at every second write before anything is done; fsync of one named SYNC gives
 * EIO; one named SLOW takes its time for writes below 1000 bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    LIMIT = 100000,
    VECTORS = 64
};

static const struct fault {
    const char *name;
    int error; /* of writes; negative: what the first comment says */
} faults[] = {
    { "EDQUOT", EDQUOT }, { "EIO", EIO },   { "ENOSPC", ENOSPC }, { "EFBIG", EFBIG },
    { "EINTR", EINTR },   { "SYNC", -EIO }, { "SLOW", -ETIME },
};

static int fault_of(int fd)
{
    char link[40], path[4096];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);

    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return 0;

    path[n] = 0;

    const char *last = strrchr(path, '/');

    for (size_t i = 0; last && i < sizeof faults / sizeof *faults; i++)
        if (strncmp(last + 1, faults[i].name, strlen(faults[i].name)) == 0)
            return faults[i].error;

    return 0;
}

/* How much of a write may be done, or -1 with errno.  at -1: at the offset. */
static ssize_t allowed(int fd, off_t at, size_t len)
{
    static _Atomic int turn; /* of all threads: a busy server passes calls on to workers */
    int error = fault_of(fd);

    if (error == -ETIME && len < 1000)
        usleep(100000);

    if (error == EINTR && turn++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }

    if (error <= 0 || error == EINTR || len == 0)
        return (ssize_t)len;

    if (at < 0)
        at = lseek(fd, 0, SEEK_CUR);

    if (at >= LIMIT) {
        errno = error;
        return -1;
    }

    return (ssize_t)(len < (size_t)(LIMIT - at) ? len : (size_t)(LIMIT - at));
}

static ssize_t vector(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);

    struct iovec part[VECTORS];
    size_t len = 0;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pwritev64v2");

    for (int i = 0; i < n; i++)
        len += v[i].iov_len;

    ssize_t left = allowed(fd, at, len);
    if (left < 0 || n > VECTORS)
        return left < 0 ? -1 : real(fd, v, n, at, flags);

    for (int i = 0; i < n; i++) {
        part[i] = v[i];
        part[i].iov_len = v[i].iov_len < (size_t)left ? v[i].iov_len : (size_t)left;
        left -= (ssize_t)part[i].iov_len;
    }

    return real(fd, part, n, at, flags);
}

static ssize_t flat(int fd, const void *data, size_t len, off_t at)
{
    return vector(fd, &(struct iovec){ (void *)data, len }, 1, at, 0);
}

ssize_t write(int fd, const void *data, size_t len)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");

    ssize_t n = allowed(fd, -1, len);

    return n < 0 ? -1 : real(fd, data, (size_t)n);
}

/* From a pipe, as large writes come. */
ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags)
{
    static ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "splice");

    ssize_t n = allowed(to, to_at ? (off_t)*to_at : -1, len);

    return n < 0 ? -1 : real(from, from_at, to, to_at, (size_t)n, flags);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return flat(fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off_t at)
{
    return flat(fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    return vector(fd, v, n, -1, 0);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    return vector(fd, v, n, at, 0);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at)
{
    return vector(fd, v, n, at, 0);
}

ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    return vector(fd, v, n, at, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
    return vector(fd, v, n, at, flags);
}

int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");

    if (fault_of(fd) == -EIO) {
        errno = EIO;
        return -1;
    }

    return real(fd);
}
