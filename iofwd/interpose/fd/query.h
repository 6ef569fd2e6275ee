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
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/wire/file.h"

/* Returns the kernel's number of a command of fcntl.  On 64-bit PowerPC programs that are built for large files have
 * other numbers for record locks, which the C library converts. */
static inline int amph_ip_kernel_command(int command)
{
    const bool is_lock64 = command >= F_GETLK64 && command <= F_SETLKW64;

    return AMPH_IP_WIDE && is_lock64 ? command - F_GETLK64 + F_GETLK : command;
}

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

/* Stores a descriptor's type, S_IFREG and the like. Asks the server for it only where the handle does not say it.
 * Returns 0, or -1 and errno. */
static inline int amph_ip_fd_type(int fd, mode_t *type_p)
{
    struct amph_fd_file *of = amph_ip_fd(fd) ? amph_fdtab_get(fd) : NULL;
    struct stat st;

    *type_p = of && __atomic_load_n(&of->ready, __ATOMIC_ACQUIRE) ? amph_fwd_file_type(&of->file)
                                                                  : 0;
    if (of)
        amph_fdtab_put(of);

    if (*type_p)
        return 0;
    if (amph_ip_fd_stat(fd, &st) != 0)
        return -1;

    *type_p = st.st_mode & S_IFMT;
    return 0;
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
