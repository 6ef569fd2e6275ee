/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The quick clock of the tools (timer.h) and sleep.  Layer: extended.  Thread rule: any thread.
 *
 * The source of ticks is decided once, at the first tick.  The rate of x86's counter is found by
 * comparing it with CLOCK_MONOTONIC: one pair of readings is taken with the decision, the other at
 * the first conversion, at least 10 ms later; two readings of a pair lie some tens of nanoseconds
 * apart, so the rate is good to a few millionths.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "amphora/tools/timer.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/platform.h"

#define MEASURE_NS (10 * AMPH_NS_PER_MS)
#define PROBES 1000 /* readings of which granularity and cost are found */
#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

enum {
    UNDECIDED,
    COUNTER,
    CLOCK
};

int amphora_tick_source; /* one of the above; set once */

struct pair {
    uint64_t ticks, ns;
};

static struct pair first;       /* taken when COUNTER was decided */
static uint64_t ns_per_tick_32; /* times 2^32; 0: not known yet */

/* Reads both clocks as close together as a few attempts give. */
static struct pair read_pair(void)
{
    struct pair best = { 0, 0 };
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 10; i++) {
        uint64_t before = amph_cpu_counter();
        uint64_t ns = amph_now_ns();
        uint64_t after = amph_cpu_counter();

        if (after - before < least)
            best = (struct pair){ before + (after - before) / 2, ns }, least = after - before;
    }

    return best;
}

/* A kernel that keeps time by one of these has found the processors' counters to disagree. */
static bool kernel_distrusts(void)
{
    static const char *const clocks[] = { "hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit" };
    char name[32] = "";
    int fd = open(CLOCKSOURCE, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;

    ssize_t n = read(fd, name, sizeof name - 1);

    close(fd);
    name[n > 0 ? strcspn(name, "\n") : 0] = 0;

    for (size_t i = 0; i < AMPH_COUNTOF(clocks); i++)
        if (strcmp(name, clocks[i]) == 0)
            return true;

    return false;
}

static void decide(void)
{
    bool counter = amph_cpu_counter_invariant() && !kernel_distrusts();

    if (counter)
        first = read_pair();

    __atomic_store_n(&amphora_tick_source, counter ? COUNTER : CLOCK, __ATOMIC_RELEASE);
}

static int source(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, decide);
    return amphora_tick_source;
}

gasnett_tick_t amphora_ticks_slowly(void)
{
    return source() == COUNTER ? amph_cpu_counter() : amph_now_ns();
}

/* Nanoseconds times 2^32 of one tick. */
static uint64_t rate_of(double hz)
{
    return (uint64_t)((double)AMPH_NS_PER_S * 4294967296.0 / hz);
}

static void measure(void)
{
    double told = strtod(amph_env_str(AMPH_ENV_TSC_RATE), NULL);
    struct pair second;

    if (told >= 1e6 && told <= 1e11) {
        ns_per_tick_32 = rate_of(told);
        return;
    }

    if (amph_cpu_counter_hz()) {
        ns_per_tick_32 = rate_of((double)amph_cpu_counter_hz());
        return;
    }

    do
        second = read_pair();

    while (second.ns - first.ns < MEASURE_NS);
    ns_per_tick_32 = rate_of((double)(second.ticks - first.ticks) * (double)AMPH_NS_PER_S /
                             (double)(second.ns - first.ns));
}

uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (source() == CLOCK)
        return ticks;

    pthread_once(&once, measure);

    /* The product has up to 98 bits: by halves. */
    uint64_t high = (ticks >> 32) * ns_per_tick_32;
    uint64_t low = ticks & 0xffffffffu;

    return high + low * (ns_per_tick_32 >> 32) + (low * (ns_per_tick_32 & 0xffffffffu) >> 32);
}

double gasnett_tick_granularityus(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < PROBES; i++) {
        uint64_t a = gasnett_ticks_now();
        uint64_t b = gasnett_ticks_now();

        if (b > a && b - a < least)
            least = b - a;
    }

    uint64_t ns = gasnett_ticks_to_ns(least == UINT64_MAX ? 1 : least);

    return (double)(ns ? ns : 1) / 1e3;
}

double gasnett_tick_overheadus(void)
{
    uint64_t start = gasnett_ticks_now();

    for (int i = 0; i < PROBES; i++)
        (void)gasnett_ticks_now(); /* the counter is volatile: each reading is made */

    return (double)gasnett_ticks_to_ns(gasnett_ticks_now() - start) / 1e3 / PROBES;
}

int gasnett_nsleep(uint64_t ns_delay)
{
    struct timespec ts = { (time_t)(ns_delay / AMPH_NS_PER_S), (long)(ns_delay % AMPH_NS_PER_S) };

    if (ns_delay == 0)
        return 0;

    int err = clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
    if (err == 0)
        return 0;

    errno = err;
    return -1;
}
