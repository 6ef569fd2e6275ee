/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first program with active messages: every process greets every other; the greeting's handler
 * answers; all answers are counted.
 *
 *   amphora-run -n 4 examples/hello_am
 */
#include <gasnetex.h>
#include <stdio.h>

enum {
    H_HELLO = 200,
    H_ANSWER
};

static gex_Rank_t me;
static unsigned answers;

/* Runs at the process that is greeted, inside one of its library calls.  buf is valid until the
 * handler returns. */
static void hello(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t number)
{
    gex_Token_Info_t info;

    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    printf("process %u got \"%.*s\" from process %u\n", me, (int)nbytes, (const char *)buf,
           info.gex_srcrank);
    gex_AM_ReplyShort1(token, H_ANSWER, 0, number + 1);
}

/* Runs at the process that sent the greeting. */
static void answer(gex_Token_t token, gex_AM_Arg_t number)
{
    (void)token;
    if (number == (gex_AM_Arg_t)me + 1)
        answers++;
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_AM_Entry_t handlers[] = {
        { H_HELLO, (gex_AM_Fn_t)hello, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "hello" },
        { H_ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "answer" },
    };

    if (gex_Client_Init(&client, &ep, &tm, "HELLO_AM", &argc, &argv, 0) != GASNET_OK)
        return 1;

    if (gex_EP_RegisterHandlers(ep, handlers, 2) != GASNET_OK)
        gasnet_exit(1);

    me = gex_TM_QueryRank(tm);

    gex_Rank_t size = gex_TM_QuerySize(tm);

    /* Nobody may send before all have registered. */
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));

    char text[64];
    int len = snprintf(text, sizeof text, "hello from %u", me);

    for (gex_Rank_t to = 0; to < size; to++)
        gex_AM_RequestMedium1(tm, to, H_HELLO, text, (size_t)len, GEX_EVENT_NOW, 0,
                              (gex_AM_Arg_t)me);

    GASNET_BLOCKUNTIL(answers == size);

    /* Nobody leaves before all have had their answers. */
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (me == 0)
        printf("%u processes have greeted each other\n", size);

    gasnet_exit(0);
}
