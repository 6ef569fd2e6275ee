/* SPDX-License-Identifier: BSD-3-Clause */
/* One misuse, named by the first argument, which the library answers with a sentence and a non-zero
 * exit (gex_bad.sh looks at it). */
#include "gasnet.h"

#include "tests/gex/gex_common.h"

static gex_TM_t tm;
static gex_EP_t ep;
static gex_Segment_t seg;
static char buf[1 << 20];

static void put_rank(void)
{
    gex_RMA_PutBlocking(tm, 1000, gex_Segment_QueryAddr(seg), buf, 8, 0);
}

static void get_rank(void)
{
    gex_RMA_GetNB(tm, buf, gex_System_QueryJobSize(), gex_Segment_QueryAddr(seg), 8, 0);
}

static void am_rank(void)
{
    gex_AM_RequestShort0(tm, gex_System_QueryJobSize() + 3, 200, 0);
}

static void put_outside(void)
{
    void *at;
    uintptr_t len;

    gex_Segment_QueryBound(tm, 1, &at, NULL, &len);
    gex_RMA_PutBlocking(tm, 1, (char *)at + len - 4, buf, 8, 0);
}

static void list_outside(void)
{
    void *at;
    uintptr_t len;

    gex_Segment_QueryBound(tm, 1, &at, NULL, &len);

    const gex_Memvec_t there[] = { { at, 8 }, { (char *)at + 16, 8 }, { (char *)at + len - 4, 8 } };
    const gex_Memvec_t here[] = { { buf, sizeof(uint64_t[3]) } };

    gex_VIS_VectorPutBlocking(tm, 1, 3, there, 1, here, 0);
}

static void put_self(void)
{
    gex_RMA_PutBlocking(tm, 0, buf, buf + 8, 8, 0);
}

static void get_offset(void)
{
    gex_RMA_GetBlocking(tm, buf, 1, (void *)(uintptr_t)(GASNET_PAGESIZE - 4), 8,
                        GEX_FLAG_PEER_SEG_OFFSET);
}

static void commit_twice(void)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0);

    CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
    gex_AM_CommitRequestMedium0(sd, 200, 100);
}

static void commit_other(void)
{
    gex_AM_CommitRequestLong0(gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0), 200,
                              100, NULL);
}

static void commit_args(void)
{
    gex_AM_CommitRequestMedium1(gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0), 200,
                                100, 1);
}

static void commit_bytes(void)
{
    gex_AM_CommitRequestMedium0(gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0), 200,
                                201);
}

static void prepare_twice(void)
{
    gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0);
    gex_AM_PrepareRequestLong(tm, 1, NULL, 100, 200, NULL, NULL, 0, 0);
}

static void prepare_least(void)
{
    gex_AM_PrepareRequestMedium(tm, 1, NULL, 201, 200, NULL, 0, 0);
}

static void prepare_lc(void)
{
    gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, GEX_EVENT_NOW, 0, 0);
}

static void prepare_client(void)
{
    gex_AM_PrepareRequestMedium(tm, 1, buf, 100, 200, NULL, 0, 0);
}

static void cancel_flags(void)
{
    gex_AM_CancelRequestMedium(gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 200, NULL, 0, 0), 1);
}

static void both_least(void)
{
    gex_AM_MaxRequestMedium(tm, 1, NULL,
                            GEX_FLAG_AM_PREPARE_LEAST_CLIENT | GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 0);
}

static void nb_group(void)
{
    gex_RMA_PutNB(tm, 1, (void *)(uintptr_t)8, buf, 8, GEX_EVENT_GROUP, GEX_FLAG_PEER_SEG_OFFSET);
}

static void nbi_event(void)
{
    gex_Event_t event;
    gex_RMA_PutNBI(tm, 1, (void *)(uintptr_t)8, buf, 8, &event, GEX_FLAG_PEER_SEG_OFFSET);
}

static void long_outside(void)
{
    void *at;
    uintptr_t len;

    gex_Segment_QueryBound(tm, 1, &at, NULL, &len);
    gex_AM_RequestLong0(tm, 1, 200, buf, 100, (char *)at + len - 50, GEX_EVENT_NOW, 0);
}

static void medium_size(void)
{
    gex_AM_RequestMedium0(tm, 1, 200, buf, gex_AM_MaxRequestMedium(tm, 1, GEX_EVENT_NOW, 0, 0) + 1,
                          GEX_EVENT_NOW, 0);
}

static void medium_defer(void)
{
    gex_AM_RequestMedium0(tm, 1, 200, buf, 8, GEX_EVENT_DEFER, 0);
}

static void no_handler(void)
{
    volatile int never = 0;

    gex_AM_RequestShort0(tm, 1, 222, 0);
    GASNET_BLOCKUNTIL(never); /* it is noticed at process 1 */
}

static void value_size(void)
{
    gex_RMA_PutBlockingVal(tm, 0, buf, 1, 9, 0);
}

static void no_op(void)
{
    gex_Event_Wait(GEX_EVENT_NO_OP);
}

static void notify_twice(void)
{
    gasnet_barrier_notify(0, 0);
    gasnet_barrier_notify(0, 0);
}

