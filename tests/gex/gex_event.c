/* SPDX-License-Identifier: BSD-3-Clause */
/* Events and implicit operations: tests never poll; arrays with holes; categories one by one and
 * together; access regions and their leaves; IMMEDIATE in messages and transfers of every kind. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_MARK = 128,
    H_FLOOD,
    H_FLOOD_BACK,
    H_LONG
};
#define PART (128 * 1024)

static gex_TM_t tm;
static gex_Rank_t me, size, to;
static char **bases;
static char *out, *in;
static unsigned marks, arrived, answered, refused_replies;

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static char *place(gex_Rank_t r, size_t at)
{
    return bases[r] + (size_t)me * PART + at;
}

/* ---- handlers ---- */

static void mark(gex_Token_t token)
{
    (void)token;
    marks++;
}

/* A reply with IMMEDIATE may be refused, once or always: then one without it must do. */
static void flood(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t step)
{
    gex_Token_Info_t info;

    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECK(right(buf, nbytes, info.gex_srcrank, (uint32_t)step) == nbytes);
    arrived++;

    if (gex_AM_ReplyMedium1(token, H_FLOOD_BACK, buf, nbytes, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE,
                            step)) {
        refused_replies++;
        CHECK(gex_AM_ReplyMedium1(token, H_FLOOD_BACK, buf, nbytes, GEX_EVENT_NOW, 0, step) == 0);
    }
}

static void flood_back(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t step)
{
    (void)token;
    CHECK(right(buf, nbytes, me, (uint32_t)step) == nbytes);
    answered++;
}

static void long_in(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t step)
{
    gex_Token_Info_t info;

    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECK(right(buf, nbytes, info.gex_srcrank, (uint32_t)step) == nbytes);
    if (gex_AM_ReplyShort0(token, H_MARK, GEX_FLAG_IMMEDIATE))
        CHECK(gex_AM_ReplyShort0(token, H_MARK, 0) == 0);
}

/* ---- tests do not poll: no handler runs in them ---- */

