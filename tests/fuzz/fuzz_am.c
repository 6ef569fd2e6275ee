/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of what a peer's messages can do once its conduit has let them in: the handlers of
 * am/ and extended/, in a job of one process that hears them as if it had sent them itself.  Run by
 * tests/fuzz/fuzz.sh.  An input is a row of messages: handler, kind and lane, number of arguments,
 * payload length, arguments, payload.  They find a collective under way.
 */
#define GASNET_SEQ 1
#include <gasnetex.h>
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "am/job.h"
#include "base/wire.h"
#include "extended/coll/coll.h"
#include "extended/gex.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct amph_am_ep *ep;
static uintptr_t base;
static struct amph_am_mem area; /* to which a member may put */

enum {
    SMALL = 100,
    LARGE = 70000,
    PIECE = 4096,
    PORTS = 4
};

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
    if (amph_am_mem_reg(ep, (void *)base, 1 << 20, -1, 0, &area) != AMPH_OK)
        abort();
}

/* Begins a segment of a collective with two open ports, of which one takes puts, and with two that will be
 * opened; and with a large message whose receiver has not reported that it is ready. */
static void begin_coll(struct amph_coll *c)
{
    struct amph_mail *m = &c->mail;

    amph_coll_mail_begin(c, m->seq + 1, PORTS, 1, PIECE);
    for (uint32_t i = 0; i < 2; i++)
        m->in[i] = (struct amph_mail_in){ .buf = malloc(i ? LARGE : SMALL),
                                          .len = i ? LARGE : SMALL,
                                          .left = i ? LARGE : SMALL,
                                          .max_put = i ? LARGE : 0,
                                          .open = true };

    m->out[0] = (struct amph_mail_out){ .len = LARGE, .port = 1 };
    m->nout = 1;
}

static void end_coll(struct amph_coll *c)
{
    const struct amph_mail_out *out = &c->mail.out[0];

    for (uint32_t i = 0; i < 2; i++) {
        if (c->mail.in[i].left > c->mail.in[i].len)
            abort();

        free(c->mail.in[i].buf);
    }

    if (out->max_put &&
        (out->len > out->put_mem.len_bytes || out->put_at > out->put_mem.len_bytes - out->len))
        abort();

    amph_coll_mail_end(c);
    amph_coll_mail_remove_team(c); /* with the messages for later segments */

    const uint32_t seq = c->mail.seq;

    amph_coll_mail_add_team(c);
    c->mail.seq = seq;
}

/* What a member sends: for the team and the segment that is under way. */
static void put_coll(int32_t *args)
{
    const struct amph_coll *c = amph_colls()->all;

    args[0] = (int32_t)(c->team->id >> 32);
    args[1] = (int32_t)c->team->id;
    args[2] = (int32_t)c->mail.seq;
    args[3] &= 7;
}

/* READY's payload, which names memory of this process. */
static size_t put_offer(int32_t *args, uint8_t offer[AMPH_COLL_OFFER_BYTES])
{
    struct amph_wr w;

    amph_wr_init(&w, offer, AMPH_COLL_OFFER_BYTES);
    amph_wr_u64(&w, base + (uint32_t)args[4] % (2u << 20));
    amph_wr_u32(&w, (uint32_t)args[4]);
    amph_wr_blob(&w, area.key, area.key_len);
    args[4] = 0;
    return amph_wr_len(&w);
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

    uint8_t offer[AMPH_COLL_OFFER_BYTES];
    const uint8_t *from = bytes + used;

    used += n;
    if (bytes[1] & 32)
        put_coll(args);
    if ((bytes[1] & 32) && handler == AMPH_GEX_COLL_READY && n % 2) {
        n = put_offer(args, offer);
        from = offer;
    }

    uint8_t *payload = malloc(n ? n : 1);

    memcpy(payload, from, n);

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
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!ep)
        start();

    struct amph_coll *coll = amph_colls()->all;

    begin_coll(coll);
    while (len >= 4) {
        size_t n = message(bytes, len);

        bytes += n;
        len -= n;
    }

    end_coll(coll);
    gasnet_AMPoll();
    return 0;
}