static void wait_alone(void)
{
    gasnet_barrier_wait(0, 0);
}

static void barrier_flags(void)
{
    gasnet_barrier_notify(0, 99);
}

static void nested_region(void)
{
    gex_NBI_BeginAccessRegion(0);
    gex_NBI_BeginAccessRegion(0);
}

static void max_args(void)
{
    gex_AM_MaxRequestMedium(tm, 0, GEX_EVENT_NOW, 0, 17);
}

static void bad_team(void)
{
    gex_TM_QuerySize(GEX_TM_INVALID);
}

/* Errors that are returned, with a sentence besides: exit code 5 says that the code was right. */
static void returned(int code, int want)
{
    gasnet_exit(code == want ? 5 : 6);
}

static void nothing(gex_Token_t token)
{
    (void)token;
}

static int try_handler(gex_AM_Index_t index, unsigned nargs)
{
    gex_AM_Entry_t e = {
        index, (gex_AM_Fn_t)nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, nargs, NULL, "mine"
    };
    return gex_EP_RegisterHandlers(ep, &e, 1);
}

static void handler_twice(void)
{
    CHECK(try_handler(201, 0) == GASNET_OK);
    returned(try_handler(201, 0), GASNET_ERR_BAD_ARG);
}

static void handler_args(void)
{
    returned(try_handler(201, 17), GASNET_ERR_BAD_ARG);
}

static void handler_index(void)
{
    returned(try_handler(100, 0), GASNET_ERR_BAD_ARG);
}

static void init_twice(void)
{
    returned(gasnet_init(NULL, NULL), GASNET_ERR_RESOURCE);
}

static void attach_twice(void)
{
    returned(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0), GASNET_ERR_RESOURCE);
}

/* All processes ask for more memory than the machine has. */
static int big_segment(void)
{
    uintptr_t size = UINTPTR_MAX / 4 / GASNET_PAGESIZE * GASNET_PAGESIZE;
    return gex_Segment_Attach(&seg, tm, size) == GASNET_ERR_RESOURCE ? 5 : 6;
}

static const struct {
    const char *name;
    void (*fn)(void);
} cases[] = {
    { "put_rank", put_rank },
    { "get_rank", get_rank },
    { "am_rank", am_rank },
    { "put_outside", put_outside },
    { "list_outside", list_outside },
    { "put_self", put_self },
    { "get_offset", get_offset },
    { "commit_twice", commit_twice },
    { "commit_other", commit_other },
    { "commit_args", commit_args },
    { "commit_bytes", commit_bytes },
    { "prepare_twice", prepare_twice },
    { "prepare_least", prepare_least },
    { "prepare_lc", prepare_lc },
    { "prepare_client", prepare_client },
    { "cancel_flags", cancel_flags },
    { "both_least", both_least },
    { "nb_group", nb_group },
    { "nbi_event", nbi_event },
    { "long_outside", long_outside },
    { "medium_size", medium_size },
    { "medium_defer", medium_defer },
    { "no_handler", no_handler },
    { "value_size", value_size },
    { "no_op", no_op },
    { "notify_twice", notify_twice },
    { "wait_alone", wait_alone },
    { "barrier_flags", barrier_flags },
    { "nested_region", nested_region },
    { "max_args", max_args },
    { "bad_team", bad_team },
    { "handler_twice", handler_twice },
    { "handler_args", handler_args },
    { "handler_index", handler_index },
    { "init_twice", init_twice },
    { "attach_twice", attach_twice },
};

/* Before initialisation. */
static int early(const char *name)
{
    if (strcmp(name, "attach_early") == 0)
        return gasnet_attach(NULL, 0, 0, 0) == GASNET_ERR_NOT_INIT &&
                       gex_Segment_Attach(&seg, NULL, 4096) == GASNET_ERR_NOT_INIT &&
                       gex_EP_RegisterHandlers(NULL, NULL, 0) == GASNET_ERR_NOT_INIT &&
                       gasnet_getSegmentInfo(NULL, 0) == GASNET_ERR_NOT_INIT
                   ? 3
                   : 0;

    if (strcmp(name, "rank_early") == 0)
        gex_System_QueryJobRank();

    if (strcmp(name, "put_early") == 0)
        gasnet_put(0, buf, buf, 8);

    if (strcmp(name, "am_early") == 0)
        return gasnet_AMRequestShort0(0, 200) == GASNET_ERR_NOT_INIT ? 3 : 0;

    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 77;
    if (strstr(argv[1], "_early"))
        return early(argv[1]);
    if (gex_Client_Init(NULL, &ep, &tm, "TEST_BAD", &argc, &argv, GEX_FLAG_USES_GASNET1) !=
        GASNET_OK)
        return 77;

    if (strcmp(argv[1], "big_segment") == 0)
        gasnet_exit(big_segment());

    if (gex_Segment_Attach(&seg, tm, GASNET_PAGESIZE) != GASNET_OK)
        return 77;

    volatile int never = 0;

    if (gex_System_QueryJobRank() != 0)
        GASNET_BLOCKUNTIL(never); /* the job ends meanwhile */

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            cases[i].fn();

    gasnet_exit(0); /* nothing was noticed */
}
