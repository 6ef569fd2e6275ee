/* SPDX-License-Identifier: BSD-3-Clause */
/* One misuse of collectives, named by the first argument, which ends the job with a sentence
 * (gex_coll_bad.sh looks at it). */
#include "gasnet.h"
#include "gasnet_coll.h"

#include "tests/gex/gex_common.h"

static gex_TM_t tm;
static char src[64], dst[64];
enum {
    FLAGS = GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL
};

static void barrier_flags(void)
{
    gex_Coll_BarrierNB(tm, GEX_FLAG_IMMEDIATE);
}

static void root(void)
{
    gex_Coll_BroadcastNB(tm, 2, dst, src, 8, 0);
}

static void flags(void)
{
    gex_Coll_BroadcastNB(tm, 0, dst, src, 8, GEX_FLAG_AD_ACQ);
}

static void pair(void)
{
    gex_Coll_BroadcastNB(gex_TM_Pair(gex_TM_QueryEP(tm), 0), 0, dst, src, 8, 0);
}

static void type(void)
{
    gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_I32 | GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
}

static void type_size(void)
{
    gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_DBL, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
}

static void none(void)
{
    gex_Coll_ReduceToOneNB(tm, 0, dst, src, GEX_DT_DBL, 8, 0, GEX_OP_ADD, NULL, NULL, 0);
}

static void bits_of_double(void)
{
    gex_Coll_ReduceToOneNB(tm, 0, dst, src, GEX_DT_DBL, 8, 1, GEX_OP_XOR, NULL, NULL, 0);
}

static void subtraction(void)
{
    gex_Coll_ReduceToOneNB(tm, 0, dst, src, GEX_DT_I64, 8, 1, GEX_OP_SUB, NULL, NULL, 0);
}

static void no_function(void)
{
    gex_Coll_ReduceToOneNB(tm, 0, dst, src, GEX_DT_USER, 12, 1, GEX_OP_USER, NULL, NULL, 0);
}

static void user_type(void)
{
    gex_Coll_ReduceToOneNB(tm, 0, dst, src, GEX_DT_USER, 12, 1, GEX_OP_ADD, NULL, NULL, 0);
}

static void busy_team(void)
{
    gex_TM_t team;

    gex_TM_Split(&team, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    if (gex_TM_QueryRank(tm) == 0) {
        gex_Coll_BarrierNB(team, 0); /* rank 1 never comes */
        gex_TM_Destroy(team, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    }
}

static void images(void)
{
    gasnet_image_t two[] = { 1, 2 };
    gasnet_coll_init(two, 0, NULL, 0, 0);
}

static void no_operator(void)
{
    gasnet_coll_reduce_nb(tm, 0, dst, src, 0, 0, 8, 1, 3, 0, FLAGS);
}

static void two_words(void)
{
    gasnet_coll_broadcast(tm, dst, 0, src, 8, FLAGS | GASNET_COLL_IN_ALLSYNC);
}

static void image(void)
{
    gasnet_coll_scatter(tm, dst, 7, src, 8, FLAGS);
}

static void team_notify(void)
{
    gasnet_coll_barrier_notify(tm, 1, 0);
    gasnet_coll_barrier_notify(tm, 1, 0);
}

static void team_wait(void)
{
    gasnet_coll_barrier_wait(tm, 1, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} misuses[] = {
    { "barrier_flags", barrier_flags },
    { "root", root },
    { "flags", flags },
    { "pair", pair },
    { "type", type },
    { "type_size", type_size },
    { "none", none },
    { "bits_of_double", bits_of_double },
    { "subtraction", subtraction },
    { "no_function", no_function },
    { "user_type", user_type },
    { "busy_team", busy_team },
    { "images", images },
    { "no_operator", no_operator },
    { "two_words", two_words },
    { "image", image },
    { "team_notify", team_notify },
    { "team_wait", team_wait },
};

int main(int argc, char **argv)
{
    gex_Segment_t segment;

    CHECK(gex_Client_Init(NULL, NULL, &tm, "TEST_COLL_BAD", &argc, &argv, GEX_FLAG_USES_GASNET1) ==
          GASNET_OK);
    CHECK(gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) == GASNET_OK);

    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++)
        if (argc > 1 && strcmp(argv[1], misuses[i].name) == 0)
            misuses[i].run();

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
}
