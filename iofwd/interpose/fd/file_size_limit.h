/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RLIMIT_FSIZE, which is the calling process's and which no server knows.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_FSIZE_H
#define AMPH_IOFWD_FSIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/state.h"

static inline bool amph_ip_is_limited(void)
{
    return __atomic_load_n(&amph_ip_state.file_size_limit, __ATOMIC_RELAXED) != UINT64_MAX;
}

/* The slow way of the next one. */
bool amph_ip_fit_limit(int fd, size_t *len_p, off_t off, bool append);

/* A write of *len_p bytes, which may become fewer.  off -1: at the offset.  false: none may be
 * written, which SIGXFSZ and EFBIG have said. */
static inline bool amph_ip_within_limit(int fd, size_t *len_p, off_t off, bool append)
{
    return AMPH_LIKELY(!amph_ip_is_limited()) || amph_ip_fit_limit(fd, len_p, off, append);
}

/* May a file (of path, or where that is NULL of fd) become this long?  What is wrong with it
 * otherwise, its server says. */
bool amph_ip_may_grow(int fd, const char *path, off_t length);

#endif
