/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the times of files, in all the forms of the interface.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <utime.h>

#include "iofwd/calls/names.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"

#define CLIENT amph_ip_client.client

/* UTIME_OMIT twice: the kernel does nothing and does not look the file up. */
static bool omits_both(const struct timespec *times)
{
    return times && times[0].tv_nsec == UTIME_OMIT && times[1].tv_nsec == UTIME_OMIT;
}

int amph_do_utimensat(int dir, const char *path, const struct timespec *times, int flags)
{
    struct amph_ip_resolved w;
    int err;

    if (times && !amph_ip_can_read(times, 2 * sizeof *times))
        return amph_ip_fail(EFAULT);

    /* the kernel accepts a NULL path (futimens); the C library does not */
    if (!path && (dir == AT_FDCWD || amph_ip_fd(dir)))
        return amph_ip_fail(EINVAL);
    if (!path)
        return libc_utimensat(dir, path, times, flags);

    if (omits_both(times))
        return 0;
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return amph_ip_fail(EINVAL);
    if (!amph_ip_resolve_near(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;
    if (!w.local && amph_ip_near_utimens(&w, times, flags, &err))
        return amph_ip_resolve_end(&w, err);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (!w.local) {
        err = amph_ip_client.fwd.utimens(CLIENT, AMPH_IP_AT(&w), times,
                                         flags & AT_SYMLINK_NOFOLLOW);
        if (!amph_ip_went_out(&w, err, flags & AT_SYMLINK_NOFOLLOW))
            return amph_ip_resolve_end(&w, err);
    }

    return libc_utimensat(w.dirfd, w.path, times, flags);
}

int amph_do_futimens(int fd, const struct timespec *times)
{
    struct amph_fd_file *of;

    if (times && !amph_ip_can_read(times, 2 * sizeof *times))
        return amph_ip_fail(EFAULT);
    if (omits_both(times))
        return 0;

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.futimens(CLIENT, &of->file, times));
}

/* Returns 0, or -1 with EINVAL (microseconds out of range) or EFAULT. */
static int from_timeval(const struct timeval tv[2], struct timespec ts[2])
{
    if (tv && !amph_ip_can_read(tv, 2 * sizeof *tv))
        return amph_ip_fail(EFAULT);

    for (int i = 0; tv && i < 2; i++) {
        if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
            return amph_ip_fail(EINVAL);

        ts[i] = (struct timespec){ .tv_sec = tv[i].tv_sec, .tv_nsec = tv[i].tv_usec * 1000 };
    }

    return 0;
}

int amph_do_utimes(int dir, const char *path, const struct timeval *times, int flags)
{
    struct timespec ts[2];

    if (from_timeval(times, ts))
        return -1;

    return amph_do_utimensat(dir, path, times ? ts : NULL, flags);
}

int amph_do_futimes(int fd, const struct timeval *times)
{
    struct timespec ts[2];

    if (from_timeval(times, ts))
        return -1;

    return amph_do_futimens(fd, times ? ts : NULL);
}

/* Without a path it is about the descriptor, as the kernel's utimensat; the C library's own is not. */
int amph_do_futimesat(int dir, const char *path, const struct timeval *times)
{
    return path ? amph_do_utimes(dir, path, times, 0) : amph_do_futimes(dir, times);
}

int amph_do_utime(const char *path, const struct utimbuf *times)
{
    if (times && !amph_ip_can_read(times, sizeof *times))
        return amph_ip_fail(EFAULT);

    struct timespec ts[2] = { { .tv_sec = times ? times->actime : 0 },
                              { .tv_sec = times ? times->modtime : 0 } };

    return amph_do_utimensat(AT_FDCWD, path, times ? ts : NULL, 0);
}

int amph_ip_set_times(int dir, const char *path, const struct amph_ip_short_time *times, int flags)
{
    struct timespec ts[2];
    const struct timespec *given = times ? ts : NULL;

    for (int i = 0; times && i < 2; i++)
        ts[i] = (struct timespec){ .tv_sec = times[i].sec, .tv_nsec = times[i].nsec };

    return path ? amph_do_utimensat(dir, path, given, flags) : amph_do_futimens(dir, given);
}
