/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File output through the job's servers: one collective write of BENCH_FILE_BYTES, from all
 * threads' memory; MB/s.
 *
 * Layer: tools.  Thread rule: one thread of each process.
 */
#include <stdio.h>
#include <stdlib.h>

#include "upc_bridge.h"
#include "tools/upcbench/upcbench.h"

static void fail(const char *call)
{
    perror(call);
    upc_global_exit(1);
}

static upc_file_t *open_file(int fp)
{
    upc_file_t *f = upc_all_fopen(BENCH_PREFIX "/upc-bench.dat", UPC_WRONLY | UPC_CREATE | fp, 0,
                                  NULL);

    if (!f)
        fail("upc_all_fopen");

    return f;
}

static double megabytes(upc_off_t bytes, uint64_t ns)
{
    return (double)bytes * 1e3 / (double)ns;
}

/* A block-cyclic array of blocks of `bytes`, by the common file pointer. */
double bench_file_cyclic(size_t bytes)
{
    size_t blocks = BENCH_FILE_BYTES / bytes;
    upc_pts_t a = upc_all_alloc(blocks, bytes);
    upc_file_t *f = open_file(UPC_COMMON_FP);

    upc_barrier();

    uint64_t start = upc_ticks_to_ns(upc_ticks_now());

    if (upc_all_fwrite_shared(f, a, 1, bytes, blocks, 0) != (upc_off_t)(blocks * bytes))
        fail("upc_all_fwrite_shared");

    start = upc_ticks_to_ns(upc_ticks_now()) - start;
    if (upc_all_fclose(f))
        fail("upc_all_fclose");

    upc_all_free(a);
    return megabytes((upc_off_t)(blocks * bytes), start);
}

/* The same bytes from private memory, by lists: thread t has the blocks t, t + THREADS ... of the
 * file. */
double bench_file_list(size_t bytes)
{
    size_t runs = BENCH_FILE_BYTES / bytes / (size_t)THREADS;
    size_t each = runs * bytes;
    struct upc_filevec *run = calloc(runs, sizeof *run);
    char *buffer = calloc(1, each);

    if (!run || !buffer)
        fail("calloc");

    for (size_t i = 0; i < runs; i++)
        run[i] = (struct upc_filevec){
            (upc_off_t)((i * (size_t)THREADS + (size_t)MYTHREAD) * bytes), bytes
        };

    const struct upc_local_memvec memory = { buffer, each };
    upc_file_t *f = open_file(UPC_INDIVIDUAL_FP);

    upc_barrier();

    uint64_t start = upc_ticks_to_ns(upc_ticks_now());

    if (upc_all_fwrite_list_local(f, 1, &memory, runs, run, 0) != (upc_off_t)each)
        fail("upc_all_fwrite_list_local");

    start = upc_ticks_to_ns(upc_ticks_now()) - start;
    if (upc_all_fclose(f))
        fail("upc_all_fclose");

    free(buffer);
    free(run);
    return megabytes((upc_off_t)each * THREADS, start);
}

/* The same bytes, in one piece for each thread. */
double bench_file_contiguous(size_t bytes)
{
    size_t each = BENCH_FILE_BYTES / (size_t)THREADS;
    upc_pts_t a = upc_all_alloc((size_t)THREADS, each);
    upc_file_t *f = open_file(UPC_INDIVIDUAL_FP);

    upc_all_fseek(f, (upc_off_t)each * MYTHREAD, UPC_SEEK_SET);
    upc_barrier();

    uint64_t start = upc_ticks_to_ns(upc_ticks_now());

    if (upc_all_fwrite_local(f, upc_pts_local(upc_pts_add(a, each, 1, MYTHREAD)), 1, each, 0) !=
        (upc_off_t)each)
        fail("upc_all_fwrite_local");

    start = upc_ticks_to_ns(upc_ticks_now()) - start;
    if (upc_all_fclose(f))
        fail("upc_all_fclose");

    upc_all_free(a);
    return megabytes((upc_off_t)each * THREADS, start);
}
