/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote atomics: every operation of every type against a model, from every process to itself and
 * up to seven others; storms whose sums must come out exactly, mixed with neighbours' own CPU
 * atomics; compare-and-swap locks; fetched values that are all different; teams, job ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gasnetex.h>
#include <gasnet_ratomic.h>

#include "tests/gex/gex_common.h"

enum {
    SEGMENT = 1 << 16,
    STORM = 2000,
    WORDS = 16
};

static gex_TM_t team;
static gex_Rank_t me, size;

static void *segment_of(gex_Rank_t rank)
{
    void *base;
    uintptr_t len;

    CHECK(gex_Segment_QueryBound(team, rank, &base, NULL, &len) == 0);
    return base;
}

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}

/* The events that an implicit operation counts among (GASNet-EX specification, remote atomics,
 * return value). */
static gex_EC_t category_of(gex_OP_t op)
{
    switch (op) {
    case GEX_OP_GET:
        return GEX_EC_GET;
    case GEX_OP_SET:
        return GEX_EC_PUT;
    default:
        return GEX_EC_RMW;
    }
}

#define COMMON \
    (GEX_OP_ADD | GEX_OP_SUB | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_INC | GEX_OP_DEC | \
     GEX_OP_SET | GEX_OP_CAS)
#define BITS (GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR)

