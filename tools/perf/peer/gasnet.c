/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmark's calls by the GASNet API.  Layer: tools. */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

#include <stdlib.h>
#include <string.h>

#include "tools/perf/peer/peer.h"

enum {
    H_PING = 200,
    H_PONG,
    H_DATA,
    WINDOW = 64
};
#define FLAGS (GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL)
#define SEGMENT_BYTES (PEER_MAX_BYTES + GASNET_PAGESIZE)

static gex_TM_t tm;
static gex_AD_t ad;
static gasnet_seginfo_t seg[2];        /* of ranks 0 and 1 */
static unsigned char *own;             /* memory outside of the segment */
static volatile unsigned long arrived; /* messages of the other one, since the start */
static unsigned long awaited;          /* the messages that have been waited for */

/* Data goes into the other's segment.  The answer goes back in the same way. */
static void on_ping(gex_Token_t token, void *buf, size_t nbytes)
{
    arrived++;
    gex_AM_ReplyLong0(token, H_PONG, buf, nbytes, seg[0].addr, GEX_EVENT_NOW, 0);
}

static void on_data(gex_Token_t token, void *buf, size_t nbytes)
{
    arrived++;
}

const char *peer_name(void)
{
    return "GASNet API, " GASNET_CORE_NAME_STR;
}

void peer_start(int *argc, char ***argv)
{
    gex_AM_Entry_t table[] = {
        { H_PING, (gex_AM_Fn_t)on_ping, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL, "ping" },
        { H_PONG, (gex_AM_Fn_t)on_data, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 0, NULL, "pong" },
        { H_DATA, (gex_AM_Fn_t)on_data, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL, "data" },
    };
    gex_EP_t ep;

    if (gasnet_init(argc, argv) != GASNET_OK)
        exit(1);

    gasnet_QueryGexObjects(NULL, &ep, &tm, NULL);
    if (gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) != GASNET_OK ||
        gasnet_attach(NULL, 0, SEGMENT_BYTES / GASNET_PAGESIZE * GASNET_PAGESIZE, 0) != GASNET_OK)
        gasnet_exit(1);

    for (gex_Rank_t i = 0; i < 2 && i < gex_TM_QuerySize(tm); i++) {
        void *addr = NULL;

        gex_Segment_QueryBound(tm, i, &addr, NULL, &seg[i].size);
        seg[i].addr = addr;
    }

    gasnet_coll_init(NULL, 0, NULL, 0, 0);
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);
    own = aligned_alloc(4096, PEER_MAX_BYTES);
    if (!own)
        gasnet_exit(1);

    memset(own, 1, PEER_MAX_BYTES);
    if (gex_TM_QueryRank(tm) < 2)
        memset(seg[gex_TM_QueryRank(tm)].addr, 0, PEER_MAX_BYTES);

    peer_barrier();
}

void peer_end(int code)
{
    peer_barrier();
    gasnet_exit(code);
}

unsigned peer_rank(void)
{
    return gex_TM_QueryRank(tm);
}

unsigned peer_size(void)
{
    return gex_TM_QuerySize(tm);
}

void peer_barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

unsigned long peer_agree(unsigned long count)
{
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &count, &count, sizeof count, 0));
    return count;
}

void peer_round_trips(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        awaited++;
        if (peer_rank() == 0) {
            memset(own, (int)i, bytes);
            gex_AM_RequestLong0(tm, 1, H_PING, own, bytes, seg[1].addr, GEX_EVENT_NOW, 0);
        }

        GASNET_BLOCKUNTIL(arrived >= awaited);
    }
}

/* The place of message or put i at rank 1. */
static void *place(size_t bytes, unsigned long i)
{
    const size_t places = PEER_MAX_BYTES / bytes < WINDOW ? 1 : WINDOW;

    return (char *)seg[1].addr + i % places * bytes;
}

