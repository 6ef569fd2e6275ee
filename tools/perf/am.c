/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: round trips and floods between ranks 0 and 1.  Rank 0 measures.  Rank 1 polls, and
 * its handlers reply, until a short request ends the sample.
 *
 * Layer: tools.
 */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnetex.h>
#include <math.h>
#include <string.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

enum {
    PING_SHORT = GEX_AM_INDEX_BASE,
    PING_MEDIUM,
    PING_LONG,
    PING_NP,
    PONG_SHORT,
    PONG_MEDIUM,
    PONG_LONG,
    FLOOD_SHORT,
    FLOOD_MEDIUM,
    COUNT_ASK,
    COUNT_TELL,
    RELEASE,
    HANDLERS
};

static void ping_short(gex_Token_t token)
{
    gex_AM_ReplyShort0(token, PONG_SHORT, 0);
}

static void ping_medium(gex_Token_t token, void *buf, size_t n)
{
    gex_AM_ReplyMedium0(token, PONG_MEDIUM, buf, n, GEX_EVENT_NOW, 0);
}

static void ping_long(gex_Token_t token, void *buf, size_t n)
{
    gex_AM_ReplyLong0(token, PONG_LONG, buf, n, perf_state.am.remote, GEX_EVENT_NOW, 0);
}

static void ping_np(gex_Token_t token, void *buf, size_t n)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, n, n, NULL, 0, 0);

    memcpy(gex_AM_SrcDescAddr(sd), buf, n);
    gex_AM_CommitReplyMedium0(sd, PONG_MEDIUM, n);
}

static void pong_short(gex_Token_t token)
{
    perf_state.am.pongs++;
}

static void pong_payload(gex_Token_t token, void *buf, size_t n)
{
    perf_state.am.pongs++;
}

static void flood_short(gex_Token_t token)
{
    perf_state.am.floods++;
    perf_state.am.taken++;
}

static void flood_payload(gex_Token_t token, void *buf, size_t n)
{
    perf_state.am.floods++;
    perf_state.am.taken++;
}

void perf_am_state(unsigned long long *sent_p, unsigned long long *taken_p)
{
    *sent_p = perf_state.am.sent;
    *taken_p = perf_state.am.taken;
}

/* How many messages of a flood have arrived since the last time this was asked; the answer comes
 * when all of `wanted` are there. */
static void count_ask(gex_Token_t token, gex_AM_Arg_t wanted)
{
    bool all = perf_state.am.floods >= (uint64_t)wanted;

    if (all)
        perf_state.am.floods = 0;

    gex_AM_ReplyShort1(token, COUNT_TELL, 0, all);
}

static void count_tell(gex_Token_t token, gex_AM_Arg_t all)
{
    perf_state.am.answer = all ? 2 : 1;
}

static void release(gex_Token_t token)
{
    perf_state.am.releases++;
}

void perf_am_register(void *ep)
{
    gex_AM_Entry_t table[] = {
        { PING_SHORT, (gex_AM_Fn_t)ping_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL,
          "ping_short" },
        { PING_MEDIUM, (gex_AM_Fn_t)ping_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL,
          "ping_medium" },
        { PING_LONG, (gex_AM_Fn_t)ping_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL,
          "ping_long" },
        { PING_NP, (gex_AM_Fn_t)ping_np, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL,
          "ping_np" },
        { PONG_SHORT, (gex_AM_Fn_t)pong_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0, NULL,
          "pong_short" },
        { PONG_MEDIUM, (gex_AM_Fn_t)pong_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0, NULL,
          "pong_medium" },
        { PONG_LONG, (gex_AM_Fn_t)pong_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 0, NULL,
          "pong_long" },
        { FLOOD_SHORT, (gex_AM_Fn_t)flood_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL,
          "flood_short" },
        { FLOOD_MEDIUM, (gex_AM_Fn_t)flood_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDLONG, 0,
          NULL, "flood_payload" },
        { COUNT_ASK, (gex_AM_Fn_t)count_ask, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL,
          "count_ask" },
        { COUNT_TELL, (gex_AM_Fn_t)count_tell, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL,
          "count_tell" },
        { RELEASE, (gex_AM_Fn_t)release, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL,
          "release" },
    };

    gex_EP_RegisterHandlers((gex_EP_t)ep, table, AMPH_COUNTOF(table));
    gasnet_QueryGexObjects(NULL, NULL, &perf_state.am.tm, NULL);
    perf_polls_register(ep);
}