static void test_no_poll(void)
{
    unsigned before = marks;
    gex_Event_t ev[3] = { GEX_EVENT_INVALID, GEX_EVENT_INVALID, GEX_EVENT_INVALID };

    barrier();
    CHECK(gex_AM_RequestShort0(tm, to, H_MARK, 0) == 0);
    ev[1] = gex_RMA_GetNB(tm, in, to, place(to, 0), 1000, 0);
    CHECK(gex_RMA_GetNBI(tm, in + 1000, to, place(to, 0), 1000, 0) == 0);

    /* The barrier and the request may have delivered the mark already. */
    unsigned delivered = marks;

    for (int i = 0; i < 200; i++) {
        gex_Event_Test(GEX_EVENT_INVALID);
        gex_Event_TestSome(ev, 3, 0);
        gex_Event_TestAll(ev, 3, 0);
        gex_NBI_Test(GEX_EC_ALL, 0);
        if (ev[1] != GEX_EVENT_INVALID && gex_Event_Test(ev[1]) == GASNET_OK)
            ev[1] = GEX_EVENT_INVALID;
    }

    CHECK(marks == delivered);
    gex_Event_WaitAll(ev, 3, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    GASNET_BLOCKUNTIL(marks == before + 1);
    barrier();
}

/* ---- what is under way in one category says nothing of the others ---- */

static void test_categories(void)
{
    static const gex_EC_t every[] = { GEX_EC_GET, GEX_EC_PUT, GEX_EC_AM, GEX_EC_LC, GEX_EC_RMW };

    enum {
        N = sizeof every / sizeof *every
    };

    unsigned wanted_marks = marks;

    barrier();
    for (unsigned mask = 0; mask < 1u << N; mask++) {
        gex_EC_t wanted = 0;
        gex_EC_t other = 0;

        for (int k = 0; k < N; k++)
            *(mask >> k & 1 ? &wanted : &other) |= every[k];

        if (wanted & GEX_EC_GET)
            for (int i = 0; i < 8; i++)
                CHECK(gex_RMA_GetNBI(tm, in + 4000 * i, to, place(to, 4000 * (size_t)i), 4000, 0) ==
                      0);

        if (wanted & GEX_EC_PUT)
            for (int i = 0; i < 8; i++)
                CHECK(gex_RMA_PutNBI(tm, to, place(to, 4000 * (size_t)i), out, 4000,
                                     GEX_EVENT_DEFER, 0) == 0);

        if (wanted & GEX_EC_LC && wanted & GEX_EC_PUT) /* local completion is of puts */
            CHECK(gex_RMA_PutNBI(tm, to, place(to, 0), out, 100000, GEX_EVENT_GROUP, 0) == 0);

        if (wanted & GEX_EC_AM) {
            CHECK(gex_AM_RequestLong1(tm, to, H_LONG, out, 20000, place(to, 104000),
                                      GEX_EVENT_GROUP, 0, 7) == 0);
            wanted_marks++;
        }

        CHECK(gex_NBI_Test(other, 0) == GASNET_OK); /* nothing of these has been started */
        gex_NBI_Wait(wanted, 0);
        CHECK(gex_NBI_Test(wanted, 0) == GASNET_OK && gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);
    }

    GASNET_BLOCKUNTIL(marks == wanted_marks); /* the memory there is written again */
    barrier();
}

/* ---- access regions: one event for all, a leaf for each category; explicit events inside are not
 * of the region ---- */

static void test_regions(void)
{
    static const gex_EC_t leaves[] = { GEX_EC_GET, GEX_EC_PUT, GEX_EC_AM, GEX_EC_LC };

    for (uint32_t round = 0; round < 20; round++) {
        gex_Event_t inside, ev, leaf[4];

        fill(out, 50000, me, round);
        gex_NBI_BeginAccessRegion(0);
        CHECK(gex_RMA_PutNBI(tm, to, place(to, 0), out, 50000, GEX_EVENT_GROUP, 0) == 0);
        inside = gex_RMA_PutNB(tm, to, place(to, 60000), out, 50000, GEX_EVENT_DEFER, 0);
        CHECK(gex_RMA_PutNBIVal(tm, to, place(to, 120000), round, 4, 0) == 0);
        gex_Event_Wait(inside);
        CHECK(gex_RMA_GetNBI(tm, in, to, place(to, 60000), 50000, 0) == 0);
        ev = gex_NBI_EndAccessRegion(0);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);

        for (int i = 0; i < 4; i++) {
            leaf[i] = gex_Event_QueryLeaf(ev, leaves[i]);
            CHECK(leaf[i] == GEX_EVENT_INVALID || gex_Event_QueryLeaf(ev, leaves[i]) == leaf[i] ||
                  gex_Event_QueryLeaf(ev, leaves[i]) == GEX_EVENT_INVALID);
        }

        gex_Event_Wait(leaf[0]);
        CHECK(right(in, 50000, me, round) == 50000);
        gex_Event_WaitAll(leaf + 1, 3, 0);
        CHECK(leaf[1] == GEX_EVENT_INVALID && leaf[3] == GEX_EVENT_INVALID);
        gex_Event_Wait(ev);
        CHECK(gex_RMA_GetBlockingVal(tm, to, place(to, 120000), 4, 0) == round);
        CHECK(gex_RMA_GetBlocking(tm, in, to, place(to, 0), 50000, 0) == 0 &&
              right(in, 50000, me, round) == 50000);
    }

    gex_NBI_BeginAccessRegion(0);
    gex_Event_Wait(gex_NBI_EndAccessRegion(0)); /* an empty one */
    barrier();
}

/* ---- local completion of every kind of put; leaves by the call and by the query are one ---- */

static void test_local(void)
{
    for (uint32_t round = 0; round < 60; round++) {
        size_t n = 1 + (size_t)round * 1500;
        gex_Event_t lc = GEX_EVENT_NO_OP;
        gex_Event_t ev, some[3];

        fill(out, n, me, round);
        ev = gex_RMA_PutNB(tm, to, place(to, 0), out, n, round % 3 ? &lc : GEX_EVENT_NOW, 0);

        if (round % 3) {
            gex_Event_t leaf = gex_Event_QueryLeaf(ev, GEX_EC_LC);

            CHECK(leaf == lc || leaf == GEX_EVENT_INVALID); /* it may have happened in between */
            some[0] = GEX_EVENT_INVALID, some[1] = lc, some[2] = ev;

            while (some[1] != GEX_EVENT_INVALID) {
                gex_Event_WaitSome(some, 2, 0);
                CHECK(some[0] == GEX_EVENT_INVALID);
            }

            CHECK(gex_Event_QueryLeaf(ev, GEX_EC_LC) == GEX_EVENT_INVALID);
        }

        memset(out, 0xee, n);
        gex_Event_WaitAll(&ev, 1, 0);
        CHECK(ev == GEX_EVENT_INVALID);
        CHECK(gex_RMA_GetBlocking(tm, in, to, place(to, 0), n, 0) == 0 &&
              right(in, n, me, round) == n);
    }

    barrier();
}

