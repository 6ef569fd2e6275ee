/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RLIMIT_FSIZE.  It belongs to the calling process, so no server knows it, and it is checked here.
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

/* Called by the next function if there is a limit. */
bool amph_ip_fit_limit(int fd, size_t *len_p, off_t off, bool append);

/* Checks a write of *len_p bytes and shortens it to the limit.  off -1: at the offset.  false: no
 * byte may be written; SIGXFSZ was raised and errno is EFBIG. */
static inline bool amph_ip_within_limit(int fd, size_t *len_p, off_t off, bool append)
{
    return AMPH_LIKELY(!amph_ip_is_limited()) || amph_ip_fit_limit(fd, len_p, off, append);
}

/* Returns whether a file (of path, or of fd if path is NULL) may become this long.  Other errors
 * are reported by its server. */
bool amph_ip_may_grow(int fd, const char *path, off_t length);

#endif
