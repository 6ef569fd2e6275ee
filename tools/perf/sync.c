/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers, idle waiting and memory: what all processes of a job do together.  Layer: tools. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnetex.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

void perf_sync(struct perf_run *run)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
}

static double barriers(struct perf_run *run, uint64_t count)
{
    uint64_t start = amph_now_ns();

    for (uint64_t i = 0; i < count; i++)
        perf_sync(run);

    return (double)(amph_now_ns() - start) / (double)count / 1e3;
}

static void named_barrier(int id)
{
    gasnet_barrier_notify(id, 0);
    gasnet_barrier_wait(id, 0);
}

static double named_barriers(uint64_t count)
{
    uint64_t start = amph_now_ns();

    for (uint64_t i = 0; i < count; i++)
        named_barrier((int)(i % 1000));

    return (double)(amph_now_ns() - start) / (double)count / 1e3;
}

uint64_t perf_sample_ns(const struct perf_run *run)
{
    return run->opt->sample_ms * (uint64_t)AMPH_NS_PER_MS;
}

uint64_t perf_agree_rounds(struct perf_run *run, double us)
{
    double sample_us = 2 * (double)perf_sample_ns(run) / 1e3;

    if (run->rank == 0)
        run->shared->line_a = us > sample_us / 10 ? 10 : (uint64_t)(sample_us / us) + 1;

    perf_sync(run);
    return run->shared->line_a;
}

double perf_barrier(struct perf_run *run, size_t bytes)
{
    return barriers(run, perf_agree_rounds(run, barriers(run, 10)));
}

double perf_named_barrier(struct perf_run *run, size_t bytes)
{
    return named_barriers(perf_agree_rounds(run, named_barriers(10)));
}

/* The longest of many. */
double perf_named_barrier_longest_ms(struct perf_run *run, size_t bytes)
{
    uint64_t longest_ns = 0;

    for (unsigned i = 0; i < 20000; i++) {
        const uint64_t start_ns = amph_now_ns();

        named_barrier((int)i);

        const uint64_t ns = amph_now_ns() - start_ns;
        if (ns > longest_ns)
            longest_ns = ns;
    }

    return (double)longest_ns / 1e6;
}

static double cpu_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

double perf_idle_wait(struct perf_run *run, size_t bytes)
{
    if (run->procs < 2) {
        perf_no_value(run, "needs two processes");
        return NAN;
    }

    if (run->rank == 1) {
        struct timespec pause = { 5, 0 };

        nanosleep(&pause, NULL); /* the message comes after 5 s: that is what is measured */
        perf_am_wake(run);
    }

    if (run->rank != 0)
        return 0;

    double before = cpu_ms();

    perf_am_await(run);
    return cpu_ms() - before;
}

/* ---- memory ---- */

/* Sum of the Pss lines of a file like /proc/self/smaps over mappings that touch from..to; all of
 * them where to is 0.  KiB. */
static double pss_kib(const char *path, uintptr_t from, uintptr_t to)
{
    char line[512];
    double sum = 0;
    bool counts = true;
    FILE *in = fopen(path, "r");

    if (!in)
        return NAN;

    while (fgets(line, sizeof line, in)) {
        uintptr_t start, end;

        if (to && sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
            counts = start < to && end > from;
        else if (counts && strncmp(line, "Pss:", 4) == 0)
            sum += strtod(line + 4, NULL);
    }

    fclose(in);
    return sum;
}

/* Each process states its Pss without its own segment; rank 0 takes the largest. */
static double largest_pss(struct perf_run *run)
{
    gex_Segment_t segment;
    double max = 0;

    gasnet_QueryGexObjects(NULL, NULL, NULL, &segment);

    uintptr_t from = (uintptr_t)gex_Segment_QueryAddr(segment);
    uintptr_t to = from + gex_Segment_QuerySize(segment);

    perf_sync(run);
    run->shared->per_proc[run->rank] = pss_kib("/proc/self/smaps_rollup", 0, 0) -
                                       pss_kib("/proc/self/smaps", from, to);
    perf_sync(run);

    for (unsigned i = 0; run->rank == 0 && i < run->procs; i++)
        max = run->shared->per_proc[i] > max || isnan(run->shared->per_proc[i])
                  ? run->shared->per_proc[i]
                  : max;

    if (isnan(max))
        perf_no_value(run, "/proc/self/smaps_rollup cannot be read");

    return max / 1024;
}

double perf_memory_start(struct perf_run *run, size_t bytes)
{
    return largest_pss(run);
}

double perf_memory_all(struct perf_run *run, size_t bytes)
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    perf_am_to_all(run);

    for (unsigned i = 0; i < run->procs; i++) {
        void *there;
        uintptr_t size;

        gex_Event_Wait(
            gex_EP_QueryBoundSegmentNB(tm, (run->rank + i) % run->procs, &there, NULL, &size, 0));
        gex_RMA_PutBlocking(tm, (run->rank + i) % run->procs, there, &run->rank, sizeof run->rank,
                            0);
    }

    return largest_pss(run);
}
