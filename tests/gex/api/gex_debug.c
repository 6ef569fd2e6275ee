/* SPDX-License-Identifier: BSD-3-Clause */
/* One misuse, named by the first argument, that a checked build (--enable-debug, clients with
 * GASNET_DEBUG) answers with a sentence (gex_debug.sh looks at it).  Process 0 commits it; process
 * 1 waits, or answers with what handlers here do. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_BAD = 128,
    H_REPLY,
    H_NOTHING,
    H_LATE
};

static gex_TM_t tm;
static gex_EP_t ep;
static gex_Segment_t seg;
static void *there;
static char buf[4096];
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static const char *what;
static volatile int never;
static gex_Token_t kept;

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

/* ---- misuse in handlers; they run at process 0, whose requests go to itself ---- */

static void in_handler(gex_Token_t token)
{
    gex_AM_SrcDesc_t sd;
    gex_Token_Info_t info;

    if (is("request_in_handler"))
        gex_AM_RequestShort0(tm, 1, H_NOTHING, 0);

    if (is("put_in_handler"))
        gex_RMA_PutBlocking(tm, 1, there, buf, 8, 0);

    if (is("get_in_handler"))
        gex_Event_Wait(gex_RMA_GetNB(tm, buf, 1, there, 8, 0));

    if (is("poll_in_handler"))
        gasnet_AMPoll();

    if (is("test_in_handler"))
        gex_Event_Test(GEX_EVENT_INVALID);

    if (is("sync_in_handler"))
        gex_NBI_Wait(GEX_EC_ALL, 0);

    if (is("barrier_in_handler"))
        gex_Coll_BarrierNB(tm, 0);

    if (is("prepare_in_handler"))
        gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 100, NULL, 0, 0);

    if (is("lock_left"))
        gex_HSL_Lock(&lock);

    if (is("reply_locked")) {
        gex_HSL_Lock(&lock);
        gex_AM_ReplyShort0(token, H_NOTHING, 0);
    }

    if (is("reply_twice")) {
        gex_AM_ReplyShort0(token, H_NOTHING, 0);
        gex_AM_ReplyShort0(token, H_NOTHING, 0);
    }

    if (is("reply_left"))
        gex_AM_PrepareReplyMedium(token, NULL, 100, 100, NULL, 0, 0);

    if (is("reply_between")) {
        sd = gex_AM_PrepareReplyMedium(token, NULL, 100, 100, NULL, 0, 0);
        gex_AM_ReplyShort0(token, H_NOTHING, 0);
        gex_AM_CommitReplyMedium0(sd, H_NOTHING, 0);
    }

    if (is("reply_to_reply"))
        gex_AM_ReplyShort0(token, H_REPLY, 0);

    if (is("other_token"))
        gex_Token_Info((gex_Token_t)(void *)&info, &info, GEX_TI_ALL);

    kept = token;
}

static void in_reply(gex_Token_t token)
{
    if (is("reply_to_reply"))
        gex_AM_ReplyShort0(token, H_NOTHING, 0);
}

static void nothing(gex_Token_t token)
{
    (void)token;
}

static void run_handler(void)
{
    gex_AM_RequestShort0(tm, 0, H_BAD, 0);
    while (!kept)
        gasnet_AMPoll();

    for (int i = 0; i < 100; i++)
        gasnet_AMPoll();
}

/* ---- misuse outside ---- */

static void stale_token(void)
{
    run_handler();
    gex_Token_MaxReplyMedium(kept, GEX_EVENT_NOW, 0, 0);
}

static void stale_reply(void)
{
    run_handler();
    gex_AM_ReplyShort0(kept, H_NOTHING, 0);
}

static void put_locked(void)
{
    gex_HSL_Lock(&lock);
    gex_RMA_PutBlockingVal(tm, 1, there, 1, 8, 0);
}

static void poll_locked(void)
{
    CHECK(gex_HSL_Trylock(&lock) == GASNET_OK);
    gasnet_AMPoll();
}

static void wait_locked(void)
{
    gex_HSL_Lock(&lock);
    GASNET_BLOCKUNTIL(never);
}

static void lock_twice(void)
{
    gex_HSL_Lock(&lock);
    gex_HSL_Lock(&lock);
}

static void unlock_free(void)
{
    gex_HSL_Lock(&lock);
    gex_HSL_Unlock(&lock);
    gex_HSL_Unlock(&lock);
}

static void destroy_held(void)
{
    gex_HSL_Lock(&lock);
    gex_HSL_Destroy(&lock);
}

static void put_between(void)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 100, NULL, 0, 0);

    gex_RMA_PutBlocking(tm, 1, there, buf, 8, 0);
    gex_AM_CommitRequestMedium0(sd, H_NOTHING, 100);
}

