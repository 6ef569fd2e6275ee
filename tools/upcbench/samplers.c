/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements in memory.  Thread 0 works on thread 1's part, which waits in a barrier; or all
 * work.
 *
 * Layer: tools.  Thread rule: one thread of each process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upc_bridge.h"
#include "gasnet.h"
#include "tools/upcbench/upcbench.h"

#define SAMPLE_NS 15000000u /* how long one sample takes */
#define WINDOW 64
#define WINDOW_BYTES (8u << 20)
#define WORDS (1u << 18) /* of a thread's part of the table of random access */
#define SIDE 512         /* of the stencil: rows of this many points, as many for each thread */

void bench_setup(void)
{
    bench_state.area = upc_all_alloc((size_t)THREADS, BENCH_MAX_BYTES);
    bench_state.buffer = malloc(BENCH_MAX_BYTES);
    bench_state.lock = upc_all_lock_alloc();

    if (upc_pts_is_null(bench_state.area) || !bench_state.buffer || !bench_state.lock) {
        fprintf(stderr, "upc-bench: no memory (AMPHORA_UPC_HEAP must be at least 256M)\n");
        upc_global_exit(1);
    }

    memset(bench_state.buffer, 1, BENCH_MAX_BYTES);
    memset(upc_pts_local(upc_pts_add(bench_state.area, BENCH_MAX_BYTES, 1, MYTHREAD)), 2,
           BENCH_MAX_BYTES);
    upc_barrier();
}

static upc_pts_t part(int thread)
{
    return upc_pts_add(bench_state.area, BENCH_MAX_BYTES, 1, thread % THREADS);
}

static uint64_t now(void)
{
    return upc_ticks_to_ns(upc_ticks_now());
}

/* The owner's address of thread 1's part, for the runtime's calls. */
static void *there(void)
{
    return (void *)upc_addrfield(part(1));
}

static int peer(void)
{
    return 1 % THREADS;
}

/* Runs `step` (n operations) until the sample's time is over, on thread 0; the others wait.  Gives
 * nanoseconds of one operation. */
#define TIMED(n, step) \
    ({ \
        uint64_t start_ = now(), end_ = start_, count_ = 0; \
        while (MYTHREAD == 0 && end_ - start_ < SAMPLE_NS) { \
            step; \
            count_ += (n); \
            end_ = now(); \
        } \
        upc_barrier(); \
        count_ ? (double)(end_ - start_) / (double)count_ : 0.0; \
    })

static unsigned window_of(size_t bytes)
{
    if (bytes * WINDOW <= WINDOW_BYTES)
        return WINDOW;

    return bytes < WINDOW_BYTES ? (unsigned)(WINDOW_BYTES / bytes) : 1;
}

/* ---- copies in windows: MB/s ---- */

double bench_put(size_t bytes)
{
    unsigned n = window_of(bytes);
    upc_pts_t to = part(1);

    return (double)bytes * 1e3 / TIMED(n, ({
                                           for (unsigned i = 0; i < n; i++)
                                               upc_memput_nbi(to, bench_state.buffer, bytes);
                                           upc_synci();
                                       }));
}

double bench_gex_put(size_t bytes)
{
    unsigned n = window_of(bytes);

    return (double)bytes * 1e3 / TIMED(n, ({
                                           for (unsigned i = 0; i < n; i++)
                                               (void)gex_RMA_PutNBI(upc_self.tm, (gex_Rank_t)peer(),
                                                                    there(), bench_state.buffer,
                                                                    bytes, GEX_EVENT_DEFER, 0);
                                           gex_NBI_Wait(GEX_EC_PUT, 0);
                                       }));
}

double bench_get(size_t bytes)
{
    unsigned n = window_of(bytes);
    upc_pts_t from = part(1);

    return (double)bytes * 1e3 / TIMED(n, ({
                                           for (unsigned i = 0; i < n; i++)
                                               upc_memget_nbi(bench_state.buffer, from, bytes);
                                           upc_synci();
                                       }));
}

double bench_gex_get(size_t bytes)
{
    unsigned n = window_of(bytes);

    return (double)bytes * 1e3 / TIMED(n, ({
                                           for (unsigned i = 0; i < n; i++)
                                               (void)gex_RMA_GetNBI(upc_self.tm, bench_state.buffer,
                                                                    (gex_Rank_t)peer(), there(),
                                                                    bytes, 0);
                                           gex_NBI_Wait(GEX_EC_GET, 0);
                                       }));
}

/* ---- one copy at a time: us ---- */

double bench_put_lat(size_t bytes)
{
    return TIMED(10, for (int i = 0; i < 10; i++) upc_memput(part(1), bench_state.buffer, bytes)) /
           1e3;
}

double bench_gex_put_lat(size_t bytes)
{
    gex_Rank_t to = (gex_Rank_t)peer();
    return TIMED(10, for (int i = 0; i < 10; i++)(void) gex_RMA_PutBlocking(
                         upc_self.tm, to, there(), bench_state.buffer, bytes, 0)) /
           1e3;
}

double bench_get_lat(size_t bytes)
{
    return TIMED(10, for (int i = 0; i < 10; i++) upc_memget(bench_state.buffer, part(1), bytes)) /
           1e3;
}

