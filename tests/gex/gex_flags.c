/* SPDX-License-Identifier: BSD-3-Clause */
/* Flags of communication calls: what they state (as constants and as variables), addresses as
 * offsets in segments, in transfers and active messages; limits by their arguments. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

#define PART (64 * 1024)
enum {
    H_ECHO = 128,
    H_BACK
};

static gex_TM_t tm;
static gex_Rank_t me, size;
static char *base;
static char **bases;
static unsigned came;

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

/* My part of every segment, as an offset. */
static void *offset(size_t at)
{
    return (void *)(uintptr_t)(me * (size_t)PART + at);
}

/* ---- transfers by offset: at the target, here, both ---- */

static void test_offsets(gex_Rank_t to)
{
    char *mine = base + (size_t)(size + me) * PART; /* nobody else writes here */
    void *const here = (void *)(uintptr_t)(mine - base);
    const gex_Flags_t both = GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET;
    char in[1000];

    fill(mine, 1000, me, to);
    CHECK(gex_RMA_PutBlocking(tm, to, offset(0), mine, 1000, GEX_FLAG_PEER_SEG_OFFSET) == 0);
    CHECK(gex_RMA_PutNBI(tm, to, offset(1000), here, 1000, GEX_EVENT_NOW, both) == 0);

    gex_Event_t lc;
    gex_Event_t ev = gex_RMA_PutNB(tm, to, bases[to] + (uintptr_t)offset(2000), here, 1000, &lc,
                                   GEX_FLAG_SELF_SEG_OFFSET);

    gex_Event_Wait(lc);
    gex_Event_Wait(ev);
    gex_NBI_Wait(GEX_EC_ALL, 0);

    for (size_t i = 0; i < 3; i++) {
        memset(in, 0, sizeof in);
        CHECK(gex_RMA_GetBlocking(tm, in, to, bases[to] + (uintptr_t)offset(1000 * i), 1000, 0) ==
              0);
        CHECK(right(in, 1000, me, to) == 1000);
    }

    memset(mine, 0, 3000);
    gex_Event_Wait(gex_RMA_GetNB(tm, here, to, offset(0), 1000, both));
    CHECK(gex_RMA_GetNBI(tm, (char *)here + 1000, to, bases[to] + (uintptr_t)offset(1000), 1000,
                         GEX_FLAG_SELF_SEG_OFFSET) == 0);
    CHECK(gex_RMA_GetBlocking(tm, mine + 2000, to, offset(2000), 1000, GEX_FLAG_PEER_SEG_OFFSET) ==
          0);
    gex_NBI_Wait(GEX_EC_GET, 0);
    for (size_t i = 0; i < 3; i++)
        CHECK(right(mine + 1000 * i, 1000, me, to) == 1000);

    CHECK(gex_RMA_PutBlockingVal(tm, to, offset(8), 0x1234, 2, GEX_FLAG_PEER_SEG_OFFSET) == 0);
    gex_Event_Wait(gex_RMA_PutNBVal(tm, to, offset(10), 0x5678, 2, GEX_FLAG_PEER_SEG_OFFSET));
    CHECK(gex_RMA_PutNBIVal(tm, to, offset(12), 0x9abc, 2, GEX_FLAG_PEER_SEG_OFFSET) == 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(gex_RMA_GetBlockingVal(tm, to, offset(8), 2, GEX_FLAG_PEER_SEG_OFFSET) == 0x1234);
    CHECK(gex_RMA_GetBlockingVal(tm, to, offset(10), 2, GEX_FLAG_PEER_SEG_OFFSET) == 0x5678);
    CHECK(gex_RMA_GetBlockingVal(tm, to, bases[to] + (uintptr_t)offset(12), 2, 0) == 0x9abc);
}

/* ---- what is stated and changes nothing ---- */

static void test_statements(gex_Rank_t to, bool neighbour)
{
    volatile gex_Flags_t variable = GEX_FLAG_LC_COPY_YES | GEX_FLAG_PEER_SEG_BOUND |
                                    GEX_FLAG_SELF_SEG_UNKNOWN;
    char *mine = base + (size_t)(size + me) * PART;
    char *there = bases[to] + (uintptr_t)offset(0);
    char in[64];

    fill(mine, 64, me, 1);
    CHECK(gex_RMA_PutBlocking(tm, to, there, mine, 64,
                              GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_PEER_SEG_SOME |
                                  GEX_FLAG_LC_COPY_NO) == 0);
    CHECK(gex_RMA_GetBlocking(tm, in, to, there, 64,
                              GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_BOUND) == 0);
    CHECK(right(in, 64, me, 1) == 64);
    fill(mine, 64, me, 2);
    CHECK(gex_RMA_PutBlocking(tm, to, there, mine, 64, variable) == 0 &&
          gex_RMA_GetBlocking(tm, in, to, there, 64, variable) == 0);
    CHECK(right(in, 64, me, 2) == 64);
    if (to == me)
        return;

    fill(mine, 64, me, 3);
    CHECK(gex_RMA_PutBlocking(tm, to, there, mine, 64, GEX_FLAG_PEER_NEVER_SELF) == 0);
    variable = GEX_FLAG_PEER_NEVER_SELF;
    CHECK(gex_RMA_GetBlocking(tm, in, to, there, 64, variable) == 0 && right(in, 64, me, 3) == 64);
    if (neighbour)
        return;

    fill(mine, 64, me, 4);
    CHECK(gex_RMA_PutBlocking(tm, to, there, mine, 64, GEX_FLAG_PEER_NEVER_NBRHD) == 0);
    gex_Event_Wait(
        gex_RMA_GetNB(tm, in, to, there, 64, GEX_FLAG_PEER_NEVER_NBRHD | GEX_FLAG_PEER_NEVER_SELF));
    CHECK(right(in, 64, me, 4) == 64);
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, 1, GEX_FLAG_PEER_NEVER_NBRHD) ==
          (unsigned char)mine[0]);
}

