/* SPDX-License-Identifier: BSD-3-Clause */
/* The job, its objects and segments through gasnetex.h: queries, neighbourhoods, sizes, attaching
 * and its errors, pairs, amphora.h. */
#include "gasnetex.h"

#include "amphora.h"
#include "tests/gex/gex_common.h"

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Rank_t me, size;

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void test_objects(void)
{
    int marks[3];

    CHECK(client && ep && tm);
    CHECK(strcmp(gex_Client_QueryName(client), "test-job_1") == 0 &&
          gex_Client_QueryFlags(client) == 0);
    CHECK(gex_EP_QueryClient(ep) == client && gex_EP_QueryIndex(ep) == 0 &&
          gex_EP_QueryFlags(ep) == 0);
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    CHECK(gex_TM_QueryClient(tm) == client && gex_TM_QueryEP(tm) == ep &&
          gex_TM_QueryFlags(tm) == 0);
    CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == size && me < size);
    CHECK(!gex_Client_QueryCData(client) && !gex_EP_QueryCData(ep) && !gex_TM_QueryCData(tm));
    gex_Client_SetCData(client, &marks[0]);
    gex_EP_SetCData(ep, &marks[1]);
    gex_TM_SetCData(tm, &marks[2]);
    CHECK(gex_Client_QueryCData(client) == &marks[0] && gex_EP_QueryCData(ep) == &marks[1] &&
          gex_TM_QueryCData(tm) == &marks[2]);

    for (gex_Rank_t i = 0; i < size; i++) {
        gex_EP_Location_t loc = gex_TM_TranslateRankToEP(tm, i, 0);

        CHECK(gex_TM_TranslateRankToJobrank(tm, i) == i &&
              gex_TM_TranslateJobrankToRank(tm, i) == i);
        CHECK(loc.gex_rank == i && loc.gex_ep_index == 0);
    }

    CHECK(gex_TM_TranslateJobrankToRank(tm, size) == GEX_RANK_INVALID);
    CHECK(gex_System_GetVerboseErrors() == 1);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_System_GetVerboseErrors() == 0);
    CHECK(gex_System_QueryMaxThreads() == 1 && gex_System_QueryHiddenAMConcurrencyLevel() == 0);
    CHECK(gasnet_getenv("PATH") && strcmp(gasnet_getenv("PATH"), getenv("PATH")) == 0 &&
          !gasnet_getenv("NO_SUCH_VARIABLE_HERE"));
    CHECK(gex_Client_Init(NULL, NULL, NULL, "SECOND", NULL, NULL, 0) == GASNET_ERR_RESOURCE);
    CHECK(gasnet_set_waitmode(77) == GASNET_ERR_BAD_ARG &&
          gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK) == GASNET_OK);
}

static void check_set(gex_RankInfo_t *info, gex_Rank_t count, gex_Rank_t self)
{
    CHECK(count >= 1 && count <= size && self < count && info[self].gex_jobrank == me);
    for (gex_Rank_t i = 1; i < count; i++)
        CHECK(info[i - 1].gex_jobrank < info[i].gex_jobrank && info[i].gex_jobrank < size);
}

static void test_places(void)
{
    gex_RankInfo_t *nbrhd, *host;
    gex_Rank_t n, nself, h, hself, sets, set, hosts, myhost;

    gex_System_QueryNbrhdInfo(&nbrhd, &n, &nself);
    gex_System_QueryHostInfo(&host, &h, &hself);
    gex_System_QueryNbrhdInfo(NULL, NULL, NULL);
    check_set(nbrhd, n, nself);
    check_set(host, h, hself);
    CHECK(n <= h);
    gex_System_QueryMyPosition(&sets, &set, &hosts, &myhost);
    gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
    CHECK(set < sets && myhost < hosts && hosts <= sets);
    CHECK((sets == 1) == (n == size) && (hosts == 1) == (h == size));
}

static void test_groups(void)
{
    struct amphora_proc proc;

    CHECK(amphora_own_group() == AMPHORA_COMPUTE && amphora_relative() == me &&
          amphora_absolute() == me);
    CHECK(amphora_group_size(AMPHORA_COMPUTE) == size);

    uint32_t servers = amphora_group_size(AMPHORA_SERVERS);

    for (uint32_t i = 0; i < size + servers; i++) {
        CHECK(amphora_proc(i, &proc) == 0);
        CHECK(proc.group == (i < size ? AMPHORA_COMPUTE : AMPHORA_SERVERS) &&
              proc.relative == (i < size ? i : i - size));
        CHECK(proc.pointer_bytes == sizeof(void *) && proc.page_bytes &&
              amphora_page_bytes() % proc.page_bytes == 0 && proc.host_name);
        CHECK(amphora_member(proc.group, proc.relative) == i);
    }

    CHECK(amphora_proc(size + servers, &proc) == GASNET_ERR_BAD_ARG &&
          amphora_proc(0, NULL) == GASNET_ERR_BAD_ARG);
    for (uint32_t i = 0; i < size; i++)
        CHECK(amphora_server_of(i) == (servers ? size + i % servers : AMPHORA_NONE));

    CHECK(amphora_server_of(size) == AMPHORA_NONE &&
          amphora_member(AMPHORA_COMPUTE, size) == AMPHORA_NONE);
    CHECK(strstr(amphora_version(), AMPHORA_VERSION));
}

