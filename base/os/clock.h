/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time in nanoseconds.  Layer: base.  Thread rule: callable anywhere. */
#ifndef AMPH_BASE_CLOCK_H
#define AMPH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define AMPH_NS_PER_S UINT64_C(1000000000)
#define AMPH_NS_PER_MS UINT64_C(1000000)
#define AMPH_NS_PER_US UINT64_C(1000)

static inline uint64_t amph_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * AMPH_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
