/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured clocks of a job's hosts, and a host's time as the job's.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: see reader.h.
 */
#ifndef AMPH_IOFWD_TRACE_CLOCKS_H
#define AMPH_IOFWD_TRACE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One measurement. */
struct amph_trace_clock {
    uint64_t number; /* of the clock */
    int64_t base_ns; /* from the launcher's monotonic clock to its real one */
    uint64_t at_ns;  /* of the host */
    int64_t offset_ns;
    uint64_t error_ns;
};

struct amph_trace_clocks {
    struct amph_trace_clock *all; /* by number and time */
    size_t n, room;
};

/* How a host's times become the job's. */
struct amph_trace_axis {
    const struct amph_trace_clock *point;
    size_t n;          /* 0: none was measured, and fixed_ns holds */
    int64_t fixed_ns;  /* to add */
    uint64_t error_ns; /* bound of the error; UINT64_MAX: not known */
};

/* Adds what a file of clocks says.  false: why says what is wrong with it, or that there is no memory. */
bool amph_trace_clocks_add(struct amph_trace_clocks *clocks, const char *text, size_t len,
                           char *why, size_t why_len);

/* fixed_ns: for a host without a measured clock.  The axis is valid until clocks are added. */
struct amph_trace_axis amph_trace_axis_of(const struct amph_trace_clocks *clocks, uint64_t number,
                                          int64_t fixed_ns);
/* The job's time, as real time of the launcher's host. */
int64_t amph_trace_job_time(const struct amph_trace_axis *axis, uint64_t ns);

#endif
