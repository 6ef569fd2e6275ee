/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries of a descriptor that may be local or forwarded.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_ANY_H
#define AMPH_IOFWD_ANY_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

/* Returns the flags of fd, which the kernel checks first in a copy; -1 and errno on failure. */
static inline int amph_ip_fd_flags(int fd)
{
    int flags = amph_ip_fd(fd) ? amph_do_fcntl(fd, F_GETFL, NULL) : libc_fcntl64(fd, F_GETFL, NULL);
    return flags >= 0 && (flags & O_PATH) ? amph_ip_fail(EBADF) : flags;
}

/* Returns whether a forwarded descriptor was opened with O_PATH.  Its placeholder was, too. */
static inline bool amph_ip_is_path_only(int fd)
{
    int flags = amph_ip_kernel_fcntl(fd, F_GETFL, NULL);

    return flags >= 0 && (flags & O_PATH);
}

static inline int amph_ip_fd_stat(int fd, struct stat *st)
{
    return amph_ip_fd(fd) ? amph_do_fstat(fd, st) : libc_fstat64(fd, st);
}

static inline bool amph_ip_may_read(int flags)
{
    return (flags & O_ACCMODE) != O_WRONLY;
}

static inline bool amph_ip_may_write(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY;
}

#endif
