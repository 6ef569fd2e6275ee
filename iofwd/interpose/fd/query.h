/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of a descriptor that may be forwarded or not.  Layer: iofwd (preload).  Thread rule: any thread. */
#ifndef AMPH_IOFWD_ANY_H
#define AMPH_IOFWD_ANY_H

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

/* Access mode and O_APPEND: what the kernel looks at first.  -1 with errno. */
static inline int fwd_any_flags(int fd)
{
    int flags = fwd_fd(fd) ? x_fcntl(fd, F_GETFL, NULL) : real_fcntl64(fd, F_GETFL, NULL);
    return flags >= 0 && (flags & O_PATH) ? fwd_fail(EBADF) : flags;
}

static inline int fwd_any_stat(int fd, struct stat *st)
{
    return fwd_fd(fd) ? x_fstat(fd, st) : real_fstat64(fd, st);
}

static inline bool fwd_may_read(int flags)
{
    return (flags & O_ACCMODE) != O_WRONLY;
}

static inline bool fwd_may_write(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY;
}

#endif
