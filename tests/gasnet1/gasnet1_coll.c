/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of GASNet-1 against a sequential model: every kind, single and with lists of
 * addresses, all synchronisation words, random block lengths, roots and teams, several under way;
 * barriers of teams; operators of the client's, also one that does not commute.  Arguments: seed,
 * batches.
 */
#include "gasnet.h"
#include "gasnet_coll.h"

#include "tests/gex/coll/gex_coll_common.h"

enum {
    BROADCAST,
    SCATTER,
    GATHER,
    GATHER_ALL,
    EXCHANGE,
    REDUCE,
    SCAN,
    KINDS,
    MANY = 8,
    TEAMS = 3,
    MEMBERS_MAX = 64
};

enum {
    FN_SUM,
    FN_AFFINE,
    FN_COUNT,
    FUNCTION_ARG = 77
};

static gasnet_team_handle_t teams[TEAMS];
static uint64_t common, own;

struct call {
    int kind, flags, func;
    bool list;
    gasnet_team_handle_t tm;
    gasnet_image_t root;
    size_t block, elem;
    uint64_t serial;
    unsigned char *src, *dst;
    void *srcs[MEMBERS_MAX], *dsts[MEMBERS_MAX];
    gasnet_coll_handle_t handle;
};

static uint32_t pick(uint32_t n)
{
    return next_random(&common) % n;
}

/* ---- operators ---- */

static void sum(void *results, size_t count, const void *left, size_t left_count, const void *right,
                size_t elem, int flags, int arg)
{
    COLL_CHECK(arg == FUNCTION_ARG && left_count == count && elem == 8 && flags == 0,
               "arguments of an operator: %d, %zu", arg, elem);
    for (size_t i = 0; i < count; i++)
        ((uint64_t *)results)[i] = ((const uint64_t *)left)[i] + ((const uint64_t *)right)[i];
}

static void affine(void *results, size_t count, const void *left, size_t left_count,
                   const void *right, size_t elem, int flags, int arg)
{
    COLL_CHECK(elem == 24 && flags == (int)GASNET_COLL_NONCOMM,
               "an operator was called for elements of %zu bytes", elem);
    memcpy(results, right, count * elem);
    for (size_t i = 0; i < count; i++)
        coll_user_element(false, elem, (const uint32_t *)left + i * 6, (uint32_t *)results + i * 6);
}

/* ---- calls ---- */

static int pick_flags(void)
{
    static const int in[] = { 0, GASNET_COLL_IN_NOSYNC, GASNET_COLL_IN_MYSYNC,
                              GASNET_COLL_IN_ALLSYNC };
    static const int out[] = { 0, GASNET_COLL_OUT_NOSYNC, GASNET_COLL_OUT_MYSYNC,
                               GASNET_COLL_OUT_ALLSYNC };
    static const int more[] = { 0, GASNET_COLL_DST_IN_SEGMENT, GASNET_COLL_SRC_IN_SEGMENT,
                                GASNET_COLL_AGGREGATE };

    return in[pick(4)] | out[pick(4)] | more[pick(4)] |
           (pick(2) ? GASNET_COLL_SINGLE : GASNET_COLL_LOCAL);
}

static struct call plan(uint64_t serial)
{
    static const size_t corner[] = { 0, 8, 512, 4096, 5000, 8192, 32768, 70000, 300000 };
    struct call c = {
        .kind = (int)pick(KINDS), .serial = serial, .flags = pick_flags(), .list = pick(2)
    };

    c.tm = teams[pick(TEAMS)];
    c.root = pick(MEMBERS_MAX * 8);
    c.block = corner[pick(pick(4) ? 5 : 9)] + pick(40);
    c.func = pick(2) ? FN_SUM : FN_AFFINE;
    c.elem = c.func == FN_SUM ? 8 : 24;
    if (c.kind >= REDUCE)
        c.block -= c.block % c.elem;

    return c;
}

/* How many blocks a member has on either side. */
static size_t blocks(const struct call *c, bool src)
{
    bool many = c->kind == EXCHANGE ||
                (src ? c->kind == SCATTER : c->kind == GATHER || c->kind == GATHER_ALL);
    return many ? gex_TM_QuerySize(c->tm) : 1;
}

