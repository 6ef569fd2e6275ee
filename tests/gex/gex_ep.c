/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints and segments as objects: made, bound, published, asked for; put and get over pairs of
 * all their combinations, with memory of the library's and of the client's; messages of all kinds
 * to other endpoints; teams of them; a thousand segments. Argument: how many segments the last part
 * makes; "bind": endpoint 0 gets its segment that way instead of by attaching.
 */
#include "gasnetex.h"
#include "gasnet_mk.h"

#include "tests/gex/gex_common.h"

/* Endpoint 1: memory of the library's, all capabilities; 2: memory of the client's; 3: the
 * client's, RMA alone; 4: no segment. */
enum {
    EPS = 5,
    BYTES = 300000,
    PLACE = 40000,
    BIG = 150000,
    H_NOTE = 200,
    H_PUSH,
    H_PULL,
    H_BACK
};

static gex_Client_t client;
static gex_TM_t world;
static gex_EP_t ep[EPS];
static gex_Segment_t segment[EPS];
static gex_Rank_t me, size;
static char *own[EPS];      /* client memory */
static char *base[EPS][64]; /* where each process has it */
static unsigned notes[EPS], backs[EPS];

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
}

/* ---- handlers: registered with each endpoint, they count by the endpoint that the token names
 * ---- */

static unsigned index_of(gex_Token_t token)
{
    gex_Token_Info_t info;

    CHECK((gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_EP) &&
          info.gex_ep == ep[gex_EP_QueryIndex(info.gex_ep)]);
    CHECK(info.gex_entry->gex_cdata == ep[gex_EP_QueryIndex(info.gex_ep)]);
    return gex_EP_QueryIndex(info.gex_ep);
}

static void note(gex_Token_t token, gex_AM_Arg_t to)
{
    CHECK(index_of(token) == (unsigned)to);
    __atomic_fetch_add(&notes[to], 1, __ATOMIC_RELEASE);
    CHECK(gex_AM_ReplyShort1(token, H_BACK, 0, 77) == 0);
}

static void push(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t to, gex_AM_Arg_t from,
                 gex_AM_Arg_t step)
{
    CHECK(right(buf, nbytes, (uint32_t)from, (uint32_t)step) == nbytes);
    note(token, to);
}

/* Answers with a long of step*... bytes into the segment of the asker's endpoint. */
static void pull(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high, gex_AM_Arg_t nbytes)
{
    static char data[BIG];
    uintptr_t dest = (uintptr_t)((uint64_t)(uint32_t)low | (uint64_t)(uint32_t)high << 32);
    unsigned index = index_of(token);

    fill(data, (size_t)nbytes, me, index);
    CHECK(gex_AM_ReplyLong1(token, H_BACK + 1, data, (size_t)nbytes, (void *)dest, GEX_EVENT_NOW, 0,
                            (gex_AM_Arg_t)me) == 0);
}

static void back(gex_Token_t token, gex_AM_Arg_t unused)
{
    (void)unused;
    __atomic_fetch_add(&backs[index_of(token)], 1, __ATOMIC_RELEASE);
}

static void back_long(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t from)
{
    (void)buf;
    (void)nbytes;
    back(token, from);
}

/* Handlers may run in another thread (gex_ep_par). */
static unsigned answers(unsigned i)
{
    return __atomic_load_n(&backs[i], __ATOMIC_ACQUIRE);
}

static void register_all(unsigned i)
{
    gex_AM_Entry_t table[] = {
        { H_NOTE, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, ep[i], "note" },
        { H_PUSH, (gex_AM_Fn_t)push, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 3, ep[i], "push" },
        { H_PULL, (gex_AM_Fn_t)pull, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3, ep[i], "pull" },
        { H_BACK, (gex_AM_Fn_t)back, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, ep[i], "back" },
        { 0, (gex_AM_Fn_t)back_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 1, ep[i], "back long" },
    };

    CHECK(gex_EP_RegisterHandlers(ep[i], table, 4) == GASNET_OK);
    table[4].gex_index = H_BACK + 1;
    CHECK(gex_EP_RegisterHandlers(ep[i], table + 4, 1) == GASNET_OK);
}

