/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the udp conduit's protocol sends: what waits for more, time-outs of a process that has not
 * received what has come, and how much many processes on one core send.  On the simulated network of
 * udp_sim.h.  Layer: tests.
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
    amph_rdp_guard(r, false);
    report(tx->head != NULL, "the guard does not send them at once");
    s->now += 2 * RDP_CORK_NS;
    amph_rdp_guard(r, false);
    report(!tx->head && !amph_rdp_is_corked(r), "the guard sends them soon");

    while (counted < 101 && sim_step(s))
        continue;

    report(counted == 101, "all of them arrive");
    sim_close(s);
}

/* Lets a node run once in a millisecond for ms of them; it finds its receive queue empty, or handles `datagrams` of
 * those that wait, and there are always more.  Returns how many packets it sends. */
static uint64_t run_for(struct sim *s, unsigned ms, bool empty, unsigned datagrams)
{
    uint64_t before = s->packets;
    uint8_t datagram[1472] = { 0 };
    struct amph_rdp *r = s->node[0].rdp;

    for (unsigned i = 0; i < ms; i++) {
        s->now += AMPH_NS_PER_MS;
        for (unsigned k = 0; k < 8; k++) {
            uint64_t since = s->now;

            amph_rdp_progress(r, 3, 16);
            for (unsigned d = 0; d < datagrams; d++)
                amph_rdp_input(r, datagram, sizeof datagram, 3, 16);

            if (empty)
                amph_rdp_drained(r, since);
        }
    }

    return s->packets - before;
}

/* An acknowledgement may be among the datagrams that wait, so a message is not sent again before they have been
 * received. */
static void postponed(void)
{
    struct sim *s = open_pair();
    struct amph_rdp *r = s->node[0].rdp;

    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    report(run_for(s, 2000, false, 0) == 0 && amph_rdp_wants_drain(r),
           "a time-out waits until the receive queue has been drained");
    report(run_for(s, 2, true, 0) > 0, "then a message that is not acknowledged is sent again");
    sim_close(s);

    s = open_pair();
    r = s->node[0].rdp;
    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    report(run_for(s, 100, false, 2) == 0, "it is not while datagrams are received that waited");
    report(run_for(s, 2000, false, 2) > 0, "a peer that sends without end does not prevent it");
    sim_close(s);
}

static bool something_waits(void *ctx)
{
    return true;
}

/* The guard does not receive, so it gives its process some rounds to do so, even if these take long. */
static void guard_postpones(void)
{
    struct sim *s = open_pair();
    struct amph_rdp *r = s->node[0].rdp;
    unsigned rounds = 0;

    r->cfg.env.queued = something_waits;
    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);

    for (uint64_t before = s->packets; rounds < 100 && s->packets == before; rounds++) {
        s->now += AMPH_NS_PER_S;
        amph_rdp_guard(r, rounds < 2);
    }

    report(rounds > 10 && rounds < 20, "the guard sends again if its process does not receive");
    sim_close(s);
}

/* A process that was away finds the only answer, so that its round trip seems long.  What is lost then is sent
 * again soon. */
static void away(uint64_t timeout_ns)
{
    struct sim *s = open_pair();
    struct amph_rdp *r = s->node[0].rdp;
    char text[100];

    r->cfg.timeout_ns = timeout_ns;
    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    s->node[0].asleep_until = s->now + timeout_ns / 3;
    while (amph_rdp_has_outgoing(r->conn[1]) && sim_step(s))
        continue;

    uint64_t before = amph_count_now(AMPH_COUNTER_UDP_RESENT);
    uint64_t end = s->now + timeout_ns / 2;

    s->link.loss = 10000;
    amph_rdp_am_send(r, 1, AMPH_LANE_REQUEST, &message, NULL);
    while (s->now < end && sim_step(s))
        continue;

    snprintf(text, sizeof text, "lost after a long absence, sent again thrice within half of %u s",
             (unsigned)(timeout_ns / AMPH_NS_PER_S));
    report(r->conn[1]->srtt_ns > timeout_ns / 100 &&
               amph_count_now(AMPH_COUNTER_UDP_RESENT) > before + 2,
           text);
    sim_close(s);
}

