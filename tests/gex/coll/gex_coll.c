/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of GASNet-EX against a sequential model: random kinds, sizes, roots, types and
 * operators, many under way on several teams, waited for in an order of each process's own.
 */
#include <time.h>

#include "tests/gex/coll/gex_coll_common.h"

enum {
    MANY = 14,
    TEAMS = 4
};

static gex_TM_t world;
static gex_TM_t teams[TEAMS];
static unsigned nteams;
static uint64_t common, own; /* random numbers: the same at all processes; of this one */
static size_t most_bytes;

struct call {
    int kind; /* 0 barrier, 1 broadcast, 2 to one, 3 to all */
    gex_TM_t tm;
    gex_Rank_t root;
    gex_DT_t dt;
    gex_OP_t op;
    size_t size, count;
    uint64_t serial;
    struct coll_user user;
    bool in_place, with_leaf;
    char *src, *dst, *memory;
    gex_Event_t event;
};

static uint32_t pick(uint32_t n)
{
    return next_random(&common) % n;
}

/* Lengths around the limits at which algorithms change. */
static size_t pick_bytes(void)
{
    static const size_t corner[] = { 1,     8,     112,   496,   512,      4096,    8192,
                                     16384, 32768, 65408, 65536, 1u << 20, 3u << 20 };
    uint32_t what = pick(10);
    size_t base = corner[pick(what < 8 ? 9 : 13)];

    if (what < 4)
        base = 1 + pick(64);
    else if (what < 6)
        base += pick(17) - (base > 8 ? 8 : 0);

    return base > most_bytes ? most_bytes : base;
}

static void pick_type(struct call *c)
{
    static const gex_DT_t types[] = { GEX_DT_I32, GEX_DT_U32, GEX_DT_I64,  GEX_DT_U64,
                                      GEX_DT_FLT, GEX_DT_DBL, GEX_DT_USER, GEX_DT_USER };
    static const size_t sizes[] = { 4, 4, 8, 8, 4, 8 };
    static const gex_OP_t ops[] = { GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN,
                                    GEX_OP_MAX, GEX_OP_USER, GEX_OP_USER_NC,
                                    GEX_OP_AND, GEX_OP_OR,   GEX_OP_XOR };
    static const size_t user_sizes[] = { 4, 8, 12, 24, 100, 1000, 33000, 70000 };
    uint32_t t = pick(8);

    c->dt = types[t];
    if (c->dt == GEX_DT_USER) {
        c->size = user_sizes[pick(pick(4) ? 6 : 8)];
        c->op = pick(2) ? GEX_OP_USER : GEX_OP_USER_NC;
    } else {
        c->size = sizes[t];
        c->op = ops[pick(c->dt & (GEX_DT_FLT | GEX_DT_DBL) ? 6 : 9)];
    }

    size_t bytes = pick_bytes();

    c->count = bytes / c->size ? bytes / c->size : 1;
    c->user = (struct coll_user){ c->dt, c->op, c->size };
}

static void fill_src(struct call *c)
{
    gex_OP_t rule = c->dt != GEX_DT_USER && (c->op & (GEX_OP_USER | GEX_OP_USER_NC)) ? GEX_OP_ADD
                                                                                     : c->op;

    for (size_t i = 0; i < c->count; i++)
        coll_fill_element(c->dt, c->size, rule, c->serial, gex_TM_QueryRank(c->tm), i,
                          c->src + i * c->size);
}

/* What all members agree on. */
static struct call plan(uint64_t serial)
{
    struct call c = { .kind = pick(12) == 0 ? 0 : 1 + (int)pick(3),
                      .tm = teams[pick(nteams)],
                      .serial = serial,
                      .size = 1 };

    c.root = pick(gex_System_QueryJobSize());
    c.in_place = pick(3) == 0;
    c.with_leaf = pick(4) == 0;

    if (c.kind >= 2)
        pick_type(&c);
    else if (c.kind == 1)
        c.count = pick(12) ? pick_bytes() : 0;

    return c;
}