/* ---- making ---- */

static void test_errors(void)
{
    gex_EP_t other = GEX_EP_INVALID;
    gex_Segment_t seg = GEX_SEGMENT_INVALID;
    char byte;

    gex_System_SetVerboseErrors(0);
    CHECK(gex_EP_Create(NULL, client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_Create(&other, GEX_CLIENT_INVALID, GEX_EP_CAPABILITY_RMA, 0) ==
          GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_Create(&other, client, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0x100) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(NULL, client, NULL, 4096, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, GEX_CLIENT_INVALID, NULL, 4096, GEX_MK_HOST, 0) ==
          GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, client, NULL, 0, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, client, &byte, UINTPTR_MAX, GEX_MK_HOST, 0) ==
          GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, client, NULL, 4096, GEX_MK_INVALID, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, client, NULL, 4096, GEX_MK_HOST, 1) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&seg, client, NULL, UINTPTR_MAX / 4, GEX_MK_HOST, 0) ==
          GASNET_ERR_RESOURCE);
    CHECK(gex_Segment_Destroy(GEX_SEGMENT_INVALID, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Destroy(segment[0], 0) == GASNET_ERR_BAD_ARG);
    CHECK(other == GEX_EP_INVALID && seg == GEX_SEGMENT_INVALID);

    /* One member's mistake is told to all of them. */
    gex_EP_t twice[2] = { ep[0], ep[0] };
    int err = gex_EP_PublishBoundSegment(world, twice, me == size - 1 ? 2 : 1, 0);

    CHECK(err == (me == size - 1 ? GASNET_ERR_BAD_ARG : GASNET_ERR_RESOURCE));
    gex_System_SetVerboseErrors(1);
}

static void make_all(void)
{
    static const gex_EP_Capabilities_t caps[EPS] = { 0, GEX_EP_CAPABILITY_ALL,
                                                     GEX_EP_CAPABILITY_ALL, GEX_EP_CAPABILITY_RMA,
                                                     GEX_EP_CAPABILITY_AM };

    for (unsigned i = 1; i < EPS; i++) {
        CHECK(gex_EP_Create(&ep[i], client, caps[i], 0) == GASNET_OK);
        CHECK(gex_EP_QueryIndex(ep[i]) == i && gex_EP_QueryClient(ep[i]) == client &&
              gex_EP_QueryFlags(ep[i]) == 0);
        CHECK(gex_EP_QuerySegment(ep[i]) == GEX_SEGMENT_INVALID &&
              gex_EP_QueryCData(ep[i]) == NULL);
        gex_EP_SetCData(ep[i], &ep[i]);
        CHECK(gex_EP_QueryCData(ep[i]) == &ep[i] && gex_EP_QueryCData(ep[0]) == NULL);
        if (i != 3)
            register_all(i);
    }

    for (unsigned i = 1; i < 4; i++) {
        own[i] = i == 1 ? NULL : (char *)malloc(BYTES) + i; /* of no alignment */
        CHECK(gex_Segment_Create(&segment[i], client, own[i], BYTES - 64 - i, GEX_MK_HOST, 0) ==
              GASNET_OK);
        CHECK(gex_Segment_QuerySize(segment[i]) == BYTES - 64 - i &&
              gex_Segment_QueryClient(segment[i]) == client);
        CHECK(own[i] == NULL || gex_Segment_QueryAddr(segment[i]) == own[i]);
        CHECK(gex_EP_BindSegment(ep[i], segment[i], 0) == GASNET_OK);
        CHECK(gex_EP_QuerySegment(ep[i]) == segment[i]);
    }
}

/* ---- where they are ---- */