/* ---- acknowledgements ---- */

/* One that nobody awaits is sent late, so that a message can take it along, but before the sender's time-out. */
static void late_acknowledgements(void)
{
    struct sim *s = open_pair();
    const struct amph_rdp_conn *sender = s->node[0].rdp->conn[1];
    struct amph_rdp_conn *receiver = s->node[1].rdp->conn[0];
    unsigned late = 0;

    receiver->srtt_ns = 2 * s->link.delay_ns; /* it sends nothing that would show it */

    for (unsigned i = 1; i <= 40; i++) {
        amph_rdp_am_send(s->node[0].rdp, 1, AMPH_LANE_REQUEST, &message, NULL);
        while (counted < 1 + i && sim_step(s))
            continue;

        const uint64_t ack_ns = receiver->ack_ns;

        late += ack_ns != RDP_NEVER && ack_ns > s->now + 100 * AMPH_NS_PER_US &&
                ack_ns + s->link.delay_ns < sender->timer_ns;
        for (unsigned k = 0; k < 100 && sim_step(s); k++)
            continue;
    }

    report(late > 20, "acknowledgements wait for a message, but not for long");
    sim_close(s);
}

/* ---- many processes on one core ---- */

#define CROWD 48u

static void echo(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct sim_node *node = up;

    counted++;
    if (lane == AMPH_LANE_REQUEST)
        amph_rdp_am_send(node->rdp, peer, AMPH_LANE_REPLY, &message, NULL);
}

static const struct amph_upcalls echoes = { echo, on_error };

/* Every node sends a message to every other one and gets a reply.  Returns the packets that were sent for each
 * pair. */
static double all_to_all(struct sim *s)
{
    uint64_t before = s->packets;
    unsigned pairs = CROWD * (CROWD - 1) / 2;

    counted = 0;
    for (unsigned i = 0; i < CROWD; i++)
        for (unsigned k = 1; k < CROWD; k++)
            amph_rdp_am_send(s->node[i].rdp, (i + k) % CROWD, AMPH_LANE_REQUEST, &message, NULL);

    while (sim_run_shared(s))
        continue;

    return counted == 4 * pairs ? (double)(s->packets - before) / pairs : 1e9;
}

/* All nodes on a core that other work takes for away_ms after each slice; the second time after an hour in which they
 * had it alone.  A pair needs up to four packets for its session, and each time two requests, two replies and
 * two acknowledgements. */
static void crowd(unsigned away_ms)
{
    const struct sim_link link = { .delay_ns = 5000, .datagram = 1472 };
    struct sim *s = sim_open(CROWD, &link, 7, &echoes, MEMORY);
    char text[160];

    s->packet_ns = 10000;
    s->slice_ns = 3 * AMPH_NS_PER_MS;
    s->away_ns = away_ms * AMPH_NS_PER_MS;

    double first = all_to_all(s);

    s->away_ns = 0;
    for (unsigned i = 0; i < 10; i++)
        all_to_all(s);

    s->away_ns = away_ms * AMPH_NS_PER_MS;
    double second = all_to_all(s);

    snprintf(
        text, sizeof text,
        "%u processes on a core that is away for %u ms at a time: %.1f and %.1f packets a pair",
        CROWD, away_ms, first, second);
    report(first < 12 && second < 6.3, text);
    sim_close(s);
}

int main(int argc, char **argv)
{
    static const unsigned away_ms[] = { 0, 10, 100 };

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
    guard_postpones();
    away(600 * AMPH_NS_PER_S);
    away(10 * AMPH_NS_PER_S);
    late_acknowledgements();
    for (unsigned i = 0; i < AMPH_COUNTOF(away_ms); i++)
        crowd(away_ms[i]);

    fprintf(tap, "1..%u\n", ntests);
    if (tap != stdout)
        fclose(tap);

    return bad;
}
