/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A preload library for an I/O server in fwd_splice.sh: what kernels, file systems and limits may do
 * to pipes.  SPLICE_FAULT is one of
 *   refused  splice gives EINVAL, as to a file system that takes no data from pipes
 *   partial  splice moves a part of what it is asked for
 *   broken   every third splice moves a part and the next one gives EDQUOT
 *   limited  no pipe may have more than its first size, as beyond pipe-user-pages-soft
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *what)
{
    const char *fault = getenv("SPLICE_FAULT");

    return fault && strcmp(fault, what) == 0;
}

ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags)
{
    static __thread unsigned calls;
    ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned) = (ssize_t(*)(
        int, off64_t *, int, off64_t *, size_t, unsigned))dlsym(RTLD_NEXT, "splice");

    calls++;
    if (is("refused")) {
        errno = EINVAL;
        return -1;
    }

    if (is("broken") && calls % 4 == 3) {
        errno = EDQUOT;
        return -1;
    }

    if ((is("partial") || (is("broken") && calls % 4 == 2)) && len > 70001)
        len = 70001;

    return real(from, from_at, to, to_at, len, flags);
}

int fcntl64(int fd, int request, ...)
{
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
    va_list more;

    va_start(more, request);

    void *arg = va_arg(more, void *);

    va_end(more);
    if (request == F_SETPIPE_SZ && is("limited")) {
        errno = EPERM;
        return -1;
    }

    return real(fd, request, arg);
}

int fcntl(int fd, int request, ...)
{
    va_list more;

    va_start(more, request);

    void *arg = va_arg(more, void *);

    va_end(more);
    return fcntl64(fd, request, arg);
}
