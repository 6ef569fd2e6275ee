/* SPDX-License-Identifier: BSD-3-Clause */
/* One misuse of teams, endpoints, segments or kinds, named by the first argument; both processes
 * make it (gex_team_bad.sh). */
#include "gasnetex.h"
#include "gasnet_mk.h"

#include "tests/gex/gex_common.h"

static gex_Client_t client;
static gex_TM_t tm;
static gex_EP_t ep;
static gex_Segment_t seg;
static gex_Rank_t me;
static gex_EP_Location_t both[2] = { { 0, 0 }, { 1, 0 } };

static gex_TM_t part(void)
{
    gex_TM_t new_tm = GEX_TM_INVALID;

    gex_TM_Split(&new_tm, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    return new_tm;
}

static void split_color(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, tm, -3, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void split_flags(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
}

static void split_no_scratch(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, tm, 0, 0, NULL, 0, 0);
}

static void split_scratch_outside(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, tm, 0, 0,
                 (char *)gex_Segment_QueryAddr(seg) + gex_Segment_QuerySize(seg) - 8, 64, 0);
}

static void split_differently(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, tm, 0, 0, gex_Segment_QueryAddr(seg), 64 + me, 0);
}

static void split_pair(void)
{
    gex_TM_t new_tm;
    gex_TM_Split(&new_tm, gex_TM_Pair(ep, 0), 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_kind(void)
{
    gex_TM_t new_tm;
    gex_TM_Create(&new_tm, 1, tm, both, 2, NULL, 0, 0);
}

static void create_twice(void)
{
    gex_TM_t new_tm[2];

    both[1].gex_rank = 0;
    gex_TM_Create(new_tm, me ? 0 : 2, tm, both, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_count(void)
{
    gex_TM_t new_tm[2];
    gex_TM_Create(new_tm, 2, tm, both, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_rank(void)
{
    gex_TM_t new_tm;

    both[1].gex_rank = 7;
    gex_TM_Create(&new_tm, 1, tm, both, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_lists(void)
{
    gex_TM_t new_tm;

    if (me == 1) {
        both[0].gex_rank = 1;
        both[1].gex_rank = 0;
    }

    gex_TM_Create(&new_tm, 1, tm, both, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_absent(void)
{
    gex_TM_t new_tm;
    gex_TM_Create(&new_tm, 1, tm, both, me ? 0 : 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void create_no_ep(void)
{
    gex_TM_t new_tm;

    both[0].gex_ep_index = both[1].gex_ep_index = 5;
    gex_TM_Create(&new_tm, 1, tm, both, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}

static void destroy_world(void)
{
    gex_TM_Destroy(tm, NULL, 0);
}

static void destroy_busy(void)
{
    gex_TM_t new_tm = part();

    if (me == 0) { /* the other does not come */
        (void)gex_Coll_BarrierNB(new_tm, 0);
        gex_TM_Destroy(new_tm, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    }

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void destroy_twice(void)
{
    gex_TM_t new_tm = part();

    gex_TM_Destroy(new_tm, NULL, 0);
    gex_TM_Destroy(new_tm, NULL, 0);
}

static void use_destroyed(void)
{
    gex_TM_t new_tm = part();
    char c = 0;

    gex_TM_Destroy(new_tm, NULL, 0);
    gex_RMA_PutBlocking(new_tm, 0, gex_Segment_QueryAddr(seg), &c, 1, 0);
}

static void translate_rank(void)
{
    gex_TM_TranslateRankToJobrank(part(), 2);
}

static void pair_index(void)
{
    gex_TM_Pair(ep, GASNET_MAXEPS);
}

static void pair_unknown(void)
{
    char c = 0;
    gex_RMA_PutBlocking(gex_TM_Pair(ep, 3), 1 - me, &c, &c, 1, 0);
}

static void pair_rank(void)
{
    gex_AM_RequestShort0(gex_TM_Pair(ep, 0), 2, 200, 0);
}

static void message_to_none(void)
{
    if (me == 0)
        gex_AM_RequestShort0(gex_TM_Pair(ep, 9), 1, 200, 0);

    volatile int never = 0;

    GASNET_BLOCKUNTIL(never); /* the job ends meanwhile */
}

static void message_unable(void)
{
    gex_EP_t other;

    gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0);
    gex_AM_RequestShort0(gex_TM_Pair(other, 0), 1, 200, 0);
}

static void bind_twice(void)
{
    gex_Segment_t other;

    gex_Segment_Create(&other, client, NULL, 4096, GEX_MK_HOST, 0);
    gex_EP_BindSegment(ep, other, 0);
}

static void segment_scratch(void)
{
    gex_Segment_t other;
    gex_EP_t second;
    gex_TM_t new_tm;
    gex_Addr_t at = 0;

    gex_EP_Create(&second, client, GEX_EP_CAPABILITY_ALL, 0);
    gex_Segment_Create(&other, client, NULL, 4096, GEX_MK_HOST, 0);
    gex_EP_BindSegment(second, other, 0);
    both[0].gex_ep_index = both[1].gex_ep_index = gex_EP_QueryIndex(second);
    gex_TM_Create(&new_tm, 1, tm, both, 2, &at, 64,
                  GEX_FLAG_TM_SYMMETRIC_SCRATCH | GEX_FLAG_SCRATCH_SEG_OFFSET);
    gex_Segment_Destroy(other, 0);
}

static void kind_in_use(void)
{
    gex_MK_Create_args_t args = { 0, GEX_MK_CLASS_HOST, { { 0 } } };
    gex_MK_t mk = GEX_MK_INVALID;
    gex_Segment_t other;

    gex_MK_Create(&mk, client, &args, 0);
    gex_Segment_Create(&other, client, NULL, 4096, mk, 0);
    gex_MK_Destroy(mk, 0);
}

static void kind_host(void)
{
    gex_MK_Destroy(GEX_MK_HOST, 0);
}

static void kind_invalid(void)
{
    gex_MK_QueryClass(GEX_MK_INVALID);
}

static const struct {
    const char *name;
    void (*fn)(void);
} cases[] = {
    { "split_color", split_color },
    { "split_flags", split_flags },
    { "split_no_scratch", split_no_scratch },
    { "split_scratch_outside", split_scratch_outside },
    { "split_differently", split_differently },
    { "split_pair", split_pair },
    { "create_kind", create_kind },
    { "create_twice", create_twice },
    { "create_count", create_count },
    { "create_rank", create_rank },
    { "create_lists", create_lists },
    { "create_absent", create_absent },
    { "create_no_ep", create_no_ep },
    { "destroy_world", destroy_world },
    { "destroy_busy", destroy_busy },
    { "destroy_twice", destroy_twice },
    { "use_destroyed", use_destroyed },
    { "translate_rank", translate_rank },
    { "pair_index", pair_index },
    { "pair_unknown", pair_unknown },
    { "pair_rank", pair_rank },
    { "message_to_none", message_to_none },
    { "message_unable", message_unable },
    { "bind_twice", bind_twice },
    { "segment_scratch", segment_scratch },
    { "kind_in_use", kind_in_use },
    { "kind_host", kind_host },
    { "kind_invalid", kind_invalid },
};

int main(int argc, char **argv)
{
    if (argc < 2 ||
        gex_Client_Init(&client, &ep, &tm, "TEST_TEAM_BAD", &argc, &argv, 0) != GASNET_OK)
        return 77;

    me = gex_System_QueryJobRank();
    if (gex_Segment_Attach(&seg, tm, GASNET_PAGESIZE) != GASNET_OK)
        return 77;

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            cases[i].fn();

    gasnet_exit(0); /* nothing was noticed */
}
