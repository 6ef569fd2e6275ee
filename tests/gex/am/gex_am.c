/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages through gasnetex.h: every number of arguments, kind and direction, by number and
 * counted; payloads of all sizes; local completion; tokens; limits; registration and its errors. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_SHORT = 128,
    H_MEDIUM = 150,
    H_LONG = 170,
    H_SHORT_REPLY = 190,
    H_MEDIUM_REPLY = 210,
    H_LONG_REPLY = 230,
    NH = 17
};
#define HALF (512 * 1024)

static gex_EP_t ep;
static gex_TM_t tm;
static gex_Rank_t me, size;
static char *seg_base;
static char **bases;
static unsigned seen_requests, seen_replies;
static char payload[HALF];

/* The arguments of message m from process r. */
static gex_AM_Arg_t arg(gex_Rank_t r, int m, int i)
{
    return (gex_AM_Arg_t)(r * 1000003u + (unsigned)m * 1009u + (unsigned)i) ^
           (i & 1 ? INT32_MIN : 0);
}

static void check_args(gex_Rank_t src, int m, const gex_AM_Arg_t *args)
{
    for (int i = 0; i < m; i++)
        CHECK(args[i] == arg(src, m, i));
}

static gex_Rank_t check_token(gex_Token_t token, int index, bool is_req, bool is_long,
                              unsigned nargs)
{
    gex_Token_Info_t info;

    CHECK(gex_Token_Info(token, &info, GEX_TI_ALL) == GEX_TI_ALL);
    CHECK(info.gex_srcrank < size && info.gex_ep == ep && info.gex_is_req == is_req &&
          info.gex_is_long == is_long);
    CHECK(info.gex_entry->gex_index == index && info.gex_entry->gex_nargs == nargs &&
          info.gex_entry->gex_cdata == &tm);
    CHECK(strcmp(info.gex_entry->gex_name, "handler") == 0);

    if (is_req)
        CHECK(gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, nargs) >= 65408 &&
              gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, 0) >= 512);

    return info.gex_srcrank;
}

/* ---- handlers with 0 to 16 arguments ---- */

#define ARGS(M) AMPHORA_VALUES_##M
#define DEFINE_SHORT(M) \
    static void short_##M(gex_Token_t token AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        check_args(check_token(token, H_SHORT + M, true, false, M), M, args); \
        seen_requests++; \
        CHECK(gex_AM_ReplyShort##M(token, H_SHORT_REPLY + M, 0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void short_reply_##M(gex_Token_t token AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        check_token(token, H_SHORT_REPLY + M, false, false, M); \
        check_args(me, M, args); \
        seen_replies++; \
    }
#define DEFINE_MEDIUM(M) \
    static void medium_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        gex_Rank_t src = check_token(token, H_MEDIUM + M, true, false, M); \
        check_args(src, M, args); \
        CHECK(right(buf, nbytes, src, M) == nbytes); \
        CHECK(((uintptr_t)buf & 7) == 0 || nbytes == 0); \
        seen_requests++; \
        CHECK(gex_AM_ReplyMedium##M(token, H_MEDIUM_REPLY + M, buf, nbytes, GEX_EVENT_NOW, \
                                    0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void medium_reply_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        check_token(token, H_MEDIUM_REPLY + M, false, false, M); \
        check_args(me, M, args); \
        CHECK(right(buf, nbytes, me, M) == nbytes); \
        seen_replies++; \
    }
#define DEFINE_LONG(M) \
    static void long_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        gex_Rank_t src = check_token(token, H_LONG + M, true, true, M); \
        check_args(src, M, args); \
        CHECK((char *)buf == seg_base + (size_t)src * HALF && \
              right(buf, nbytes, src, M) == nbytes); \
        seen_requests++; \
        CHECK(gex_AM_ReplyLong##M(token, H_LONG_REPLY + M, buf, nbytes, \
                                  bases[src] + (size_t)(size + me) * HALF, GEX_EVENT_NOW, \
                                  0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void long_reply_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { ARGS(M) }; \
        gex_Rank_t src = check_token(token, H_LONG_REPLY + M, false, true, M); \
        check_args(me, M, args); \
        CHECK((char *)buf == seg_base + (size_t)(size + src) * HALF && \
              right(buf, nbytes, me, M) == nbytes); \
        seen_replies++; \
    }
/* clang-format off */
AMPHORA_EACH_M(DEFINE_SHORT)
AMPHORA_EACH_M(DEFINE_MEDIUM)
AMPHORA_EACH_M(DEFINE_LONG)
/* clang-format on */