/* Each attempt is made by all, and fails on all. */
static void test_attach_errors(void)
{
    gex_Segment_t seg = GEX_SEGMENT_INVALID;
    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t most = gasnet_getMaxLocalSegmentSize();

    CHECK(page && (page & (page - 1)) == 0 && most >= page && most % page == 0);
    if (gasnet_getenv("GASNET_MAX_SEGSIZE")) /* 1M, or 2M of the host's two processes */
        CHECK(most == 1 << 20);

    CHECK(gasnet_getMaxGlobalSegmentSize() <= most && gasnet_getMaxGlobalSegmentSize() % page == 0);
    CHECK(gex_Segment_Attach(NULL, tm, page) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Attach(&seg, tm, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Attach(&seg, tm, page + 1) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Attach(&seg, tm, (UINTPTR_MAX >> 1) / page * page) == GASNET_ERR_RESOURCE);

    /* One process alone is at fault: nobody gets a segment. */
    CHECK(gex_Segment_Attach(&seg, tm, me == size - 1 ? page + 1 : page) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    CHECK(gex_Segment_QueryBound(tm, me, NULL, NULL, NULL) != 0);

    uintptr_t len = 7;

    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, size - 1, NULL, NULL, &len, 0));
    CHECK(len == 0);
}

static void test_segment(void)
{
    gex_Segment_t seg = GEX_SEGMENT_INVALID;
    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t mine = (3 + me) * page;

    CHECK(gex_Segment_Attach(&seg, tm, mine) == GASNET_OK && seg != GEX_SEGMENT_INVALID);
    CHECK(gex_EP_QuerySegment(ep) == seg && gex_Segment_QueryClient(seg) == client &&
          gex_Segment_QueryFlags(seg) == 0);
    CHECK(gex_Segment_QuerySize(seg) == mine && (uintptr_t)gex_Segment_QueryAddr(seg) % page == 0);
    CHECK(gex_Segment_QueryCData(seg) == NULL);
    gex_Segment_SetCData(seg, &mine);
    CHECK(gex_Segment_QueryCData(seg) == &mine);
    CHECK(gex_Segment_Attach(&seg, tm, page) == GASNET_ERR_RESOURCE);

    unsigned char *base = gex_Segment_QueryAddr(seg);

    for (uintptr_t i = 0; i < mine; i += 64)
        base[i] = (unsigned char)(me + 1); /* all of it is there */

    barrier();

    gex_RankInfo_t *nbrhd;
    gex_Rank_t n;
    gex_Rank_t in_nbrhd = 0;

    gex_System_QueryNbrhdInfo(&nbrhd, &n, NULL);
    for (gex_Rank_t i = 0; i < size; i++) {
        void *owner = NULL;
        void *local = NULL;
        void *owner2 = NULL;
        uintptr_t len = 0;

        CHECK(gex_Segment_QueryBound(tm, i, &owner, &local, &len) == 0 && len == (3 + i) * page &&
              owner);
        CHECK(gex_EP_QueryBoundSegmentNB(tm, i, &owner2, NULL, NULL, GEX_FLAG_IMMEDIATE) ==
                  GEX_EVENT_INVALID &&
              owner2 == owner);
        CHECK(i != me || (owner == base && local == base));

        bool neighbour = in_nbrhd < n && nbrhd[in_nbrhd].gex_jobrank == i;

        in_nbrhd += neighbour;
        CHECK(neighbour == (local != NULL));
        if (local)
            CHECK(((unsigned char *)local)[len - 64] == i + 1);

        /* the same endpoint by another name */
        unsigned char last = 0;
        gex_TM_t pair = gex_TM_Pair(ep, 0);

        CHECK(gex_RMA_GetBlocking(pair, &last, i, (char *)owner + len - 64, 1, 0) == 0 &&
              last == i + 1);
    }

    barrier();
}

int main(int argc, char **argv)
{
    /* What may be asked before there is a job; CHECK needs one. */
    const size_t early[] = { gex_AM_LUBRequestMedium(), gex_AM_LUBReplyMedium(),
                             gex_AM_LUBRequestLong(), gex_AM_LUBReplyLong() };

    if (GASNET_PAGESIZE == 0)
        return 3;
    if (gex_Client_Init(&client, &ep, &tm, "bad name", &argc, &argv, 0) != GASNET_ERR_BAD_ARG)
        return 3;
    if (gex_Client_Init(&client, &ep, &tm, "7seven", &argc, &argv, 0) != GASNET_ERR_BAD_ARG)
        return 3;

    /* Not the specification's form, but that of existing clients. */
    if (gex_Client_Init(&client, &ep, &tm, "test-job_1", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(early[0] >= 512 && early[0] <= gex_AM_LUBRequestMedium());
    CHECK(early[1] >= 512 && early[1] <= gex_AM_LUBReplyMedium());
    CHECK(early[2] >= 512 && early[2] <= gex_AM_LUBRequestLong());
    CHECK(early[3] >= 512 && early[3] <= gex_AM_LUBReplyLong());
    if (argc > 1)
        CHECK(GASNET_PAGESIZE == strtoul(argv[1], NULL, 0));

    test_objects();
    test_places();
    test_groups();
    test_attach_errors();
    test_segment();
    gasnet_exit(0);
}
