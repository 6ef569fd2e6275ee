/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the udp conduit's protocol sends: what waits for more, and time-outs of a process that has not
 * received what has come.  On the simulated network of udp_sim.h.  Layer: tests.
 * Thread rule: one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "tests/conformance/udp_sim.h"

#define MEMORY (4u << 20)

static FILE *tap;
static unsigned ntests;
static bool bad;

static void report(bool ok, const char *what)
{
    fprintf(tap, "%s %u - %s\n", ok ? "ok" : "not ok", ++ntests, what);
    bad = bad || !ok;
}

static unsigned counted;

static void count_message(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    counted++;
}

static void on_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    fprintf(stderr, "peer %u: %s\n", peer, why);
    abort();
}

static const struct amph_upcalls upcalls = { count_message, on_error };
static const struct amph_am message = { .kind = AMPH_AM_SHORT };

/* Two nodes; a message has gone from the first to the second. */
static struct sim *open_pair(void)
{
    const struct sim_link link = { .delay_ns = 50000, .datagram = 1472 };
    struct sim *s = sim_open(2, &link, 99, &upcalls, MEMORY);

    counted = 0;
    amph_rdp_am_send(s->node[0].rdp, 1, AMPH_LANE_REQUEST, &message, NULL);
    while (counted < 1 && sim_step(s))
        continue;

    for (unsigned i = 0; i < 100 && sim_step(s); i++) /* acknowledgements */
        continue;

    return s;
}

static void joined_packets(void)
{
    static const uint8_t flags[] = { 0, RDP_F_ACK, RDP_F_SEG, RDP_F_ACK | RDP_F_SEG };
    uint64_t text[128] = { 0 };
    unsigned right = 0;

    for (unsigned i = 0; i < AMPH_COUNTOF(flags); i++) {
        bool ack = (flags[i] & RDP_F_ACK) != 0;
        struct amph_rdp_hdr h = { .flags = flags[i], .body_len = 64, .ack_words = ack ? 2 : 0 };
        size_t seg = flags[i] & RDP_F_SEG ? sizeof(struct amph_rdp_seghdr) : 0;
        size_t len = sizeof h + (ack ? sizeof(struct amph_rdp_ackblk) + 16 : 0) + seg + 64;

        amph_rdp_put_hdr(text, &h);
        right += amph_rdp_first_packet(text, len) == len &&
                 amph_rdp_first_packet(text, 2 * len) == len &&
                 amph_rdp_first_packet(text, len - 8) == len - 8 &&
                 amph_rdp_first_packet(text, 16) == 16;
    }

    report(right == AMPH_COUNTOF(flags), "packets that the kernel has joined are separated");
}

/* A node that has sent many messages keeps the last ones back until it fills a packet with more.  If it
 * then computes, the guard sends them soon. */
static void kept_back(void)
{
    struct sim *s = open_pair();
    struct amph_rdp *r = s->node[0].rdp;
    const struct amph_rdp_txlane *tx = &r->conn[1]->tx[AMPH_LANE_REQUEST];

    for (unsigned i = 0; i < 100; i++)
        amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);

    report(tx->head != NULL && amph_rdp_is_corked(r), "messages for a busy peer are kept back");
    amph_rdp_guard(r);
    report(tx->head != NULL, "the guard does not send them at once");
    s->now += 2 * RDP_CORK_NS;
    amph_rdp_guard(r);
    report(!tx->head && !amph_rdp_is_corked(r), "the guard sends them after a millisecond");

    while (counted < 101 && sim_step(s))
        continue;

    report(counted == 101, "all of them arrive");
    sim_close(s);
}

static bool something_waits(void *ctx)
{
    return true;
}

/* Lets a node run once in a millisecond for ms of them, without receiving; returns how many packets it
 * sends. */
static uint64_t run_for(struct sim *s, unsigned ms)
{
    uint64_t before = s->packets;

    for (unsigned i = 0; i < ms; i++) {
        s->now += AMPH_NS_PER_MS;
        for (unsigned k = 0; k < 8; k++)
            amph_rdp_progress(s->node[0].rdp, 3, 16);
    }

    return s->packets - before;
}

/* An acknowledgement may be among the datagrams that wait, so a message is not sent again before they have been
 * received; but it is after a while, as they may never be. */
static void postponed(void)
{
    struct sim *s = open_pair();
    struct amph_rdp *r = s->node[0].rdp;

    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    report(run_for(s, 100) > 0, "a message that is not acknowledged is sent again");
    sim_close(s);

    s = open_pair();
    r = s->node[0].rdp;
    r->cfg.env.queued = something_waits;
    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    report(run_for(s, 200) == 0, "not before what waits has been received");
    report(run_for(s, 200) > 0, "but after a while");
    sim_close(s);
}

int main(int argc, char **argv)
{
    tap = stdout;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--tap=", 6) == 0)
            tap = fopen(argv[i] + 6, "w");

    if (!tap) {
        perror("unit_udp_timers: the file of --tap");
        return 1;
    }

    joined_packets();
    kept_back();
    postponed();
    fprintf(tap, "1..%u\n", ntests);
    if (tap != stdout)
        fclose(tap);

    return bad;
}
