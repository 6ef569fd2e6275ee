/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get between ranks 0 and 1.  Layer: tools.  Rank 1 polls until the sample is over. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnetex.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define WINDOW 64
#define WINDOW_BYTES (8u << 20)

/* Microseconds of one blocking put. */
double perf_put_lat(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    struct perf_batches b = { 0 };

    while (perf_batches_next(&b, perf_sample_ns(run)))
        for (unsigned i = 0; i < b.batch; i++)
            gex_RMA_PutBlocking(tm, 1, run->remote, run->buffer, bytes, 0);

    perf_am_release(run);
    return perf_batches_us(&b);
}

/* Microseconds of one blocking get. */
double perf_get_lat(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    struct perf_batches b = { 0 };

    while (perf_batches_next(&b, perf_sample_ns(run)))
        for (unsigned i = 0; i < b.batch; i++)
            gex_RMA_GetBlocking(tm, run->buffer, 1, run->remote, bytes, 0);

    perf_am_release(run);
    return perf_batches_us(&b);
}

static unsigned window_of(size_t bytes)
{
    return bytes * WINDOW <= WINDOW_BYTES ? WINDOW : (unsigned)(WINDOW_BYTES / bytes);
}

/* A window of puts or gets of one place. */
typedef void (*bandwidth_window)(struct perf_run *run, gex_TM_t tm, size_t bytes, unsigned count);

static inline __attribute__((always_inline)) double bandwidth(struct perf_run *run, size_t bytes,
                                                              bandwidth_window window)
{
    gex_TM_t tm;
    unsigned count = window_of(bytes);

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < perf_sample_ns(run); n += count, end = amph_now_ns())
        window(run, tm, bytes, count);

    perf_am_release(run);
    return (double)n * (double)bytes * 1e3 / (double)(end - start);
}

static void put_window(struct perf_run *run, gex_TM_t tm, size_t bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gex_RMA_PutNBI(tm, 1, run->remote, run->buffer, bytes, GEX_EVENT_DEFER, 0);

    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void get_window(struct perf_run *run, gex_TM_t tm, size_t bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gex_RMA_GetNBI(tm, run->buffer, 1, run->remote, bytes, 0);

    gex_NBI_Wait(GEX_EC_GET, 0);
}

double perf_put_bw(struct perf_run *run, size_t bytes)
{
    return bandwidth(run, bytes, put_window);
}

double perf_get_bw(struct perf_run *run, size_t bytes)
{
    return bandwidth(run, bytes, get_window);
}

/* Operations a microsecond: each one injected by a call of its own, windows of 64 waited for
 * together. */
static inline __attribute__((always_inline)) double rate(struct perf_run *run, size_t bytes,
                                                         void (*window)(struct perf_run *, gex_TM_t,
                                                                        size_t))
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < perf_sample_ns(run); end = amph_now_ns())
        for (unsigned i = 0; i < 16; i++, n += WINDOW)
            window(run, tm, bytes);

    perf_am_release(run);
    return (double)n * 1e3 / (double)(end - start);
}

/* Each operation has a place of its own, if there is room for all. */
static size_t stride(size_t bytes)
{
    return bytes * WINDOW <= PERF_MAX_BYTES ? bytes : 0;
}

static void put_nbi_window(struct perf_run *run, gex_TM_t tm, size_t bytes)
{
    const size_t step = stride(bytes);

    for (unsigned i = 0; i < WINDOW; i++)
        gex_RMA_PutNBI(tm, 1, run->remote + i * step, run->buffer + i * step, bytes,
                       GEX_EVENT_DEFER, 0);

    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void get_nbi_window(struct perf_run *run, gex_TM_t tm, size_t bytes)
{
    const size_t step = stride(bytes);

    for (unsigned i = 0; i < WINDOW; i++)
        gex_RMA_GetNBI(tm, run->buffer + i * step, 1, run->remote + i * step, bytes, 0);

    gex_NBI_Wait(GEX_EC_GET, 0);
}

static void put_nb_window(struct perf_run *run, gex_TM_t tm, size_t bytes)
{
    const size_t step = stride(bytes);
    gex_Event_t event[WINDOW];

    for (unsigned i = 0; i < WINDOW; i++)
        event[i] = gex_RMA_PutNB(tm, 1, run->remote + i * step, run->buffer + i * step, bytes,
                                 GEX_EVENT_DEFER, 0);

    gex_Event_WaitAll(event, WINDOW, 0);
}

double perf_put_nbi_rate(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, put_nbi_window);
}

double perf_get_nbi_rate(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, get_nbi_window);
}

double perf_put_nb_rate(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, put_nb_window);
}
