/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams: random splits and lists checked against a model that every process computes for itself,
 * nested and overlapping ones, put, get and messages over them, names of members, scratch space,
 * and a thousand teams made and destroyed. Arguments: seed, rounds of random splits, teams of the
 * last part.
 */
#include <malloc.h>

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_MARK = 200,
    H_DATA,
    H_LONG,
    H_BACK,
    PLACE = 4096,
    DEPTH = 3
};

static gex_TM_t world;
static gex_EP_t ep;
static gex_Rank_t me, size;
static gex_Segment_t segment;
static char **bases;
static unsigned marks[64]; /* from each process */
static unsigned backs;

static void mark(gex_Token_t token, gex_AM_Arg_t from)
{
    gex_Token_Info_t info;

    CHECK(gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK);
    CHECK(info.gex_srcrank == (gex_Rank_t)from);
    marks[from]++;
    CHECK(gex_AM_ReplyShort0(token, H_BACK, 0) == 0);
}

static void data(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t from, gex_AM_Arg_t step)
{
    CHECK(right(buf, nbytes, (uint32_t)from, (uint32_t)step) == nbytes);
    mark(token, from);
}

static void back(gex_Token_t token)
{
    (void)token;
    backs++;
}

static void barrier(gex_TM_t tm)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

/* ---- a team against its model: the job ranks of its members in order ---- */

struct model {
    gex_Rank_t n, self, member[64];
};

static void check_names(gex_TM_t tm, const struct model *m, gex_Flags_t flags)
{
    CHECK(gex_TM_QuerySize(tm) == m->n && gex_TM_QueryRank(tm) == m->self);
    CHECK(gex_TM_QueryEP(tm) == ep && gex_TM_QueryClient(tm) == gex_EP_QueryClient(ep) &&
          gex_TM_QueryFlags(tm) == flags);

    gex_Rank_t found = 0;

    for (gex_Rank_t i = 0; i < m->n; i++) {
        gex_EP_Location_t loc = gex_TM_TranslateRankToEP(tm, i, 0);

        CHECK(gex_TM_TranslateRankToJobrank(tm, i) == m->member[i]);
        CHECK(loc.gex_rank == m->member[i] && loc.gex_ep_index == 0);
    }

    for (gex_Rank_t j = 0; j < size; j++) {
        gex_Rank_t rank = gex_TM_TranslateJobrankToRank(tm, j);

        CHECK(rank == GEX_RANK_INVALID || (rank < m->n && m->member[rank] == j));
        found += rank != GEX_RANK_INVALID;
    }

    CHECK(found == m->n);
}

static void check_segments(gex_TM_t tm, const struct model *m)
{
    for (gex_Rank_t i = 0; i < m->n; i++) {
        void *owner, *local, *owner2;
        uintptr_t len;

        CHECK(gex_Segment_QueryBound(tm, i, &owner, &local, &len) == 0);
        CHECK(owner == bases[m->member[i]] && len >= (uintptr_t)size * PLACE);
        CHECK(gex_Segment_QueryBound(gex_TM_Pair(ep, 0), m->member[i], &owner2, NULL, NULL) == 0 &&
              owner2 == owner);
    }
}

/* My place in the segment of a process: nobody else writes there. */
static char *place(gex_Rank_t jobrank)
{
    return bases[jobrank] + (size_t)me * PLACE;
}

static void transfer(gex_TM_t tm, const struct model *m, gex_Rank_t to, uint32_t step)
{
    char out[PLACE / 2], in[PLACE / 2];
    size_t n = 1 + (step * 131) % sizeof out;
    char *dest = place(m->member[to]);

    fill(out, n, me, step);
    CHECK(gex_RMA_PutBlocking(tm, to, dest, out, n, 0) == 0);
    memset(in, 0, sizeof in);
    gex_Event_Wait(gex_RMA_GetNB(tm, in, to, dest, n, 0));
    CHECK(right(in, n, me, step) == n);
    CHECK(gex_RMA_PutBlockingVal(tm, to, dest + n, step, 4, 0) == 0);
    CHECK((uint32_t)gex_RMA_GetBlockingVal(gex_TM_Pair(ep, 0), m->member[to], dest + n, 4, 0) ==
          step);
    CHECK(gex_RMA_GetBlockingVal(tm, to, dest, 1, 0) == pattern(me, step, 0));
}

