/* SPDX-License-Identifier: BSD-3-Clause */
/* The same as a GASNet-EX client in C++, with a future on an event. */
#include <gasnetex.h>

#include <cstdio>
#include <string>

static volatile unsigned long long sum;
static volatile unsigned greetings;

static void greet(gex_Token_t token, void *text, size_t length, gex_AM_Arg_t number)
{
    if (std::string(static_cast<const char *>(text), length) == "hello")
        sum += static_cast<unsigned>(number);
    gex_AM_ReplyShort0(token, 129, 0);
}

static void answered(gex_Token_t)
{
    greetings++;
}

class future {
    gex_Event_t event;

  public:
    explicit future(gex_Event_t e) : event(e) {}
    void wait()
    {
        gex_Event_Wait(event);
        event = GEX_EVENT_INVALID;
    }
};

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t team;
    gex_Segment_t segment;
    gex_AM_Entry_t handlers[] = {
        { 128, (gex_AM_Fn_t)greet, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "greet" },
        { 129, (gex_AM_Fn_t)answered, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "answered" },
    };
    if (gex_Client_Init(&client, &ep, &team, "HELLO", &argc, &argv, 0) != GASNET_OK ||
        gex_EP_RegisterHandlers(ep, handlers, 2) != GASNET_OK || gex_Segment_Attach(&segment, team, GASNET_PAGESIZE) != GASNET_OK)
        return 1;
    const gex_Rank_t me = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team);
    const std::string text = "hello";
    for (gex_Rank_t i = 0; i < size; i++)
        gex_AM_RequestMedium1(team, i, 128, text.data(), text.size(), GEX_EVENT_NOW, 0, static_cast<gex_AM_Arg_t>(me + 1));
    GASNET_BLOCKUNTIL(greetings == size);
    future(gex_Coll_BarrierNB(team, 0)).wait();
    if (sum != static_cast<unsigned long long>(size) * (size + 1) / 2)
        gasnet_exit(2);
    std::printf("C++: rank %u of %u, built for %s\n", me, size, GASNET_CONDUIT_NAME_STR);
    std::fflush(stdout);
    future(gex_Coll_BarrierNB(team, 0)).wait();
    gasnet_exit(0);
}
