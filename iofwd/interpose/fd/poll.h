/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time and readiness for the waits of poll.c and epoll.c.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_READY_H
#define AMPH_IOFWD_READY_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Returns whether fd is a forwarded FIFO or device, whose readiness only its server knows. */
bool amph_ip_waits(int fd);

/* Times of the monotonic clock in ns: the end of a wait (limit NULL: INT64_MAX, no end), the time left
 * until it, and that as a timespec. */
int64_t amph_ip_until(const struct timespec *limit);
int64_t amph_ip_left(int64_t until);
struct timespec amph_ip_span(int64_t ns);

#endif
