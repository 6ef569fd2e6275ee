/* SPDX-License-Identifier: BSD-3-Clause */
/* GASNet-1 beyond the transfers: where nodes are, results of barriers, errors that are returned,
 * the objects behind, both headers in one program, and the names that clients use beyond the
 * text. */
#include "gasnet.h"
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

#define SEGMENT (4 * 65536)

uint64_t gasnet_max_segsize = 3 * 65536 * 16 + 5; /* the library looks for it */

enum {
    H_ADD = 160
};

static gasnet_node_t me, nodes;
static gasnet_seginfo_t *seg;
static volatile int sum;
static void *hook_base;
static uintptr_t hook_size;

static void on_add(gasnet_token_t token, gasnet_handlerarg_t what)
{
    (void)token;
    sum += what;
}

static int hook(void *base, uintptr_t size)
{
    hook_base = base;
    hook_size = size;
    memset(base, 0x11, 4096); /* the pages are there, and nobody else's yet */
    return 0;
}

static void check_nodes(void)
{
    gex_RankInfo_t *nbrhd, *host;
    gex_Rank_t nnbrhd, nhost, sets, my_set, hosts, my_host;
    gasnet_nodeinfo_t *info = calloc(nodes + 1, sizeof *info);

    CHECK(info);
    info[nodes].host = 4711;
    CHECK(gasnet_getNodeInfo(info, (int)nodes + 1) == GASNET_OK && info[nodes].host == 4711);
    CHECK(gasnet_getNodeInfo(NULL, 1) == GASNET_ERR_BAD_ARG &&
          gasnet_getNodeInfo(info, -1) == GASNET_ERR_BAD_ARG);
    gex_System_QueryNbrhdInfo(&nbrhd, &nnbrhd, NULL);
    gex_System_QueryHostInfo(&host, &nhost, NULL);
    gex_System_QueryMyPosition(&sets, &my_set, &hosts, &my_host);
    CHECK(info[me].supernode == my_set && info[me].host == my_host);

    for (gex_Rank_t i = 0; i < nnbrhd; i++) {
        gasnet_node_t peer = nbrhd[i].gex_jobrank;

        CHECK(info[peer].supernode == my_set);

        /* The neighbour's segment is where the offset says. */
        if (peer != me)
            CHECK(*((unsigned char *)seg[peer].addr + info[peer].offset) == 0x11);
    }

    for (gex_Rank_t i = 0; i < nhost; i++)
        CHECK(info[host[i].gex_jobrank].host == my_host);

    gex_Rank_t same = 0;

    for (gasnet_node_t i = 0; i < nodes; i++) {
        same += info[i].supernode == my_set;
        CHECK(info[i].supernode < sets && info[i].host < hosts);
    }

    CHECK(same == nnbrhd);
    free(info);
}