/* ---- IMMEDIATE ---- */

static void try_transfers(uint32_t round)
{
    gex_Event_t ev, lc;

    fill(out, 2000, me, round);
    while ((ev = gex_RMA_PutNB(tm, to, place(to, 0), out, 2000, &lc, GEX_FLAG_IMMEDIATE)) ==
           GEX_EVENT_NO_OP)
        gasnet_AMPoll();

    gex_Event_Wait(lc);
    gex_Event_Wait(ev);

    while ((ev = gex_RMA_PutNBVal(tm, to, place(to, 2000), round, 4, GEX_FLAG_IMMEDIATE)) ==
           GEX_EVENT_NO_OP)
        gasnet_AMPoll();

    gex_Event_Wait(ev);
    while (gex_RMA_PutNBIVal(tm, to, place(to, 2004), round, 4, GEX_FLAG_IMMEDIATE))
        gasnet_AMPoll();

    while (gex_RMA_PutBlockingVal(tm, to, place(to, 2008), round, 4, GEX_FLAG_IMMEDIATE))
        gasnet_AMPoll();

    gex_NBI_Wait(GEX_EC_PUT, 0);
    while (gex_RMA_GetBlocking(tm, in, to, place(to, 0), 2012, GEX_FLAG_IMMEDIATE))
        gasnet_AMPoll();

    CHECK(right(in, 2000, me, round) == 2000 && memcmp(in + 2000, in + 2004, 4) == 0 &&
          memcmp(in + 2000, in + 2008, 4) == 0);
    while (gex_RMA_GetNBI(tm, in, to, place(to, 0), 2000, GEX_FLAG_IMMEDIATE))
        gasnet_AMPoll();

    gex_NBI_Wait(GEX_EC_GET, 0);
}

static void test_immediate(void)
{
    enum {
        STEPS = 400
    };

    unsigned marks_before = marks;
    unsigned before = answered;
    unsigned lc_refused = 0;
    gex_Event_t lc = GEX_EVENT_INVALID;

    barrier();
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t n = step % 10 ? 200 : 30000;

        fill(out, n, me, step);
        while (gex_AM_RequestMedium1(tm, to, H_FLOOD, out, n, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE,
                                     (gex_AM_Arg_t)step)) {
            lc_refused++;
            gasnet_AMPoll();
        }

        while (gex_AM_RequestLong1(tm, to, H_LONG, out, n, place(to, 0), &lc, GEX_FLAG_IMMEDIATE,
                                   (gex_AM_Arg_t)step))
            gasnet_AMPoll();

        gex_Event_Wait(lc);
        GASNET_BLOCKUNTIL(marks == marks_before + step + 1); /* the place is written again */
    }

    GASNET_BLOCKUNTIL(answered == before + STEPS);
    for (uint32_t round = 0; round < 50; round++)
        try_transfers(round);

    printf("process %u: %u requests and %u replies refused\n", me, lc_refused, refused_replies);
    barrier();
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_MARK, (gex_AM_Fn_t)mark, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL, "mark" },
        { H_FLOOD, (gex_AM_Fn_t)flood, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "flood" },
        { H_FLOOD_BACK, (gex_AM_Fn_t)flood_back, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, NULL,
          "flood_back" },
        { H_LONG, (gex_AM_Fn_t)long_in, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL,
          "long_in" },
    };

    /* One letter is enough of a name. */
    if (gex_Client_Init(NULL, &ep, &tm, "E", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    to = (me + 1) % size;
    CHECK(gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) == GASNET_OK);

    uintptr_t page = GASNET_PAGESIZE;

    CHECK(gex_Segment_Attach(&seg, tm, ((uintptr_t)size * PART + page - 1) / page * page) ==
          GASNET_OK);
    bases = calloc(size, sizeof *bases);
    out = calloc(1, PART);
    in = calloc(1, PART);
    CHECK(bases && out && in);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    test_no_poll();
    fill(out, 100000, me, 7);
    test_categories();
    test_regions();
    test_local();
    test_immediate();
    free(bases);
    free(out);
    free(in);
    gasnet_exit(0);
}
