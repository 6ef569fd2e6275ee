/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A quick clock, and sleep.  GASNet tools spec, "Timers", "Sleep".
 *
 * A tick is one step of the processor's time counter where that runs at one rate and never stops
 * (x86: an invariant TSC that the kernel trusts too; aarch64: the virtual counter); else a
 * nanosecond of CLOCK_MONOTONIC.  Only differences mean something, and only inside one host.
 */
#ifndef AMPHORA_TOOLS_TIMER_H
#define AMPHORA_TOOLS_TIMER_H

#include <stdint.h>

#include "amphora/tools/annotate.h"

AMPHORA_BEGIN_C

typedef uint64_t gasnett_tick_t;
#define GASNETT_TICK_MIN ((gasnett_tick_t)0)
#define GASNETT_TICK_MAX UINT64_MAX

/* What ticks_now reads: 0 not decided yet, 1 the processor's counter, 2 the system's clock. */
extern int amphora_tick_source;
gasnett_tick_t amphora_ticks_slowly(void);

AMPHORA_INLINE gasnett_tick_t gasnett_ticks_now(void)
{
#if defined(PLATFORM_ARCH_X86_64) || defined(PLATFORM_ARCH_X86)
    if (AMPHORA_LIKELY(amphora_tick_source == 1))
        return __builtin_ia32_rdtsc();
#elif defined(PLATFORM_ARCH_AARCH64)
    if (AMPHORA_LIKELY(amphora_tick_source == 1)) {
        gasnett_tick_t t;

        __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(t));
        return t;
    }
#endif
    return amphora_ticks_slowly();
}

/* A difference of ticks in time, rounded down.  Where the rate of the processor's counter has to be
 * measured, the first 10 ms after the first tick (or the start of the runtime) know it to some
 * ten-thousandths, later calls to some millionths. */
uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks);
#define gasnett_ticks_to_us(ticks) (gasnett_ticks_to_ns(ticks) / 1000)

/* The smallest difference that can be seen, and what one gasnett_ticks_now costs, in
 * microseconds. */
double gasnett_tick_granularityus(void);
double gasnett_tick_overheadus(void);

/* Microseconds of the time of day (UTC, since 1970): to compare with other programs, not to measure;
 * the system may set it back. */
uint64_t gasnett_gettimeofday_us(void);

/* Sleeps for at least ns_delay nanoseconds.  Returns 0, or non-zero with errno EINTR if a signal
 * ended it early. */
int gasnett_nsleep(uint64_t ns_delay);

AMPHORA_END_C

#endif