static void test_queries(bool published)
{
    for (gex_Rank_t j = 0; j < size; j++)
        for (unsigned i = 1; i < EPS; i++) {
            void *owner = NULL;
            void *local = NULL;
            uintptr_t len = 99;
            gex_TM_t pair = gex_TM_Pair(ep[0], i);
            gex_Event_t ev = gex_EP_QueryBoundSegmentNB(pair, j, &owner, &local, &len,
                                                        GEX_FLAG_IMMEDIATE);
            bool known = published && i < 4;

            CHECK(j != me || ev == GEX_EVENT_INVALID);
            CHECK(j == me || (ev == GEX_EVENT_INVALID) == known);

            /* some remain for the publication */
            if (ev == GEX_EVENT_NO_OP && (published || (i + j) % 2)) {
                ev = gex_EP_QueryBoundSegmentNB(pair, j, &owner, &local, &len, 0);
                gex_Event_Wait(ev);
                ev = GEX_EVENT_INVALID;
            }

            if (ev == GEX_EVENT_NO_OP)
                continue;

            CHECK(len == (i < 4 ? BYTES - 64 - i : 0));
            CHECK(j != me || i == 4 || owner == gex_Segment_QueryAddr(segment[i]));
            if (i < 4)
                base[i][j] = owner;

            void *untouched = &owner;
            int none = gex_Segment_QueryBound(pair, j, i < 4 ? NULL : &untouched, NULL, NULL);

            CHECK((none != 0) == (i == 4) && untouched == &owner);
        }
}

/* ---- transfers ---- */

static char *place(unsigned to, gex_Rank_t j)
{
    return base[to][j] + (size_t)me * PLACE;
}

static void test_rma(void)
{
    static char out[PLACE], in[PLACE];
    uint32_t step = 0;

    for (gex_Rank_t k = 0; k < size; k++)
        for (unsigned from = 0; from < 4; from++)
            for (unsigned to = 1; to < 4; to++) {
                gex_Rank_t j = (me + k) % size;
                gex_TM_t pair = gex_TM_Pair(ep[from], to);
                size_t n = ++step % 3 ? 1 + (step * 977) % 3000 : PLACE - step % 50;

                fill(out, n, me, step);
                memset(in, 0, sizeof in);
                gex_Event_Wait(gex_RMA_PutNB(pair, j, place(to, j), out, n, GEX_EVENT_NOW, 0));
                memset(out, 1, n);
                CHECK(gex_RMA_GetBlocking(pair, in, j, place(to, j), n, 0) == 0);
                CHECK(right(in, n, me, step) == n);
                CHECK(gex_RMA_PutNBIVal(pair, j, place(to, j), step, 4, 0) == 0);
                gex_NBI_Wait(GEX_EC_ALL, 0);
                CHECK((uint32_t)gex_RMA_GetBlockingVal(pair, j, place(to, j), 4, 0) == step);
            }

    barrier();
}

/* Large ones, several messages each, many at once, from all to one. */
static void test_many_transfers(void)
{
    static char out[BIG], in[BIG];
    char *at = base[2][0];
    gex_TM_t pair = gex_TM_Pair(ep[0], 2);
    gex_Event_t ev[16];

    if (me == 0) {
        fill(out, BIG, 5, 6);
        CHECK(gex_RMA_PutBlocking(pair, 0, at, out, BIG, 0) == 0);
    }

    barrier();
    for (unsigned i = 0; i < 16; i++)
        ev[i] = gex_RMA_GetNB(pair, in + i * (BIG / 16), 0, at + i * (BIG / 16), BIG / 16, 0);

    gex_Event_WaitAll(ev, 16, 0);
    CHECK(right(in, BIG / 16 * 16, 5, 6) == BIG / 16 * 16);
    memset(in, 0, BIG);
    CHECK(gex_RMA_GetBlocking(pair, in, 0, at, BIG, 0) == 0);
    CHECK(right(in, BIG, 5, 6) == BIG);
    barrier();
}

/* ---- messages ---- */