void perf_am_serve(struct perf_run *run)
{
    perf_state.am.remote = run->remote;
    while (perf_state.am.releases == perf_state.am.served)
        gasnet_AMPoll();

    perf_state.am.served++;
}

void perf_am_serve_waiting(void)
{
    GASNET_BLOCKUNTIL(perf_state.am.releases != perf_state.am.served);
    perf_state.am.served++;
}

void perf_am_ping(void)
{
    uint64_t wanted = perf_state.am.pongs + 1;

    gex_AM_RequestShort0(perf_state.am.tm, 1, PING_SHORT, 0);
    GASNET_BLOCKUNTIL(perf_state.am.pongs == wanted);
}

void perf_am_release(struct perf_run *run)
{
    gex_AM_RequestShort0(perf_state.am.tm, 1, RELEASE, 0);
}

/* ---- round trips ---- */

static void send_short(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestShort0(perf_state.am.tm, 1, PING_SHORT, 0);
}

static void send_medium(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestMedium0(perf_state.am.tm, 1, PING_MEDIUM, run->buffer, bytes, GEX_EVENT_NOW, 0);
}

static void send_long(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestLong0(perf_state.am.tm, 1, PING_LONG, run->buffer, bytes, run->remote,
                        GEX_EVENT_NOW, 0);
}

/* The payload is put together in the library's buffer, as a client would that has it in pieces. */
static void send_np(struct perf_run *run, size_t bytes)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(perf_state.am.tm, 1, NULL, bytes, bytes, NULL,
                                                      0, 0);

    memcpy(gex_AM_SrcDescAddr(sd), run->buffer, bytes);
    gex_AM_CommitRequestMedium0(sd, PING_NP, bytes);
}

static inline __attribute__((always_inline)) double round_trips_to(
    struct perf_run *run, size_t bytes, void (*send)(struct perf_run *, size_t))
{
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    while (end - start < perf_sample_ns(run)) {
        for (unsigned i = 0; i < 100; i++, n++) {
            uint64_t wanted = perf_state.am.pongs + 1;

            send(run, bytes);
            while (perf_state.am.pongs != wanted)
                gasnet_AMPoll();
        }

        end = amph_now_ns();
    }

    return (double)(end - start) / (double)n / 1e3;
}

static inline __attribute__((always_inline)) double round_trips(struct perf_run *run, size_t bytes,
                                                                void (*send)(struct perf_run *,
                                                                             size_t))
{
    double us = round_trips_to(run, bytes, send);

    perf_am_release(run);
    return us;
}

static size_t at_most(struct perf_run *run, size_t bytes, size_t max)
{
    run->used_bytes = bytes < max ? bytes : max;
    return run->used_bytes;
}

double perf_am_short_rtt(struct perf_run *run, size_t bytes)
{
    if (run->rank == 1)
        perf_am_serve(run);

    return run->rank == 0 ? round_trips(run, bytes, send_short) : 0;
}

/* The other process is in the same barrier already, and waits there until this one has measured. */
double perf_am_barrier_rtt(struct perf_run *run, size_t bytes)
{
    double us = run->rank == 0 ? round_trips_to(run, bytes, send_short) : 0;

    perf_sync(run);
    return us;
}

double perf_am_event_rtt(struct perf_run *run, size_t bytes)
{
    double us = run->rank == 0 ? round_trips_to(run, bytes, send_short) : 0;

    gex_Event_Wait(gex_Coll_BarrierNB(perf_state.am.tm, 0));
    return us;
}

double perf_am_coll_rtt(struct perf_run *run, size_t bytes)
{
    double us = run->rank == 0 ? round_trips_to(run, bytes, send_short) : 0;
    uint64_t own = run->rank, sum;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(perf_state.am.tm, &sum, &own, GEX_DT_U64, sizeof own, 1,
                                          GEX_OP_ADD, NULL, NULL, 0));
    return us;
}