double bench_gex_get_lat(size_t bytes)
{
    gex_Rank_t from = (gex_Rank_t)peer();
    return TIMED(10, for (int i = 0; i < 10; i++)(void) gex_RMA_GetBlocking(
                         upc_self.tm, bench_state.buffer, from, there(), bytes, 0)) /
           1e3;
}

/* ---- single accesses: ns ---- */

#define WORD_AT(i) upc_pts_offset(base, (size_t)((i)&1023) * 8)

double bench_read_word(size_t bytes)
{
    uint64_t sum = 0;
    upc_pts_t base = part(1);
    double ns = TIMED(1024, for (int i = 0; i < 1024; i++) sum += UPC_LOAD(uint64_t, WORD_AT(i)));

    bench_state.sink = sum;
    return ns;
}

double bench_write_word(size_t bytes)
{
    upc_pts_t base = part(1);
    return TIMED(1024, for (uint64_t i = 0; i < 1024; i++) UPC_STORE(uint64_t, WORD_AT(i), i));
}

double bench_strict_word(size_t bytes)
{
    upc_pts_t base = part(1);
    return TIMED(256, for (uint64_t i = 0; i < 256; i++) UPC_STORE_STRICT(uint64_t, WORD_AT(i), i));
}

/* ---- a block-cyclic array, written from private memory block by block: MB/s ---- */

double bench_cyclic(size_t bytes)
{
    size_t fitting = BENCH_MAX_BYTES / 8 / bytes;
    size_t blocks = bytes < 64 || fitting > 1024 ? 1024 : fitting + 1;

    return (double)bytes * 1e3 /
           TIMED(blocks, ({
                     for (size_t i = 0; i < blocks; i++)
                         upc_memput_nbi(upc_pts_add(bench_state.area, bytes, 1, (ptrdiff_t)i),
                                        bench_state.buffer, bytes);
                     upc_synci();
                 }));
}

/* ---- all threads work ---- */

/* Sum over the threads of operations, divided by the longest time, in millions a second. */
static double rate(uint64_t operations, uint64_t ns)
{
    uint64_t max = 0;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(upc_self.tm, &max, &ns, GEX_DT_U64, 8, 1, GEX_OP_MAX,
                                          NULL, NULL, 0));
    return (double)operations * THREADS * 1e3 / (double)max;
}

double bench_gups(size_t bytes)
{
    uint64_t x = 88172645463325252u + (uint64_t)MYTHREAD * 7919;
    uint64_t start;
    uint64_t n = 20000;

    upc_barrier();
    start = now();

    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        upc_pts_t p = upc_pts_offset(part((int)(x % (unsigned)THREADS)), (x >> 20) % WORDS * 8);

        UPC_STORE(uint64_t, p, UPC_LOAD(uint64_t, p) ^ x);
    }

    start = now() - start;
    upc_barrier();
    return rate(n, start);
}

/* Five points on rows of SIDE doubles; the rows of the neighbours come by upc_memget. */
double bench_stencil(size_t bytes)
{
    double *mine = upc_pts_local(part(MYTHREAD));
    double *to = (double *)bench_state.buffer;
    double up[SIDE], down[SIDE];
    uint64_t start;

    memset(mine, 0, sizeof up * SIDE);
    upc_barrier();
    start = now();

    for (int step = 0; step < 4; step++) {
        upc_memget(up, upc_pts_offset(part(MYTHREAD + THREADS - 1), sizeof up * (SIDE - 1)),
                   sizeof up);
        upc_memget(down, part(MYTHREAD + 1), sizeof down);

        for (int y = 0; y < SIDE; y++) {
            const double *row = mine + y * SIDE;
            const double *above = y ? row - SIDE : up;
            const double *below = y < SIDE - 1 ? row + SIDE : down;

            for (int x = 1; x < SIDE - 1; x++)
                to[y * SIDE + x] = 0.5 * row[x] +
                                   0.125 * (row[x - 1] + row[x + 1] + above[x] + below[x]) + 1;
        }

        upc_barrier();
        memcpy(mine, to, sizeof up * SIDE);
        upc_barrier();
    }

    return rate(4 * SIDE * SIDE, now() - start);
}

/* All threads want one lock: microseconds from one holder to the next. */
double bench_lock(size_t bytes)
{
    enum {
        TURNS = 300
    };

    uint64_t start;

    upc_barrier();
    start = now();

    for (int i = 0; i < TURNS; i++) {
        upc_lock(bench_state.lock);
        UPC_STORE(uint64_t, part(0), UPC_LOAD(uint64_t, part(0)) + 1);
        upc_unlock(bench_state.lock);
    }

    upc_barrier();
    return 1 / rate(TURNS, now() - start);
}

double bench_lock_alone(size_t bytes)
{
    return TIMED(
               10,
               for (int i = 0; i < 10; i++) {
                   upc_lock(bench_state.lock);
                   upc_unlock(bench_state.lock);
               }) /
           1e3;
}

/* ---- barriers of all threads: us ---- */

#define BARRIERS 200

double bench_barrier(size_t bytes)
{
    uint64_t start;

    upc_barrier();
    start = now();
    for (int i = 0; i < BARRIERS; i++)
        upc_barrier();

    return (double)(now() - start) / BARRIERS / 1e3;
}

double bench_gex_barrier(size_t bytes)
{
    uint64_t start;

    upc_barrier();
    start = now();

    for (int i = 0; i < BARRIERS; i++) {
        gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
        (void)gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
    }

    return (double)(now() - start) / BARRIERS / 1e3;
}