static void test_messages(void)
{
    static char out[BIG];
    static const unsigned able[] = { 0, 1, 2, 4 };
    static const unsigned bound[] = { 1, 2 };
    unsigned sent[EPS] = { 0 };

    for (unsigned a = 0; a < 4; a++)
        for (unsigned b = 0; b < 4; b++)
            for (gex_Rank_t j = 0; j < size; j++) {
                unsigned from = able[a];
                unsigned to = able[b];
                gex_TM_t pair = gex_TM_Pair(ep[from], to);
                size_t n = 100 + a * 1000 + b * 300;

                fill(out, n, me, n);
                CHECK(gex_AM_MaxRequestMedium(pair, j, GEX_EVENT_NOW, 0, 3) >= n);
                CHECK(gex_AM_RequestShort1(pair, j, H_NOTE, 0, (gex_AM_Arg_t)to) == 0);
                CHECK(gex_AM_RequestMedium3(pair, j, H_PUSH, out, n, GEX_EVENT_NOW, 0,
                                            (gex_AM_Arg_t)to, (gex_AM_Arg_t)me,
                                            (gex_AM_Arg_t)n) == 0);
                sent[from] += 2;
                GASNET_BLOCKUNTIL(answers(from) == sent[from]);
            }

    /* Longs into the segments of other endpoints, and replies into those. */
    for (unsigned a = 0; a < 2; a++)
        for (gex_Rank_t k = 0; k < size; k++) {
            gex_Rank_t j = (me + k) % size;
            unsigned to = bound[a];
            unsigned other = bound[1 - a];
            size_t n = a ? PLACE : 700;

            fill(out, n, me, 9);

            gex_TM_t pair = gex_TM_Pair(ep[other], to);

            CHECK(gex_AM_RequestLong3(pair, j, H_PUSH, out, n, place(to, j), GEX_EVENT_NOW, 0,
                                      (gex_AM_Arg_t)to, (gex_AM_Arg_t)me, 9) == 0);
            sent[other]++;
            GASNET_BLOCKUNTIL(answers(other) == sent[other]);
        }

    barrier();
    for (unsigned i = 0; i < EPS; i++) {
        unsigned expected = i == 3 ? 0 : 8 * size;

        if (i == 1 || i == 2)
            expected += size;

        CHECK(__atomic_load_n(&notes[i], __ATOMIC_ACQUIRE) == expected);
    }
}

static void back_into(unsigned to, gex_Rank_t j, size_t n, unsigned *sent)
{
    uintptr_t dest = (uintptr_t)base[to][me];

    memset((char *)dest, 0, n);
    CHECK(gex_AM_RequestShort3(gex_TM_Pair(ep[to], 0), j, H_PULL, 0, (gex_AM_Arg_t)(uint32_t)dest,
                               (gex_AM_Arg_t)(uint32_t)((uint64_t)dest >> 32),
                               (gex_AM_Arg_t)n) == 0);
    ++*sent;
    GASNET_BLOCKUNTIL(answers(to) == *sent);
    CHECK(right((char *)dest, n, j, 0) == n);
}

/* Long replies go into the segment of the endpoint that asked. */
static void test_long_replies(void)
{
    for (unsigned i = 1; i < 3; i++) {
        unsigned sent = answers(i);

        for (gex_Rank_t k = 0; k < size; k++) {
            back_into(i, (me + k) % size, 50, &sent);
            back_into(i, (me + k) % size, 30000, &sent);
            back_into(i, (me + k) % size, gex_AM_LUBReplyLong() < BIG ? gex_AM_LUBReplyLong() : BIG,
                      &sent);
        }
    }

    barrier();
}

/* ---- teams of other endpoints ---- */