static void talk(gex_TM_t tm, const struct model *m, uint32_t step)
{
    char buf[900];
    unsigned sent = backs;

    fill(buf, sizeof buf, me, step);
    for (gex_Rank_t i = 0; i < m->n; i++) {
        gex_Rank_t to = (i + m->self) % m->n;
        size_t n = 1 + (step + i * 77) % sizeof buf;

        transfer(tm, m, to, step);
        CHECK(gex_AM_MaxRequestMedium(tm, to, GEX_EVENT_NOW, 0, 2) >= sizeof buf);
        CHECK(gex_AM_RequestShort1(tm, to, H_MARK, 0, (gex_AM_Arg_t)me) == 0);
        CHECK(gex_AM_RequestMedium2(tm, to, H_DATA, buf, n, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                                    (gex_AM_Arg_t)step) == 0);
        CHECK(gex_AM_RequestLong2(tm, to, H_LONG, buf, n, place(m->member[to]) + PLACE / 2 + 8,
                                  GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, (gex_AM_Arg_t)step) == 0);
        sent += 3;
    }

    GASNET_BLOCKUNTIL(backs == sent);
}

/* ---- splits ---- */

/* What process j of the job asks for in this round; everybody knows. */
static void ask(uint64_t seed, gex_Rank_t j, int *color, int *key, bool *member)
{
    uint64_t s = seed * 1000003 + j * 7919 + 1;

    next_random(&s);
    *member = next_random(&s) % 5 != 0;
    *color = (int)(next_random(&s) % 3);
    *key = (int)(next_random(&s) % 4) - 2;
}

/* The members of the parent that ask for the caller's colour, sorted by insertion. */
static void split_model(const struct model *parent, uint64_t seed, struct model *m)
{
    int color, key, keys[64];
    bool member;

    ask(seed, me, &color, &key, &member);
    m->n = 0;

    for (gex_Rank_t i = 0; i < parent->n; i++) {
        int c, k;

        ask(seed, parent->member[i], &c, &k, &member);
        if (!member || c != color)
            continue;

        gex_Rank_t at = m->n++;

        for (; at > 0 && keys[at - 1] > k; at--) {
            keys[at] = keys[at - 1];
            m->member[at] = m->member[at - 1];
        }

        keys[at] = k;
        m->member[at] = parent->member[i];
    }

    for (gex_Rank_t i = 0; i < m->n; i++)
        if (m->member[i] == me)
            m->self = i;
}

static void world_model(struct model *m)
{
    m->n = size;
    m->self = me;
    for (gex_Rank_t i = 0; i < size; i++)
        m->member[i] = i;
}