double perf_am_block_rtt(struct perf_run *run, size_t bytes)
{
    if (run->rank == 1)
        perf_am_serve_waiting();

    return run->rank == 0 ? round_trips(run, bytes, send_short) : 0;
}

double perf_am_medium_barrier_rtt(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes,
                    gex_AM_LUBReplyMedium() < gex_AM_LUBRequestMedium()
                        ? gex_AM_LUBReplyMedium()
                        : gex_AM_LUBRequestMedium());

    double us = run->rank == 0 ? round_trips_to(run, bytes, send_medium) : 0;

    perf_sync(run);
    return us;
}

/* Both send requests, and no replies; returns the longest of many round trips. */
double perf_am_longest_ms(struct perf_run *run, size_t bytes)
{
    enum {
        TRIPS = 20000
    };

    uint64_t longest_ns = 0;

    for (unsigned i = 0; run->rank < 2 && i < TRIPS; i++) {
        const uint64_t start_ns = amph_now_ns();

        if (run->rank == 0)
            gex_AM_RequestShort0(perf_state.am.tm, 1, FLOOD_SHORT, 0);

        while (perf_state.am.floods <= i)
            gasnet_AMPoll();

        if (run->rank == 1)
            gex_AM_RequestShort0(perf_state.am.tm, 0, FLOOD_SHORT, 0);

        const uint64_t ns = amph_now_ns() - start_ns;
        if (ns > longest_ns)
            longest_ns = ns;
    }

    if (run->rank < 2)
        perf_state.am.floods -= TRIPS;

    return (double)longest_ns / 1e6;
}

double perf_am_medium_rtt(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes,
                    gex_AM_LUBReplyMedium() < gex_AM_LUBRequestMedium()
                        ? gex_AM_LUBReplyMedium()
                        : gex_AM_LUBRequestMedium());
    if (run->rank == 1)
        perf_am_serve(run);

    return run->rank == 0 ? round_trips(run, bytes, send_medium) : 0;
}

double perf_am_long_rtt(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes,
                    gex_AM_LUBReplyLong() < gex_AM_LUBRequestLong() ? gex_AM_LUBReplyLong()
                                                                    : gex_AM_LUBRequestLong());
    if (run->rank == 1)
        perf_am_serve(run);

    return run->rank == 0 ? round_trips(run, bytes, send_long) : 0;
}

double perf_np_medium_rtt(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes,
                    gex_AM_LUBReplyMedium() < gex_AM_LUBRequestMedium()
                        ? gex_AM_LUBReplyMedium()
                        : gex_AM_LUBRequestMedium());
    if (run->rank == 1)
        perf_am_serve(run);

    return run->rank == 0 ? round_trips(run, bytes, send_np) : 0;
}

/* ---- floods ---- */

static void flood_short_send(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestShort0(perf_state.am.tm, 1, FLOOD_SHORT, 0);
}

static void flood_medium_send(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestMedium0(perf_state.am.tm, 1, FLOOD_MEDIUM, run->buffer, bytes, GEX_EVENT_NOW, 0);
}

static void flood_long_send(struct perf_run *run, size_t bytes)
{
    gex_AM_RequestLong0(perf_state.am.tm, 1, FLOOD_MEDIUM, run->buffer, bytes, run->remote,
                        GEX_EVENT_NOW, 0);
}

static void flood_np_send(struct perf_run *run, size_t bytes)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(perf_state.am.tm, 1, NULL, bytes, bytes, NULL,
                                                      0, 0);

    memcpy(gex_AM_SrcDescAddr(sd), run->buffer, bytes);
    gex_AM_CommitRequestMedium0(sd, FLOOD_MEDIUM, bytes);
}

static void flood_client_send(struct perf_run *run, size_t bytes)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(perf_state.am.tm, 1, run->buffer, bytes,
                                                      bytes, GEX_EVENT_NOW, 0, 0);

    gex_AM_CommitRequestMedium0(sd, FLOOD_MEDIUM, bytes);
}

static void flood_np_long_send(struct perf_run *run, size_t bytes)
{
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(perf_state.am.tm, 1, NULL, bytes, bytes,
                                                    run->remote, NULL, 0, 0);

    memcpy(gex_AM_SrcDescAddr(sd), run->buffer, bytes);
    gex_AM_CommitRequestLong0(sd, FLOOD_MEDIUM, bytes, run->remote);
}