/* Two operations of each kind, fetching and not, on the word of this process at rank. */
#define DEFINE_EACH(NAME, T, ALL) \
    static T plain_##NAME(gex_OP_t op, T v, T a, T b) \
    { \
        switch (op & 0xffff ? op : GEX_OP_TO_NONFETCHING(op)) { \
        case GEX_OP_ADD: \
            return (T)(v + a); \
        case GEX_OP_SUB: \
            return (T)(v - a); \
        case GEX_OP_MULT: \
            return (T)(v * a); \
        case GEX_OP_MIN: \
            return v < a ? v : a; \
        case GEX_OP_MAX: \
            return v > a ? v : a; \
        case GEX_OP_INC: \
            return (T)(v + 1); \
        case GEX_OP_DEC: \
            return (T)(v - 1); \
        case GEX_OP_SET: \
            return a; \
        case GEX_OP_CAS: \
            return v == a ? b : v; \
        case GEX_OP_GET: \
            return v; \
        default: \
            return bits_##NAME(op & 0xffff ? op : GEX_OP_TO_NONFETCHING(op), v, a); \
        } \
    } \
    static void each_##NAME(gex_TM_t tm, gex_Rank_t rank, gex_Rank_t job_rank, gex_Flags_t flags) \
    { \
        gex_OP_t all = (ALL) | GEX_OP_TO_FETCHING(ALL) | GEX_OP_GET; \
        gex_AD_t ad = GEX_AD_INVALID; \
        T *at = (T *)segment_of(job_rank) + 512 + me, v = 7, old; \
        int mine = 0; \
        gex_AD_Create(&ad, tm, GEX_DT_##NAME, all, 0); \
        CHECK(ad != GEX_AD_INVALID && gex_AD_QueryDT(ad) == GEX_DT_##NAME && \
              gex_AD_QueryOps(ad) == all && gex_AD_QueryTM(ad) == tm); \
        gex_AD_SetCData(ad, &mine); \
        CHECK(gex_AD_QueryCData(ad) == &mine && gex_AD_QueryFlags(ad) == 0); \
        gex_Event_Wait( \
            gex_AD_OpNB_##NAME(ad, NULL, rank, at, GEX_OP_SET, v, 0, flags | GEX_FLAG_AD_REL)); \
        for (unsigned bit = 0; bit < 32; bit++) { \
            gex_OP_t op = (gex_OP_t)1 << bit; \
            if (!(all & op)) \
                continue; \
            for (int k = 0; k < 4; k++) { \
                T a = k == 3 ? v : (T)(3 + k), b = (T)(11 + k); \
                int gives = op == GEX_OP_GET || op >> 16; \
                old = (T)99; \
                if (k % 2) \
                    gex_Event_Wait(gex_AD_OpNB_##NAME(ad, &old, rank, at, op, a, b, \
                                                      flags | GEX_FLAG_AD_ACQ)); \
                else { \
                    CHECK(gex_AD_OpNBI_##NAME(ad, &old, rank, at, op, a, b, flags) == 0); \
                    gex_NBI_Wait(category_of(op), 0); \
                } \
                CHECK(old == (gives ? v : (T)99)); \
                v = plain_##NAME(op, v, a, b); \
                if (v > 1000 || -v > 1000) { \
                    v = 5; \
                    gex_Event_Wait( \
                        gex_AD_OpNB_##NAME(ad, NULL, rank, at, GEX_OP_SET, v, 0, flags)); \
                } \
            } \
        } \
        gex_Event_Wait(gex_AD_OpNB_##NAME(ad, &old, rank, at, GEX_OP_GET, 0, 0, flags)); \
        CHECK(old == v); \
        T seen; \
        gex_RMA_GetBlocking(team, &seen, job_rank, at, sizeof seen, 0); \
        CHECK(seen == v); \
        barrier(); \
        gex_AD_Destroy(ad); \
    }

#define DEFINE_BITS(NAME, T) \
    static T bits_##NAME(gex_OP_t p, T v, T a) \
    { \
        if (p == GEX_OP_AND) \
            return v & a; \
        return p == GEX_OP_OR ? (v | a) : (v ^ a); \
    }
#define NO_BITS(NAME, T) \
    static T bits_##NAME(gex_OP_t p, T v, T a) \
    { \
        (void)p; \
        (void)a; \
        return v; \
    }
/* clang-format off */
DEFINE_BITS(I32, int32_t)
DEFINE_BITS(U32, uint32_t)
DEFINE_BITS(I64, int64_t)
DEFINE_BITS(U64, uint64_t)
NO_BITS(FLT, float)
NO_BITS(DBL, double)
DEFINE_EACH(I32, int32_t, COMMON | BITS)
DEFINE_EACH(U32, uint32_t, COMMON | BITS)
DEFINE_EACH(I64, int64_t, COMMON | BITS)
DEFINE_EACH(U64, uint64_t, COMMON | BITS)
DEFINE_EACH(FLT, float, COMMON)
DEFINE_EACH(DBL, double, COMMON)
/* clang-format on */

static void every_type(gex_TM_t tm, gex_Rank_t rank, gex_Rank_t job_rank, gex_Flags_t flags)
{
    each_I32(tm, rank, job_rank, flags);
    each_U32(tm, rank, job_rank, flags);
    each_I64(tm, rank, job_rank, flags);
    each_U64(tm, rank, job_rank, flags);
    each_FLT(tm, rank, job_rank, flags);
    each_DBL(tm, rank, job_rank, flags);
}

/* Everybody adds to everybody's words, by fetching, plain and floating operations, and the owner by
 * CPU atomics. */
static void storm(void)
{
    gex_AD_t words, floats;
    uint64_t *mine = segment_of(me);

    gex_AD_Create(&words, team, GEX_DT_U64, GEX_OP_ADD | GEX_OP_FADD | GEX_OP_INC | GEX_OP_GET,
                  GEX_FLAG_AD_FAVOR_REMOTE);
    gex_AD_Create(&floats, team, GEX_DT_DBL, GEX_OP_ADD, 0);
    memset(mine, 0, WORDS * sizeof *mine);
    barrier();

    for (int i = 0; i < STORM; i++) {
        gex_Rank_t rank = (gex_Rank_t)((unsigned)random() % size);
        uint64_t *at = segment_of(rank);
        uint64_t old;

        switch (i % 4) {
        case 0:
            CHECK(gex_AD_OpNBI_U64(words, NULL, rank, at, GEX_OP_ADD, 3, 0, 0) == 0);
            break;
        case 1:
            gex_Event_Wait(gex_AD_OpNB_U64(words, &old, rank, at, GEX_OP_FADD, 2, 0, 0));
            break;
        case 2:
            CHECK(gex_AD_OpNBI_DBL(floats, NULL, rank, at + 1, GEX_OP_ADD, 0.5, 0, 0) == 0);
            break;
        default:
            __atomic_fetch_add(mine, 1, __ATOMIC_RELAXED);
            break;
        }
    }

    gex_NBI_Wait(GEX_EC_RMW, 0);
    barrier();

    uint64_t sum = 0;
    double real = 0;

    for (gex_Rank_t r = 0; r < size; r++) {
        uint64_t v;
        double d;

        gex_Event_Wait(gex_AD_OpNB_U64(words, &v, r, segment_of(r), GEX_OP_GET, 0, 0, 0));
        gex_RMA_GetBlocking(team, &d, r, (char *)segment_of(r) + 8, sizeof d, 0);
        sum += v;
        real += d;
    }

    CHECK(sum == (uint64_t)size * STORM / 4 * 6);
    CHECK(real == size * (STORM / 4) * 0.5);
    barrier();
    gex_AD_Destroy(words);
    gex_AD_Destroy(floats);
}

/* Tickets by fetch-and-increment: all different; a lock by compare-and-swap guards two words that
 * must stay equal. */
static void tickets_and_lock(void)
{
    enum {
        TICKETS = 200,
        TURNS = 30
    };

    gex_AD_t ad;
    int32_t *words = segment_of(0);
    int32_t *marks = segment_of(me);
    int32_t ticket, was, v;

    gex_AD_Create(&ad, team, GEX_DT_I32,
                  GEX_OP_FINC | GEX_OP_FCAS | GEX_OP_SET | GEX_OP_CSWAP | GEX_OP_FADD, 0);
    memset(segment_of(me), 0, SEGMENT);
    barrier();

    for (int i = 0; i < TICKETS; i++) {
        gex_Event_Wait(gex_AD_OpNB_I32(ad, &ticket, 0, words, GEX_OP_FINC, 0, 0, 0));
        CHECK(ticket >= 0 && ticket < (int32_t)(TICKETS * size));
        gex_Event_Wait(gex_AD_OpNB_I32(ad, &was, size - 1,
                                       (int32_t *)segment_of(size - 1) + 1000 + ticket, GEX_OP_FADD,
                                       1, 0, 0));
        CHECK(was == 0);
    }

    (void)marks;
    for (int i = 0; i < TURNS; i++) {
        do {
            /* an operation on mapped memory makes no progress for others, of whom one has the
             * lock */
            gasnet_AMPoll();
            gex_Event_Wait(gex_AD_OpNB_I32(ad, &was, 0, words + 1, GEX_OP_CSWAP, 0, (int32_t)me + 1,
                                           GEX_FLAG_AD_ACQ));
        } while (was != 0);

        gex_RMA_GetBlocking(team, &v, 0, words + 2, sizeof v, 0);
        v++;
        gex_RMA_PutBlocking(team, 0, words + 2, &v, sizeof v, 0);
        gex_RMA_PutBlocking(team, 0, words + 3, &v, sizeof v, 0);
        gex_Event_Wait(gex_AD_OpNB_I32(ad, NULL, 0, words + 1, GEX_OP_SET, 0, 0, GEX_FLAG_AD_REL));
    }

    barrier();
    if (me == 0)
        CHECK(words[0] == (int32_t)(TICKETS * size) && words[2] == (int32_t)(TURNS * size) &&
              words[3] == words[2]);

    barrier();
    gex_AD_Destroy(ad);
}

static void immediate(void)
{
    gex_AD_t ad;
    uint64_t *at = (uint64_t *)segment_of((me + 1) % size) + 100 + me;
    uint64_t zero = 0;
    uint64_t done = 0;

    gex_AD_Create(&ad, team, GEX_DT_U64, GEX_OP_INC | GEX_OP_GET, 0);
    gex_RMA_PutBlocking(team, (me + 1) % size, at, &zero, sizeof zero, 0);

    for (int i = 0; i < 3000; i++)
        done += gex_AD_OpNBI_U64(ad, NULL, (me + 1) % size, at, GEX_OP_INC, 0, 0,
                                 GEX_FLAG_IMMEDIATE) == 0;

    for (int i = 0; i < 300; i++) {
        gex_Event_t e = gex_AD_OpNB_U64(ad, NULL, (me + 1) % size, at, GEX_OP_INC, 0, 0,
                                        GEX_FLAG_IMMEDIATE);

        done += e != GEX_EVENT_NO_OP;
        if (e != GEX_EVENT_NO_OP)
            gex_Event_Wait(e);
    }

    gex_NBI_Wait(GEX_EC_ALL, 0);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &zero, (me + 1) % size, at, GEX_OP_GET, 0, 0, 0));
    CHECK(zero == done && done > 0);
    barrier();
    gex_AD_Destroy(ad);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_TM_t reversed;

    CHECK(gex_Client_Init(&client, &ep, &team, "ADTEST", &argc, &argv, 0) == GASNET_OK);
    CHECK(gex_Segment_Attach(&seg, team, SEGMENT) == GASNET_OK);
    me = gex_TM_QueryRank(team);
    size = gex_TM_QuerySize(team);
    srandom(me + 1);
    CHECK(GEX_OP_TO_FETCHING(GEX_OP_ADD) == GEX_OP_FADD &&
          GEX_OP_TO_NONFETCHING(GEX_OP_FXOR) == GEX_OP_XOR);
    CHECK(gex_TM_Split(&reversed, team, 0, (int)(size - me), NULL, 0, GEX_FLAG_TM_NO_SCRATCH) == 0);
    barrier();

    /* to eight processes at most: to all, the test's own work would grow with their square */
    for (gex_Rank_t i = 0; i < size; i += (size + 7) / 8) {
        gex_Rank_t rank = (me + i) % size;
        every_type(team, rank, rank, rank == me ? GEX_FLAG_AD_MY_RANK : 0);
    }

    gex_Rank_t next = (me + 1) % size;

    every_type(reversed, gex_TM_TranslateJobrankToRank(reversed, next), next, 0);
    every_type(reversed, next, next, GEX_FLAG_RANK_IS_JOBRANK);
    storm();
    tickets_and_lock();
    immediate();
    barrier();
    gasnet_exit(0);

    return 0;
}
