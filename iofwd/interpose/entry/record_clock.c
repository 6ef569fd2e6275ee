/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's clock; see record_clock.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record_clock.h.
 */
#include "iofwd/interpose/entry/record_clock.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/os/host_clock.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/state.h"

enum {
    SHORTEST_NS = 2000000, /* between two readings that give a rate */
    LONGEST_NS = 64000000, /* that a rate is used for */
    TRIES = 4
};

bool amph_ip_clock_has_counter(void)
{
    static const char source[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    char name[16] = "";

    if (!amph_cpu_counter_invariant())
        return false;

    int fd = amph_ip_kernel_openat(AT_FDCWD, source, O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return false;

    ssize_t n = amph_ip_kernel_read(fd, name, sizeof name - 1);

    amph_ip_kernel_close(fd);
    return n > 0 && (strncmp(name, "tsc\n", 4) == 0 || strncmp(name, "arch_sys", 8) == 0);
}

uint64_t amph_ip_clock_number(void)
{
    char boot[AMPH_HOST_CLOCK_BYTES], space[AMPH_HOST_CLOCK_BYTES];
    ssize_t boot_len = -1;
    int fd = amph_ip_kernel_openat(AT_FDCWD, AMPH_HOST_CLOCK_BOOT, O_RDONLY | O_CLOEXEC, 0);

    if (fd >= 0) {
        boot_len = amph_ip_kernel_read(fd, boot, sizeof boot);
        amph_ip_kernel_close(fd);
    }

    ssize_t space_len = amph_ip_kernel_readlink(AMPH_HOST_CLOCK_SPACE, space, sizeof space);

    return amph_host_clock_number(boot, boot_len, space, space_len);
}

uint64_t amph_ip_clock_plain(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Both at one moment: the pair that was read within the shortest time. */
static void read_both(uint64_t *ticks_p, uint64_t *ns_p)
{
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = amph_cpu_counter();
        uint64_t now_ns = amph_ip_clock_plain();
        uint64_t took = amph_cpu_counter() - before;

        if (took < shortest) {
            shortest = took;
            *ticks_p = before + took / 2;
            *ns_p = now_ns;
        }
    }
}

/* The rate between the last reading and this one is used for at most twice that time.  If the times
 * given out were ahead of the clock, the next ones run slower until they agree with it. */
static void set_rate(struct amph_ip_clock *clock, uint64_t ticks, uint64_t ns)
{
    uint64_t passed_ticks = ticks - clock->base_ticks;
    uint64_t passed_ns = ns - clock->read_ns;
    uint64_t within = passed_ticks < clock->span_ticks ? passed_ticks : clock->span_ticks;
    uint64_t given_ns = clock->base_ns + (within * clock->rate >> 32);
    uint64_t ahead_ns = given_ns > ns ? given_ns - ns : 0;
    uint64_t span_ns = passed_ns < LONGEST_NS / 2 ? passed_ns * 2 : (uint64_t)LONGEST_NS;
    double ns_per_tick = (double)passed_ns / (double)passed_ticks;

    clock->span_ticks = (uint64_t)((double)span_ns / ns_per_tick);
    if (ahead_ns < span_ns / 2)
        ns_per_tick *= 1 - (double)ahead_ns / (double)span_ns;

    clock->rate = (uint64_t)(ns_per_tick * 4294967296.0);
    clock->base_ticks = ticks;
    clock->base_ns = ns + ahead_ns;
    clock->read_ns = ns;
}

uint64_t amph_ip_clock_read(struct amph_ip_clock *clock)
{
    uint64_t ticks = 0;
    uint64_t ns = amph_ip_clock_plain();

    if (!amph_ip_state.recorder.has_counter ||
        (clock->read_ns && ns - clock->read_ns < SHORTEST_NS))
        return ns > clock->base_ns ? ns : clock->base_ns;

    read_both(&ticks, &ns);
    if (clock->read_ns && ticks > clock->base_ticks)
        set_rate(clock, ticks, ns);
    else
        *clock = (struct amph_ip_clock){ .base_ticks = ticks, .base_ns = ns, .read_ns = ns };

    return clock->base_ns;
}
