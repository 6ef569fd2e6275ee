/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote atomics, alone and against each other.  Layer: tools. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnet_ratomic.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

#define BATCH 200

static gex_TM_t whole(void)
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    return tm;
}

/* Nanoseconds of one fetch-and-add while the other process makes them on the same line too; ours go
 * by `add`. */
static double contend(void (*add)(struct perf_run *run, void *at), struct perf_run *run, void *at)
{
    uint64_t n = 0;

    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (run->rank > 1)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;

    for (; end - start < perf_sample_ns(run); n += BATCH, end = amph_now_ns())
        for (unsigned i = 0; i < BATCH; i++)
            add(run, at);

    return (double)(end - start) / (double)n;
}

static void add_by_cpu(struct perf_run *run, void *at)
{
    (void)run;
    __atomic_fetch_add((uint64_t *)at, 1, __ATOMIC_RELAXED);
}

double perf_local_fadd(struct perf_run *run, size_t bytes)
{
    return contend(add_by_cpu, run, &run->shared->line_a);
}

static gex_AD_t domain(void)
{
    if (!perf_state.atomic_domain)
        gex_AD_Create(&perf_state.atomic_domain, whole(), GEX_DT_U64,
                      GEX_OP_FADD | GEX_OP_GET | GEX_OP_FCAS | GEX_OP_ADD, 0);

    return perf_state.atomic_domain;
}

static void add_by_gex(struct perf_run *run, void *at)
{
    uint64_t old;

    (void)run;
    gex_Event_Wait(gex_AD_OpNB_U64(domain(), &old, 0, at, GEX_OP_FADD, 1, 0, 0));
}

/* Both processes on a word of rank 0. */
double perf_fadd_contended(struct perf_run *run, size_t bytes)
{
    domain();

    double ns = contend(add_by_gex, run, run->rank == 0 ? run->segment : run->remote);

    gasnet_barrier_notify(1, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(1, GASNET_BARRIERFLAG_ANONYMOUS);
    return ns;
}

/* Microseconds of one operation of rank 0 on a word of rank 1, which serves. */
static double latency(struct perf_run *run, gex_OP_t op)
{
    gex_AD_t ad = domain();

    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    struct perf_batches b = { 0 };
    uint64_t old;

    while (perf_batches_next(&b, perf_sample_ns(run)))
        for (unsigned i = 0; i < b.batch; i++)
            gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, 1, run->remote, op, 1, 1, 0));

    perf_am_release(run);
    return perf_batches_us(&b);
}

double perf_fadd_lat(struct perf_run *run, size_t bytes)
{
    return latency(run, GEX_OP_FADD);
}

double perf_fcas_lat(struct perf_run *run, size_t bytes)
{
    return latency(run, GEX_OP_FCAS);
}

/* Millions of non-fetching additions a second, in windows of 64 that are waited for. */
double perf_add_rate(struct perf_run *run, size_t bytes)
{
    gex_AD_t ad = domain();

    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < perf_sample_ns(run); n += 64, end = amph_now_ns()) {
        for (unsigned i = 0; i < 64; i++)
            gex_AD_OpNBI_U64(ad, NULL, 1, run->remote, GEX_OP_ADD, 1, 0, 0);

        gex_NBI_Wait(GEX_EC_RMW, 0);
    }

    perf_am_release(run);
    return (double)n * 1e3 / (double)(end - start);
}
