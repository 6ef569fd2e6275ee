/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine's own limits: two processes that exchange cache lines, and one process that calls
 * memcpy.  Ranks 0 and 1 of a job take part; the others return at once.
 *
 * Layer: tools.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define LAST UINT64_MAX

/* ---- cache lines ---- */

/* Rank 0 sends 1, 2, 3 ... in *out and waits for the same in *in, until sample_ns are over; then it
 * sends LAST. */
static double ping(_Atomic uint64_t *out, _Atomic uint64_t *in, uint64_t sample_ns)
{
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    while (end - start < sample_ns) {
        for (unsigned i = 0; i < 2000; i++) {
            atomic_store_explicit(out, ++n, memory_order_release);
            while (atomic_load_explicit(in, memory_order_acquire) != n)
                ;
        }

        end = amph_now_ns();
    }

    atomic_store_explicit(out, LAST, memory_order_release);
    return (double)(end - start) / (double)n / 1e3;
}

static double pong(_Atomic uint64_t *out, _Atomic uint64_t *in)
{
    uint64_t n = 0;
    uint64_t got;

    for (;;) {
        while ((got = atomic_load_explicit(in, memory_order_acquire)) == n)
            ;

        if (got == LAST)
            return 0;

        atomic_store_explicit(out, n = got, memory_order_release);
    }
}

double perf_line2(struct perf_run *run, size_t bytes)
{
    struct perf_shared *s = run->shared;

    if (run->rank == 0) {
        s->line_a = s->line_b = 0;
        perf_sync(run);
        return ping(&s->line_a, &s->line_b, perf_sample_ns(run));
    }

    perf_sync(run);
    return run->rank == 1 ? pong(&s->line_b, &s->line_a) : 0;
}

/* One line for both directions: odd numbers go out, even ones come back, until sample_ns are over. */
static double one_line(_Atomic uint64_t *line, bool first, uint64_t sample_ns)
{
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;
    uint64_t got;

    if (!first) {
        for (n = 1;; n += 2) {
            while ((got = atomic_load_explicit(line, memory_order_acquire)) != n)
                if (got == LAST)
                    return 0;

            atomic_store_explicit(line, n + 1, memory_order_release);
        }
    }

    while (end - start < sample_ns) {
        for (unsigned i = 0; i < 2000; i++, n += 2) {
            atomic_store_explicit(line, n + 1, memory_order_release);
            while (atomic_load_explicit(line, memory_order_acquire) != n + 2)
                ;
        }

        end = amph_now_ns();
    }

    atomic_store_explicit(line, LAST, memory_order_release);
    return (double)(end - start) / (double)(n / 2) / 1e3;
}

double perf_line1(struct perf_run *run, size_t bytes)
{
    if (run->rank == 0)
        run->shared->line_a = 0;

    perf_sync(run);
    return run->rank < 2 ? one_line(&run->shared->line_a, run->rank == 0, perf_sample_ns(run)) : 0;
}

/* Lines a microsecond that one process writes one after the other and another reads, through a ring
 * of lines: what a stream of messages of one line each can reach.  The reader says every quarter of
 * the ring how far it is. */
double perf_line_rate(struct perf_run *run, size_t bytes)
{
    enum {
        LINES = 400000
    };

    struct perf_shared *s = run->shared;

    if (run->rank == 0) {
        s->line_a = 0;
        for (unsigned i = 0; i < PERF_RING; i++)
            s->ring[i].word = 0;
    }

    perf_sync(run);

    uint64_t start = amph_now_ns();
    uint64_t read = 0;

    for (uint64_t n = 1; run->rank == 0 && n <= LINES; n++) {
        while (n - read > PERF_RING)
            read = atomic_load_explicit(&s->line_a, memory_order_acquire);

        atomic_store_explicit(&s->ring[n % PERF_RING].word, n, memory_order_release);
    }

    for (uint64_t n = 1; run->rank == 1 && n <= LINES; n++) {
        while (atomic_load_explicit(&s->ring[n % PERF_RING].word, memory_order_acquire) != n)
            ;

        if (n % (PERF_RING / 4) == 0)
            atomic_store_explicit(&s->line_a, n, memory_order_release);
    }

    while (run->rank == 0 && read != LINES)
        read = atomic_load_explicit(&s->line_a, memory_order_acquire);

    return LINES * 1e3 / (double)(amph_now_ns() - start);
}

/* Copies of 8 bytes a microsecond between private memory and memory that is shared. */
double perf_store_rate(struct perf_run *run, size_t bytes)
{
    if (run->rank != 0)
        return 0;

    volatile uint64_t *from = (volatile uint64_t *)(void *)run->buffer;
    volatile uint64_t *to = (volatile uint64_t *)(void *)run->shared->ring;
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < perf_sample_ns(run); end = amph_now_ns())
        for (unsigned i = 0; i < 1024; i++, n++)
            to[i % 64] = from[i % 64];

    return (double)n * 1e3 / (double)(end - start);
}

/* ---- memcpy ---- */

double perf_memcpy(struct perf_run *run, size_t bytes)
{
    /* Reached through a volatile pointer: the compiler can neither leave the copies out nor inline
     * them. */
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;
    unsigned batch = bytes > 65536 ? 4 : 1000;

    while (end - start < perf_sample_ns(run)) {
        for (unsigned i = 0; i < batch; i++)
            copy(run->scratch, run->buffer, bytes);

        n += batch;
        end = amph_now_ns();
    }

    return (double)n * (double)bytes * 1e3 / (double)(end - start);
}
