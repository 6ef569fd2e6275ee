/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of tests and of targets, and what a thread of a job does: a test and its limit are
 * sampled in turn; thread 0 prints medians.
 *
 * Layer: tools.  Thread rule: one thread of each process.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upc_bridge.h"
#include "tools/upcbench/upcbench.h"

/* clang-format off */
const struct bench_test bench_tests[] = {
    { "put", "MB/s", true, 0, true, false, bench_put, "gex put", bench_gex_put,
      "upc_memput_nbi in windows, private memory to thread 1's part of a shared array" },
    { "get", "MB/s", true, 0, true, false, bench_get, "gex get", bench_gex_get, "upc_memget_nbi in windows, the other way" },
    { "put_lat", "us", true, 0, true, false, bench_put_lat, "gex put", bench_gex_put_lat, "one upc_memput after the other" },
    { "get_lat", "us", true, 0, true, false, bench_get_lat, "gex get", bench_gex_get_lat, "one upc_memget after the other" },
    { "read", "ns", false, 8, true, false, bench_read_word, NULL, NULL, "relaxed reads of 8 bytes from thread 1's part" },
    { "write", "ns", false, 8, true, false, bench_write_word, NULL, NULL, "relaxed writes of 8 bytes to thread 1's part" },
    { "strict", "ns", false, 8, true, false, bench_strict_word, NULL, NULL, "strict writes of 8 bytes to thread 1's part" },
    { "cyclic", "MB/s", true, 0, false, false, bench_cyclic, NULL, NULL, "thread 0 writes a block-cyclic array with blocks of that size" },
    { "gups", "M/s", false, 8, false, false, bench_gups, NULL, NULL,
      "random words of all parts are read, changed and written by all threads" },
    { "stencil", "M/s", false, 0, false, false, bench_stencil, NULL, NULL, "points of a five-point stencil on 512 x 512 for each thread" },
    { "lock", "us", false, 0, false, false, bench_lock, NULL, NULL, "all threads want one lock: from one holder to the next" },
    { "lock_alone", "us", false, 0, false, false, bench_lock_alone, NULL, NULL,
      "upc_lock and upc_unlock of a lock that nobody else wants" },
    { "barrier", "us", false, 0, false, false, bench_barrier, "gasnet", bench_gex_barrier,
      "upc_barrier, beside the runtime's anonymous barrier" },
    { "file", "MB/s", false, 4096, false, true, bench_file_cyclic, "contiguous", bench_file_contiguous,
      "upc_all_fwrite_shared of a block-cyclic array to the servers, beside one piece from each thread" },
    { "file_small", "MB/s", false, 64, false, true, bench_file_cyclic, "contiguous", bench_file_contiguous,
      "the same with blocks of 64 bytes" },
    { "file_list", "MB/s", false, 4096, false, true, bench_file_list, "contiguous", bench_file_contiguous,
      "upc_all_fwrite_list_local of blocks that lie in turn for each thread, from private memory" },
};
/* clang-format on */
const size_t bench_test_count = sizeof bench_tests / sizeof bench_tests[0];

static const struct bench_target targets[] = {
    { "put", NULL, 1u << 20, true, true, 0.95 }, { "get", NULL, 1u << 20, true, true, 0.95 },
    { "read", "smp", 8, false, false, 12 },      { "write", "smp", 8, false, false, 12 },
    { "barrier", NULL, 0, true, false, 1.2 },    { "file", NULL, 4096, true, true, 0.7 },
};

const struct bench_target *bench_target_of(const struct bench_row *row)
{
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const struct bench_target *t = &targets[i];
        bool conduit = !t->conduit || strcmp(t->conduit, row->conduit) == 0;

        if (strcmp(t->test, row->test) == 0 && conduit && (!t->bytes || t->bytes == row->bytes))
            return t;
    }

    return NULL;
}

bool bench_wanted(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, name, len) == 0)
            return true;

    return !list;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* A sample and one of its limit make a pair, every other time the limit first: what the machine
 * does besides falls on both. */
static void measure(const struct bench_test *t, size_t bytes, unsigned repeat)
{
    double value[BENCH_SAMPLES], limit[BENCH_SAMPLES], ratio[BENCH_SAMPLES];

    (void)t->sample(bytes); /* warm */
    for (unsigned i = 0; i < repeat; i++) {
        if (t->limit && i % 2)
            limit[i] = t->limit_sample(bytes);

        value[i] = t->sample(bytes);
        if (t->limit && i % 2 == 0)
            limit[i] = t->limit_sample(bytes);

        ratio[i] = t->limit ? value[i] / limit[i] : NAN;
    }

    if (MYTHREAD == 0) {
        printf("row %s %zu %d %.9g %s %.9g %.9g %s\n", t->name, bytes, THREADS,
               median(value, repeat), t->unit, t->limit ? median(limit, repeat) : NAN,
               t->limit ? median(ratio, repeat) : NAN, t->limit ? t->limit : "-");
        fflush(stdout);
    }
}

/* argv: --inside TESTS|- FROM TO REPEAT FILES(0/1) */
static int run(int argc, char **argv)
{
    const char *tests = strcmp(argv[2], "-") ? argv[2] : NULL;
    size_t from = strtoull(argv[3], NULL, 10);
    size_t to = strtoull(argv[4], NULL, 10);
    unsigned repeat = (unsigned)strtoul(argv[5], NULL, 10);

    bench_setup();
    for (size_t i = 0; i < bench_test_count; i++) {
        const struct bench_test *t = &bench_tests[i];

        if (!bench_wanted(tests, t->name) || (t->files && argv[6][0] == '0'))
            continue;

        if (!t->by_size)
            measure(t, t->bytes, repeat);

        for (size_t bytes = from; t->by_size && bytes <= to;
             bytes *= bytes < 1024 || bytes >= 1u << 20 ? 8 : 4)
            measure(t, bytes, repeat);
    }

    return 0;
}

int bench_inside(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "upc-bench: --inside is for upc-bench itself\n");
        return 2;
    }

    return upc_run(argc, argv, run, UPC_PTS_FORM, 0);
}
