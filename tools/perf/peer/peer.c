/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of the benchmark that is built with several libraries; see peer.h.
 *
 *   peer [-samples N] TEST[:BYTES]...     one line a test: its name, bytes, median microseconds of an operation
 *
 * Each process writes its data before it sends it, and reads what a collective has brought, as programs do: data that
 * nobody writes stays in the caches of those that read it, which flatters libraries that read it at the sender.
 * Layer: tools.
 */
#include "tools/perf/peer/peer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SAMPLES_MAX = 101,
    FIRST_ROUNDS = 10,
    LINE = 64
};
#define SAMPLE_US 10000.0

static unsigned char *src, *dst;
static volatile unsigned char sink;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- collectives ---- */

struct coll {
    enum peer_coll kind;
    bool sends_each, receives_each; /* a block for, or of, each process */
};

static size_t blocks(bool each)
{
    return each ? peer_size() : 1;
}

static void collectives(const struct coll *c, size_t bytes, unsigned long count)
{
    const unsigned size =
        peer_size(); /* not in the loops: a library may need longer for it than another */
    const size_t sent = bytes * blocks(c->sends_each);
    const size_t received = bytes * blocks(c->receives_each);

    for (unsigned long i = 0; i < count; i++) {
        memset(src, (int)i, sent);
        peer_collective(c->kind, (unsigned)(i % size), dst, src, bytes);
        for (size_t at = 0; at < received; at += LINE)
            sink = dst[at];
    }
}

static void barriers(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        peer_barrier();
}

/* ---- tests ---- */

enum who {
    ALL,
    PAIR,
    FIRST
};

struct test {
    const char *name;
    enum who who;
    void (*run)(size_t bytes, unsigned long count); /* NULL: a collective */
    struct coll coll;
};

static const struct test tests[] = {
    { "round_trip", PAIR, peer_round_trips, { 0 } },
    { "flood", PAIR, peer_flood, { 0 } },
    { "put", FIRST, peer_puts, { 0 } },
    { "get", FIRST, peer_gets, { 0 } },
    { "fetch_add", FIRST, peer_fetch_adds, { 0 } },
    { "puts", FIRST, peer_put_windows, { 0 } },
    { "gets", FIRST, peer_get_windows, { 0 } },
    { "barrier", ALL, barriers, { 0 } },
    { "broadcast", ALL, NULL, { PEER_BROADCAST, false, false } },
    { "reduce", ALL, NULL, { PEER_REDUCE, false, false } },
    { "reduce_all", ALL, NULL, { PEER_REDUCE_ALL, false, false } },
    { "scatter", ALL, NULL, { PEER_SCATTER, true, false } },
    { "gather", ALL, NULL, { PEER_GATHER, false, true } },
    { "gather_all", ALL, NULL, { PEER_GATHER_ALL, false, true } },
    { "exchange", ALL, NULL, { PEER_EXCHANGE, true, true } },
};

static const struct test *find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strlen(tests[i].name) == len && memcmp(tests[i].name, name, len) == 0)
            return &tests[i];

    return NULL;
}

/* Returns the microseconds of an operation, which count at rank 0. */
static double rounds(const struct test *t, size_t bytes, unsigned long count)
{
    const double start_us = now_us();

    if (!t->run)
        collectives(&t->coll, bytes, count);
    else if (t->who == ALL || peer_rank() < (t->who == PAIR ? 2u : 1u))
        t->run(bytes, count);

    const double us = (now_us() - start_us) / (double)count;

    peer_barrier();
    return us;
}

static double sample(const struct test *t, size_t bytes)
{
    const double us = rounds(t, bytes, FIRST_ROUNDS);
    const unsigned long count = us < SAMPLE_US / FIRST_ROUNDS ? (unsigned long)(SAMPLE_US / us)
                                                              : FIRST_ROUNDS;

    return rounds(t, bytes, peer_agree(count));
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static void measure(const struct test *t, size_t bytes, int samples)
{
    double us[SAMPLES_MAX];

    for (int i = 0; i < samples; i++)
        us[i] = sample(t, bytes);

    qsort(us, (size_t)samples, sizeof *us, compare);
    if (peer_rank() == 0) {
        printf("%s %zu %.5g\n", t->name, bytes, us[samples / 2]);
        fflush(stdout);
    }
}

static void give_up(const char *why, const char *what)
{
    if (peer_rank() == 0)
        fprintf(stderr, "peer: %s%s\n", why, what);

    peer_end(2);
    exit(2);
}

/* The number after the colon; 8 without one, 0 if something else is there. */
static size_t block_size(const char *colon)
{
    char *end;

    if (!*colon)
        return 8;

    const size_t bytes = strtoul(colon + 1, &end, 10);

    return *end ? 0 : bytes;
}

int main(int argc, char **argv)
{
    int samples = 9;

    peer_start(&argc, &argv);
    src = aligned_alloc(4096, PEER_MAX_BYTES);
    dst = aligned_alloc(4096, PEER_MAX_BYTES);
    if (!src || !dst)
        give_up("no memory", "");

    memset(src, 1, PEER_MAX_BYTES);
    memset(dst, 1, PEER_MAX_BYTES);
    if (peer_rank() == 0)
        printf("# %s\n", peer_name());

    for (int i = 1; i < argc; i++) {
        const size_t len = strcspn(argv[i], ":");
        const size_t bytes = block_size(argv[i] + len);
        const struct test *t = find(argv[i], len);

        if (strcmp(argv[i], "-samples") == 0 && i + 1 < argc) {
            samples = atoi(argv[++i]);
            if (samples < 1 || samples > SAMPLES_MAX)
                give_up("-samples takes 1 to 101, not ", argv[i]);

            continue;
        }

        if (!t)
            give_up("there is no test ", argv[i]);
        if (bytes < 8 || bytes % 8 || bytes > PEER_MAX_BYTES / peer_size())
            give_up(
                "a block has a multiple of 8 bytes, and 4 MiB have room for one of each process: ",
                argv[i]);

        measure(t, bytes, samples);
    }

    peer_end(0);
    return 0;
}
