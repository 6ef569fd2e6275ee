/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of what a peer's messages can do once its conduit has let them in: the handlers of
 * am/ and extended/, in a job of one process that hears them as if it had sent them itself.  Run by
 * tests/fuzz/fuzz.sh.  An input is a row of messages: handler, kind and lane, number of arguments,
 * payload length, arguments, payload.
 */
#define GASNET_SEQ 1
#include <gasnetex.h>
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "am/job.h"
#include "extended/gex.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct amph_am_ep *ep;
static uintptr_t base;

static void start(void)
{
    gex_Client_t client;
    gex_EP_t gex_ep;
    gex_TM_t team;
    gex_Segment_t seg;

    setenv("AMPHORA_LOG", "error", 1);
    setenv("GASNET_MAX_SEGSIZE", "16M", 1);

    if (gex_Client_Init(&client, &gex_ep, &team, "FUZZ", NULL, NULL, 0) != GASNET_OK ||
        gex_Segment_Attach(&seg, team, 1 << 20) != GASNET_OK)
        abort();

    base = (uintptr_t)gex_Segment_QueryAddr(seg);
    ep = amph_job.ep;
    ep->refused = NULL; /* which ends the process of a client that has forgotten a handler */
}

/* A row of messages names addresses in words; this one stands for the segment. */
static void put_address(int32_t *args, unsigned nargs, unsigned at, uint32_t offset)
{
    const uint64_t addr = base + offset % (2u << 20);

    if (at + 1 < nargs) {
        args[at] = (int32_t)(uint32_t)(at % 4 < 2 ? addr >> 32 : addr);
        args[at + 1] = (int32_t)(uint32_t)(at % 4 < 2 ? addr : addr >> 32);
    }
}

static size_t message(const uint8_t *bytes, size_t len)
{
    int32_t args[AMPH_AM_MAX_ARGS] = { 0 };
    const uint8_t handler = bytes[0];
    const uint8_t kind = bytes[1] % 5;
    const uint8_t nargs = bytes[2] % (AMPH_AM_MAX_ARGS + 1);
    size_t used = 4;
    size_t n = bytes[3];

    for (unsigned i = 0; i < nargs && used + 4 <= len; i++, used += 4)
        memcpy(&args[i], bytes + used, 4);

    if (bytes[1] & 64)
        put_address(args, nargs, bytes[2] >> 5, (uint32_t)args[0]);

    n = n < len - used ? n : len - used;

    uint8_t *payload = malloc(n ? n : 1);

    memcpy(payload, bytes + used, n);

    const struct amph_am am = { .kind = kind,
                                .handler = handler,
                                .nargs = nargs,
                                .nbytes = kind == AMPH_AM_LONG ? 64 : (uint32_t)n,
                                .args = args,
                                .payload = payload,
                                .dest = base + (uint32_t)args[0] % (2u << 20) };

    /* Two end the process, as they should; one does where the client has not registered what it
     * names. */
    if (handler != AMPH_AM_EXITING && handler != AMPH_AM_ALL_EXIT && handler != AMPH_GEX_VIS_NOTIFY)
        amph_am_upcalls.on_am(ep, 0, bytes[1] & 128 ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST, &am);

    free(payload);
    return used + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!ep)
        start();

    while (len >= 4) {
        size_t n = message(bytes, len);

        bytes += n;
        len -= n;
    }

    gasnet_AMPoll();
    return 0;
}
