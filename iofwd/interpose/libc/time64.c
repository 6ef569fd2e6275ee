/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls with times of 64 bits, which programs of 32-bit machines may make although this library is
 * built with the shorter form.  Only this file is built with the longer form.  It therefore uses no
 * structure with a time that other files fill in, except that of statx, which has one form.  On
 * other machines the file is empty.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#undef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "iofwd/interpose/libc/time64.h"

#if AMPH_IP_LONG_TIMES
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <utime.h>

static struct timespec of_statx(struct statx_timestamp t)
{
    return (struct timespec){ .tv_sec = t.tv_sec, .tv_nsec = (long)t.tv_nsec };
}

int amph_do_fstatat_long(int dir, const char *path, struct amph_ip_stat_long *out, int flags)
{
    struct statx stx;

    if (amph_do_statx(dir, path, flags, STATX_BASIC_STATS, &stx) != 0)
        return -1;

    *(struct stat *)out = (struct stat){
        .st_dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
        .st_rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor),
        .st_ino = stx.stx_ino,
        .st_mode = stx.stx_mode,
        .st_nlink = stx.stx_nlink,
        .st_uid = stx.stx_uid,
        .st_gid = stx.stx_gid,
        .st_size = (off_t)stx.stx_size,
        .st_blksize = (blksize_t)stx.stx_blksize,
        .st_blocks = (blkcnt_t)stx.stx_blocks,
        .st_atim = of_statx(stx.stx_atime),
        .st_mtim = of_statx(stx.stx_mtime),
        .st_ctim = of_statx(stx.stx_ctime),
    };
    return 0;
}

/* Sets times as amph_do_utimensat does, if they fit.  path NULL: the file dir itself. */
static int set_times(int dir, const char *path, const struct timespec *times, int flags)
{
    struct amph_ip_short_time t[2];

    for (int i = 0; times && i < 2; i++) {
        t[i] = (struct amph_ip_short_time){ .sec = (int32_t)times[i].tv_sec,
                                            .nsec = (int32_t)times[i].tv_nsec };

        bool counts = times[i].tv_nsec != UTIME_NOW && times[i].tv_nsec != UTIME_OMIT;

        if (counts && t[i].sec != times[i].tv_sec) {
            errno = EOVERFLOW;
            return -1;
        }
    }

    return amph_ip_set_times(dir, path, times ? t : NULL, flags);
}

int amph_do_utimensat_long(int dir, const char *path, const struct amph_ip_timespec_long *times,
                           int flags)
{
    return set_times(dir, path, (const struct timespec *)times, flags);
}

int amph_do_utimes_long(int dir, const char *path, const struct amph_ip_timeval_long *times,
                        int flags)
{
    const struct timeval *tv = (const struct timeval *)times;
    struct timespec ts[2];

    for (int i = 0; tv && i < 2; i++) {
        if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000) {
            errno = EINVAL;
            return -1;
        }

        ts[i] = (struct timespec){ .tv_sec = tv[i].tv_sec, .tv_nsec = (long)tv[i].tv_usec * 1000 };
    }

    return set_times(dir, path, tv ? ts : NULL, flags);
}

int amph_do_utime_long(const char *path, const struct amph_ip_utimbuf_long *times)
{
    const struct utimbuf *t = (const struct utimbuf *)times;
    struct timespec ts[2] = { { .tv_sec = t ? t->actime : 0 }, { .tv_sec = t ? t->modtime : 0 } };

    return set_times(AT_FDCWD, path, t ? ts : NULL, 0);
}
#endif