/* ---- messages: sources and destinations by offset, the same in replies ---- */

static void echo(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t by_offset)
{
    gex_Token_Info_t info;

    gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK(right(buf, nbytes, info.gex_srcrank, 7) == nbytes);

    if (!info.gex_is_long)
        CHECK(gex_AM_ReplyMedium0(token, H_BACK, buf, nbytes, GEX_EVENT_NOW, 0) == 0);
    else if (by_offset)
        CHECK(gex_AM_ReplyLong0(token, H_BACK, (void *)(uintptr_t)((char *)buf - base), nbytes,
                                offset(4096), GEX_EVENT_NOW,
                                GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET) == 0);
    else
        CHECK(gex_AM_ReplyLong0(token, H_BACK, buf, nbytes,
                                bases[info.gex_srcrank] + (uintptr_t)offset(4096), GEX_EVENT_NOW,
                                GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_LC_COPY_YES) == 0);
}

static void back(gex_Token_t token, void *buf, size_t nbytes)
{
    (void)token;
    CHECK(nbytes == 500 && right(buf, nbytes, me, 7) == nbytes);
    came++;
}

static void test_messages(gex_Rank_t to)
{
    static unsigned expected;
    char *mine = base + (size_t)(size + me) * PART;
    void *const here = (void *)(uintptr_t)(mine - base);

    fill(mine, 500, me, 7);
    CHECK(gex_AM_RequestMedium1(tm, to, H_ECHO, here, 500, GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET,
                                1) == 0);
    CHECK(gex_AM_RequestMedium1(tm, to, H_ECHO, mine, 500, GEX_EVENT_GROUP,
                                GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_LC_COPY_NO, 0) == 0);
    CHECK(gex_AM_RequestLong1(tm, to, H_ECHO, mine, 500, offset(8192), GEX_EVENT_NOW,
                              GEX_FLAG_PEER_SEG_OFFSET, 1) == 0);
    CHECK(gex_AM_RequestLong1(tm, to, H_ECHO, here, 500, bases[to] + (uintptr_t)offset(8192),
                              GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET, 0) == 0);
    expected += 4;
    GASNET_BLOCKUNTIL(came == expected);
    gex_NBI_Wait(GEX_EC_AM, 0);
}

/* ---- limits ---- */

typedef size_t max_fn(gex_TM_t, gex_Rank_t, const gex_Event_t *, gex_Flags_t, unsigned);

static void test_limits(void)
{
    max_fn *const max[] = { gex_AM_MaxRequestMedium, gex_AM_MaxReplyMedium, gex_AM_MaxRequestLong,
                            gex_AM_MaxReplyLong };

    size_t (*const lub[])(void) = { gex_AM_LUBRequestMedium, gex_AM_LUBReplyMedium,
                                    gex_AM_LUBRequestLong, gex_AM_LUBReplyLong };

    const gex_Flags_t flags[] = { 0, GEX_FLAG_IMMEDIATE, GEX_FLAG_AM_PREPARE_LEAST_CLIENT,
                                  GEX_FLAG_AM_PREPARE_LEAST_ALLOC };
    const gex_Event_t *const lc[] = { NULL, GEX_EVENT_NOW, GEX_EVENT_GROUP };

    for (int k = 0; k < 4; k++)
        for (int f = 0; f < 4; f++)
            for (int l = 0; l < 3; l++) {
                size_t least = SIZE_MAX;
                size_t all = max[k](tm, GEX_RANK_INVALID, lc[l], flags[f], 16);

                for (gex_Rank_t i = 0; i < size; i++) {
                    size_t before = SIZE_MAX;

                    for (unsigned nargs = 0; nargs <= 16; nargs++) {
                        size_t n = max[k](tm, i, lc[l], flags[f], nargs);

                        CHECK(n >= 512 && n <= before && (f > 1 || n >= lub[k]()));

                        /* however it is named */
                        CHECK(n == max[k](gex_TM_Pair(gex_TM_QueryEP(tm), 0), i, lc[l], flags[f],
                                          nargs));
                        before = n;
                    }

                    least = before < least ? before : least;
                }

                CHECK(all == least); /* the least of the greatest */
            }
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_ECHO, (gex_AM_Fn_t)echo, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 1, NULL, "echo" },
        { H_BACK, (gex_AM_Fn_t)back, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REPLY, 0, NULL, "back" },
    };

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_FLAGS", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(gex_EP_RegisterHandlers(ep, table, 2) == GASNET_OK);

    uintptr_t page = GASNET_PAGESIZE;

    CHECK(gex_Segment_Attach(&seg, tm, ((uintptr_t)2 * size * PART + page - 1) / page * page) ==
          GASNET_OK);
    base = gex_Segment_QueryAddr(seg);
    bases = calloc(size, sizeof *bases);

    gex_RankInfo_t *nbrhd;
    gex_Rank_t count;

    gex_System_QueryNbrhdInfo(&nbrhd, &count, NULL);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    barrier();
    for (gex_Rank_t k = 0; k < size; k++) {
        gex_Rank_t to = (me + k) % size;
        bool neighbour = false;

        for (gex_Rank_t i = 0; i < count; i++)
            neighbour |= nbrhd[i].gex_jobrank == to;

        test_offsets(to);
        test_statements(to, neighbour);
        test_messages(to);
    }

    test_limits();
    barrier();
    free(bases);
    gasnet_exit(0);
}