static void start(struct call *c)
{
    gex_Rank_t me = gex_TM_QueryRank(c->tm);
    size_t bytes = c->size * c->count;
    gex_Flags_t flags = c->with_leaf ? GEX_FLAG_ENABLE_LEAF_LC | GEX_FLAG_IMMEDIATE : 0;

    c->root %= gex_TM_QuerySize(c->tm);
    c->memory = malloc(2 * bytes + 64);
    c->dst = c->memory + 16;
    c->src = c->in_place ? c->dst : c->dst + (bytes + 15) / 16 * 16;

    if (c->kind == 0) {
        c->event = gex_Coll_BarrierNB(c->tm, 0);
    } else if (c->kind == 1) {
        if (me == c->root)
            fill(c->src, bytes, c->root, (uint32_t)c->serial);

        c->event = gex_Coll_BroadcastNB(c->tm, c->root, c->dst, me == c->root ? c->src : NULL,
                                        bytes, flags);
    } else {
        fill_src(c);
        if (c->kind == 2)
            c->event = gex_Coll_ReduceToOneNB(c->tm, c->root, me == c->root ? c->dst : NULL, c->src,
                                              c->dt, c->size, c->count, c->op, coll_user_op,
                                              &c->user, flags);
        else
            c->event = gex_Coll_ReduceToAllNB(c->tm, c->dst, c->src, c->dt, c->size, c->count,
                                              c->op, coll_user_op, &c->user, flags);
    }
}

static void check(struct call *c)
{
    size_t bytes = c->size * c->count;
    size_t step = c->count > 3000 ? c->count / 1500 : 1;
    gex_Rank_t me = gex_TM_QueryRank(c->tm);
    gex_Rank_t last = gex_TM_QuerySize(c->tm) - 1;

    if (c->kind == 1)
        COLL_CHECK(right(c->dst, bytes, c->root, (uint32_t)c->serial) == bytes,
                   "broadcast of %zu from %u, good %zu", bytes, c->root,
                   right(c->dst, bytes, c->root, (uint32_t)c->serial));

    for (size_t i = 0; c->kind >= 2 && (c->kind == 3 || me == c->root) && i < c->count;
         i += i + step < c->count ? step : 1)
        COLL_CHECK(coll_right(c->dt, c->size, c->op, c->serial, last, i, c->dst + i * c->size),
                   "reduction %d to %u, type %#x operator %#x, element %zu of %zu, %zu bytes each",
                   c->kind, c->root, (unsigned)c->dt, (unsigned)c->op, i, c->count, c->size);

    free(c->memory);
}

static void finish_one(struct call *c)
{
    if (c->with_leaf)
        gex_Event_Wait(gex_Event_QueryLeaf(c->event, GEX_EC_LC));

    if (next_random(&own) % 2)
        gex_Event_Wait(c->event);
    else
        while (c->event && gex_Event_Test(c->event) != GASNET_OK)
            gasnet_AMPoll();
}

/* Waits for all in an order of this process's own. */
static void finish(struct call *c, unsigned n)
{
    gex_Event_t rest[MANY];
    unsigned order[MANY];
    unsigned singles = next_random(&own) % (n + 1);
    unsigned nrest = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned j = next_random(&own) % (i + 1);

        order[i] = order[j];
        order[j] = i;
    }

    for (unsigned i = 0; i < singles; i++)
        finish_one(&c[order[i]]);

    for (unsigned i = singles; i < n; i++)
        rest[nrest++] = c[order[i]].event;

    if (next_random(&own) % 2) {
        for (unsigned left = nrest; left; left--)
            gex_Event_WaitSome(rest, nrest, 0);
    }

    gex_Event_WaitAll(rest, nrest, 0);
}

static void batch(uint64_t *serial)
{
    struct call calls[MANY];
    unsigned n = 1 + pick(MANY);

    for (unsigned i = 0; i < n; i++) {
        calls[i] = plan(++*serial);
        if (next_random(&own) % 8 == 0)
            gasnet_AMPoll();

        start(&calls[i]);
    }

    finish(calls, n);
    for (unsigned i = 0; i < n; i++)
        check(&calls[i]);
}

