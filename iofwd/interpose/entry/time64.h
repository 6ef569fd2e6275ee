/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of 64 bits where the C library's own have 32 (entry/time64.c).  It names no record of the C library that has a time, since those
 * differ between entry/time64.c and the other files.  Layer: iofwd (preload).  Thread rule: as the calls.
 */
#ifndef AMPH_IOFWD_LONG_H
#define AMPH_IOFWD_LONG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

#define FWD_LONG_TIMES (__TIMESIZE == 32)

struct statx;
struct fwd_stat_long;
struct fwd_timespec_long;
struct fwd_timeval_long;
struct fwd_utimbuf_long;

int x_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx);
int x_fstatat_long(int dir, const char *path, struct fwd_stat_long *st, int flags);
int x_utimensat_long(int dir, const char *path, const struct fwd_timespec_long *times, int flags); /* path NULL: the file dir itself */
int x_utimes_long(int dir, const char *path, const struct fwd_timeval_long *times, int flags);
int x_utime_long(const char *path, const struct fwd_utimbuf_long *times);

/* The way back: x_utimensat, or x_futimens where path is NULL. */
struct fwd_short_time {
    int32_t sec, nsec;
};
int fwd_set_times(int dir, const char *path, const struct fwd_short_time *times, int flags);

#endif
