/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives: of all processes, and of a team of some.  Layer: tools. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnetex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

#define BUFFER_MAX ((size_t)64 << 20) /* of a buffer */
#define FLAGS (GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL)

/* What a test asks for. */
enum {
    EACH = 1,    /* a block for each process */
    ONE_ROOT = 2 /* rank 0 is the root of all calls; else roots take turns */
};

/* One collective of block bytes; turn: counts calls. */
struct coll {
    gex_TM_t tm;
    unsigned how;
    size_t block;
    unsigned char *src, *dst;
};

typedef gex_Event_t (*coll_start)(const struct coll *c, uint64_t turn);

static gex_Rank_t root_of(const struct coll *c, uint64_t turn)
{
    return c->how & ONE_ROOT ? 0 : (gex_Rank_t)(turn % gex_TM_QuerySize(c->tm));
}

static gex_Event_t barrier(const struct coll *c, uint64_t turn)
{
    return gex_Coll_BarrierNB(c->tm, 0);
}

static gex_Event_t broadcast(const struct coll *c, uint64_t turn)
{
    return gex_Coll_BroadcastNB(c->tm, root_of(c, turn), c->dst, c->src, c->block, 0);
}

static gex_Event_t reduce(const struct coll *c, uint64_t turn)
{
    return gex_Coll_ReduceToOneNB(c->tm, root_of(c, turn), c->dst, c->src, GEX_DT_U64, 8,
                                  c->block / 8, GEX_OP_ADD, NULL, NULL, 0);
}

static gex_Event_t reduce_all(const struct coll *c, uint64_t turn)
{
    return gex_Coll_ReduceToAllNB(c->tm, c->dst, c->src, GEX_DT_U64, 8, c->block / 8, GEX_OP_ADD,
                                  NULL, NULL, 0);
}

static gex_Event_t scatter(const struct coll *c, uint64_t turn)
{
    return gasnet_coll_scatter_nb(c->tm, c->dst, root_of(c, turn), c->src, c->block, FLAGS);
}

static gex_Event_t gather(const struct coll *c, uint64_t turn)
{
    return gasnet_coll_gather_nb(c->tm, root_of(c, turn), c->dst, c->src, c->block, FLAGS);
}

static gex_Event_t gather_all(const struct coll *c, uint64_t turn)
{
    return gasnet_coll_gather_all_nb(c->tm, c->dst, c->src, c->block, FLAGS);
}

static gex_Event_t exchange(const struct coll *c, uint64_t turn)
{
    return gasnet_coll_exchange_nb(c->tm, c->dst, c->src, c->block, FLAGS);
}

static void add(void *results, size_t count, const void *left, size_t left_count, const void *right,
                size_t size, int flags, int arg)
{
    for (size_t i = 0; i < count; i++)
        ((uint64_t *)results)[i] = ((const uint64_t *)left)[i] + ((const uint64_t *)right)[i];
}

static gex_Event_t scan(const struct coll *c, uint64_t turn)
{
    return gasnet_coll_scan_nb(c->tm, c->dst, 0, 0, c->src, 0, 0, 8, c->block / 8, 0, 0, FLAGS);
}

/* ---- sampling ---- */

/* Room for a block of each process on both sides. */
static bool need_memory(struct perf_run *run, size_t bytes)
{
    if (bytes <= perf_state.coll.bytes)
        return true;

    free(perf_state.coll.src);
    free(perf_state.coll.dst);
    perf_state.coll.src = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    perf_state.coll.dst = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (!perf_state.coll.src || !perf_state.coll.dst) {
        perf_no_value(run, "no memory for two buffers of %zu bytes", bytes);
        perf_state.coll.bytes = 0;
        return false;
    }

    perf_state.coll.bytes = bytes;
    memset(perf_state.coll.src, 1, bytes);
    memset(perf_state.coll.dst, 1, bytes);

    return true;
}

static double us_each(const struct coll *c, coll_start start, uint64_t count)
{
    uint64_t begin = amph_now_ns();

    for (uint64_t i = 0; i < count; i++)
        gex_Event_Wait(start(c, i));

    return (double)(amph_now_ns() - begin) / (double)count / 1e3;
}

/* Every process has to make as many calls; rank 0 chooses the number so that a sample takes about
 * twice perf_sample_ns. */
static double sample(struct perf_run *run, gex_TM_t tm, size_t bytes, unsigned how,
                     coll_start start)
{
    size_t blocks = how & EACH ? run->procs : 1;
    size_t max = BUFFER_MAX / blocks / 8 * 8;
    struct coll c = { .tm = tm, .how = how, .block = bytes < max ? bytes / 8 * 8 : max };

    if (bytes < 8)
        c.block = 8;

    if (bytes && bytes != c.block)
        run->used_bytes = c.block;

    if (!need_memory(run, blocks * c.block))
        return NAN;

    c.src = perf_state.coll.src;
    c.dst = perf_state.coll.dst;
    perf_sync(run);

    double us = us_each(&c, start, run->procs < 10 ? 10 : run->procs);

    us = us_each(&c, start, perf_agree_rounds(run, us));
    perf_sync(run);

    return us;
}

static gex_TM_t all(void)
{
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    return tm;
}

/* Those of even rank in turned order, and the others. */
static gex_TM_t half(struct perf_run *run)
{
    if (!perf_state.coll.team)
        gex_TM_Split(&perf_state.coll.team, all(), (int)(run->rank % 2), -(int)run->rank, NULL, 0,
                     GEX_FLAG_TM_NO_SCRATCH);

    return perf_state.coll.team;
}

double perf_coll_barrier(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), 0, 0, barrier);
}

double perf_coll_broadcast(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, 0, broadcast);
}

double perf_root_broadcast(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, ONE_ROOT, broadcast);
}

double perf_coll_reduce(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, 0, reduce);
}

double perf_root_reduce(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, ONE_ROOT, reduce);
}

double perf_coll_reduce_all(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, 0, reduce_all);
}

double perf_coll_scan(struct perf_run *run, size_t bytes)
{
    gasnet_coll_fn_entry_t table = { add, 0 };

    gasnet_coll_init(NULL, 0, &table, 1, 0);
    return sample(run, all(), bytes, 0, scan);
}

double perf_coll_scatter(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH, scatter);
}

double perf_root_scatter(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH | ONE_ROOT, scatter);
}

double perf_coll_gather(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH, gather);
}

double perf_root_gather(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH | ONE_ROOT, gather);
}

double perf_coll_gather_all(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH, gather_all);
}

double perf_coll_exchange(struct perf_run *run, size_t bytes)
{
    return sample(run, all(), bytes, EACH, exchange);
}

double perf_team_barrier(struct perf_run *run, size_t bytes)
{
    return sample(run, half(run), 0, 0, barrier);
}

double perf_team_reduce_all(struct perf_run *run, size_t bytes)
{
    return sample(run, half(run), bytes, 0, reduce_all);
}