/* Long trains of small ones: nobody may fall behind without bound, and all of them arrive. */
static void train(void)
{
    enum {
        N = 400
    };

    static uint64_t got[N], sum[N], mine[N];
    static gex_Event_t event[2 * N];
    gex_Rank_t me = gex_TM_QueryRank(world);
    gex_Rank_t size = gex_TM_QuerySize(world);

    for (unsigned i = 0; i < N; i++) {
        mine[i] = coll_hash(5, me, i) % 100000;
        got[i] = me == i % size ? i * UINT64_C(1000003) : 0;
        event[2 * i] = gex_Coll_BroadcastNB(world, i % size, &got[i], &got[i], sizeof got[i], 0);
        event[2 * i + 1] = gex_Coll_ReduceToOneNB(world, (i + 1) % size, &sum[i], &mine[i],
                                                  GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
    }

    gex_Event_WaitAll(event, 2 * N, 0);
    for (unsigned i = 0; i < N; i++) {
        uint64_t want = 0;

        for (gex_Rank_t r = 0; r < size; r++)
            want += coll_hash(5, r, i) % 100000;

        COLL_CHECK(got[i] == i * UINT64_C(1000003), "broadcast %u of a train", i);
        COLL_CHECK((i + 1) % size != me || sum[i] == want, "sum %u of a train", i);
    }
}

/* The root writes, or the others write, what they can before anybody reads: every ring of cells comes round several
 * times, and operations of all sizes follow each other. */
static void one_root(void)
{
    enum {
        ROUNDS = 1500,
        WORDS_MAX = 63
    };

    static const size_t words[] = { 1, 1, 1, 13, 14, 15, 62, WORDS_MAX };
    const gex_Rank_t me = gex_TM_QueryRank(world);
    const gex_Rank_t size = gex_TM_QuerySize(world);
    uint64_t in[WORDS_MAX], out[WORDS_MAX];

    for (unsigned i = 0; i < ROUNDS; i++) {
        const size_t count = words[i % (sizeof words / sizeof *words)];
        const bool sums = i / 600 % 2;

        for (size_t k = 0; k < count; k++)
            in[k] = i + k + (sums ? me : 0);

        gex_Event_Wait(sums ? gex_Coll_ReduceToOneNB(world, 0, out, in, GEX_DT_U64, 8, count,
                                                     GEX_OP_ADD, NULL, NULL, 0)
                            : gex_Coll_BroadcastNB(world, 0, out, in, count * sizeof *in, 0));

        for (size_t k = 0; k < count && (me == 0 || !sums); k++)
            COLL_CHECK(out[k] == (sums ? size * (i + k) + size * (size - 1) / 2 : i + k),
                       "word %zu of %zu of operation %u, %s", k, count, i,
                       sums ? "a sum" : "a broadcast");
    }
}

/* One process comes 80 ms late to each kind: the others wait without using the processor, in a wait
 * or in the next call. */
static void late(void)
{
    struct timespec before, after;
    struct timespec pause = { 0, 80000000 };
    uint64_t in = gex_TM_QueryRank(world);
    uint64_t out = 0;

    for (int kind = 0; kind < 4; kind++) {
        gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        if (gex_TM_QueryRank(world) == 0)
            nanosleep(&pause, NULL); /* being late is what is tested */

        gex_Event_t event = GEX_EVENT_INVALID;

        if (kind == 0)
            event = gex_Coll_ReduceToAllNB(world, &out, &in, GEX_DT_U64, 8, 1, GEX_OP_MAX, NULL,
                                           NULL, 0);
        else if (kind == 1)
            event = gex_Coll_BroadcastNB(world, 0, &out, &in, 8, 0);
        else if (kind == 2)
            event = gex_Coll_ReduceToOneNB(world, gex_TM_QuerySize(world) - 1, &out, &in,
                                           GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);

        gex_Event_Wait(event);
        gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);

        double ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
                    (double)(after.tv_nsec - before.tv_nsec) / 1e6;

        COLL_CHECK(ms <= 40, "a wait of 80 ms in kind %d took %.1f ms of processor time", kind, ms);
    }
}

/* Teams of each process: the order of ranks turned, neighbourhoods mixed, some processes apart. */
static void make_teams(void)
{
    gex_Rank_t me = gex_TM_QueryRank(world);
    gex_Rank_t size = gex_TM_QuerySize(world);
    const int color[] = { (int)(me % 2), 0, me == 0 ? 1 : 0 };
    const int key[] = { -(int)me, (int)(coll_hash(coll_seed, me, 3) % 1000),
                        (int)((me * 2 + 1) % (size + 1)) };

    teams[nteams++] = world;
    for (; nteams < TEAMS; nteams++)
        CHECK(gex_TM_Split(&teams[nteams], world, color[nteams - 1], key[nteams - 1], NULL, 0,
                           GEX_FLAG_TM_NO_SCRATCH) == 0);
}

static void drop_teams(void)
{
    while (nteams > 1)
        CHECK(gex_TM_Destroy(teams[--nteams], NULL, 0) == 0);

    nteams = 0;
}

