/* SPDX-License-Identifier: BSD-3-Clause */
/* Negotiated-payload active messages: every number of arguments in all forms of commit, buffers of
 * the client's and of the library's, sizes between least and most, replies from handlers, local
 * completion, cancelling, IMMEDIATE. */
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_MEDIUM = 128,
    H_LONG = 150,
    H_MEDIUM_REPLY = 170,
    H_LONG_REPLY = 190,
    H_COUNT = 210,
    NM = 17
};
#define PART (512 * 1024)

static gex_TM_t tm;
static gex_Rank_t me, size;
static char *seg_base;
static char **bases;
static unsigned seen_requests, seen_replies, counted;
static char payload[PART];
static size_t longest; /* of the longs sent here */

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

static gex_Rank_t source(gex_Token_t token)
{
    gex_Token_Info_t info;

    CHECK(gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK);
    return info.gex_srcrank;
}

static void check_sd(gex_AM_SrcDesc_t sd, const void *client_buf, size_t least, size_t most)
{
    CHECK(sd != GEX_AM_SRCDESC_NO_OP);
    CHECK(gex_AM_SrcDescSize(sd) >= least && gex_AM_SrcDescSize(sd) <= most);

    if (client_buf)
        CHECK(gex_AM_SrcDescAddr(sd) == client_buf);
    else
        CHECK(((uintptr_t)gex_AM_SrcDescAddr(sd) & 15) == 0 && gex_AM_SrcDescAddr(sd));
}

/* ---- handlers: the request's payload goes back in a prepared reply, sometimes from the request's
 * own buffer ---- */

