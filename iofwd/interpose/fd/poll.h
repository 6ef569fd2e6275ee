/* SPDX-License-Identifier: BSD-3-Clause */
/* What the waits of fd/poll.c and epoll.c share.  Layer: iofwd (preload).  Thread rule: any thread,
 * and signal handlers. */
#ifndef AMPH_IOFWD_READY_H
#define AMPH_IOFWD_READY_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Is it a forwarded file of which only its server knows whether it is ready? */
bool amph_ip_waits(int fd);

/* Times of the monotonic clock, ns: the end of a wait (NULL: INT64_MAX, for ever), and how much is
 * left of it. */
int64_t amph_ip_until(const struct timespec *limit);
int64_t amph_ip_left(int64_t until);
struct timespec amph_ip_span(int64_t ns);

#endif