static void test_teams(void)
{
    gex_EP_Location_t args[64];
    gex_TM_t tm[2] = { GEX_TM_INVALID, GEX_TM_INVALID };
    gex_TM_t part = GEX_TM_INVALID;
    uint32_t v = 0;

    for (gex_Rank_t i = 0; i < size; i++)
        args[i] = (gex_EP_Location_t){ size - 1 - i, 1 + (size - 1 - i) % 2 };

    gex_TM_Create(tm, 1, world, args, size, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_QueryRank(tm[0]) == size - 1 - me && gex_TM_QueryEP(tm[0]) == ep[1 + me % 2]);

    for (gex_Rank_t i = 0; i < size; i++) {
        gex_EP_Location_t loc = gex_TM_TranslateRankToEP(tm[0], i, 0);
        gex_Rank_t j = loc.gex_rank;

        CHECK(j == size - 1 - i && loc.gex_ep_index == 1 + j % 2);

        uint32_t value = 1000 * me + i;

        CHECK(gex_RMA_PutBlocking(tm[0], i, place(loc.gex_ep_index, j), &value, 4, 0) == 0);
        CHECK(gex_RMA_GetBlocking(tm[0], &v, i, place(loc.gex_ep_index, j), 4, 0) == 0 &&
              v == value);

        unsigned mine = gex_EP_QueryIndex(gex_TM_QueryEP(tm[0]));
        unsigned sent = answers(mine) + 1;

        CHECK(gex_AM_RequestShort1(tm[0], i, H_NOTE, 0, (gex_AM_Arg_t)loc.gex_ep_index) == 0);
        GASNET_BLOCKUNTIL(answers(mine) == sent);
    }

    gex_TM_Split(&part, tm[0], (int)me % 2, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_QueryEP(part) == ep[1 + me % 2] && gex_TM_QueryRank(part) == me / 2);
    CHECK(gex_TM_TranslateRankToEP(part, 0, 0).gex_ep_index == 1 + me % 2);
    gex_Event_Wait(gex_Coll_BarrierNB(part, 0));
    CHECK(gex_TM_Destroy(part, NULL, 0) == 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm[0], 0));
    CHECK(gex_TM_Destroy(tm[0], NULL, 0) == 0);

    /* Two members in one process: endpoints 1 and 2 of everybody. */
    for (gex_Rank_t i = 0; i < size; i++) {
        args[2 * i] = (gex_EP_Location_t){ i, 2 };
        args[2 * i + 1] = (gex_EP_Location_t){ i, 1 };
    }

    gex_TM_Create(tm, 2, world, args, 2 * (size_t)size, NULL, 0,
                  GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    CHECK(gex_TM_QueryEP(tm[0]) == ep[2] && gex_TM_QueryEP(tm[1]) == ep[1]);
    CHECK(gex_TM_QueryRank(tm[0]) == 2 * me && gex_TM_QueryRank(tm[1]) == 2 * me + 1 &&
          gex_TM_QuerySize(tm[1]) == 2 * size);
    CHECK(gex_RMA_PutBlockingVal(tm[0], (2 * me + 3) % (2 * size), place(1, (me + 1) % size), 5, 1,
                                 0) == 0);
    CHECK(gex_RMA_GetBlockingVal(tm[1], (2 * me + 3) % (2 * size), place(1, (me + 1) % size), 1,
                                 0) == 5);
    barrier();
    CHECK(gex_TM_Destroy(tm[0], NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    CHECK(gex_TM_Destroy(tm[1], NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
}

/* ---- many segments ---- */

static long lines_of_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    long lines = 0;

    for (int c; f && (c = fgetc(f)) != EOF;)
        lines += c == '\n';

    if (f)
        fclose(f);

    return lines;
}

/* Made, bound to endpoint 4, published, used, destroyed; what others had mapped is given up. */
static void test_many(unsigned count)
{
    long before = 0;
    static char private[5000];

    for (unsigned i = 0; i < count; i++) {
        gex_Segment_t seg;
        void *owner, *local;
        uintptr_t len;
        gex_Rank_t next = (me + 1) % size;
        gex_TM_t pair = gex_TM_Pair(ep[0], 4);

        CHECK(gex_Segment_Create(&seg, client, i % 3 ? NULL : private, 4000 + i % 1000, GEX_MK_HOST,
                                 0) == GASNET_OK);
        gex_EP_BindSegment(ep[4], seg, 0);
        CHECK(gex_EP_PublishBoundSegment(world, &ep[4], 1, 0) == GASNET_OK);
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, next, &owner, &local, &len, 0));
        CHECK(len == 4000 + i % 1000);
        CHECK(gex_RMA_PutBlockingVal(pair, next, (char *)owner + len - 4, i, 4, 0) == 0);
        barrier();

        uint32_t v;

        memcpy(&v, (char *)gex_Segment_QueryAddr(seg) + len - 4, 4);
        CHECK(v == i);
        barrier();
        CHECK(gex_Segment_Destroy(seg, 0) == GASNET_OK &&
              gex_EP_QuerySegment(ep[4]) == GEX_SEGMENT_INVALID);
        if (i == count / 4)
            before = lines_of_maps();
    }

    CHECK(lines_of_maps() < before + 20);
}

/* The rest of the endpoints can be made, and no more; messages need a low index. */
static void test_all(void)
{
    gex_EP_t other;
    int err = GASNET_OK;
    unsigned made = EPS;

    gex_System_SetVerboseErrors(0);
    for (; made < GASNET_MAXEPS &&
           (err = gex_EP_Create(&other, client, GEX_EP_CAPABILITY_AM, 0)) == GASNET_OK;
         made++)
        CHECK(gex_EP_QueryIndex(other) == made);

    CHECK(made == 16 && err == GASNET_ERR_RESOURCE);
    for (; gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_OK; made++)
        CHECK(gex_EP_QueryIndex(other) == made);

    CHECK(made == GASNET_MAXEPS);

    gex_AM_Entry_t entry = {
        200, (gex_AM_Fn_t)note, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "note"
    };

    CHECK(gex_EP_RegisterHandlers(other, &entry, 1) == GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
}

/* Endpoint 0 without gex_Segment_Attach; odd processes use memory of their own. */
static void test_bind(void)
{
    static char out[BIG];
    unsigned sent = 0;
    gex_TM_t turned = GEX_TM_INVALID;

    /* learns of the segments later */
    gex_TM_Split(&turned, world, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    own[0] = me % 2 ? (char *)malloc(BYTES) : NULL;
    CHECK(gex_Segment_Create(&segment[0], client, own[0], BYTES, GEX_MK_HOST, 0) == GASNET_OK);
    gex_EP_BindSegment(ep[0], segment[0], 0);
    CHECK(gex_EP_PublishBoundSegment(world, ep, 1, 0) == GASNET_OK);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Segment_Attach(&segment[1], world, GASNET_PAGESIZE) == GASNET_ERR_RESOURCE);
    gex_System_SetVerboseErrors(1);
    for (gex_Rank_t j = 0; j < size; j++)
        CHECK(gex_Segment_QueryBound(world, j, (void **)&base[0][j], NULL, NULL) == 0);

    for (gex_Rank_t k = 0; k < size; k++) {
        gex_Rank_t j = (me + k) % size;

        for (size_t n = 1; n <= PLACE; n *= 7) {
            fill(out, n, me, n);
            CHECK(gex_RMA_PutBlocking(world, j, place(0, j), out, n, 0) == 0);
            memset(out, 0, n);
            CHECK(gex_RMA_GetBlocking(turned, out, size - 1 - j, place(0, j), n, 0) == 0 &&
                  right(out, n, me, n) == n);
            CHECK(gex_AM_RequestLong3(turned, size - 1 - j, H_PUSH, out, n, place(0, j),
                                      GEX_EVENT_NOW, 0, 0, (gex_AM_Arg_t)me, (gex_AM_Arg_t)n) == 0);
            sent++;
            GASNET_BLOCKUNTIL(answers(0) == sent);
        }

        barrier();
        back_into(0, j, gex_AM_LUBReplyLong() < BIG ? gex_AM_LUBReplyLong() : BIG, &sent);
        barrier();
    }

    CHECK(gex_TM_Destroy(turned, NULL, 0) == 0);
    barrier();
    gasnet_exit(0);
}

int main(int argc, char **argv)
{
    if (gex_Client_Init(&client, &ep[0], &world, "TEST_EP", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK((size_t)size * PLACE < BYTES - 128);
    register_all(0);
    if (argc > 1 && strcmp(argv[1], "bind") == 0)
        test_bind();

    CHECK(gex_Segment_Attach(&segment[0], world, 16 * GASNET_PAGESIZE) == GASNET_OK);
    test_errors();
    make_all();
    barrier();
    test_queries(false);
    barrier();
    CHECK(gex_EP_PublishBoundSegment(world, &ep[1], 4, 0) == GASNET_OK);
    CHECK(gex_EP_PublishBoundSegment(world, NULL, 0, 0) == GASNET_OK);
    CHECK(gex_EP_PublishBoundSegment(world, &ep[0], me % 2, 0) == GASNET_OK);
    test_queries(true);
    test_rma();
    test_many_transfers();
    test_messages();
    test_long_replies();
    test_teams();
    test_many(argc > 1 ? (unsigned)atoi(argv[1]) : 40);
    test_all();
    barrier();
    gasnet_exit(0);
}
