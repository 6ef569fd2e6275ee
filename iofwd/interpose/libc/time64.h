/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of 64 bits on machines whose C library has 32 (libc/time64.c).  This header uses no
 * structure of the C library that contains a time, because those differ between libc/time64.c and
 * the other files.
 *
 * Layer: iofwd (preload).  Thread rule: as the calls.
 */
#ifndef AMPH_IOFWD_LONG_H
#define AMPH_IOFWD_LONG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

#define AMPH_IP_LONG_TIMES (__TIMESIZE == 32)

struct statx;
struct amph_ip_stat_long;
struct amph_ip_timespec_long;
struct amph_ip_timeval_long;
struct amph_ip_utimbuf_long;

int amph_do_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx);
int amph_do_fstatat_long(int dir, const char *path, struct amph_ip_stat_long *st, int flags);
/* path NULL: the file dir itself */
int amph_do_utimensat_long(int dir, const char *path, const struct amph_ip_timespec_long *times,
                           int flags);
int amph_do_utimes_long(int dir, const char *path, const struct amph_ip_timeval_long *times,
                        int flags);
int amph_do_utime_long(const char *path, const struct amph_ip_utimbuf_long *times);

/* Called from libc/time64.c: amph_do_utimensat, or amph_do_futimens if path is NULL. */
struct amph_ip_short_time {
    int32_t sec, nsec;
};

int amph_ip_set_times(int dir, const char *path, const struct amph_ip_short_time *times, int flags);

#endif
