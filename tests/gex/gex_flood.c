/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Process 0 transfers to or from process 1 without a pause until something ends the job.
 *
 *   gex_flood messages|puts|gets|barriers DIRECTORY
 *
 * The file DIRECTORY/ready appears when the transfers are under way.
 */
#include <gasnetex.h>

#include "tests/gex/gex_common.h"

enum {
    SEGMENT_BYTES = 16 << 20,
    MESSAGE_BYTES = 32768,
    H_MESSAGE = 128,
    READY_AFTER = 20
};

static gex_TM_t tm;
static char *buf, *theirs;

static void on_message(gex_Token_t token, void *payload, size_t nbytes)
{
}

static void transfer(const char *what)
{
    if (strcmp(what, "messages") == 0)
        gex_AM_RequestMedium0(tm, 1, H_MESSAGE, buf, MESSAGE_BYTES, GEX_EVENT_NOW, 0);
    else if (strcmp(what, "puts") == 0)
        gex_RMA_PutBlocking(tm, 1, theirs, buf, SEGMENT_BYTES, 0);
    else if (strcmp(what, "gets") == 0)
        gex_RMA_GetBlocking(tm, buf, 1, theirs, SEGMENT_BYTES, 0);
    else
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void tell_ready(const char *dir)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/ready", dir);

    FILE *f = fopen(path, "w");

    CHECK(f && fclose(f) == 0);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    gex_AM_Entry_t handler = {
        H_MESSAGE, (gex_AM_Fn_t)on_message, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL,
        "message"
    };
    void *base;

    if (gex_Client_Init(&client, &ep, &tm, "FLOOD", &argc, &argv, 0) != GASNET_OK)
        return 1;

    CHECK(argc == 3 && gex_TM_QuerySize(tm) == 2);
    CHECK(gex_Segment_Attach(&segment, tm, SEGMENT_BYTES) == GASNET_OK);
    CHECK(gex_EP_RegisterHandlers(ep, &handler, 1) == GASNET_OK);
    CHECK(gex_Segment_QueryBound(tm, 1, &base, NULL, NULL) == 0);
    CHECK((buf = calloc(1, SEGMENT_BYTES)) != NULL);
    theirs = base;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));

    if (gex_TM_QueryRank(tm) == 1 && strcmp(argv[1], "barriers") != 0)
        for (;;)
            gasnet_AMPoll();

    for (unsigned n = 0;; n++) {
        transfer(argv[1]);
        if (n == READY_AFTER && gex_TM_QueryRank(tm) == 0)
            tell_ready(argv[2]);
    }
}