/* Messages a microsecond. */
static inline __attribute__((always_inline)) double flood(struct perf_run *run, size_t bytes,
                                                          void (*send)(struct perf_run *, size_t))
{
    unsigned count = bytes > 4096 ? 2000 : 20000;

    if (run->rank == 1)
        perf_am_serve(run);

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();

    for (unsigned i = 0; i < count; i++) {
        send(run, bytes);
        perf_state.am.sent++;
    }

    do {
        perf_state.am.answer = 0;
        gex_AM_RequestShort1(perf_state.am.tm, 1, COUNT_ASK, 0, (gex_AM_Arg_t)count);
        while (!perf_state.am.answer)
            gasnet_AMPoll();
    } while (perf_state.am.answer == 1);

    uint64_t end = amph_now_ns();

    perf_am_release(run);
    return count * 1e3 / (double)(end - start);
}

double perf_am_short_flood(struct perf_run *run, size_t bytes)
{
    return flood(run, 0, flood_short_send);
}

double perf_am_medium_flood(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes, gex_AM_LUBRequestMedium());
    return flood(run, bytes, flood_medium_send) * (double)bytes;
}

double perf_am_long_flood(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes, gex_AM_LUBRequestLong());
    return flood(run, bytes, flood_long_send) * (double)bytes;
}

double perf_am_medium_rate(struct perf_run *run, size_t bytes)
{
    return flood(run, bytes, flood_medium_send);
}

double perf_np_medium_rate(struct perf_run *run, size_t bytes)
{
    return flood(run, bytes, flood_np_send);
}

double perf_np_medium_flood(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes, gex_AM_LUBRequestMedium());
    return flood(run, bytes, flood_np_send) * (double)bytes;
}

double perf_np_client_flood(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes, gex_AM_LUBRequestMedium());
    return flood(run, bytes, flood_client_send) * (double)bytes;
}

double perf_np_long_flood(struct perf_run *run, size_t bytes)
{
    bytes = at_most(run, bytes, gex_AM_LUBRequestLong());
    return flood(run, bytes, flood_np_long_send) * (double)bytes;
}

/* ---- rank 1 polls rarely: it computes between its polls ---- */

#define SELDOM_NS (500 * AMPH_NS_PER_US)
#define SELDOM_WINDOW 64

static void compute_for(uint64_t ns)
{
    const uint64_t end_ns = amph_now_ns() + ns;

    while (amph_now_ns() < end_ns)
        amph_cpu_relax();
}

/* Returns how many messages rank 1 handles in one poll, on average. */
static double seldom(struct perf_run *run, size_t bytes, void (*send)(struct perf_run *, size_t))
{
    enum {
        MESSAGES = 1000
    };

    uint64_t polls = 0;

    if (run->rank == 1) {
        for (; perf_state.am.floods < MESSAGES; polls++) {
            compute_for(SELDOM_NS);
            gasnet_AMPoll();
        }

        perf_state.am.floods = 0;
        run->shared->line_b = polls;
    }

    for (unsigned i = 0; run->rank == 0 && i < MESSAGES; i++)
        send(run, bytes);

    perf_sync(run);
    polls = run->shared->line_b;
    perf_sync(run);

    return run->rank == 0 ? (double)MESSAGES / (double)polls : 0;
}

double perf_seldom_short(struct perf_run *run, size_t bytes)
{
    return seldom(run, 0, flood_short_send);
}

double perf_seldom_medium(struct perf_run *run, size_t bytes)
{
    return seldom(run, at_most(run, bytes, gex_AM_LUBRequestMedium()), flood_medium_send);
}

double perf_seldom_long(struct perf_run *run, size_t bytes)
{
    return seldom(run, at_most(run, bytes, gex_AM_LUBRequestLong()), flood_long_send);
}