/* Splits tm, looks at the part, uses it, splits that again. */
static void split_deep(gex_TM_t tm, const struct model *parent, uint64_t seed, int depth)
{
    int color, key;
    bool member;
    gex_TM_t part = GEX_TM_INVALID;
    struct model m;

    ask(seed, me, &color, &key, &member);
    gex_TM_Split(member ? &part : NULL, tm, color, key, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK((part != GEX_TM_INVALID) == member);
    if (!member)
        return;

    split_model(parent, seed, &m);
    check_names(part, &m, GEX_FLAG_TM_NO_SCRATCH);
    check_segments(part, &m);
    CHECK(gex_TM_QueryCData(part) == NULL);
    gex_TM_SetCData(part, &m);
    talk(part, &m, (uint32_t)seed);
    if (depth > 1)
        split_deep(part, &m, seed + 1, depth - 1);

    talk(part, &m, (uint32_t)seed + 1);
    CHECK(gex_TM_QueryCData(part) == &m);
    CHECK(gex_TM_Destroy(part, NULL, 0) == 0);
}

/* ---- lists ---- */

/* A random list of processes that everybody knows: two disjoint teams may come of it, group 0 and
 * 1; others are in none. */
static void create_random(uint64_t seed)
{
    gex_EP_Location_t args[64];
    gex_Rank_t turned[64];
    struct model m = { 0 };
    uint64_t s = seed;
    unsigned group[64], mine;
    bool job = seed % 2;
    gex_Flags_t flags = GEX_FLAG_TM_NO_SCRATCH | (job ? GEX_FLAG_RANK_IS_JOBRANK : 0);
    gex_TM_t tm = GEX_TM_INVALID;
    gex_TM_t parent = GEX_TM_INVALID;

    /* the parent has the ranks in reverse */
    gex_TM_Split(&parent, world, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    for (gex_Rank_t i = 0; i < size; i++) {
        group[i] = next_random(&s) % 3;
        turned[i] = i;
    }

    for (gex_Rank_t i = size; i-- > 1;) { /* an order that everybody knows */
        gex_Rank_t j = next_random(&s) % (i + 1);
        gex_Rank_t t = turned[i];
        turned[i] = turned[j];
        turned[j] = t;
    }

    mine = group[me];
    for (gex_Rank_t i = 0; i < size && mine < 2; i++) {
        gex_Rank_t j = turned[i];

        if (group[j] != mine)
            continue;

        if (j == me)
            m.self = m.n;

        args[m.n] = (gex_EP_Location_t){ job ? j : size - 1 - j, 0 };
        m.member[m.n++] = j;
    }

    /* a query ignores new_tms and scratch_addrs, and returns 0 to a process that makes no team */
    for (int listed = 0; listed < 2; listed++) {
        size_t bytes = gex_TM_Create(NULL, m.n != 0, parent, listed ? args : NULL, m.n, NULL, 0,
                                     flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);

        CHECK((bytes != 0) == (m.n != 0));
    }

    gex_TM_Create(m.n ? &tm : NULL, m.n != 0, parent, m.n ? args : NULL, m.n, NULL, 0, flags);
    CHECK((tm != GEX_TM_INVALID) == (m.n != 0));

    if (m.n) {
        check_names(tm, &m, flags);
        talk(tm, &m, (uint32_t)seed);
        CHECK(gex_TM_Destroy(tm, NULL, 0) == 0);
    }

    gex_TM_Destroy(parent, NULL, 0);
}

/* ---- overlapping teams, rows and columns ---- */

static void test_grid(void)
{
    gex_Rank_t width = size < 3 ? size : 3;
    struct model row = { 0 };
    struct model column = { 0 };
    gex_TM_t row_tm = GEX_TM_INVALID;
    gex_TM_t column_tm = GEX_TM_INVALID;
    gex_TM_t copy = GEX_TM_INVALID;
    struct model all;

    world_model(&all);
    gex_TM_Split(&row_tm, world, (int)(me / width), 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Split(&column_tm, world, (int)(me % width), 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_Split(&copy, world, 7, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);

    for (gex_Rank_t i = 0; i < size; i++) {
        if (i / width == me / width)
            row.member[row.n++] = i;

        if (i % width == me % width)
            column.member[column.n++] = i;
    }

    row.self = me % width;
    column.self = me / width;
    check_names(row_tm, &row, GEX_FLAG_TM_NO_SCRATCH);
    check_names(column_tm, &column, GEX_FLAG_TM_NO_SCRATCH);
    check_names(copy, &all, GEX_FLAG_TM_NO_SCRATCH);

    for (uint32_t step = 0; step < 3; step++) {
        talk(row_tm, &row, step);
        talk(column_tm, &column, step + 10);
        talk(copy, &all, step + 20);
    }

    barrier(world);
    CHECK(gex_TM_Destroy(column_tm, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    CHECK(gex_TM_Destroy(row_tm, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    CHECK(gex_TM_Destroy(copy, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
}

/* ---- scratch space ---- */

static void test_scratch(void)
{
    gex_TM_t tm = GEX_TM_INVALID;
    gex_Memvec_t got = { NULL, 0 };
    char *base = gex_Segment_QueryAddr(segment);

    CHECK(gex_TM_Split(NULL, world, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED) == 0);

    size_t bytes = gex_TM_Split(&tm, world, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);

    CHECK(bytes > 0 && tm == GEX_TM_INVALID);
    gex_TM_Split(&tm, world, 0, (int)me, base + 64, bytes, 0);
    CHECK(gex_TM_Destroy(tm, &got, 0) != 0 && got.gex_addr == base + 64 && got.gex_len == bytes);

    gex_EP_Location_t args[64];
    gex_Addr_t symmetric = (gex_Addr_t)(uintptr_t)128;
    gex_Addr_t local = base + 256;
    gex_Addr_t global[64];

    for (gex_Rank_t i = 0; i < size; i++) {
        args[i] = (gex_EP_Location_t){ i, 0 };
        global[i] = bases[i] + 64 * (i + 1);
    }

    gex_TM_Create(&tm, 1, world, args, size, &symmetric, bytes,
                  GEX_FLAG_TM_SYMMETRIC_SCRATCH | GEX_FLAG_SCRATCH_SEG_OFFSET);
    CHECK(gex_TM_Destroy(tm, &got, 0) != 0 && got.gex_addr == base + 128 && got.gex_len == bytes);
    gex_TM_Create(&tm, 1, world, args, size, &local, bytes, GEX_FLAG_TM_LOCAL_SCRATCH);
    CHECK(gex_TM_Destroy(tm, NULL, 0) == 0);
    gex_TM_Create(&tm, 1, world, args, size, global, bytes, GEX_FLAG_TM_GLOBAL_SCRATCH);
    CHECK(gex_TM_Destroy(tm, &got, GEX_FLAG_SCRATCH_SEG_OFFSET) != 0 &&
          got.gex_addr == (void *)(uintptr_t)(64 * (me + 1)));
    got.gex_len = 77;
    gex_TM_Split(&tm, world, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_Destroy(tm, &got, 0) == 0 && got.gex_len == 77);
}

/* ---- many ---- */

/* Makes and destroys teams; the heap in use does not grow with their number. */
static void test_many(unsigned count)
{
    size_t before = 0;

    for (unsigned i = 0; i < count; i++) {
        gex_TM_t tm = GEX_TM_INVALID;

        gex_TM_Split(&tm, world, (int)(me + i) % 2, (int)(size - me), NULL, 0,
                     GEX_FLAG_TM_NO_SCRATCH);
        CHECK(gex_TM_TranslateRankToJobrank(tm, gex_TM_QueryRank(tm)) == me);
        CHECK(gex_TM_Destroy(tm, NULL, i % 2 ? GEX_FLAG_GLOBALLY_QUIESCED : 0) == 0);
        if (i == count / 4)
            before = mallinfo2().uordblks;
    }

    size_t after = mallinfo2().uordblks;

    if (count > 400)
        CHECK(after < before + 64 * 1024);
}

/* Before there is a segment teams can be made; what is attached later is reached through them. */
static gex_TM_t make_early(struct model *m)
{
    gex_TM_t tm = GEX_TM_INVALID;

    gex_TM_Split(&tm, world, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    m->n = size;
    m->self = size - 1 - me;
    for (gex_Rank_t i = 0; i < size; i++)
        m->member[i] = size - 1 - i;

    return tm;
}

static void start(void)
{
    gex_AM_Entry_t table[] = {
        { H_MARK, (gex_AM_Fn_t)mark, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "mark" },
        { H_DATA, (gex_AM_Fn_t)data, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 2, NULL, "data" },
        { H_LONG, (gex_AM_Fn_t)data, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "long" },
        { H_BACK, (gex_AM_Fn_t)back, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "back" },
    };
    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (uintptr_t)size * PLACE;

    CHECK(gex_EP_RegisterHandlers(ep, table, 4) == GASNET_OK);
    CHECK(gex_Segment_Attach(&segment, world, (bytes + page - 1) / page * page) == GASNET_OK);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(world, i, (void **)&bases[i], NULL, NULL) == 0);

    barrier(world);
}

int main(int argc, char **argv)
{
    struct model all, early;

    if (gex_Client_Init(NULL, &ep, &world, "TEST_TEAM", &argc, &argv, 0) != GASNET_OK)
        return 2;

    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 8;
    unsigned many = argc > 3 ? (unsigned)atoi(argv[3]) : 100;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    if (me == 0)
        printf("seed %llu\n", (unsigned long long)seed);

    gex_TM_t early_tm = make_early(&early);

    start();
    world_model(&all);
    talk(early_tm, &early, 3);

    for (unsigned i = 0; i < rounds; i++) {
        split_deep(world, &all, seed * 100 + i * 10, DEPTH);
        create_random(seed * 100 + i);
    }

    test_grid();
    test_scratch();
    test_many(many);
    check_names(early_tm, &early, GEX_FLAG_TM_NO_SCRATCH);
    talk(early_tm, &early, 4);
    barrier(world);
    gasnet_exit(0);
}
