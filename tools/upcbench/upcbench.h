/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upc-bench: measures UPC programs on each conduit, in comparison with the same work done by calls of
 * the runtime.  This header has the declarations that its files share.
 *
 * Layer: tools.  May include: the public headers only.
 *
 *   main.c      options, starting one job for each conduit, the table, JSON
 *   inside.c    the table of tests; the threads of a job: sample a test and its limit in turn
 *   samplers.c  copies, single accesses, random access, stencil, lock, barrier
 *   files.c     file output through the job's servers
 *   plot.c      bandwidth by size as SVG
 */
#ifndef AMPH_TOOLS_UPCBENCH_H
#define AMPH_TOOLS_UPCBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upc_bridge.h"

#define BENCH_PREFIX "/upc-bench" /* the forwarded prefix; exists nowhere */
#define BENCH_MAX_BYTES (64u << 20)
#define BENCH_FILE_BYTES (64u << 20)
#define BENCH_SAMPLES 31

/* Takes one sample; all threads call it together, the value of thread 0 counts. */
typedef double (*bench_sampler)(size_t bytes);

struct bench_test {
    const char *name, *unit;
    bool by_size; /* 8 B to 64 MiB; else the one size `bytes` */
    size_t bytes;
    bool pair;  /* two threads are enough and all there are */
    bool files; /* needs servers */
    bench_sampler sample;
    const char *limit; /* what it is compared with, or NULL */
    bench_sampler limit_sample;
    const char *what;
};

/* What is to be reached: value (or value/limit) at most or at least number. */
struct bench_target {
    const char *test, *conduit; /* conduit NULL: any */
    size_t bytes;               /* 0: any */
    bool is_ratio, at_least;
    double number;
};

struct bench_options {
    const char *conduits, *tests, *dir, *svg;
    unsigned threads, servers, repeat;
    size_t from, to;
    bool json, list, check;
};

/* One figure, as the outer program has it. */
struct bench_row {
    char test[32], conduit[16], unit[8], limit[32];
    unsigned threads;
    size_t bytes;
    /* medians, the ratio of pairs of samples; NaN: there is no limit */
    double value, limit_value, ratio;
};

extern const struct bench_test bench_tests[];
extern const size_t bench_test_count;
const struct bench_target *bench_target_of(const struct bench_row *row);
bool bench_wanted(const char *list, const char *name);

/* What is kept beside the arguments. */
struct bench_state {
    /* main.c, in the program that starts the jobs */
    struct bench_row *row;
    size_t nrows;
    unsigned missed;

    /* samplers.c, in the threads of a job */
    upc_pts_t area; /* [BENCH_MAX_BYTES] in each thread */
    char *buffer;   /* private, as long */
    upc_lock_t *lock;
    volatile uint64_t sink;
};

extern struct bench_state bench_state;

/* inside.c: a thread of a job; argv as main got it. */
int bench_inside(int argc, char **argv);
/* plot.c; false: the file cannot be written. */
bool bench_plot(const char *path, const struct bench_row *rows, size_t n);

/* samplers.c, files.c */
void bench_setup(void);
double bench_put(size_t bytes);
double bench_get(size_t bytes);
double bench_gex_put(size_t bytes);
double bench_gex_get(size_t bytes);
double bench_put_lat(size_t bytes);
double bench_get_lat(size_t bytes);
double bench_gex_put_lat(size_t bytes);
double bench_gex_get_lat(size_t bytes);
double bench_read_word(size_t bytes);
double bench_write_word(size_t bytes);
double bench_strict_word(size_t bytes);
double bench_cyclic(size_t bytes);
double bench_gups(size_t bytes);
double bench_stencil(size_t bytes);
double bench_lock(size_t bytes);
double bench_lock_alone(size_t bytes);
double bench_barrier(size_t bytes);
double bench_gex_barrier(size_t bytes);
double bench_file_cyclic(size_t bytes);
double bench_file_list(size_t bytes);
double bench_file_contiguous(size_t bytes);

#endif