/* Block `to` of what member `from` brings. */
static void fill_block(const struct call *c, unsigned char *at, uint32_t from, uint32_t to)
{
    if (c->kind >= REDUCE)
        for (size_t i = 0; i < c->block / c->elem; i++)
            coll_fill_element(c->func == FN_SUM ? GEX_DT_U64 : GEX_DT_USER, c->elem, GEX_OP_USER,
                              c->serial, from, i, at + i * c->elem);
    else
        fill(at, c->block, from * 64 + to, (uint32_t)c->serial);
}

static bool right_block(const struct call *c, const unsigned char *at, uint32_t from, uint32_t to)
{
    return right(at, c->block, from * 64 + to, (uint32_t)c->serial) == c->block;
}

static void prepare(struct call *c)
{
    gex_Rank_t me = gex_TM_QueryRank(c->tm);
    gex_Rank_t size = gex_TM_QuerySize(c->tm);

    c->root %= size;
    c->src = malloc(blocks(c, true) * c->block + 1);
    c->dst = malloc(blocks(c, false) * c->block + 1);
    memset(c->dst, 0xee, blocks(c, false) * c->block);
    for (size_t j = 0; j < blocks(c, true); j++)
        fill_block(c, c->src + j * c->block, me, (uint32_t)j);

    gex_Rank_t place = c->flags & GASNET_COLL_SINGLE ? me : 0;

    c->srcs[place] = c->src;
    c->dsts[place] = c->dst;
}

static gasnet_coll_handle_t start_plain(struct call *c)
{
    size_t count = c->block / c->elem;

    switch (c->kind) {
    case BROADCAST:
        return gasnet_coll_broadcast_nb(c->tm, c->dst, c->root, c->src, c->block, c->flags);
    case SCATTER:
        return gasnet_coll_scatter_nb(c->tm, c->dst, c->root, c->src, c->block, c->flags);
    case GATHER:
        return gasnet_coll_gather_nb(c->tm, c->root, c->dst, c->src, c->block, c->flags);
    case GATHER_ALL:
        return gasnet_coll_gather_all_nb(c->tm, c->dst, c->src, c->block, c->flags);
    case EXCHANGE:
        return gasnet_coll_exchange_nb(c->tm, c->dst, c->src, c->block, c->flags);
    case REDUCE:
        return gasnet_coll_reduce_nb(c->tm, c->root, c->dst, c->src, 0, 0, c->elem, count, c->func,
                                     FUNCTION_ARG, c->flags);
    default:
        return gasnet_coll_scan_nb(c->tm, c->dst, 0, 0, c->src, 0, 0, c->elem, count, c->func,
                                   FUNCTION_ARG, c->flags);
    }
}

static gasnet_coll_handle_t start_list(struct call *c)
{
    size_t count = c->block / c->elem;

    switch (c->kind) {
    case BROADCAST:
        return gasnet_coll_broadcastM_nb(c->tm, c->dsts, c->root, c->src, c->block, c->flags);
    case SCATTER:
        return gasnet_coll_scatterM_nb(c->tm, c->dsts, c->root, c->src, c->block, c->flags);
    case GATHER:
        return gasnet_coll_gatherM_nb(c->tm, c->root, c->dst, c->srcs, c->block, c->flags);
    case GATHER_ALL:
        return gasnet_coll_gather_allM_nb(c->tm, c->dsts, c->srcs, c->block, c->flags);
    case EXCHANGE:
        return gasnet_coll_exchangeM_nb(c->tm, c->dsts, c->srcs, c->block, c->flags);
    case REDUCE:
        return gasnet_coll_reduceM_nb(c->tm, c->root, c->dst, c->srcs, 0, 0, c->elem, count,
                                      c->func, FUNCTION_ARG, c->flags);
    default:
        return gasnet_coll_scanM_nb(c->tm, c->dsts, 0, 0, c->srcs, 0, 0, c->elem, count, c->func,
                                    FUNCTION_ARG, c->flags);
    }
}

/* ---- results ---- */

static void check_fold(const struct call *c, gex_Rank_t last)
{
    size_t count = c->block / c->elem;
    size_t step = count > 1000 ? count / 500 : 1;

    for (size_t i = 0; i < count; i += i + step < count ? step : 1)
        COLL_CHECK(coll_right(c->func == FN_SUM ? GEX_DT_U64 : GEX_DT_USER, c->elem,
                              c->func == FN_SUM ? GEX_OP_ADD : GEX_OP_USER_NC, c->serial, last, i,
                              c->dst + i * c->elem),
                   "kind %d, operator %d, element %zu of %zu, flags %#x", c->kind, c->func, i,
                   count, (unsigned)c->flags);
}

