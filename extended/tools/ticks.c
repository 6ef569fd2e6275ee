/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast clock of the tools (timer.h), and sleep.
 *
 * Layer: extended.  Thread rule: any thread.
 *
 * The source of ticks is chosen once, at the first tick or at the start of the runtime.  The rate of
 * x86's counter is measured against CLOCK_MONOTONIC: one pair of readings is taken when the source is
 * chosen, another at a conversion.  The two readings of a pair are some tens of nanoseconds apart, so
 * after 10 ms the error of the rate is a few millionths, and that rate is kept.  Earlier conversions
 * measure for themselves, to some ten-thousandths: waiting would show in what a client measures.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "amphora/tools/timer.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/platform.h"
#include "extended/tools/tools.h"

#define MEASURE_NS (10 * AMPH_NS_PER_MS)
#define MEASURE_MIN_NS (100 * AMPH_NS_PER_US)
#define PROBES 1000 /* readings from which granularity and overhead are computed */
#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

enum {
    UNDECIDED,
    COUNTER,
    CLOCK
};

int amphora_tick_source; /* one of the values above; set once */

/* Reads counter and clock; of ten attempts, the one with the shortest time between the readings. */
static struct amph_tools_ticks read_pair(void)
{
    struct amph_tools_ticks best = { 0, 0 };
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < 10; i++) {
        uint64_t before = amph_cpu_counter();
        uint64_t ns = amph_now_ns();
        uint64_t after = amph_cpu_counter();

        if (after - before < shortest) {
            shortest = after - before;
            best = (struct amph_tools_ticks){ before + shortest / 2, ns };
        }
    }

    return best;
}

/* Does the kernel keep time by a clock that it uses only if the processors' counters disagree? */
static bool kernel_avoids_counter(void)
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
    bool counter = amph_cpu_counter_invariant() && !kernel_avoids_counter();

    if (counter)
        amph_tools_state.ticks.first = read_pair();

    __atomic_store_n(&amphora_tick_source, counter ? COUNTER : CLOCK, __ATOMIC_RELEASE);
}

static int source(void)
{
    pthread_once(&amph_tools_state.ticks.decided, decide);
    return amphora_tick_source;
}

void amph_tools_start_ticks(void)
{
    (void)source();
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

/* The counter's rate in Hz as set by the user or as the processor states it; 0: neither. */
static double stated_hz(void)
{
    double setting = strtod(amph_env_str(AMPH_ENV_TSC_RATE), NULL);

    return setting >= 1e6 && setting <= 1e11 ? setting : (double)amph_cpu_counter_hz();
}

/* The rate as measured since the first pair.  *final_p: after a time that makes it exact. */
static double measured_hz(bool *final_p)
{
    const struct amph_tools_ticks first = amph_tools_state.ticks.first;
    struct amph_tools_ticks second;

    do {
        second = read_pair();
    } while (second.ns - first.ns < MEASURE_MIN_NS);

    *final_p = second.ns - first.ns >= MEASURE_NS;
    return (double)(second.counter - first.counter) * (double)AMPH_NS_PER_S /
           (double)(second.ns - first.ns);
}

static uint64_t rate_now(void)
{
    uint64_t *kept = &amph_tools_state.ticks.ns_per_tick_32;
    uint64_t rate = __atomic_load_n(kept, __ATOMIC_RELAXED);

    if (rate)
        return rate;

    double hz = stated_hz();
    bool final = hz > 0;

    if (!final)
        hz = measured_hz(&final);

    rate = rate_of(hz);
    if (final)
        __atomic_store_n(kept, rate, __ATOMIC_RELAXED);

    return rate;
}

uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks)
{
    if (source() == CLOCK)
        return ticks;

    /* the product has up to 98 bits, so the factors are multiplied in halves */
    uint64_t rate = rate_now();
    uint64_t high = (ticks >> 32) * rate;
    uint64_t low = ticks & 0xffffffffu;

    return high + low * (rate >> 32) + (low * (rate & 0xffffffffu) >> 32);
}

double gasnett_tick_granularityus(void)
{
    uint64_t smallest = UINT64_MAX;

    for (int i = 0; i < PROBES; i++) {
        uint64_t a = gasnett_ticks_now();
        uint64_t b = gasnett_ticks_now();

        if (b > a && b - a < smallest)
            smallest = b - a;
    }

    uint64_t ns = gasnett_ticks_to_ns(smallest == UINT64_MAX ? 1 : smallest);

    return (double)(ns ? ns : 1) / 1e3;
}

double gasnett_tick_overheadus(void)
{
    uint64_t start = gasnett_ticks_now();

    for (int i = 0; i < PROBES; i++)
        (void)gasnett_ticks_now(); /* the counter is volatile: each reading is made */

    return (double)gasnett_ticks_to_ns(gasnett_ticks_now() - start) / 1e3 / PROBES;
}

uint64_t gasnett_gettimeofday_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
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
