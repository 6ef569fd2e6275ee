/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for the recorder: a known number of each kind to the next process.  "hot N": N rounds with
 * itself, for counting instructions; "stuck": process 0 waits in a barrier that process 1 never enters.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gasnet.h"
#include "gasnet_ratomic.h"
#include "gasnet_vis.h"

enum {
    REQUEST = 200,
    ANSWER,
    NOTHING
};

static volatile int answers;

static void on_request(gex_Token_t token, void *data, size_t n, gex_AM_Arg_t number)
{
    gex_AM_ReplyShort0(token, ANSWER, 0);
}

static void on_answer(gex_Token_t token)
{
    answers++;
}

static void on_nothing(gex_Token_t token)
{
}

static void hot(gex_TM_t tm, void *addr, long rounds)
{
    char data[8] = "";

    for (long i = 0; i < rounds; i++) {
        gex_AM_RequestShort0(tm, 0, NOTHING, 0);
        gex_RMA_PutBlocking(tm, 0, addr, data, sizeof data, 0);
        gasnet_AMPoll();
        gex_Coll_BarrierBlocking(tm, 0);
    }
}

static void send_all(gex_TM_t tm, gex_Rank_t peer, char *addr)
{
    static char data[1000];
    const ptrdiff_t strides[] = { 100 };
    const size_t count[] = { 3 };

    for (int i = 0; i < 10; i++) {
        gex_AM_RequestMedium1(tm, peer, REQUEST, data, 100, GEX_EVENT_NOW, 0, i);
        GASNET_BLOCKUNTIL(answers > i);
    }

    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, data, 300, 300, GEX_EVENT_NOW, 0,
                                                      1);

    gex_AM_CommitRequestMedium1(sd, REQUEST, 300, 0);
    GASNET_BLOCKUNTIL(answers == 11);

    for (int i = 0; i < 5; i++)
        gex_RMA_PutBlocking(tm, peer, addr, data, 1000, 0);

    gex_Event_Wait(gex_RMA_PutNB(tm, peer, addr, data, 500, GEX_EVENT_NOW, 0));
    gex_RMA_GetNBI(tm, data, peer, addr, 8, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    gex_VIS_StridedPutBlocking(tm, peer, addr, strides, data, strides, 10, count, 1, 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, data, data, 64, 0));
    gex_Coll_BarrierBlocking(tm, 0);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    gex_AM_Entry_t table[] = { { REQUEST, (void (*)(void))on_request,
                                 GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "request" },
                               { ANSWER, (void (*)(void))on_answer,
                                 GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0, NULL, "answer" },
                               { NOTHING, (void (*)(void))on_nothing,
                                 GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "nothing" } };

    gex_Client_Init(&client, &ep, &tm, "MESSAGES", &argc, &argv, 0);
    gex_EP_RegisterHandlers(ep, table, 3);
    gex_Segment_Attach(&segment, tm, 1 << 16);

    gex_Rank_t me = gex_TM_QueryRank(tm);
    gex_Rank_t peer = (me + 1) % gex_TM_QuerySize(tm);
    void *addr;

    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, &addr, NULL, NULL, 0));
    if (argc > 2 && strcmp(argv[1], "hot") == 0)
        hot(tm, addr, atol(argv[2]));
    else if (argc > 1 && strcmp(argv[1], "stuck") == 0 && me == 1)
        kill(getpid(), SIGKILL);
    else if (argc > 1 && strcmp(argv[1], "stuck") == 0)
        gex_Coll_BarrierBlocking(tm, 0);
    else
        send_all(tm, peer, addr);

    if (me == 0)
        printf("done\n");

    gasnet_exit(0);
}
