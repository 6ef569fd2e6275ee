/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get through gasnetex.h in all their forms, with random sizes and alignments, checked at
 * both ends; events, leaves, implicit operations and access regions. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

/* Each process owns a part of every segment. */
#define PART (384 * 1024)
#define BYTES_MAX (256 * 1024)

static gex_TM_t tm;
static gex_Rank_t me, size;
static char **bases;
static char *out, *in;
static uint64_t seed;

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static size_t random_size(void)
{
    unsigned bits = next_random(&seed) % 19;
    size_t n = next_random(&seed) % ((size_t)1 << bits) + (bits == 18);

    return n < BYTES_MAX ? n : BYTES_MAX;
}

static char *place(gex_Rank_t to, size_t off)
{
    return bases[to] + (size_t)me * PART + off;
}

enum {
    BLOCKING,
    NB_NOW,
    NB_DEFER,
    NB_EVENT,
    NBI_NOW,
    NBI_DEFER,
    NBI_GROUP,
    REGION,
    NPUTS
};

static void put_nb(gex_Rank_t to, char *dest, size_t n, int how)
{
    gex_Event_t lc = GEX_EVENT_NO_OP;
    gex_Event_t *const opt[] = {
        [NB_NOW] = GEX_EVENT_NOW, [NB_DEFER] = GEX_EVENT_DEFER, [NB_EVENT] = &lc
    };
    gex_Event_t ev = gex_RMA_PutNB(tm, to, dest, out, n, opt[how], 0);

    CHECK(ev != GEX_EVENT_NO_OP);
    if (how == NB_NOW)
        memset(out, 0xee, n);

    if (how == NB_EVENT) {
        if (ev != GEX_EVENT_INVALID && lc != GEX_EVENT_INVALID)
            CHECK(gex_Event_QueryLeaf(ev, GEX_EC_LC) == lc ||
                  gex_Event_QueryLeaf(ev, GEX_EC_LC) == GEX_EVENT_INVALID);

        while (gex_Event_Test(lc))
            gasnet_AMPoll();

        memset(out, 0xee, n);
    }

    gex_Event_Wait(ev);
}

static void put_nbi(gex_Rank_t to, char *dest, size_t n, int how)
{
    gex_Event_t *const opt[] = {
        [NBI_NOW] = GEX_EVENT_NOW, [NBI_DEFER] = GEX_EVENT_DEFER, [NBI_GROUP] = GEX_EVENT_GROUP
    };

    CHECK(gex_RMA_PutNBI(tm, to, dest, out, n, opt[how], 0) == 0);
    if (how == NBI_NOW)
        memset(out, 0xee, n);

    if (how == NBI_GROUP) {
        gex_NBI_Wait(GEX_EC_LC, 0);
        memset(out, 0xee, n);
    }

    gex_NBI_Wait(GEX_EC_PUT, 0);
}

/* Many small puts that one event completes. */
static void put_region(gex_Rank_t to, char *dest, size_t n)
{
    size_t step = n / 13 + 1;

    gex_NBI_BeginAccessRegion(0);
    for (size_t at = 0; at < n; at += step)
        CHECK(gex_RMA_PutNBI(tm, to, dest + at, out + at, at + step < n ? step : n - at,
                             GEX_EVENT_GROUP, 0) == 0);

    gex_Event_t ev = gex_NBI_EndAccessRegion(0);
    gex_Event_t leaf = gex_Event_QueryLeaf(ev, GEX_EC_LC);

    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK); /* they are not implicit any more */
    gex_Event_Wait(leaf);
    memset(out, 0xee, n);
    gex_Event_Wait(ev);
}

static void put(gex_Rank_t to, char *dest, size_t n, int how)
{
    if (how == BLOCKING)
        CHECK(gex_RMA_PutBlocking(tm, to, dest, out, n, 0) == 0);
    else if (how <= NB_EVENT)
        put_nb(to, dest, n, how);
    else if (how <= NBI_GROUP)
        put_nbi(to, dest, n, how);
    else
        put_region(to, dest, n);
}

