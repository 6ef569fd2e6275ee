/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's clock: CLOCK_MONOTONIC, which a thread reads now and then; between two readings the
 * processor's time counter, at the rate that the last two readings gave, takes its place.
 *
 * Layer: iofwd (interposer).  Thread rule: a clock belongs to one thread.
 *
 * A reading of the counter costs a third of one of the clock.  Times of one thread never go backwards.
 */
#ifndef AMPH_IOFWD_RECORD_CLOCK_H
#define AMPH_IOFWD_RECORD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

struct amph_ip_clock {
    uint64_t base_ticks, base_ns; /* of the last reading; base_ns may be ahead of it */
    uint64_t read_ns;             /* what the clock said then */
    uint64_t span_ticks;          /* that the rate holds for from there; 0: read the clock */
    uint64_t rate;                /* nanoseconds of a tick, times 2^32 */
};

/* May the counter be used on this host?  It may where the kernel keeps its own time by it. */
bool amph_ip_clock_has_counter(void);

/* The number of this process's clock (base/os/host_clock.h); 0: not known. */
uint64_t amph_ip_clock_number(void);

/* CLOCK_MONOTONIC itself. */
uint64_t amph_ip_clock_plain(void);
uint64_t amph_ip_clock_read(struct amph_ip_clock *clock);

static inline uint64_t amph_ip_clock_now(struct amph_ip_clock *clock)
{
    uint64_t since = amph_cpu_counter() - clock->base_ticks;

    if (AMPH_LIKELY(since < clock->span_ticks))
        return clock->base_ns + (since * clock->rate >> 32);

    return amph_ip_clock_read(clock);
}

#endif