#define DEFINE_HANDLERS(M) \
    static void medium_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        gex_Rank_t src = source(token); \
        const void *own = seen_requests++ % 2 ? buf : NULL; \
        check_args(src, M, args); \
        CHECK(right(buf, nbytes, src, M) == nbytes); \
        gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, own, nbytes, nbytes + 100, \
                                                        own ? GEX_EVENT_NOW : NULL, 0, M); \
        check_sd(sd, own, nbytes, nbytes + 100); \
        memmove(gex_AM_SrcDescAddr(sd), buf, nbytes); \
        if (M % 2) \
            gex_AM_CommitReplyMedium(sd, H_MEDIUM_REPLY + M, nbytes AMPHORA_NAMES_##M); \
        else \
            CHECK(gex_AM_CommitReplyMedium##M##_v2(sd, H_MEDIUM_REPLY + M, nbytes, \
                                                   0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void medium_reply_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        (void)token; \
        check_args(me, M, args); \
        CHECK(right(buf, nbytes, me, M) == nbytes); \
        seen_replies++; \
    } \
    static void long_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        gex_Rank_t src = source(token); \
        const void *own = seen_requests++ % 2 ? buf : NULL; \
        char *dest = bases[src] + (size_t)(size + me) * PART; \
        check_args(src, M, args); \
        CHECK((char *)buf == seg_base + (size_t)src * PART && \
              right(buf, nbytes, src, M) == nbytes); \
        gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyLong( \
            token, own, nbytes, nbytes, M % 3 ? dest : NULL, own ? GEX_EVENT_NOW : NULL, 0, M); \
        check_sd(sd, own, nbytes, nbytes); \
        memmove(gex_AM_SrcDescAddr(sd), buf, nbytes); \
        if (M % 2) \
            gex_AM_CommitReplyLong##M(sd, H_LONG_REPLY + M, nbytes, dest AMPHORA_NAMES_##M); \
        else \
            CHECK(gex_AM_CommitReplyLong_v2(sd, H_LONG_REPLY + M, nbytes, dest, \
                                            0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void long_reply_##M(gex_Token_t token, void *buf, size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        gex_Rank_t src = source(token); \
        check_args(me, M, args); \
        CHECK((char *)buf == seg_base + (size_t)(size + src) * PART && \
              right(buf, nbytes, me, M) == nbytes); \
        seen_replies++; \
    }
AMPHORA_EACH_M(DEFINE_HANDLERS)

static void count(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t step)
{
    CHECK(right(buf, nbytes, source(token), (uint32_t)step) == nbytes);
    counted++;
}

#define ENTRY(index, fn, kind, dir, M) \
    { index, (gex_AM_Fn_t)fn, GEX_FLAG_AM_##kind | GEX_FLAG_AM_##dir, M, NULL, #fn },
#define ENTRIES(M) \
    ENTRY(H_MEDIUM + M, medium_##M, MEDIUM, REQUEST, M) \
    ENTRY(H_LONG + M, long_##M, LONG, REQUEST, M) \
    ENTRY(H_MEDIUM_REPLY + M, medium_reply_##M, MEDIUM, REPLY, M) \
    ENTRY(H_LONG_REPLY + M, long_reply_##M, LONG, REPLY, M)
static gex_AM_Entry_t table[] = { AMPHORA_EACH_M(ENTRIES)
                                      ENTRY(H_COUNT, count, MEDLONG, REQUEST, 1) };

/* ---- sending ---- */

#define UNPACK \
    gex_AM_Arg_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], a4 = a[4], a5 = a[5], a6 = a[6], \
                 a7 = a[7], a8 = a[8], a9 = a[9], a10 = a[10], a11 = a[11], a12 = a[12], \
                 a13 = a[13], a14 = a[14], a15 = a[15]; \
    gex_AM_Arg_t all[] = { a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15 }; \
    (void)all;

/* The forms of commit: with the number, counted, _v2 with the number, _v2 counted. */
#define DEFINE_SENDERS(M) \
    static void commit_medium_##M(gex_AM_SrcDesc_t sd, int form, size_t n, const gex_AM_Arg_t *a) \
    { \
        UNPACK \
        if (form == 0) \
            gex_AM_CommitRequestMedium##M(sd, H_MEDIUM + M, n AMPHORA_NAMES_##M); \
        else if (form == 1) \
            gex_AM_CommitRequestMedium(sd, H_MEDIUM + M, n AMPHORA_NAMES_##M); \
        else if (form == 2) \
            CHECK(gex_AM_CommitRequestMedium##M##_v2(sd, H_MEDIUM + M, n, 0 AMPHORA_NAMES_##M) == \
                  0); \
        else \
            CHECK(gex_AM_CommitRequestMedium_v2(sd, H_MEDIUM + M, n, 0 AMPHORA_NAMES_##M) == 0); \
    } \
    static void commit_long_##M(gex_AM_SrcDesc_t sd, int form, size_t n, void *dest, \
                                const gex_AM_Arg_t *a) \
    { \
        UNPACK \
        if (form == 0) \
            gex_AM_CommitRequestLong##M(sd, H_LONG + M, n, dest AMPHORA_NAMES_##M); \
        else if (form == 1) \
            gex_AM_CommitRequestLong(sd, H_LONG + M, n, dest AMPHORA_NAMES_##M); \
        else if (form == 2) \
            CHECK(gex_AM_CommitRequestLong##M##_v2(sd, H_LONG + M, n, dest, \
                                                   0 AMPHORA_NAMES_##M) == 0); \
        else \
            CHECK(gex_AM_CommitRequestLong_v2(sd, H_LONG + M, n, dest, 0 AMPHORA_NAMES_##M) == 0); \
    }
AMPHORA_EACH_M(DEFINE_SENDERS)

#define POINTERS(M) { commit_medium_##M, commit_long_##M },
static const struct {
    void (*medium)(gex_AM_SrcDesc_t, int, size_t, const gex_AM_Arg_t *);
    void (*longs)(gex_AM_SrcDesc_t, int, size_t, void *, const gex_AM_Arg_t *);
} commits[] = { AMPHORA_EACH_M(POINTERS) };

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void await_reply(void)
{
    static unsigned expected;

    expected++;
    GASNET_BLOCKUNTIL(seen_replies == expected);
}

/* How the payload is given: in a buffer of the library's, or the client's with local completion
 * now, with the group, by event. */
enum how {
    ALLOC,
    NOW,
    GROUP,
    EVENT,
    HOWS
};

static gex_Event_t *lc_of(enum how how, gex_Event_t *event)
{
    gex_Event_t *const lc[HOWS] = { NULL, GEX_EVENT_NOW, GEX_EVENT_GROUP, event };
    return lc[how];
}

static void finish(enum how how, gex_Event_t event)
{
    if (how == GROUP)
        gex_NBI_Wait(GEX_EC_AM, 0);

    if (how == EVENT)
        gex_Event_Wait(event);

    await_reply();
}

/* One medium of n bytes, prepared with room for more; every third commits less than was asked
 * for. */
static void send_medium(gex_Rank_t to, int m, enum how how, int form, size_t n,
                        const gex_AM_Arg_t *a)
{
    static unsigned turn;
    gex_Event_t event = GEX_EVENT_INVALID;
    size_t least = n;
    size_t most = turn++ % 2 ? n : n + 1000;
    const void *buf = how == ALLOC ? NULL : payload;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, buf, least, most, lc_of(how, &event),
                                                      0, (unsigned)m);

    check_sd(sd, buf, least, most);
    fill(gex_AM_SrcDescAddr(sd), n, me, (uint32_t)m);
    commits[m].medium(sd, form, turn % 3 ? n : n - n / 4, a);
    finish(how, event);
}

static void send_long(gex_Rank_t to, int m, enum how how, int form, size_t n, const gex_AM_Arg_t *a)
{
    static unsigned turn;
    gex_Event_t event = GEX_EVENT_INVALID;
    const void *buf = how == ALLOC ? NULL : payload;
    char *dest = bases[to] + (size_t)me * PART;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, to, buf, n, n, turn % 2 ? dest : NULL,
                                                    lc_of(how, &event), 0, (unsigned)m);

    check_sd(sd, buf, n, n);
    fill(gex_AM_SrcDescAddr(sd), n, me, (uint32_t)m);
    commits[m].longs(sd, form, turn++ % 3 ? n : n - n / 4, dest, a);
    finish(how, event);
}

static void test_all_forms(void)
{
    static const size_t sizes[] = { 1, 8, 32, 63, 64, 65, 100, 1000, 4096, 8000, 30000, 64408 };
    gex_AM_Arg_t a[16];
    unsigned expected = 0;

    for (gex_Rank_t k = 0; k < size; k++) {
        gex_Rank_t to = (me + k) % size;

        for (int m = 0; m < NM; m++) {
            for (int i = 0; i < 16; i++)
                a[i] = arg(me, m, i);

            for (int how = 0; how < HOWS; how++) {
                size_t n =
                    sizes[(size_t)(m * HOWS + how + (int)k) % (sizeof sizes / sizeof *sizes)];

                send_medium(to, m, (enum how)how, (m + how) % 4, n, a);
                send_long(to, m, (enum how)how, (m + how + 1) % 4,
                          m == 5 || n * 3 > longest ? longest : n * 3, a);
                expected += 2;
            }
        }
    }

    barrier();
    while (seen_requests < expected)
        gasnet_AMPoll();

    barrier();
}

/* ---- a stream of prepared mediums of random lengths, some given up, among others that are not
 * prepared ---- */

static void send_one(gex_Rank_t to, uint32_t step, size_t n, uint64_t *seed)
{
    size_t room = n + next_random(seed) % 5000;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, NULL, n, room, NULL, 0, 1);

    check_sd(sd, NULL, n, room);
    fill(gex_AM_SrcDescAddr(sd), gex_AM_SrcDescSize(sd), me, step); /* also what will not be sent */

    if (next_random(seed) % 4 == 0) {
        CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
        CHECK(gex_AM_RequestMedium1(tm, to, H_COUNT, payload, n, GEX_EVENT_NOW, 0,
                                    (gex_AM_Arg_t)step) == 0);
    } else {
        gex_AM_CommitRequestMedium1(sd, H_COUNT, n, (gex_AM_Arg_t)step);
    }
}

static void test_stream(void)
{
    enum {
        STEPS = 600
    };

    uint64_t seed = 777 + me;
    unsigned before = counted;

    barrier();
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t n = 1 + next_random(&seed) % (step % 7 ? 300 : 60000);

        fill(payload, n, me, step);
        send_one((me + 1) % size, step, n, &seed);
    }

    GASNET_BLOCKUNTIL(counted == before + STEPS);
    barrier();
}

/* Prepared and given up again and again, nothing sent: the room must come back. */
static void test_cancel(void)
{
    for (int i = 0; i < 2000; i++) {
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, (me + 1) % size, NULL, 20000, 60000,
                                                          NULL, 0, 0);

        check_sd(sd, NULL, 20000, 60000);
        memset(gex_AM_SrcDescAddr(sd), 0xff, gex_AM_SrcDescSize(sd));
        CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
        sd = gex_AM_PrepareRequestLong(tm, (me + 1) % size, i % 2 ? payload : NULL, 10, 100000,
                                       NULL, i % 2 ? GEX_EVENT_NOW : NULL, 0, 0);
        check_sd(sd, i % 2 ? payload : NULL, 10, 100000);
        CHECK(gex_AM_CancelRequestLong(sd, 0) == 0);
    }

    barrier();
}

/* A flood with IMMEDIATE in prepare and in commit: what is refused is tried again, nothing is lost
 * or doubled. */
static void test_immediate(void)
{
    enum {
        STEPS = 3000
    };

    gex_Rank_t to = (me + 1) % size;
    unsigned before = counted;

    barrier();
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t n = 1 + step * 7 % 2000;
        gex_AM_SrcDesc_t sd;

        while (!(sd = gex_AM_PrepareRequestMedium(tm, to, NULL, n, n, NULL, GEX_FLAG_IMMEDIATE, 1)))
            gasnet_AMPoll();

        fill(gex_AM_SrcDescAddr(sd), n, me, step);
        while (gex_AM_CommitRequestMedium1_v2(sd, H_COUNT, n, GEX_FLAG_IMMEDIATE,
                                              (gex_AM_Arg_t)step)) {
            /* communication is allowed again only now */
            CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
            gasnet_AMPoll();
            sd = gex_AM_PrepareRequestMedium(tm, to, NULL, n, n, NULL, 0, 1);
            fill(gex_AM_SrcDescAddr(sd), n, me, step);
        }
    }

    GASNET_BLOCKUNTIL(counted == before + STEPS);
    barrier();
}

/* Longs by offset in the peer's segment; the largest payloads that the queries name. */
static void test_limits(void)
{
    gex_Rank_t to = (me + 1) % size;
    gex_Rank_t from = (me + size - 1) % size;
    const gex_Flags_t least[] = { GEX_FLAG_AM_PREPARE_LEAST_CLIENT,
                                  GEX_FLAG_AM_PREPARE_LEAST_ALLOC };
    unsigned before = counted;

    barrier();
    for (int i = 0; i < 2; i++) {
        gex_Event_t *lc = i ? NULL : GEX_EVENT_NOW;
        size_t medium = gex_AM_MaxRequestMedium(tm, to, lc, least[i], 1);

        CHECK(medium >= 512 && gex_AM_MaxReplyMedium(tm, to, lc, least[i], 16) >= 512);
        CHECK(gex_AM_MaxRequestLong(tm, to, lc, least[i], 1) >= longest);
        CHECK(gex_AM_MaxReplyLong(tm, to, lc, least[i], 1) >= longest);

        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, i ? NULL : payload, medium,
                                                          medium + 1, lc, 0, 1);

        check_sd(sd, i ? NULL : payload, medium, medium);
        fill(gex_AM_SrcDescAddr(sd), medium, me, 5);
        gex_AM_CommitRequestMedium1(sd, H_COUNT, medium, 5);
        sd = gex_AM_PrepareRequestLong(tm, to, i ? NULL : payload, longest, longest,
                                       (void *)((uintptr_t)me * PART), lc, GEX_FLAG_PEER_SEG_OFFSET,
                                       1);
        fill(gex_AM_SrcDescAddr(sd), longest, me, 6);
        gex_AM_CommitRequestLong1(sd, H_COUNT, longest, (void *)((uintptr_t)me * PART), 6);
    }

    GASNET_BLOCKUNTIL(counted == before + 4);
    CHECK(right(seg_base + (size_t)from * PART, longest, from, 6) == longest);
    barrier();
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_NP", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(GASNET_SUPPORTS_AM_COMMIT_V2 == 20240906L && GASNET_SUPPORTS_AM_CANCEL == 20240418L);
    CHECK(gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) == GASNET_OK);

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (uintptr_t)2 * size * PART;

    longest = gex_AM_LUBRequestLong() < PART ? gex_AM_LUBRequestLong() : PART;
    CHECK(gex_Segment_Attach(&seg, tm, (bytes + page - 1) / page * page) == GASNET_OK);
    seg_base = gex_Segment_QueryAddr(seg);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    barrier();
    test_all_forms();
    test_stream();
    test_cancel();
    test_immediate();
    test_limits();
    free(bases);
    gasnet_exit(0);
}