static void poll_between(void)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, 1, buf, 100, 100, NULL, GEX_EVENT_NOW, 0,
                                                    0);

    gasnet_AMPoll();
    gex_AM_CommitRequestLong0(sd, H_NOTHING, 100, there);
}

static void other_dest(void)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, 1, NULL, 100, 100, there, NULL, 0, 0);
    gex_AM_CommitRequestLong0(sd, H_NOTHING, 100, (char *)there + 8);
}

static void prepare_offset(void)
{
    gex_AM_PrepareRequestMedium(tm, 1, buf, 8, 8, GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET, 0);
}

/* ---- events; each of these processes waits for the other's barrier, so that the event is not
 * complete at once ---- */

static gex_Event_t barrier_event(void)
{
    gex_Event_t ev = gex_Coll_BarrierNB(tm, 0);

    CHECK(ev != GEX_EVENT_INVALID);
    return ev;
}

static void event_twice(void)
{
    gex_Event_t ev = barrier_event();

    gex_AM_RequestShort0(tm, 1, H_LATE, 0);
    gex_Event_Wait(ev);
    gex_Event_Wait(ev);
}

static void event_array(void)
{
    gex_Event_t ev[2];

    ev[0] = ev[1] = barrier_event();
    gex_AM_RequestShort0(tm, 1, H_LATE, 0);
    gex_Event_Wait(ev[0]);
    gex_Event_TestAll(ev + 1, 1, 0);
}

static gex_Event_t pending_put(gex_Event_t *lc)
{
    return gex_RMA_PutNB(tm, 1, there, buf, sizeof buf, lc, 0);
}

static void leaf_after_root(void)
{
    gex_Event_t lc = GEX_EVENT_INVALID;
    gex_Event_t ev;

    do
        ev = pending_put(&lc);

    while (lc == GEX_EVENT_INVALID); /* on a network sooner or later one is not sent at once */
    gex_Event_Wait(ev);
    gex_Event_Wait(lc);
}

static void leaf_of_leaf(void)
{
    gex_Event_t lc = GEX_EVENT_INVALID;

    do
        pending_put(&lc);
    while (lc == GEX_EVENT_INVALID);
    gex_Event_QueryLeaf(lc, GEX_EC_LC);
}

static void leaf_deferred(void)
{
    gex_Event_t ev;

    do
        ev = pending_put(GEX_EVENT_DEFER);
    while (ev == GEX_EVENT_INVALID);
    gex_Event_QueryLeaf(ev, GEX_EC_LC);
}

static void leaf_of_get(void)
{
    gex_Event_QueryLeaf(gex_RMA_GetNB(tm, buf, 1, there, 64, 0), GEX_EC_LC);
}

static void region_twice(void)
{
    gex_NBI_BeginAccessRegion(0);
    gex_RMA_GetNBI(tm, buf, 1, there, 64, 0);

    gex_Event_t ev = gex_NBI_EndAccessRegion(0);

    CHECK(ev != GEX_EVENT_INVALID);
    gex_Event_Wait(ev);
    gex_Event_Test(ev);
}

static void event_flags(void)
{
    gex_Event_t ev = GEX_EVENT_INVALID;
    gex_Event_WaitSome(&ev, 1, GEX_FLAG_IMMEDIATE);
}

static void nbi_flags(void)
{
    gex_NBI_Wait(GEX_EC_ALL, 2);
}

/* ---- flags ---- */

static void never_self(void)
{
    gex_RMA_PutBlocking(tm, 0, gex_Segment_QueryAddr(seg), buf, 8, GEX_FLAG_PEER_NEVER_SELF);
}

static void never_nbrhd(void)
{
    gex_AM_RequestShort0(tm, 1, H_NOTHING, GEX_FLAG_PEER_NEVER_NBRHD);
}

static void never_nbrhd_put(void)
{
    gex_RMA_PutNBI(tm, 1, there, buf, 8, GEX_EVENT_NOW, GEX_FLAG_PEER_NEVER_NBRHD);
}

static void two_self(void)
{
    gex_RMA_GetBlocking(tm, buf, 1, there, 8, GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_SELF_SEG_UNKNOWN);
}

static void two_peer(void)
{
    gex_RMA_GetBlocking(tm, buf, 1, 0, 8, GEX_FLAG_PEER_SEG_BOUND | GEX_FLAG_PEER_SEG_OFFSET);
}

static void two_copy(void)
{
    gex_AM_RequestMedium0(tm, 1, H_NOTHING, buf, 8, GEX_EVENT_NOW,
                          GEX_FLAG_LC_COPY_YES | GEX_FLAG_LC_COPY_NO);
}

static void not_bound(void)
{
    gex_RMA_PutBlocking(tm, 1, there, buf, 8, GEX_FLAG_SELF_SEG_BOUND);
}

static void offset_outside(void)
{
    gex_RMA_PutBlocking(tm, 1, there, (void *)(uintptr_t)(GASNET_PAGESIZE - 4), 8,
                        GEX_FLAG_SELF_SEG_OFFSET);
}