/* A team in which each process is a member twice, by two endpoints: first all the calls of both,
 * then their ends. */
static void two_members_each(gex_Client_t client)
{
    enum {
        N = 5000,
        MEMBERS_MAX = 64
    };

    gex_Rank_t me = gex_System_QueryJobRank();
    gex_Rank_t size = gex_System_QueryJobSize();
    gex_EP_Location_t list[2 * MEMBERS_MAX];
    gex_TM_t tm[2];
    gex_EP_t ep;
    gex_Event_t event[6];
    static uint64_t in[2][N], out[2][N], small[2];

    CHECK(size <= MEMBERS_MAX && gex_EP_Create(&ep, client, GEX_EP_CAPABILITY_ALL, 0) == GASNET_OK);
    for (gex_Rank_t i = 0; i < 2 * size; i++)
        list[i] = (gex_EP_Location_t){ .gex_rank = i % size,
                                       .gex_ep_index = i < size ? 0 : gex_EP_QueryIndex(ep) };

    gex_TM_Create(tm, 2, world, list, 2 * (size_t)size, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    for (int k = 0; k < 2; k++) {
        CHECK(gex_TM_QueryRank(tm[k]) == me + (gex_Rank_t)k * size);
        for (size_t i = 0; i < N; i++)
            in[k][i] = gex_TM_QueryRank(tm[k]) + i;

        small[k] = gex_TM_QueryRank(tm[k]) == size ? 42 : 0;
        event[3 * k] = gex_Coll_ReduceToAllNB(tm[k], out[k], in[k], GEX_DT_U64, 8, N, GEX_OP_ADD,
                                              NULL, NULL, 0);
        event[3 * k + 1] = gex_Coll_BroadcastNB(tm[k], size, &small[k], &small[k], 8, 0);
        event[3 * k + 2] = gex_Coll_BarrierNB(tm[k], 0);
    }

    gex_Event_WaitAll(event, 6, 0);
    for (size_t i = 0; i < N; i++)
        CHECK(out[0][i] == 2 * size * i + size * (2 * size - 1) && out[1][i] == out[0][i]);

    CHECK(small[0] == 42 && small[1] == 42);
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    for (int k = 0; k < 2; k++)
        CHECK(gex_TM_Destroy(tm[k], NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
}

/* Half of the processes wait for a sum before they attach, the others after: attaching makes
 * progress on it. */
static void attach_with_one_under_way(void)
{
    enum {
        N = 300000
    };

    gex_Segment_t segment;
    uint64_t *sum = calloc(N, sizeof *sum);
    uint64_t n = gex_System_QueryJobSize();

    for (size_t i = 0; i < N; i++)
        sum[i] = i;

    gex_Event_t event = gex_Coll_ReduceToAllNB(world, sum, sum, GEX_DT_U64, 8, N, GEX_OP_ADD, NULL,
                                               NULL, 0);

    if (gex_System_QueryJobRank() % 2)
        gex_Event_Wait(event);

    CHECK(gex_Segment_Attach(&segment, world, GASNET_PAGESIZE) == GASNET_OK);
    if (gex_System_QueryJobRank() % 2 == 0)
        gex_Event_Wait(event);

    for (size_t i = 0; i < N; i += 37)
        CHECK(sum[i] == i * n);

    free(sum);
}

int main(int argc, char **argv)
{
    uint64_t serial = 0;
    gex_Client_t client;

    CHECK(gex_Client_Init(&client, NULL, &world, "TEST_COLL", &argc, &argv, 0) == GASNET_OK);
    attach_with_one_under_way();
    coll_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

    unsigned batches = argc > 2 ? (unsigned)atoi(argv[2]) : 12;

    most_bytes = argc > 3 ? (size_t)atol(argv[3]) : (size_t)3 << 20;
    common = coll_seed;
    own = coll_seed ^ (gex_System_QueryJobRank() + 1) * UINT64_C(0x1234567);
    if (gex_System_QueryJobRank() == 0)
        printf("seed %llu\n", (unsigned long long)coll_seed);

    make_teams();
    train();
    one_root();
    two_members_each(client);
    if (coll_seed == 1)
        late();

    for (unsigned i = 0; i < batches; i++) {
        batch(&serial);
        if (i == batches / 2) {
            drop_teams();
            make_teams();
        }
    }

    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    gasnet_exit(0);
}
