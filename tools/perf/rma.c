/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get between ranks 0 and 1.  Layer: tools.  Rank 1 polls until the sample is over. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnetex.h>

#include "base/clock.h"
#include "tools/perf/perf.h"

#define SAMPLE_NS (20 * AMPH_NS_PER_MS)
#define WINDOW 64
#define WINDOW_BYTES (8u << 20)

/* Microseconds of one operation: long loops, since one operation may take a few nanoseconds only. */
double perf_put_lat(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);
    if (run->rank != 0)
        return 0;
    uint64_t start = amph_now_ns(), end = start, n = 0;
    for (unsigned batch = 10; end - start < SAMPLE_NS; n += batch, end = amph_now_ns(), batch = n < 1000000 ? 2 * batch : batch)
        for (unsigned i = 0; i < batch; i++)
            gex_RMA_PutBlocking(tm, 1, run->remote, run->buffer, bytes, 0);
    perf_am_release(run);
    return (double)(end - start) / (double)n / 1e3;
}

double perf_get_lat(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);
    if (run->rank != 0)
        return 0;
    uint64_t start = amph_now_ns(), end = start, n = 0;
    for (unsigned batch = 10; end - start < SAMPLE_NS; n += batch, end = amph_now_ns(), batch = n < 1000000 ? 2 * batch : batch)
        for (unsigned i = 0; i < batch; i++)
            gex_RMA_GetBlocking(tm, run->buffer, 1, run->remote, bytes, 0);
    perf_am_release(run);
    return (double)(end - start) / (double)n / 1e3;
}

static unsigned window_of(size_t bytes)
{
    return bytes * WINDOW <= WINDOW_BYTES ? WINDOW : (unsigned)(WINDOW_BYTES / bytes);
}

double perf_put_bw(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;
    unsigned window = window_of(bytes);
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);
    if (run->rank != 0)
        return 0;
    uint64_t start = amph_now_ns(), end = start, n = 0;
    for (; end - start < SAMPLE_NS; n += window, end = amph_now_ns()) {
        for (unsigned i = 0; i < window; i++)
            gex_RMA_PutNBI(tm, 1, run->remote, run->buffer, bytes, GEX_EVENT_DEFER, 0);
        gex_NBI_Wait(GEX_EC_PUT, 0);
    }
    perf_am_release(run);
    return (double)n * (double)bytes * 1e3 / (double)(end - start);
}

double perf_get_bw(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;
    unsigned window = window_of(bytes);
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (run->rank == 1)
        perf_am_serve(run);
    if (run->rank != 0)
        return 0;
    uint64_t start = amph_now_ns(), end = start, n = 0;
    for (; end - start < SAMPLE_NS; n += window, end = amph_now_ns()) {
        for (unsigned i = 0; i < window; i++)
            gex_RMA_GetNBI(tm, run->buffer, 1, run->remote, bytes, 0);
        gex_NBI_Wait(GEX_EC_GET, 0);
    }
    perf_am_release(run);
    return (double)n * (double)bytes * 1e3 / (double)(end - start);
}