static void check(struct call *c)
{
    gex_Rank_t me = gex_TM_QueryRank(c->tm);
    gex_Rank_t size = gex_TM_QuerySize(c->tm);
    bool root = me == c->root;

    for (gex_Rank_t i = 0; i < size && c->kind < REDUCE; i++) {
        const unsigned char *at = c->dst + (blocks(c, false) > 1 ? i * c->block : 0);
        bool good = true;

        if (c->kind == BROADCAST || c->kind == SCATTER)
            good = right_block(c, at, c->root, c->kind == SCATTER ? me : 0);
        else if (c->kind == EXCHANGE)
            good = right_block(c, at, i, me);
        else if (c->kind == GATHER_ALL || root)
            good = right_block(c, at, i, 0);

        COLL_CHECK(good, "kind %d, block %u of %zu bytes, root %u of %u, flags %#x", c->kind, i,
                   c->block, c->root, size, (unsigned)c->flags);
    }

    if (c->kind == SCAN)
        check_fold(c, me);
    else if (c->kind == REDUCE && root)
        check_fold(c, size - 1);

    free(c->src);
    free(c->dst);
}

static void wait_all(struct call *c, unsigned n)
{
    gasnet_coll_handle_t handles[MANY];
    unsigned how = next_random(&own) % 4;
    unsigned left = 0;

    for (unsigned i = 0; i < n; i++)
        handles[i] = c[i].handle;

    for (unsigned i = n; how == 0 && i-- > 0;)
        gasnet_coll_wait_sync(handles[i]);

    for (unsigned i = 0; how == 1 && i < n; i++)
        while (gasnet_coll_try_sync(handles[i]) != GASNET_OK)
            left++;

    while (how == 2 && gasnet_coll_try_sync_all(handles, n) != GASNET_OK)
        left++;

    if (how == 3) {
        while (gasnet_coll_try_sync_some(handles, n) != GASNET_OK)
            left++;

        gasnet_coll_wait_sync_some(handles, n);
        gasnet_coll_wait_sync_all(handles, n);
    }
}

static void batch(uint64_t *serial)
{
    struct call calls[MANY];
    unsigned n = 1 + pick(MANY);

    for (unsigned i = 0; i < n; i++) {
        calls[i] = plan(++*serial);
        prepare(&calls[i]);
        calls[i].handle = calls[i].list ? start_list(&calls[i]) : start_plain(&calls[i]);
    }

    wait_all(calls, n);
    for (unsigned i = 0; i < n; i++)
        check(&calls[i]);
}

/* ---- the rest ---- */

/* The blocking forms, each once. */
static void blocking(gasnet_team_handle_t tm)
{
    uint64_t me = gex_TM_QueryRank(tm);
    uint64_t n = gex_TM_QuerySize(tm);
    uint64_t in[MEMBERS_MAX];
    uint64_t out[MEMBERS_MAX] = { 0 };
    int flags = GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL;
    void *ins = in;
    void *outs = out;

    for (uint64_t i = 0; i < n; i++)
        in[i] = me * 100 + i;

    gasnet_coll_broadcast(tm, out, 0, in, 8, flags);
    CHECK(out[0] == 0);
    gasnet_coll_broadcastM(tm, &outs, (gasnet_image_t)n - 1, in, 8, flags);
    CHECK(out[0] == (n - 1) * 100);
    gasnet_coll_scatter(tm, out, 0, in, 8, flags);
    CHECK(out[0] == me);
    gasnet_coll_gather(tm, 0, out, in, 8, flags);
    CHECK(me || out[n - 1] == (n - 1) * 100);
    gasnet_coll_gather_all(tm, out, in, 8, flags);
    CHECK(out[n - 1] == (n - 1) * 100);
    gasnet_coll_exchange(tm, out, in, 8, flags);
    CHECK(out[n - 1] == (n - 1) * 100 + me);
    gasnet_coll_reduce(tm, 0, out, in, 0, 0, 8, 1, FN_SUM, FUNCTION_ARG, flags);
    CHECK(me || out[0] == n * (n - 1) / 2 * 100);
    gasnet_coll_scan(tm, out, 0, 0, in, 0, 0, 8, 1, FN_SUM, FUNCTION_ARG, flags);
    CHECK(out[0] == me * (me + 1) / 2 * 100);
    gasnet_coll_scatterM(tm, &outs, 0, in, 8, flags);
    gasnet_coll_gatherM(tm, 0, out, &ins, 8, flags);
    gasnet_coll_gather_allM(tm, &outs, &ins, 8, flags);
    gasnet_coll_exchangeM(tm, &outs, &ins, 8, flags);
    CHECK(out[n - 1] == (n - 1) * 100 + me);
    gasnet_coll_reduceM(tm, 0, out, &ins, 0, 0, 8, 1, FN_SUM, FUNCTION_ARG, flags);
    gasnet_coll_scanM(tm, &outs, 0, 0, &ins, 0, 0, 8, 1, FN_SUM, FUNCTION_ARG, flags);
    CHECK(out[0] == me * (me + 1) / 2 * 100);
}

