/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the API that the other tests do not come by, each by what it does: GASNet-1 messages
 * with 0 to 16 arguments, what a client asks with the preprocessor, operations of atomics one by
 * one, prepared replies that are given up, names that only a few clients use.
 */
#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>
#include <time.h>

#include "tests/gex/gex_common.h"

enum {
    H_SHORT = 128,
    H_MEDIUM = 145,
    H_LONG = 162,
    H_SHORT_BACK = 179,
    H_MEDIUM_BACK = 196,
    H_LONG_BACK = 213
};

enum {
    H_CANCEL = 230,
    H_CANCELLED,
    H_COUNTED
};

enum {
    PART = 4096,
    MESSAGES = 17,
    BYTES = 100
};

static gasnet_node_t me, nodes;
static gasnet_seginfo_t *seg;
static volatile int back, counted;

static char *part(gasnet_node_t node, unsigned number)
{
    return (char *)seg[node].addr + (size_t)number * PART;
}

/* Argument i of every message is 1000 * (the number of them) + i. */
static void check_args(int count, const gex_AM_Arg_t *args)
{
    for (int i = 0; i < count; i++)
        CHECK(args[i] == 1000 * count + i);
}

/* ---- GASNet-1's messages; the reply has the same arguments and payload ---- */

#define DEFINE_HANDLERS(M) \
    static void short_##M(gasnet_token_t token AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        check_args(M, args); \
        CHECK(gasnet_AMReplyShort##M(token, H_SHORT_BACK + M AMPHORA_NAMES_##M) == GASNET_OK); \
    } \
    static void medium_##M(gasnet_token_t token, void *buf, size_t n AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        check_args(M, args); \
        CHECK(gasnet_AMReplyMedium##M(token, H_MEDIUM_BACK + M, buf, n AMPHORA_NAMES_##M) == \
              GASNET_OK); \
    } \
    static void long_##M(gasnet_token_t token, void *buf, size_t n AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        gasnet_node_t from = 0; \
        check_args(M, args); \
        CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK && right(buf, n, from, M) == n); \
        CHECK(gasnet_AMReplyLong##M(token, H_LONG_BACK + M, buf, n, \
                                    part(from, 1) AMPHORA_NAMES_##M) == GASNET_OK); \
    } \
    static void short_back_##M(gasnet_token_t token AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        (void)token; \
        check_args(M, args); \
        back++; \
    } \
    static void payload_back_##M(gasnet_token_t token, void *buf, size_t n AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        (void)token; \
        check_args(M, args); \
        CHECK(n == BYTES && right(buf, n, me, M) == n); \
        back++; \
    } \
    static void send_##M(gasnet_node_t to, void *data, void *dest, const gex_AM_Arg_t *a) \
    { \
        CHECK(gasnet_AMRequestShort##M(to, H_SHORT + M SENT_##M) == GASNET_OK); \
        CHECK(gasnet_AMRequestMedium##M(to, H_MEDIUM + M, data, BYTES SENT_##M) == GASNET_OK); \
        CHECK(gasnet_AMRequestLong##M(to, H_LONG + M, data, BYTES, dest SENT_##M) == GASNET_OK); \
        GASNET_BLOCKUNTIL(back == 3); \
        CHECK(gasnet_AMRequestLongAsync##M(to, H_LONG + M, data, BYTES, dest SENT_##M) == \
              GASNET_OK); \
        GASNET_BLOCKUNTIL(back == 4); \
        (void)a; \
    }
#define SENT_0
#define SENT_1 SENT_0, a[0]
#define SENT_2 SENT_1, a[1]
#define SENT_3 SENT_2, a[2]
#define SENT_4 SENT_3, a[3]
#define SENT_5 SENT_4, a[4]
#define SENT_6 SENT_5, a[5]
#define SENT_7 SENT_6, a[6]
#define SENT_8 SENT_7, a[7]
#define SENT_9 SENT_8, a[8]
#define SENT_10 SENT_9, a[9]
#define SENT_11 SENT_10, a[10]
#define SENT_12 SENT_11, a[11]
#define SENT_13 SENT_12, a[12]
#define SENT_14 SENT_13, a[13]
#define SENT_15 SENT_14, a[14]
#define SENT_16 SENT_15, a[15]
AMPHORA_EACH_M(DEFINE_HANDLERS)

#define SENDER(M) send_##M,
static void (*const send[])(gasnet_node_t, void *, void *,
                            const gex_AM_Arg_t *) = { AMPHORA_EACH_M(SENDER) };

static void messages(void)
{
    gasnet_node_t to = (me + 1) % nodes;
    char data[BYTES];
    gex_AM_Arg_t args[MESSAGES];

    for (int m = 0; m < MESSAGES; m++) {
        for (int i = 0; i < m; i++)
            args[i] = 1000 * m + i;

        fill(data, BYTES, me, (uint32_t)m);
        back = 0;
        send[m](to, data, part(to, 0), args);
        CHECK(right(part(me, 1), BYTES, me, (uint32_t)m) == BYTES);
    }
}

/* ---- replies that are prepared and given up, then sent after all ---- */

static void on_cancel(gex_Token_t token)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, 10, 100, NULL, 0, 0);

    CHECK(sd != GEX_AM_SRCDESC_NO_OP && gex_AM_CancelReplyMedium(sd, 0) == 0);
    sd = gex_AM_PrepareReplyLong(token, NULL, 10, 100, NULL, NULL, 0, 0);
    CHECK(sd != GEX_AM_SRCDESC_NO_OP && gex_AM_CancelReplyLong(sd, 0) == 0);
    CHECK(gex_AM_ReplyShort0(token, H_CANCELLED, 0) == 0);
}

static void on_cancelled(gex_Token_t token)
{
    (void)token;
    back++;
}

/* ---- what the preprocessor knows ---- */

GASNETT_BEGIN_EXTERNC
static int linked_as_c(void)
{
    return 3;
}

GASNETT_END_EXTERNC

#define SAID(a) SAID_(a)
#define SAID_(a) #a

/* Realm's wrapper around GASNet-EX holds these values and sizes for true and checks them when it is
 * compiled. */
_Static_assert(sizeof(gex_EP_Index_t) == 2 && sizeof(gex_EP_Capabilities_t) == 4 &&
                   sizeof(gex_Flags_t) == 4 && sizeof(gex_Rank_t) == 4,
               "sizes that a client knows");
_Static_assert(GEX_DT_U64 == 1 << 3 && GEX_OP_ADD == 1 << 3 && GEX_EP_CAPABILITY_RMA == 1 &&
                   GEX_FLAG_IMMEDIATE == 1 && GEX_FLAG_AM_PREPARE_LEAST_CLIENT == 1 << 11 &&
                   GEX_FLAG_AM_PREPARE_LEAST_ALLOC == 1 << 12,
               "values that a client knows");

static void constants(void)
{
    CHECK((uintptr_t)GEX_MK_HOST == 1 && (uintptr_t)GEX_EVENT_NO_OP == 1 &&
          (uintptr_t)GEX_EVENT_NOW == 1);
    CHECK((uintptr_t)GEX_EVENT_DEFER == 2 && (uintptr_t)GEX_EVENT_GROUP == 3 &&
          !GEX_EVENT_INVALID && !GEX_EP_INVALID);
    CHECK(GASNET_SEQ == 1 && GASNET_RELEASE_VERSION_MAJOR >= 2025);
    CHECK(GASNET_RELEASE_VERSION_MINOR >= 0 && GASNET_RELEASE_VERSION_PATCH >= 0);
    CHECK(GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR >= 19);
    CHECK(GASNET_SUPPORTS_TI_SRCRANK == 1 && GASNET_SUPPORTS_TI_EP == 1 &&
          GASNET_SUPPORTS_TI_ENTRY == 1);
    CHECK(GASNET_SUPPORTS_TI_IS_REQ == 1 && GASNET_SUPPORTS_TI_IS_LONG == 1 &&
          (GEX_TI_ALL & GEX_TI_IS_LONG));
    CHECK(GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM == 1 && GASNET_NATIVE_NP_ALLOC_REP_MEDIUM == 1);
    CHECK(GASNET_NATIVE_NP_ALLOC_REQ_LONG == 1 && GASNET_NATIVE_NP_ALLOC_REP_LONG == 1);
    CHECK(GEX_AM_INDEX_BASE <= H_SHORT && GEX_THREAD_ROLE_RCV != GEX_THREAD_ROLE_SND);
    CHECK(strcmp(SAID(GASNET_CONDUIT_NAME), GASNET_CONDUIT_NAME_STR) == 0 &&
          strcmp(SAID(GASNET_CORE_NAME), GASNET_CORE_NAME_STR) == 0);
    CHECK(strcmp(SAID(GASNET_CORE_VERSION), GASNET_CORE_VERSION_STR) == 0 &&
          strstr(GASNET_CONFIG_STRING, GASNET_CORE_VERSION_STR));
    CHECK(linked_as_c() == 3 && gasnett_atomic32_signed((uint32_t)-5) == -5 &&
          gasnett_atomic64_signed((uint64_t)-6) == -6);
    CHECK(gasnett_strongatomic32_signed((uint32_t)-7) == -7 &&
          gasnett_strongatomic64_signed((uint64_t)-8) == -8);

    gasnett_strongatomic_t a = gasnett_strongatomic_init(-9);

    CHECK(gasnett_strongatomic_signed(gasnett_strongatomic_read(&a, 0)) == -9);

    const gex_EP_Capabilities_t parts = GEX_EP_CAPABILITY_RMA | GEX_EP_CAPABILITY_AM |
                                        GEX_EP_CAPABILITY_VIS | GEX_EP_CAPABILITY_COLL |
                                        GEX_EP_CAPABILITY_AD;

    CHECK((GEX_EP_CAPABILITY_ALL & parts) == parts &&
          !(GEX_EP_CAPABILITY_VIS & GEX_EP_CAPABILITY_COLL & GEX_EP_CAPABILITY_AD));

    gex_MK_Class_t class = GEX_MK_CLASS_HOST;

    CHECK(gex_MK_QueryClass(GEX_MK_HOST) == class);
}

/* ---- atomics, one by one: what is there, what is given back and what is there then ---- */

static void atomics(gex_TM_t tm)
{
    static const struct {
        gex_OP_t op;
        int64_t before, operand, after;
    } rows[] = {
        { GEX_OP_FMULT, 6, 7, 42 }, { GEX_OP_FMIN, -3, -8, -8 }, { GEX_OP_FMIN, -8, -3, -8 },
        { GEX_OP_FMAX, -8, 5, 5 },  { GEX_OP_FSUB, 5, 9, -4 },   { GEX_OP_FDEC, 0, 0, -1 },
        { GEX_OP_FAND, 12, 10, 8 }, { GEX_OP_FOR, 12, 3, 15 },   { GEX_OP_SWAP, 77, 1234, 1234 },
    };

    static const gex_Flags_t favours[] = { GEX_FLAG_AD_FAVOR_MY_RANK, GEX_FLAG_AD_FAVOR_MY_NBRHD,
                                           GEX_FLAG_AD_FAVOR_REMOTE, GEX_FLAG_PEER_SEG_OFFSET,
                                           GEX_FLAG_AD_FAVOR_REMOTE | GEX_FLAG_PEER_SEG_OFFSET };
    gasnet_node_t to = (me + 1) % nodes;
    int64_t *word = (int64_t *)part(to, 2) + me;
    int64_t old = 0;

    for (size_t f = 0; f < sizeof favours / sizeof *favours; f++) {
        gex_AD_t ad;
        gex_OP_t all = GEX_OP_GET;

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            all |= rows[i].op;

        gex_AD_Create(&ad, tm, GEX_DT_I64, all, favours[f]);
        CHECK(gex_AD_QueryFlags(ad) == favours[f]);

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            gasnet_put(to, word, &rows[i].before, sizeof *word);
            gex_Event_Wait(gex_AD_OpNB_I64(ad, &old, to, word, rows[i].op, rows[i].operand, 0, 0));
            CHECK(old == rows[i].before);
            gex_Event_Wait(gex_AD_OpNB_I64(ad, &old, to, word, GEX_OP_GET, 0, 0, 0));
            CHECK(old == rows[i].after);
        }

        /* Here the target is this process itself, which is also a neighbour. */
        int64_t *own = (int64_t *)part(me, 3);

        *own = 5;
        gex_Event_Wait(gex_AD_OpNB_I64(ad, &old, me, own, GEX_OP_FSUB, 1, 0, GEX_FLAG_AD_MY_NBRHD));
        CHECK(old == 5);
        CHECK(gex_AD_OpNBI_I64(ad, &old, me, own, GEX_OP_FDEC, 0, 0, GEX_FLAG_AD_MY_RANK) == 0);
        gex_NBI_Wait(GEX_EC_RMW, 0);
        CHECK(old == 4 && *(volatile int64_t *)own == 3);
        gex_AD_Destroy(ad);
    }
}