static void get(gex_Rank_t from, char *src, size_t n, int how)
{
    memset(in, 0, n);
    if (how % 3 == 0)
        CHECK(gex_RMA_GetBlocking(tm, in, from, src, n, 0) == 0);

    if (how % 3 == 1) {
        gex_Event_t ev = gex_RMA_GetNB(tm, in, from, src, n, 0);

        CHECK(ev != GEX_EVENT_NO_OP);
        gex_Event_Wait(ev);
    }

    if (how % 3 == 2) {
        CHECK(gex_RMA_GetNBI(tm, in, from, src, n, 0) == 0);
        while (gex_NBI_Test(GEX_EC_GET, 0))
            gasnet_AMPoll();
    }
}

static void test_transfers(unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        gex_Rank_t to = next_random(&seed) % size;
        size_t n = step < NPUTS ? step : random_size();
        size_t off = next_random(&seed) % 64 + 1;
        char *dest = place(to, off);
        static const unsigned char guard = 0x5a;
        unsigned char before = 0;
        unsigned char behind = 0;

        CHECK(gex_RMA_PutBlocking(tm, to, dest - 1, &guard, 1, 0) == 0 &&
              gex_RMA_PutBlocking(tm, to, dest + n, &guard, 1, 0) == 0);
        fill(out, n, me, step);
        put(to, dest, n, (int)(step % NPUTS));
        get(to, dest, n, (int)(step % 7));
        CHECK(right(in, n, me, step) == n);
        CHECK(gex_RMA_GetBlocking(tm, &before, to, dest - 1, 1, 0) == 0 &&
              gex_RMA_GetBlocking(tm, &behind, to, dest + n, 1, 0) == 0);
        CHECK(before == guard && behind == guard);
    }

    barrier();
}

/* What is put is seen by the owner after a barrier. */
static void test_visible(void)
{
    for (gex_Rank_t k = 0; k < size; k++) {
        gex_Rank_t to = (me + k) % size;

        fill(out, 5000, me, to);
        CHECK(gex_RMA_PutBlocking(tm, to, place(to, 0), out, 5000, 0) == 0);
    }

    barrier();
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(right(bases[me] + (size_t)i * PART, 5000, i, me) == 5000);

    barrier();
}

static void test_values(void)
{
    const gex_RMA_Value_t v = (gex_RMA_Value_t)UINT64_C(0x8899aabbccddeeff);

    for (gex_Rank_t to = 0; to < size; to++)
        for (size_t n = 1; n <= SIZEOF_GEX_RMA_VALUE_T; n++) {
            const gex_RMA_Value_t want = n == sizeof v ? v
                                                       : v & (((gex_RMA_Value_t)1 << 8 * n) - 1);

            for (int how = 0; how < 3; how++) {
                char *dest = place(to, (size_t)how + 1);

                CHECK(gex_RMA_PutBlockingVal(tm, to, dest, 0, sizeof v, 0) == 0);
                if (how == 0)
                    CHECK(gex_RMA_PutBlockingVal(tm, to, dest, v, n, 0) == 0);

                if (how == 1)
                    gex_Event_Wait(gex_RMA_PutNBVal(tm, to, dest, v, n, 0));

                if (how == 2) {
                    CHECK(gex_RMA_PutNBIVal(tm, to, dest, v, n, 0) == 0);
                    gex_NBI_Wait(GEX_EC_ALL, 0);
                }

                CHECK(gex_RMA_GetBlockingVal(tm, to, dest, n, 0) == want);

                uint32_t four = 0; /* an integer of that size, also as memory */

                CHECK(gex_RMA_GetBlocking(tm, &four, to, dest, 4, 0) == 0 &&
                      (n != 4 || four == (uint32_t)v));
            }
        }

    barrier();
}