static void barriers(gasnet_team_handle_t tm)
{
    int err;
    int id = 0;
    int odd = gex_TM_QueryRank(tm) == gex_TM_QuerySize(tm) - 1 && gex_TM_QuerySize(tm) > 1;

    for (int i = 0; i < 20; i++) {
        gasnet_coll_barrier_notify(tm, i, 0);
        if (i % 2)
            while ((err = gasnet_coll_barrier_try(tm, i, 0)) == GASNET_ERR_NOT_READY)
                ;
        else
            err = gasnet_coll_barrier_wait(tm, i, 0);

        CHECK(err == GASNET_OK);
    }

    gasnet_coll_barrier_notify(tm, odd, 0);
    CHECK(gasnet_coll_barrier_wait(tm, odd, 0) ==
          (gex_TM_QuerySize(tm) > 1 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    gasnet_coll_barrier_notify(tm, 0, GASNET_BARRIERFLAG_UNNAMED);
    CHECK(gasnet_coll_barrier_wait(tm, 0, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);

    CHECK(gasnet_coll_barrier(tm, 12, 0) == GASNET_OK);
    CHECK(gasnet_coll_barrier_result(tm, &id) == GASNET_OK && id == 12);
    CHECK(gasnet_coll_barrier(tm, 0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(gasnet_coll_barrier_result(tm, &id) == 1 && id == 12);

    /* Of all processes, with the name asked for afterwards. */
    CHECK(gasnet_barrier(4711, gasnet_mynode() ? GASNET_BARRIERFLAG_ANONYMOUS : 0) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id) == 0 && id == 4711);
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id) == 1);
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_MISMATCH) == GASNET_ERR_BARRIER_MISMATCH);
    CHECK(gasnet_barrier_result(NULL) == GASNET_ERR_BARRIER_MISMATCH);
}

int main(int argc, char **argv)
{
    gasnet_coll_fn_entry_t table[] = {
        [FN_SUM] = { sum, 0 }, [FN_AFFINE] = { affine, GASNET_COLL_NONCOMM }
    };
    gasnet_image_t images[MEMBERS_MAX];
    uint64_t serial = 0;

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) == GASNET_OK);
    CHECK(gasnet_nodes() <= MEMBERS_MAX);
    coll_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    common = coll_seed;
    own = coll_seed ^ (gasnet_mynode() + 1) * UINT64_C(0x1234567);
    if (gasnet_mynode() == 0)
        printf("seed %llu\n", (unsigned long long)coll_seed);

    for (gasnet_node_t i = 0; i < gasnet_nodes(); i++)
        images[i] = 1;

    gasnet_coll_init(images, gasnet_mynode(), table, FN_COUNT, 0);
    teams[0] = GASNET_TEAM_ALL;
    CHECK(gex_TM_Split(&teams[1], GASNET_TEAM_ALL, (int)(gasnet_mynode() % 2),
                       -(int)gasnet_mynode(), NULL, 0, GEX_FLAG_TM_NO_SCRATCH) == 0);
    CHECK(gex_TM_Split(&teams[2], GASNET_TEAM_ALL, gasnet_mynode() == 1,
                       (int)(coll_hash(coll_seed, gasnet_mynode(), 1) % 100), NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH) == 0);

    for (int i = 0; i < TEAMS; i++) {
        blocking(teams[i]);
        barriers(teams[i]);
    }

    for (int i = argc > 2 ? atoi(argv[2]) : 15; i > 0; i--)
        batch(&serial);

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    gasnet_exit(0);
}