/* ---- pieces, teams, collectives ---- */

static void indexed(gex_TM_t tm)
{
    enum {
        PIECES = 16,
        PIECE = 24
    };

    gasnet_node_t to = (me + 1) % nodes;
    char got[PIECES * PIECE];
    void *there[PIECES];
    void *here[1] = { got };

    fill(part(me, 4), PART, me, 4);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    for (int i = 0; i < PIECES; i++)
        there[i] = part(to, 4) + i * 100;

    CHECK(gex_VIS_IndexedGetBlocking(tm, 1, here, sizeof got, to, PIECES, there, PIECE, 0) == 0);
    for (int i = 0; i < PIECES; i++)
        for (int j = 0; j < PIECE; j++)
            CHECK(got[i * PIECE + j] == (char)pattern(to, 4, (size_t)i * 100 + (size_t)j));

    CHECK(GEX_VIS_MAX_PEERCOMPLETION >= 127);
}

static void add_odd(const void *a, void *b, size_t count, const void *cdata)
{
    for (size_t i = 0; i < count; i++)
        ((int *)b)[i] += ((const int *)a)[i] * *(const int *)cdata;
}

static void teams(gex_TM_t tm)
{
    gex_Coll_ReduceFn_t fn = add_odd;
    int one = 1;
    int mine = (int)me + 1;
    int sum = 0;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &mine, GEX_DT_USER, sizeof sum, 1, GEX_OP_USER,
                                          fn, &one, 0));
    CHECK(sum == (int)(nodes * (nodes + 1) / 2));

    gex_TM_t half;
    size_t least = gex_TM_Split(&half, tm, (int)(me & 1), 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_MIN);

    CHECK(least <= PART);
    gex_TM_Split(&half, tm, (int)(me & 1), 0, part(me, 5), PART, 0);

    gex_EP_Index_t index = gex_EP_QueryIndex(gex_TM_QueryEP(half));

    CHECK(index == 0);

    gex_Memvec_t scratch;

    CHECK(gex_TM_Destroy(half, &scratch, 0) && scratch.gex_addr == part(me, 5) &&
          scratch.gex_len == PART);

    gasnete_coll_team_t team = gasnete_coll_team_all;
    int value = me == 0 ? 99 : 0;
    int seen = 0;

    gasnet_coll_broadcast(team, &seen, 0, &value, sizeof seen,
                          GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    CHECK(seen == 99);
}