/* Many operations under way at once, synchronised as arrays. */
static void test_events(void)
{
    enum {
        N = 600,
        LEN = 100
    };

    static gex_Event_t ev[N];

    for (int i = 0; i < N; i++) {
        fill(out + i * LEN, LEN, me, (uint32_t)i);

        gex_Rank_t to = (me + (gex_Rank_t)i) % size;

        ev[i] = i % 10 == 9 ? GEX_EVENT_INVALID
                            : gex_RMA_PutNB(tm, to, place(to, (size_t)i * LEN), out + i * LEN, LEN,
                                            GEX_EVENT_DEFER, 0);
    }

    size_t left = N;

    while (left > N / 2) {
        gex_Event_WaitSome(ev, N, 0);
        left = 0;
        for (int i = 0; i < N; i++)
            left += ev[i] != GEX_EVENT_INVALID;

        if (left == 0)
            break;
    }

    while (gex_Event_TestSome(ev, N / 2, 0) != GASNET_OK)
        gasnet_AMPoll();

    while (gex_Event_TestAll(ev, N / 2, 0) != GASNET_OK)
        gasnet_AMPoll();

    gex_Event_WaitAll(ev, N, 0);
    for (int i = 0; i < N; i++)
        CHECK(ev[i] == GEX_EVENT_INVALID);

    CHECK(gex_Event_TestAll(ev, N, 0) == GASNET_OK && gex_Event_TestSome(ev, N, 0) == GASNET_OK &&
          gex_Event_TestSome(ev, 0, 0) == GASNET_OK);
    gex_Event_WaitSome(ev, N, 0);
    CHECK(gex_Event_Test(GEX_EVENT_INVALID) == GASNET_OK &&
          gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_LC) == GEX_EVENT_INVALID);

    for (int i = 0; i < N; i++) {
        gex_Rank_t from = (me + (gex_Rank_t)i) % size;

        ev[i] = i % 10 == 9
                    ? GEX_EVENT_INVALID
                    : gex_RMA_GetNB(tm, in + i * LEN, from, place(from, (size_t)i * LEN), LEN, 0);
    }

    gex_Event_WaitAll(ev, N, 0);
    for (int i = 0; i < N; i++)
        CHECK(i % 10 == 9 || right(in + i * LEN, LEN, me, (uint32_t)i) == LEN);

    barrier();
}

/* With IMMEDIATE a transfer may be refused, never half done. */
static void test_immediate(void)
{
    gex_Rank_t to = (me + 1) % size;

    for (uint32_t step = 0; step < 150; step++) {
        fill(out, 3000, me, step);
        while (gex_RMA_PutBlocking(tm, to, place(to, 0), out, 3000, GEX_FLAG_IMMEDIATE))
            gasnet_AMPoll();

        gex_Event_t ev;

        while ((ev = gex_RMA_GetNB(tm, in, to, place(to, 0), 3000, GEX_FLAG_IMMEDIATE)) ==
               GEX_EVENT_NO_OP)
            gasnet_AMPoll();

        gex_Event_Wait(ev);
        CHECK(right(in, 3000, me, step) == 3000);

        while (
            gex_RMA_PutNBI(tm, to, place(to, 4096), out, 3000, GEX_EVENT_DEFER, GEX_FLAG_IMMEDIATE))
            gasnet_AMPoll();

        gex_NBI_Wait(GEX_EC_PUT | GEX_EC_LC, 0);
    }

    barrier();
}

/* A process is a target of its own like any other; transfers of nothing go anywhere. */
static void test_self(void)
{
    char here[64];
    char *there = place(me, 77);

    fill(here, sizeof here, me, 9);
    CHECK(gex_RMA_PutBlocking(tm, me, there, here, sizeof here, 0) == 0 &&
          right(there, sizeof here, me, 9) == sizeof here);
    CHECK(gex_RMA_GetBlockingVal(tm, me, there, 1, 0) == (unsigned char)here[0]);
    CHECK(gex_RMA_PutBlocking(tm, size - 1, NULL, NULL, 0, 0) == 0 &&
          gex_RMA_GetNB(tm, NULL, 0, NULL, 0, 0) == GEX_EVENT_INVALID);
}

int main(int argc, char **argv)
{
    gex_Segment_t seg;

    if (gex_Client_Init(NULL, NULL, &tm, "TEST_RMA", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    seed = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 1000 + me;
    printf("process %u: seed %llu\n", me, (unsigned long long)seed);

    uintptr_t page = GASNET_PAGESIZE;

    CHECK(gex_Segment_Attach(&seg, tm, ((uintptr_t)size * PART + page - 1) / page * page) ==
          GASNET_OK);
    bases = calloc(size, sizeof *bases);
    out = malloc(BYTES_MAX + 64);
    in = malloc(BYTES_MAX + 64);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    test_transfers(200);
    test_visible();
    test_values();
    test_events();
    test_immediate();
    test_self();
    barrier();
    gasnet_exit(0);
}