static void least_request(void)
{
    gex_AM_RequestMedium0(tm, 1, H_NOTHING, buf, 8, GEX_EVENT_NOW,
                          GEX_FLAG_AM_PREPARE_LEAST_CLIENT);
}

static void null_source(void)
{
    gex_AM_RequestMedium0(tm, 1, H_NOTHING, NULL, 8, GEX_EVENT_NOW, 0);
}

static void nested_commit(void) /* allowed: everything that looks like misuse and is none */
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, 1, NULL, 100, 100, NULL, 0, 0);

    CHECK(gex_System_QueryJobRank() == 0 && gex_AM_LUBRequestMedium() > 0 &&
          gex_TM_QuerySize(tm) == 2);
    memset(gex_AM_SrcDescAddr(sd), 1, 100);
    CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
    gex_HSL_Lock(&lock);
    CHECK(gex_AM_MaxRequestMedium(tm, 1, GEX_EVENT_NOW, 0, 0) > 0 && gex_TM_QueryRank(tm) == 0);
    gex_HSL_Unlock(&lock);
    gex_RMA_PutBlocking(tm, 1, there, buf, 8, 0);
    gex_HSL_Destroy(&lock);
    gex_HSL_Init(&lock);
    gasnet_exit(9);
}

#define CASE(name) \
    { \
#name, name \
    }
#define HANDLER(name) \
    { \
#name, run_handler \
    }
static const struct {
    const char *name;
    void (*fn)(void);
} cases[] = {
    HANDLER(request_in_handler),
    HANDLER(put_in_handler),
    HANDLER(get_in_handler),
    HANDLER(poll_in_handler),
    HANDLER(test_in_handler),
    HANDLER(sync_in_handler),
    HANDLER(barrier_in_handler),
    HANDLER(prepare_in_handler),
    HANDLER(lock_left),
    HANDLER(reply_locked),
    HANDLER(reply_twice),
    HANDLER(reply_left),
    HANDLER(reply_between),
    HANDLER(reply_to_reply),
    HANDLER(other_token),
    CASE(stale_token),
    CASE(stale_reply),
    CASE(put_locked),
    CASE(poll_locked),
    CASE(wait_locked),
    CASE(lock_twice),
    CASE(unlock_free),
    CASE(destroy_held),
    CASE(put_between),
    CASE(poll_between),
    CASE(other_dest),
    CASE(prepare_offset),
    CASE(event_twice),
    CASE(event_array),
    CASE(leaf_after_root),
    CASE(leaf_of_leaf),
    CASE(leaf_deferred),
    CASE(leaf_of_get),
    CASE(region_twice),
    CASE(event_flags),
    CASE(nbi_flags),
    CASE(never_self),
    CASE(never_nbrhd),
    CASE(never_nbrhd_put),
    CASE(two_self),
    CASE(two_peer),
    CASE(two_copy),
    CASE(not_bound),
    CASE(offset_outside),
    CASE(least_request),
    CASE(null_source),
    CASE(nested_commit),
};

static volatile int late;
static void come_late(gex_Token_t token)
{
    (void)token;
    late = 1;
}

static void early(void)
{
    gex_Event_t none = GEX_EVENT_INVALID;

    if (is("poll_early"))
        gasnet_AMPoll();

    if (is("wait_early"))
        gex_Event_Wait(none);

    if (is("nbi_early"))
        gex_NBI_Wait(GEX_EC_ALL, 0);

    if (is("region_early"))
        gex_NBI_BeginAccessRegion(0);

    if (is("prepare_early"))
        gex_AM_PrepareRequestMedium(NULL, 0, NULL, 1, 1, NULL, 0, 0);
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[] = {
        { H_BAD, (gex_AM_Fn_t)in_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "bad" },
        { H_REPLY, (gex_AM_Fn_t)in_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "reply" },
        { H_NOTHING, (gex_AM_Fn_t)nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL,
          "nothing" },
        { H_LATE, (gex_AM_Fn_t)come_late, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL,
          "late" },
    };

    what = argc > 1 ? argv[1] : "";
    if (strstr(what, "_early")) {
        early();
        return 0;
    }

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_DEBUG", &argc, &argv, 0) != GASNET_OK ||
        gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) != GASNET_OK ||
        gex_Segment_Attach(&seg, tm, GASNET_PAGESIZE) != GASNET_OK)
        return 77;

    gex_Segment_QueryBound(tm, 1, &there, NULL, NULL);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); /* all are there before one ends the job */

    if (gex_System_QueryJobRank() != 0) {
        GASNET_BLOCKUNTIL(late);
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        GASNET_BLOCKUNTIL(never); /* the job ends meanwhile */
    }

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is(cases[i].name))
            cases[i].fn();

    gasnet_exit(0); /* nothing was noticed */
}
