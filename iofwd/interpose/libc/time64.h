/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of 64 bits where the C library's own have 32 (libc/time64.c).  It names no record of the C
 * library that has a time, since those differ between libc/time64.c and the other files.  Layer:
 * iofwd (preload).  Thread rule: as the calls.
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

/* The way back: amph_do_utimensat, or amph_do_futimens where path is NULL. */
struct amph_ip_short_time {
    int32_t sec, nsec;
};

int amph_ip_set_times(int dir, const char *path, const struct amph_ip_short_time *times, int flags);

#endif