#define ENTRY(M) \
    { H_SHORT + M, (gex_AM_Fn_t)short_##M }, { H_MEDIUM + M, (gex_AM_Fn_t)medium_##M }, \
        { H_LONG + M, (gex_AM_Fn_t)long_##M }, { H_SHORT_BACK + M, (gex_AM_Fn_t)short_back_##M }, \
        { H_MEDIUM_BACK + M, (gex_AM_Fn_t)payload_back_##M }, \
        { H_LONG_BACK + M, (gex_AM_Fn_t)payload_back_##M },

/* What clients use beyond the texts.  api: _STRINGIFY _INCLUDED_GASNET_TOOLS_H PRIuSZ MIN MAX */

#if !(GEX_FLAG_IMMEDIATE & 1) || (GEX_FLAG_AD_ACQ & GEX_FLAG_AD_REL) || !GEX_FLAG_GLOBALLY_QUIESCED
#error "flags are not for the preprocessor"
#endif
#if !(GEX_EC_ALL & GEX_EC_RMW) || !GEX_TI_ALL || (GEX_DT_I32 & GEX_DT_USER) || \
    !GEX_RANK_INVALID || GEX_OP_TO_FETCHING(GEX_OP_SET) != GEX_OP_SWAP || \
    GEX_OP_TO_NONFETCHING(GEX_OP_FCAS) != GEX_OP_CAS
#error "constants are not for the preprocessor"
#endif

#if !_INCLUDED_GASNET_TOOLS_H
#error "clients that have included the tools do not see it"
#endif

/* As Realm does, lest a compiler says that nobody uses them. */
static const gex_AM_Fn_t never_called[] = { (gex_AM_Fn_t)_gasneti_threadkey_init,
                                            (gex_AM_Fn_t)_gasnett_trace_printf_noop };

static int larger(size_t a, size_t b)
{
    switch (a < b) {
    case 0:
        return a > b;
    case 1:
        return -1;
    }

    gasneti_builtin_unreachable();
}

static void client_names(void)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIuSZ, (size_t)1 << 40);
    CHECK(strcmp(text, "1099511627776") == 0);
    CHECK(MIN(3, 4u) == 3 && MIN(nodes, 0) == 0 && MAX(3, 4u) == 4 && MAX(-1, -2) == -1);
    CHECK(larger(1, 2) == -1 && larger(2, 1) == 1 && larger(2, 2) == 0);

    for (size_t i = 0; i < sizeof never_called / sizeof *never_called; i++)
        ((void (*)(void))never_called[i])();
}

/* A message whose arguments are counted when the program runs, as BCL sends it. */
static void on_counted(gex_Token_t token, gex_AM_Arg_t first, gex_AM_Arg_t second,
                       gex_AM_Arg_t third)
{
    (void)token;
    CHECK(first == 3000 && second == -1 && third == INT32_MIN);
    counted++;
}

static void client_calls(gex_TM_t tm)
{
    const gasneti_tick_t start = gasneti_ticks_now();

    CHECK(gasnetc_AMRequestShortM(tm, (me + 1) % nodes, H_COUNTED, 0 GASNETI_THREAD_GET, 3, 3000,
                                  -1, INT32_MIN) == 0);
    GASNET_BLOCKUNTIL(counted == 1);
    CHECK(gasnett_nsleep(2000000) == 0);
    CHECK(gasneti_ticks_to_ns(gasneti_ticks_now() - start) >= 1900000);
    CHECK(sleep(0) == 0 && getpid() > 0);
}

static void beyond_the_texts(gex_TM_t tm)
{
    const char *file = "before";
    unsigned int line = 77;
    const uint64_t now_us = gasnett_gettimeofday_us();

    CHECK(now_us / 1000000 - (uint64_t)time(NULL) + 2 < 4);
    CHECK(strstr(GASNETT_CONFIG_STRING, "THREADMODEL=SEQ"));
    CHECK(strcmp(_STRINGIFY(GASNET_CONDUIT_NAME), GASNET_CONDUIT_NAME_STR) == 0);
    GASNETT_TRACE_SETSOURCELINE(__FILE__, __LINE__);
    GASNETT_TRACE_FREEZESOURCELINE();
    GASNETT_TRACE_UNFREEZESOURCELINE();
    GASNETT_TRACE_GETSOURCELINE(&file, &line);
    CHECK(!file && line == 0);
    GASNETT_TRACE_SET_TRACELOCAL(1);
    CHECK(GASNETT_TRACE_GET_TRACELOCAL() == 0);

    for (int i = 0; i < 100; i++) {
        const uint64_t mine = (uint64_t)me * 1000 + (uint64_t)i;
        uint64_t theirs;

        memcpy(part(me, 5), &mine, sizeof mine);
        CHECK(gex_Coll_BarrierBlocking(tm, 0) == 0);
        gasnet_get(&theirs, (me + 1) % nodes, part((me + 1) % nodes, 5), sizeof theirs);
        CHECK(theirs == (uint64_t)((me + 1) % nodes) * 1000 + (uint64_t)i);
        CHECK(gex_Coll_BarrierBlocking(tm, 0) == 0);
    }
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t handlers[] = { AMPHORA_EACH_M(ENTRY){ 0, NULL } };
    gex_AM_Entry_t more[] = {
        { H_CANCEL, (gex_AM_Fn_t)on_cancel, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL,
          "cancel" },
        { H_CANCELLED, (gex_AM_Fn_t)on_cancelled, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL,
          "cancelled" },
        { H_COUNTED, (gex_AM_Fn_t)on_counted, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3, NULL,
          "counted" },
    };
    gex_TM_t tm;
    gex_EP_t ep;

    CHECK(handlers[0].fnptr == (gex_AM_Fn_t)short_0 && more[0].gex_fnptr == (gex_AM_Fn_t)on_cancel);
    client_names();
    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    if (argc > 1)
        gasneti_fatalerror("the end of %s", argv[1]);

    gasnet_QueryGexObjects(NULL, &ep, &tm, NULL);
    CHECK(gex_EP_RegisterHandlers(ep, more, 3) == GASNET_OK);
    me = gasnet_mynode();
    nodes = gasnet_nodes();
    CHECK(gasnet_attach(handlers, (int)(sizeof handlers / sizeof *handlers) - 1,
                        GASNET_PAGESIZE * 16, 0) == GASNET_OK);
    seg = malloc(nodes * sizeof *seg);
    CHECK(seg && gasnet_getSegmentInfo(seg, (int)nodes) == GASNET_OK && seg[me].size >= 6 * PART);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    messages();
    back = 0;
    CHECK(gex_AM_RequestShort0(tm, (me + 1) % nodes, H_CANCEL, 0) == 0);
    GASNET_BLOCKUNTIL(back == 1);
    constants();
    atomics(tm);
    indexed(tm);
    teams(tm);
    client_calls(tm);
    beyond_the_texts(tm);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);
}
