/* SPDX-License-Identifier: BSD-3-Clause */
/* Receivers that poll seldom: mediums and longs of many sizes arrive whole and in their places, although the sender,
 * process 0, writes over its buffer as soon as each call returns.  All other processes receive. */
#include "gasnetex.h"

#include "base/os/clock.h"
#include "tests/gex/gex_common.h"

enum {
    H_CHECK = 200,
    MESSAGES = 300,
    SLOTS = MESSAGES,
    SLOT_BYTES = 64 << 10,
    POLL_NS = 500000
};

static gex_TM_t tm;
static uint8_t *segment;
static unsigned handled;

static size_t bytes_of(unsigned i)
{
    static const size_t sizes[] = { 64 << 10, 8, 20000, 33000, 4096, 50000 };

    return sizes[i % 6] - (i % 5) * 3 % sizes[i % 6];
}

static void check(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t i, gex_AM_Arg_t is_long)
{
    const uint8_t *at = buf;

    (void)token;
    CHECK(!is_long || at == segment + (size_t)i * SLOT_BYTES);
    for (size_t k = 0; k < nbytes; k++)
        CHECK(at[k] == (uint8_t)(i * 7 + 1));

    handled++;
}

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static uint8_t *segment_of(gex_Rank_t rank)
{
    void *base;

    CHECK(gex_Segment_QueryBound(tm, rank, &base, NULL, NULL) == 0);
    return base;
}

static void send_one(gex_Rank_t to, bool is_long, unsigned i)
{
    static uint8_t buffer[SLOT_BYTES];
    size_t nbytes = bytes_of(i);

    if (!is_long && nbytes > gex_AM_LUBRequestMedium())
        nbytes = gex_AM_LUBRequestMedium();

    memset(buffer, (int)(i * 7 + 1), nbytes);
    if (is_long)
        CHECK(gex_AM_RequestLong2(tm, to, H_CHECK, buffer, nbytes,
                                  segment_of(to) + (size_t)i * SLOT_BYTES, GEX_EVENT_NOW, 0,
                                  (gex_AM_Arg_t)i, 1) == 0);
    else
        CHECK(gex_AM_RequestMedium2(tm, to, H_CHECK, buffer, nbytes, GEX_EVENT_NOW, 0,
                                    (gex_AM_Arg_t)i, 0) == 0);

    memset(buffer, 0xff, nbytes);
}

static void send_all(bool is_long)
{
    for (unsigned i = 0; i < MESSAGES; i++)
        for (gex_Rank_t to = 1; to < gex_TM_QuerySize(tm); to++)
            send_one(to, is_long, i);
}

static void receive_all(void)
{
    while (handled < MESSAGES) {
        uint64_t end_ns = amph_now_ns() + POLL_NS;

        while (amph_now_ns() < end_ns)
            ;

        gasnet_AMPoll();
    }

    CHECK(handled == MESSAGES);
    handled = 0;
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_CHECK, (gex_AM_Fn_t)check, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST,
          2, NULL, "check" },
    };

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_SELDOM", &argc, &argv, 0) != GASNET_OK)
        return 2;

    CHECK(gex_EP_RegisterHandlers(ep, table, 1) == GASNET_OK);
    CHECK(gex_Segment_Attach(&seg, tm, (size_t)SLOTS * SLOT_BYTES) == GASNET_OK);
    segment = gex_Segment_QueryAddr(seg);
    barrier();

    for (unsigned round = 0; round < 6; round++) {
        if (gex_System_QueryJobRank() == 0)
            send_all(round % 2);
        else
            receive_all();

        barrier();
    }

    gasnet_exit(0);
    return 0;
}