/* Returns MB/s of blocking transfers with rank 1, which polls rarely. */
static double seldom_transfer(struct perf_run *run, size_t bytes, bool put)
{
    if (run->rank == 1) {
        while (perf_state.am.releases == perf_state.am.served) {
            compute_for(SELDOM_NS);
            gasnet_AMPoll();
        }

        perf_state.am.served++;
    }

    if (run->rank != 0)
        return 0;

    uint64_t start_ns = amph_now_ns();
    uint64_t end_ns = start_ns;
    uint64_t n = 0;

    for (; end_ns - start_ns < perf_sample_ns(run); end_ns = amph_now_ns(), n += SELDOM_WINDOW) {
        for (unsigned i = 0; i < SELDOM_WINDOW; i++)
            if (put)
                gex_RMA_PutNBI(perf_state.am.tm, 1, run->remote, run->buffer, bytes,
                               GEX_EVENT_DEFER, 0);
            else
                gex_RMA_GetNBI(perf_state.am.tm, run->buffer, 1, run->remote, bytes, 0);

        gex_NBI_Wait(put ? GEX_EC_PUT : GEX_EC_GET, 0);
    }

    perf_am_release(run);
    return (double)n * (double)bytes * 1e3 / (double)(end_ns - start_ns);
}

double perf_seldom_put(struct perf_run *run, size_t bytes)
{
    return seldom_transfer(run, bytes, true);
}

double perf_seldom_get(struct perf_run *run, size_t bytes)
{
    return seldom_transfer(run, bytes, false);
}

/* ---- injection: rank 1 does not poll meanwhile ---- */

/* Requests that are taken before one is refused; *ns_p is the time of all of them. */
static unsigned inject(struct perf_run *run, unsigned max, uint64_t *ns_p)
{
    unsigned n = 0;
    uint64_t start = amph_now_ns();

    while (n < max && gex_AM_RequestMedium0(perf_state.am.tm, 1, FLOOD_MEDIUM, run->buffer, 8,
                                            GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE) == 0)
        n++;

    *ns_p = amph_now_ns() - start;
    return n;
}

/* Rank 1 takes what was injected after line_a has changed, so that all samples begin with an empty
 * way. */
static unsigned injection(struct perf_run *run, unsigned max, uint64_t *ns_p)
{
    unsigned n = 0;

    if (run->rank == 0) {
        n = inject(run, max, ns_p);
        run->shared->line_a = 1 + n;
        while (run->shared->line_b != 1)
            gasnet_AMPoll();
    } else if (run->rank == 1) {
        while (!run->shared->line_a)
            amph_cpu_relax();

        while (perf_state.am.floods != run->shared->line_a - 1)
            gasnet_AMPoll();

        perf_state.am.floods = 0;
        run->shared->line_b = 1;
    }

    perf_sync(run);
    run->shared->line_a = run->shared->line_b = 0;
    perf_sync(run);

    return n;
}

double perf_am_inject(struct perf_run *run, size_t bytes)
{
    enum {
        ROUNDS = 50,
        BURST = 16
    };

    uint64_t ns = 0;
    uint64_t all = 0;
    unsigned n = 0;

    run->shared->line_a = run->shared->line_b = 0;
    perf_sync(run);
    for (unsigned i = 0; i < ROUNDS; i++, all += ns)
        n += injection(run, BURST, &ns);

    return run->rank == 0 && n ? (double)all / n / 1e3 : 0;
}

double perf_am_depth(struct perf_run *run, size_t bytes)
{
    uint64_t ns;

    run->shared->line_a = run->shared->line_b = 0;
    perf_sync(run);
    return injection(run, 1000000, &ns);
}

/* ---- for sync.c ---- */

void perf_am_wake(struct perf_run *run)
{
    gex_AM_RequestShort0(perf_state.am.tm, 0, FLOOD_SHORT, 0);
}

void perf_am_await(struct perf_run *run)
{
    GASNET_BLOCKUNTIL(perf_state.am.floods != 0);
    perf_state.am.floods = 0;
}

void perf_am_to_all(struct perf_run *run)
{
    char text[1024] = "";

    for (unsigned i = 1; i < run->procs; i++)
        gex_AM_RequestMedium0(perf_state.am.tm, (run->rank + i) % run->procs, FLOOD_MEDIUM, text,
                              sizeof text, GEX_EVENT_NOW, 0);

    GASNET_BLOCKUNTIL(perf_state.am.floods >= run->procs - 1);
    perf_state.am.floods = 0;
}