#define ENTRY(index, fn, kind, dir, M) \
    { index, (gex_AM_Fn_t)fn, GEX_FLAG_AM_##kind | GEX_FLAG_AM_##dir, M, &tm, "handler" },
#define ENTRIES(M) \
    ENTRY(H_SHORT + M, short_##M, SHORT, REQUEST, M) \
    ENTRY(H_MEDIUM + M, medium_##M, MEDIUM, REQUEST, M) \
    ENTRY(H_LONG + M, long_##M, LONG, REQUEST, M) \
    ENTRY(H_SHORT_REPLY + M, short_reply_##M, SHORT, REPLY, M) \
    ENTRY(H_MEDIUM_REPLY + M, medium_reply_##M, MEDIUM, REPLY, M) \
    ENTRY(H_LONG_REPLY + M, long_reply_##M, LONG, REPLY, M)
static gex_AM_Entry_t table[] = { AMPHORA_EACH_M(ENTRIES) };

/* ---- sending ---- */

#define SEND_SHORT(M) \
    static void send_short_##M(gex_Rank_t to, const gex_AM_Arg_t *a) \
    { \
        gex_AM_Arg_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], \
                     a7 = a[7], a8 = a[8], a9 = a[9], a10 = a[10], a11 = a[11], a12 = a[12], \
                     a13 = a[13], a14 = a[14], a15 = a[15]; \
        gex_AM_Arg_t all[] = { \
            a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15 \
        }; \
        (void)all; \
        CHECK(gex_AM_RequestShort##M(tm, to, H_SHORT + M, 0 AMPHORA_NAMES_##M) == 0); \
        CHECK(gex_AM_RequestShort(tm, to, H_SHORT + M, 0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void send_medium_##M(gex_Rank_t to, const gex_AM_Arg_t *a, size_t n, gex_Event_t *lc) \
    { \
        gex_AM_Arg_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], \
                     a7 = a[7], a8 = a[8], a9 = a[9], a10 = a[10], a11 = a[11], a12 = a[12], \
                     a13 = a[13], a14 = a[14], a15 = a[15]; \
        gex_AM_Arg_t all[] = { \
            a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15 \
        }; \
        (void)all; \
        CHECK(gex_AM_RequestMedium##M(tm, to, H_MEDIUM + M, payload, n, GEX_EVENT_NOW, \
                                      0 AMPHORA_NAMES_##M) == 0); \
        CHECK(gex_AM_RequestMedium(tm, to, H_MEDIUM + M, payload, n, lc, 0 AMPHORA_NAMES_##M) == \
              0); \
    } \
    static void send_long_##M(gex_Rank_t to, const gex_AM_Arg_t *a, size_t n, gex_Event_t *lc) \
    { \
        gex_AM_Arg_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], \
                     a7 = a[7], a8 = a[8], a9 = a[9], a10 = a[10], a11 = a[11], a12 = a[12], \
                     a13 = a[13], a14 = a[14], a15 = a[15]; \
        gex_AM_Arg_t all[] = { \
            a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15 \
        }; \
        (void)all; \
        char *at = bases[to] + (size_t)me * HALF; \
        CHECK(gex_AM_RequestLong##M(tm, to, H_LONG + M, payload, n, at, GEX_EVENT_NOW, \
                                    0 AMPHORA_NAMES_##M) == 0); \
        CHECK(gex_AM_RequestLong(tm, to, H_LONG + M, payload, n, at, lc, 0 AMPHORA_NAMES_##M) == \
              0); \
    }
AMPHORA_EACH_M(SEND_SHORT)

#define POINTERS(M) { send_short_##M, send_medium_##M, send_long_##M },
static const struct {
    void (*short_one)(gex_Rank_t, const gex_AM_Arg_t *);
    void (*medium_one)(gex_Rank_t, const gex_AM_Arg_t *, size_t, gex_Event_t *);
    void (*long_one)(gex_Rank_t, const gex_AM_Arg_t *, size_t, gex_Event_t *);
} senders[] = { AMPHORA_EACH_M(POINTERS) };

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

/* Two messages of each kind have gone to `to`: both replies come back. */
static void await_replies(unsigned *expected, unsigned more)
{
    *expected += more;
    GASNET_BLOCKUNTIL(seen_replies == *expected);
}

static void send_all(gex_Rank_t to, int m, size_t medium, size_t long_bytes, unsigned *expected)
{
    gex_AM_Arg_t a[16];
    gex_Event_t lc = GEX_EVENT_NO_OP;

    for (int i = 0; i < 16; i++)
        a[i] = arg(me, m, i);

    senders[m].short_one(to, a);
    fill(payload, HALF, me, (uint32_t)m);
    senders[m].medium_one(to, a, medium, m % 3 == 0 ? GEX_EVENT_GROUP : &lc);
    if (m % 3)
        gex_Event_Wait(lc);

    /* Both longs go to one place with the same bytes. */
    senders[m].long_one(to, a, long_bytes, m % 2 ? GEX_EVENT_GROUP : &lc);
    if (m % 2 == 0)
        gex_Event_Wait(lc);

    gex_NBI_Wait(GEX_EC_AM, 0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);
    await_replies(expected, 6);
}

static void test_messages(void)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 64, 1000, 4096, 8192, 30000, 65408 };
    unsigned expected = 0;
    uint64_t seed = 12345 + me;

    for (gex_Rank_t k = 0; k < size; k++) {
        gex_Rank_t to = (me + k) % size;

        for (int m = 0; m < NH; m++) {
            size_t medium = sizes[(unsigned)m % (sizeof sizes / sizeof *sizes)];
            size_t long_bytes = 0;
            size_t most = gex_AM_LUBRequestLong();

            if (m == 5)
                long_bytes = HALF;
            else if (m != 6)
                long_bytes = next_random(&seed) % 100000;

            long_bytes = long_bytes < most ? long_bytes : most;
            send_all(to, m, medium, long_bytes, &expected);
        }
    }

    barrier();
    while (seen_requests < expected) /* as many have come as have gone */
        gasnet_AMPoll();

    CHECK(seen_requests == expected);
    barrier();
}

/* A flood with IMMEDIATE: what is refused is sent again; nothing is lost. */
static void test_immediate(void)
{
    unsigned before = seen_replies;
    unsigned refused = 0;
    gex_AM_Arg_t a0 = arg(me, 2, 0);
    gex_AM_Arg_t a1 = arg(me, 2, 1);

    for (int i = 0; i < 3000; i++)
        while (gex_AM_RequestShort2(tm, (me + 1) % size, H_SHORT + 2, GEX_FLAG_IMMEDIATE, a0, a1)) {
            refused++;
            gasnet_AMPoll();
        }

    GASNET_BLOCKUNTIL(seen_replies == before + 3000);
    barrier();
}

static void test_limits(void)
{
    CHECK(gex_AM_MaxArgs() == 16);
    size_t (*const max[])(gex_TM_t, gex_Rank_t, const gex_Event_t *, gex_Flags_t,
                          unsigned) = { gex_AM_MaxRequestMedium, gex_AM_MaxReplyMedium,
                                        gex_AM_MaxRequestLong, gex_AM_MaxReplyLong };
    size_t (*const lub[])(void) = { gex_AM_LUBRequestMedium, gex_AM_LUBReplyMedium,
                                    gex_AM_LUBRequestLong, gex_AM_LUBReplyLong };

    for (int k = 0; k < 4; k++) {
        CHECK(lub[k]() >= (k < 2 ? 65408 : 512));
        CHECK(max[k](tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 16) >= lub[k]());

        for (gex_Rank_t i = 0; i < size; i++)
            for (unsigned nargs = 0; nargs <= 16; nargs++)
                CHECK(max[k](tm, i, GEX_EVENT_GROUP, 0, nargs) >= lub[k]());
    }
}

static void nothing(gex_Token_t token)
{
    (void)token;
}

static int try_one(gex_AM_Index_t index, gex_Flags_t flags, unsigned nargs)
{
    gex_AM_Entry_t e = { index, (gex_AM_Fn_t)nothing, flags, nargs, NULL, "tried" };
    return gex_EP_RegisterHandlers(ep, &e, 1);
}

static void test_registration(void)
{
    const gex_Flags_t ok = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST;
    gex_AM_Entry_t any[] = { { 0, (gex_AM_Fn_t)nothing, ok, 0, NULL, NULL },
                             { 149, (gex_AM_Fn_t)nothing, ok, 0, NULL, NULL },
                             { 0, (gex_AM_Fn_t)nothing, ok, 0, NULL, NULL } };
    gex_AM_Entry_t twice[] = { { 148, (gex_AM_Fn_t)nothing, ok, 0, NULL, NULL },
                               { 148, (gex_AM_Fn_t)nothing, ok, 0, NULL, NULL } };

    CHECK(gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) == GASNET_OK);
    gex_System_SetVerboseErrors(0);
    CHECK(try_one(H_SHORT, ok, 0) == GASNET_ERR_BAD_ARG); /* taken */
    CHECK(try_one(127, ok, 0) == GASNET_ERR_BAD_ARG);     /* not a client's */
    CHECK(try_one(147, ok, 17) == GASNET_ERR_BAD_ARG);    /* too many arguments */
    CHECK(try_one(147, GEX_FLAG_AM_SHORT, 0) == GASNET_ERR_BAD_ARG &&
          try_one(147, GEX_FLAG_AM_REPLY, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_RegisterHandlers(ep, twice, 2) == GASNET_ERR_BAD_ARG);
    CHECK(try_one(148, ok, 0) == GASNET_OK); /* the failed call has left nothing */
    CHECK(gex_EP_RegisterHandlers(ep, NULL, 1) == GASNET_ERR_BAD_ARG &&
          gex_EP_RegisterHandlers(ep, NULL, 0) == GASNET_OK);
    CHECK(gex_EP_RegisterHandlers(ep, any, 3) == GASNET_OK);

    /* highest free first */
    CHECK(any[0].gex_index == 255 && any[1].gex_index == 149 && any[2].gex_index == 254);
    gex_System_SetVerboseErrors(1);
}

int main(int argc, char **argv)
{
    gex_Segment_t seg;

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_AM", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    test_registration();

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (uintptr_t)2 * size * HALF;

    CHECK(gex_Segment_Attach(&seg, tm, (bytes + page - 1) / page * page) == GASNET_OK);
    seg_base = gex_Segment_QueryAddr(seg);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    barrier();
    test_limits();
    test_messages();
    test_immediate();
    free(bases);
    gasnet_exit(0);
}
