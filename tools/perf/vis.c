/* SPDX-License-Identifier: BSD-3-Clause */
/* Strided, indexed and vector transfers.  Layer: tools. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnet_vis.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define TRANSFER_BYTES (64u << 10) /* of one call */
#define MIN_PIECE 8

/* A transfer: every other piece of an area at the target, and the same bytes solid here. */
struct transfer {
    gex_TM_t tm;
    size_t len, count, bytes;
    char *there, *here;
    void *list_there[TRANSFER_BYTES / MIN_PIECE];
    void *list_here[1];
    gex_Memvec_t vec_there[TRANSFER_BYTES / MIN_PIECE];
    gex_Memvec_t vec_here[1];
};

/* The length of a piece that is asked for, within what a transfer has room for. */
static size_t piece(size_t bytes)
{
    if (bytes < MIN_PIECE)
        return MIN_PIECE;

    return bytes < TRANSFER_BYTES ? bytes : TRANSFER_BYTES;
}

/* A transfer is shorter than TRANSFER_BYTES if no number of its pieces is as long. */
static void prepare(struct transfer *t, const struct perf_run *run, size_t len)
{
    t->len = len;
    t->count = TRANSFER_BYTES / len;
    t->bytes = t->count * len;
    t->there = (char *)run->remote;
    t->here = (char *)run->buffer;
    t->list_here[0] = t->here;
    t->vec_here[0] = (gex_Memvec_t){ t->here, t->bytes };
    gasnet_QueryGexObjects(NULL, NULL, &t->tm, NULL);

    for (size_t i = 0; i < t->count; i++) {
        t->list_there[i] = t->there + 2 * i * len;
        t->vec_there[i] = (gex_Memvec_t){ t->list_there[i], len };
    }
}

static void strided(const struct transfer *t, bool put)
{
    const size_t count[1] = { t->count };
    const ptrdiff_t there[1] = { (ptrdiff_t)(2 * t->len) };
    const ptrdiff_t here[1] = { (ptrdiff_t)t->len };

    if (put)
        gex_VIS_StridedPutBlocking(t->tm, 1, t->there, there, t->here, here, t->len, count, 1, 0);
    else
        gex_VIS_StridedGetBlocking(t->tm, t->here, here, 1, t->there, there, t->len, count, 1, 0);
}

static void indexed(const struct transfer *t, bool put)
{
    if (put)
        gex_VIS_IndexedPutBlocking(t->tm, 1, t->count, t->list_there, t->len, 1, t->list_here,
                                   t->bytes, 0);
    else
        gex_VIS_IndexedGetBlocking(t->tm, 1, t->list_here, t->bytes, 1, t->count, t->list_there,
                                   t->len, 0);
}

static void vector(const struct transfer *t, bool put)
{
    if (put)
        gex_VIS_VectorPutBlocking(t->tm, 1, t->count, t->vec_there, 1, t->vec_here, 0);
    else
        gex_VIS_VectorGetBlocking(t->tm, 1, t->vec_here, 1, t->count, t->vec_there, 0);
}

/* Megabytes a second of one transfer after the other. */
static double rate(struct perf_run *run, size_t bytes,
                   void (*once)(const struct transfer *t, bool put), bool put)
{
    const size_t len = piece(bytes);

    run->used_bytes = len;
    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    struct transfer t;

    prepare(&t, run, len);

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < perf_sample_ns(run); n++, end = amph_now_ns())
        once(&t, put);

    perf_am_release(run);
    return (double)n * (double)t.bytes * 1e3 / (double)(end - start);
}

double perf_strided_put(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, strided, true);
}

double perf_strided_get(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, strided, false);
}

double perf_indexed_put(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, indexed, true);
}

double perf_indexed_get(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, indexed, false);
}

double perf_vector_put(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, vector, true);
}

double perf_vector_get(struct perf_run *run, size_t bytes)
{
    return rate(run, bytes, vector, false);
}