static void check_barriers(void)
{
    int id = -1;

    CHECK(gasnet_barrier(17, 0) == GASNET_OK && gasnet_barrier_result(&id) == 0 && id == 17);
    CHECK(gasnet_barrier(5, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK &&
          gasnet_barrier_result(&id) != 0);
    CHECK(gasnet_barrier(5, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK &&
          gasnet_barrier_result(NULL) != 0);

    /* One names it, the others do not care. */
    CHECK(gasnet_barrier(99, me == nodes - 1 ? 0 : GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id) == 0 && id == 99);
    CHECK(gasnet_barrier((int)me, 0) == (nodes > 1 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    CHECK(gasnet_barrier(1, me ? 0 : GASNET_BARRIERFLAG_MISMATCH) == GASNET_ERR_BARRIER_MISMATCH);

    /* Other flags at the wait are no mismatch, another name is. */
    gasnet_barrier_notify(1, GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(gasnet_barrier_wait(1, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
    gasnet_barrier_notify(1, 0);
    CHECK(gasnet_barrier_wait(2, 0) == GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(8, 0);

    int err;

    while ((err = gasnet_barrier_try(8, 0)) == GASNET_ERR_NOT_READY)
        ;

    CHECK(err == GASNET_OK);

    /* HPX tries once more when it has succeeded; the next barrier is none the worse. */
    CHECK(gasnet_barrier_try(8, 0) == GASNET_OK && gasnet_barrier_try(9, 0) == GASNET_OK);
    CHECK(gasnet_coll_barrier_try(GASNET_TEAM_ALL, 0, 0) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id) == 0 && id == 8);
    CHECK(gasnet_barrier(18, 0) == GASNET_OK && gasnet_barrier_result(&id) == 0 && id == 18);
}

static void check_errors(void)
{
    static char big[8];
    gex_TM_t tm;
    int verbose = gex_System_GetVerboseErrors();

    gex_System_SetVerboseErrors(0);
    CHECK(gasnet_init(NULL, NULL) == GASNET_ERR_RESOURCE);
    CHECK(gasnet_attach(NULL, 0, 0, 0) == GASNET_ERR_RESOURCE);
    CHECK(gasnet_AMRequestShort1(nodes, H_ADD, 1) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMRequestMedium0(0, H_ADD, big, gasnet_AMMaxMedium() + 1) == GASNET_ERR_BAD_ARG);

    /* gasnet_AMMaxLongRequest holds for all processes; some can be sent more */
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);

    size_t most = gex_AM_MaxRequestLong(tm, 0, GEX_EVENT_NOW, 0, 0);

    CHECK(most >= gasnet_AMMaxLongRequest());
    CHECK(gasnet_AMRequestLong0(0, H_ADD, big, most + 1, seg[0].addr) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMRequestLongAsync0(nodes + 5, H_ADD, big, 1, seg[0].addr) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_getSegmentInfo(NULL, 1) == GASNET_ERR_BAD_ARG &&
          gasnet_getSegmentInfo(seg, -1) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_set_waitmode(77) == GASNET_ERR_BAD_ARG);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") == 0 &&
          strlen(gasnet_ErrorDesc(GASNET_ERR_RESOURCE)) > 5);
    CHECK(strlen(gasnet_ErrorName(-1)) > 0 && strlen(gasnet_ErrorDesc(-1)) > 0);
    gex_System_SetVerboseErrors(verbose);
}

/* GASNet-1 and GASNet-EX calls about the same things. */
static void check_both(void)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    uint64_t value = 1000 + me;
    uint64_t got = 0;

    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
    CHECK(gex_EP_QueryClient(ep) == client && gex_EP_QuerySegment(ep) == segment &&
          gex_TM_QueryEP(tm) == ep);
    CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == nodes &&
          gex_Segment_QueryAddr(segment) == seg[me].addr);
    CHECK(gex_Client_QueryFlags(client) & GEX_FLAG_USES_GASNET1);

    gasnet_node_t right_node = (me + 1) % nodes;
    gasnet_node_t left = (me + nodes - 1) % nodes;
    uint64_t *there = (uint64_t *)((char *)seg[right_node].addr + 8192);
    gasnet_handle_t h = gex_RMA_PutNB(tm, right_node, there, &value, sizeof value, GEX_EVENT_NOW,
                                      0);
    int err;

    while ((err = gasnet_try_syncnb_nopoll(h)) == GASNET_ERR_NOT_READY)
        gasnet_AMPoll();

    CHECK(err == GASNET_OK && gasnet_try_syncnb_nopoll(GASNET_INVALID_HANDLE) == GASNET_OK);
    gasnet_get(&got, right_node, there, sizeof got);
    CHECK(got == value);
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    CHECK(*(uint64_t *)((char *)seg[me].addr + 8192) == 1000 + left);
    CHECK(gex_AM_RequestShort1(tm, left, H_ADD, 0, 3) == 0);
    CHECK(gasnet_AMRequestShort1(left, H_ADD, 4) == GASNET_OK);
    GASNET_BLOCKUNTIL(sum == 7);
}

static void check_names(void)
{
    GASNET_BEGIN_FUNCTION();

    gasnet_threadinfo_t info = GASNET_GET_THREADINFO();

    GASNET_POST_THREADINFO(info);
    CHECK(strstr(GASNET_CONFIG_STRING, ",THREADMODEL=" AMPHORA_THREADMODE_NAME ",SEGMENT=LARGE,") &&
          strstr(GASNET_CONFIG_STRING, "CONDUIT=OFI"));
    CHECK(GASNET_CONDUIT_OFI == 1 && strcmp(GASNET_CONDUIT_NAME_STR, "OFI") == 0 &&
          strcmp(GASNET_CORE_NAME_STR, "OFI") == 0);
    CHECK(GASNET_SEGMENT_LARGE == 1 && GASNET_PSHM == 1 && GASNET_NDEBUG == 1 &&
          GASNET_ALIGNED_SEGMENTS == 0);
    CHECK(GASNET_MAXNODES >= nodes && GASNET_VERSION == GASNET_SPEC_VERSION_MAJOR &&
          GASNET_SPEC_VERSION_MINOR == 8);
    CHECK(gasneti_nodes == nodes && gasneti_mynode == me);
    CHECK(gex_System_QueryMaxThreads() <= GASNETI_MAX_THREADS &&
          sizeof(gasnet_register_value_t) == SIZEOF_GASNET_REGISTER_VALUE_T);
    CHECK(gasnet_AMMaxArgs() >= 2 * sizeof(void *) && gasnet_AMMaxMedium() >= 512);
    CHECK(gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
    CHECK(gasnet_getenv("PATH") && !gasnet_getenv("AMPHORA_THERE_IS_NO_SUCH_NAME"));
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
}

/* ---- progress ---- */

static void named(gex_TM_t tm, int turn)
{
    (void)tm;
    CHECK(gasnet_barrier(turn, 0) == GASNET_OK);
}

static void tried(gex_TM_t tm, int turn)
{
    (void)tm;
    gasnet_barrier_notify(turn, 0);
    while (gasnet_barrier_try(turn, 0) == GASNET_ERR_NOT_READY)
        ;
}

static void anonymous(gex_TM_t tm, int turn)
{
    (void)turn;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void reduced(gex_TM_t tm, int turn)
{
    int total = 0;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &total, &turn, GEX_DT_I32, sizeof turn, 1, GEX_OP_ADD,
                                          NULL, NULL, 0));
    CHECK(total == turn * (int)nodes);
}

/* The slowest process finds each barrier complete and never waits for one, but its handlers run. */
static void check_slowest(void)
{
    static void (*const kinds[])(gex_TM_t tm, int turn) = { named, tried, anonymous, reduced };
    gex_TM_t tm;

    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        sum = 0;
        CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
        if (me == nodes - 1)
            CHECK(gasnet_AMRequestShort1(0, H_ADD, 5) == GASNET_OK);

        for (int turn = 0; turn < 32; turn++) {
            if (me == 0)
                (void)gasnett_nsleep(500000);

            kinds[kind](tm, turn);
        }

        if (me == 0 && sum != 5) {
            fprintf(stderr, "the handler did not run in 32 turns of kind %zu\n", kind);
            gasnet_exit(1);
        }
    }
}

/* Seconds of the quickest of five times ten turns: a value is put to the last process, which waits for it and puts it
 * back. */
static double quickest_turns(void)
{
    const gasnet_node_t last = nodes - 1;
    const gasnet_node_t other = me == 0 ? last : 0;
    const volatile int *mine = seg[me].addr;
    double quickest = 1000;

    for (int round = 0; round < 5; round++) {
        const gasnett_tick_t start = gasnett_ticks_now();

        for (int turn = 1; turn <= 10; turn++) {
            if (me == 0) {
                (void)gasnett_nsleep(1000000);
                gasnet_put_val(other, seg[other].addr, (gasnet_register_value_t)turn, sizeof turn);
            }

            GASNET_BLOCKUNTIL(*mine == turn);
            if (me == last)
                gasnet_put_val(other, seg[other].addr, (gasnet_register_value_t)turn, sizeof turn);
        }

        const double seconds = (double)gasnett_ticks_to_ns(gasnett_ticks_now() - start) / 1e9;

        quickest = seconds < quickest ? seconds : quickest;
    }

    return quickest;
}

/* By the text only a handler ends GASNET_BLOCKUNTIL, but OpenSHMEM libraries wait so for what others put, which wakes
 * nobody.  Such waits learn to look often enough. */
static void check_waits_for_puts(void)
{
    memset(seg[me].addr, 0, sizeof(int));
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    if (nodes > 1 && (me == 0 || me == nodes - 1))
        CHECK(quickest_turns() < 10 * 0.006);

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = { { H_ADD, (gex_AM_Fn_t)on_add } };

    if (gasnet_attach(NULL, 0, 0, 0) != GASNET_ERR_NOT_INIT ||
        gasnet_AMRequestShort0(0, H_ADD) != GASNET_ERR_NOT_INIT ||
        gasnet_getNodeInfo(NULL, 0) != GASNET_ERR_NOT_INIT || gasneti_nodes != 0)
        return 2;

    if (gasnet_init(&argc, &argv) != GASNET_OK)
        return 1;

    me = gasnet_mynode();
    nodes = gasnet_nodes();
    seg = calloc(nodes, sizeof *seg);
    CHECK(seg && gasnet_getSegmentInfo(seg, (int)nodes) == GASNET_ERR_NOT_INIT);
    CHECK(gasnet_getMaxLocalSegmentSize() % 65536 == 0 &&
          gasnet_getMaxGlobalSegmentSize() <= gasnet_getMaxLocalSegmentSize());
    CHECK(gasnet_getMaxLocalSegmentSize() == 3 * 65536 * 16);
    gasnet_client_attach_hook = hook;
    CHECK(gasnet_attach(table, 1, SEGMENT, 0) == GASNET_OK &&
          gasnet_getSegmentInfo(seg, (int)nodes) == GASNET_OK);
    CHECK(hook_base == seg[me].addr && hook_size == SEGMENT && (uintptr_t)hook_base % 65536 == 0);
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    check_nodes();
    check_barriers();
    check_errors();
    check_both();
    check_names();
    check_slowest();
    check_waits_for_puts();
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    gasnet_exit(0);
}