void peer_flood(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count && peer_rank() == 0; i++) {
        memset(own, (int)i, bytes);
        gex_AM_RequestLong0(tm, 1, H_DATA, own, bytes, place(bytes, i), GEX_EVENT_NOW, 0);
    }

    if (peer_rank() == 1)
        awaited += count;

    GASNET_BLOCKUNTIL(arrived >= awaited);
    peer_round_trips(8, 1);
}

void peer_puts(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        gex_RMA_PutBlocking(tm, 1, seg[1].addr, own, bytes, 0);
}

void peer_gets(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        gex_RMA_GetBlocking(tm, own, 1, seg[1].addr, bytes, 0);
}

void peer_fetch_adds(size_t bytes, unsigned long count)
{
    uint64_t before;

    for (unsigned long i = 0; i < count; i++)
        gex_Event_Wait(gex_AD_OpNB_U64(ad, &before, 1, seg[1].addr, GEX_OP_FADD, 1, 0, 0));
}

void peer_put_windows(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        gex_RMA_PutNBI(tm, 1, place(bytes, i), own, bytes, GEX_EVENT_DEFER, 0);
        if (i % WINDOW == WINDOW - 1)
            gex_NBI_Wait(GEX_EC_PUT, 0);
    }

    gex_NBI_Wait(GEX_EC_PUT, 0);
}

void peer_get_windows(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        gex_RMA_GetNBI(tm, own, 1, place(bytes, i), bytes, 0);
        if (i % WINDOW == WINDOW - 1)
            gex_NBI_Wait(GEX_EC_GET, 0);
    }

    gex_NBI_Wait(GEX_EC_GET, 0);
}

/* ---- collectives ---- */

static gex_Event_t reduce(unsigned root, void *dst, void *src, size_t bytes)
{
    return gex_Coll_ReduceToOneNB(tm, root, dst, src, GEX_DT_U64, 8, bytes / 8, GEX_OP_ADD, NULL,
                                  NULL, 0);
}

static gex_Event_t reduce_all(unsigned root, void *dst, void *src, size_t bytes)
{
    return gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_U64, 8, bytes / 8, GEX_OP_ADD, NULL, NULL,
                                  0);
}

static gex_Event_t broadcast(unsigned root, void *dst, void *src, size_t bytes)
{
    return gex_Coll_BroadcastNB(tm, root, dst, src, bytes, 0);
}

/* The blocks of others: GASNet-1's calls. */
static void scatter(unsigned root, void *dst, void *src, size_t bytes)
{
    gasnet_coll_scatter(GASNET_TEAM_ALL, dst, root, src, bytes, FLAGS);
}

static void gather(unsigned root, void *dst, void *src, size_t bytes)
{
    gasnet_coll_gather(GASNET_TEAM_ALL, root, dst, src, bytes, FLAGS);
}

static void gather_all(unsigned root, void *dst, void *src, size_t bytes)
{
    gasnet_coll_gather_all(GASNET_TEAM_ALL, dst, src, bytes, FLAGS);
}

static void exchange(unsigned root, void *dst, void *src, size_t bytes)
{
    gasnet_coll_exchange(GASNET_TEAM_ALL, dst, src, bytes, FLAGS);
}

static const struct {
    gex_Event_t (*start)(unsigned root, void *dst, void *src, size_t bytes);
    void (*call)(unsigned root, void *dst, void *src, size_t bytes);
} colls[PEER_COLLS] = {
    [PEER_BROADCAST] = { broadcast, NULL },   [PEER_REDUCE] = { reduce, NULL },
    [PEER_REDUCE_ALL] = { reduce_all, NULL }, [PEER_SCATTER] = { NULL, scatter },
    [PEER_GATHER] = { NULL, gather },         [PEER_GATHER_ALL] = { NULL, gather_all },
    [PEER_EXCHANGE] = { NULL, exchange },
};

void peer_collective(enum peer_coll kind, unsigned root, void *dst, void *src, size_t bytes)
{
    if (colls[kind].start)
        gex_Event_Wait(colls[kind].start(root, dst, src, bytes));
    else
        colls[kind].call(root, dst, src, bytes);
}
