/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control.
 * Layer: conduits (udp).  Thread rule: the caller holds the lock of struct amph_rdp.
 *
 * Follows the idea of BBR (Cardwell and others, 2016), not its code: the path's rate is the maximum
 * delivery rate of the last ten round trips, its length the shortest round trip of the last ten
 * seconds.  Packets are sent at that rate, with about twice the product in flight.  Loss alone does
 * not indicate congestion (a bad cable loses at random).  Only loss together with longer round
 * trips, which show a queue, lowers the limit.  Random loss is compensated by a higher rate.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "conduits/udp/rdp.h"

#define ROUNDS 10u
#define MIN_RTT_NS (10 * AMPH_NS_PER_S)
#define SLACK_NS (100 * AMPH_NS_PER_US) /* reaction time of a receiver, part of the path's length */
#define BURST_NS (500 * AMPH_NS_PER_US) /* length of a burst of packets */
#define FIRST_PACKETS 16u
#define MIN_PACKETS 4u
#define PERMILLE 1024u

/* Gains in 1/100. */
static const unsigned cycle_gain[] = { 125, 75, 100, 100, 100, 100, 100, 100 };
enum {
    GAIN_STARTUP = 289,
    GAIN_DRAIN = 35,
    GAIN_CWND = 200
};

void amph_rdp_cc_init(struct amph_rdp_cc *cc, uint32_t datagram)
{
    *cc = (struct amph_rdp_cc){ .cwnd = (uint64_t)FIRST_PACKETS * datagram,
                                .hi = UINT64_MAX,
                                .min_rtt_ns = UINT64_MAX,
                                .cycle = 2 };
    cc->startup_cwnd = cc->cwnd;
}

/* ---- windowed maximum of the delivery rate ---- */

static uint64_t best_rate(const struct amph_rdp_cc *cc)
{
    return cc->bw[0];
}

static void take_rate(struct amph_rdp_cc *cc, uint64_t rate)
{
    uint64_t now = cc->round;

    if (rate >= cc->bw[0] || now - cc->bw_round[2] > ROUNDS) {
        for (unsigned i = 0; i < 3; i++) {
            cc->bw[i] = rate;
            cc->bw_round[i] = now;
        }

        return;
    }

    for (unsigned i = 1; i < 3; i++)
        if (rate >= cc->bw[i]) {
            for (unsigned k = i; k < 3; k++) {
                cc->bw[k] = rate;
                cc->bw_round[k] = now;
            }

            break;
        }

    /* the maximum has expired: use the second largest */
    while (now - cc->bw_round[0] > ROUNDS) {
        cc->bw[0] = cc->bw[1];
        cc->bw_round[0] = cc->bw_round[1];
        cc->bw[1] = cc->bw[2];
        cc->bw_round[1] = cc->bw_round[2];
        cc->bw[2] = rate;
        cc->bw_round[2] = now;
    }

    if (cc->bw_round[1] == cc->bw_round[0] && now - cc->bw_round[1] > ROUNDS / 4) {
        cc->bw[1] = cc->bw[2] = rate;
        cc->bw_round[1] = cc->bw_round[2] = now;
    } else if (cc->bw_round[2] == cc->bw_round[1] && now - cc->bw_round[2] > ROUNDS / 2) {
        cc->bw[2] = rate;
        cc->bw_round[2] = now;
    }
}

/* ---- bursts of acknowledgements ---- */

/* A peer that polls seldom acknowledges all at once what came since its last poll.  Until then as much
 * must be in flight in addition, or it finds little at its next poll. */
static void note_burst(struct amph_rdp_cc *cc, uint64_t acked_bytes, uint64_t now)
{
    double expected = (double)best_rate(cc) * (double)(now - cc->epoch_ns) / 1e9;

    if ((double)cc->epoch_bytes <= expected) {
        cc->epoch_bytes = 0;
        cc->epoch_ns = now;
        expected = 0;
    }

    cc->epoch_bytes += acked_bytes;
    if (cc->round - cc->beyond_round > ROUNDS / 2) {
        cc->beyond[1] = cc->beyond[0];
        cc->beyond[0] = 0;
        cc->beyond_round = cc->round;
    }

    uint64_t beyond = (uint64_t)((double)cc->epoch_bytes - expected);
    uint64_t max = cc->cwnd;

    if (best_rate(cc) && beyond > cc->beyond[0])
        cc->beyond[0] = beyond < max ? beyond : max;
}

static uint64_t burst_bytes(const struct amph_rdp_cc *cc)
{
    return cc->beyond[0] > cc->beyond[1] ? cc->beyond[0] : cc->beyond[1];
}

/* ---- sending ---- */

static uint64_t path_bytes(const struct amph_rdp_cc *cc, unsigned gain)
{
    if (!best_rate(cc) || cc->min_rtt_ns == UINT64_MAX)
        return cc->startup_cwnd;

    double bytes = (double)best_rate(cc) * (double)(cc->min_rtt_ns + SLACK_NS) / 1e9 * gain / 100;
    return (uint64_t)bytes;
}

bool amph_rdp_cc_may_send(const struct amph_rdp_conn *c, size_t bytes, uint64_t now,
                          uint64_t *when_p)
{
    const struct amph_rdp_cc *cc = &c->cc;
    uint64_t cwnd = cc->cwnd < cc->hi ? cc->cwnd : cc->hi;

    if (now < cc->drain_until) {
        uint64_t half = path_bytes(cc, 50);
        uint64_t min = (uint64_t)MIN_PACKETS * c->datagram;

        if (half < cwnd)
            cwnd = half > min ? half : min;
    }

    if (c->inflight && c->inflight + bytes > cwnd)
        return false;
    if (c->inflight && c->queue_cap && c->inflight_cost + amph_rdp_queue_cost(bytes) > c->queue_cap)
        return false;

    if (cc->pace_ns > now + BURST_NS) {
        *when_p = cc->pace_ns - BURST_NS;
        return false;
    }

    return true;
}

void amph_rdp_cc_sent(struct amph_rdp_conn *c, struct amph_rdp_rec *rec, uint64_t now, size_t bytes,
                      bool more)
{
    struct amph_rdp_cc *cc = &c->cc;

    if (c->out_packets == 0) { /* after a pause the delivery clock restarts */
        cc->delivered_ns = now;
        cc->first_sent_ns = now;
    }

    if (!more)
        cc->app_limited_until = cc->delivered + c->inflight + bytes;

    rec->delivered = cc->delivered;
    rec->delivered_ns = cc->delivered_ns;
    rec->first_sent_ns = cc->first_sent_ns;
    rec->app_limited = cc->app_limited_until > cc->delivered;
    if (cc->pace_ns < now)
        cc->pace_ns = now;

    if (cc->rate)
        cc->pace_ns += (uint64_t)((double)bytes * 1e9 / (double)cc->rate);
}

/* ---- learning ---- */

static void end_of_startup(struct amph_rdp_cc *cc, bool app_limited)
{
    if (cc->mode != RDP_CC_STARTUP || app_limited)
        return;

    if (best_rate(cc) >= cc->full_bw + cc->full_bw / 4) {
        cc->full_bw = best_rate(cc);
        cc->full_count = 0;
    } else if (++cc->full_count >= 3) {
        cc->mode = RDP_CC_DRAIN;
    }
}

/* Before the path's rate is known: does loss increase, so that some queue must be full? */
static bool overflows(struct amph_rdp_conn *c, uint64_t sent, uint32_t loss)
{
    struct amph_rdp_cc *cc = &c->cc;
    uint64_t before = cc->sent_startup ? cc->lost_startup * PERMILLE / cc->sent_startup : 0;

    cc->sent_startup += sent;
    cc->lost_startup += cc->lost_round;
    return sent >= 64 * (uint64_t)c->datagram && loss > 2 * before + PERMILLE / 12;
}

/* Is there a queue?  True if round trips have grown on average; in each round some packets meet
 * an empty queue. */
static bool has_queue(const struct amph_rdp_cc *cc)
{
    return cc->rtt_count &&
           cc->rtt_sum / cc->rtt_count > cc->min_rtt_ns + cc->min_rtt_ns / 32 + 2 * SLACK_NS;
}

/* Ends a round trip: evaluates queueing and loss. */
static void end_of_round(struct amph_rdp_conn *c, bool app_limited, uint64_t now)
{
    struct amph_rdp_cc *cc = &c->cc;
    uint64_t sent = cc->lost_round + cc->delivered_round;
    uint32_t loss = sent ? (uint32_t)(cc->lost_round * PERMILLE / sent) : 0;
    uint64_t min = (uint64_t)MIN_PACKETS * c->datagram;
    uint64_t cwnd = cc->cwnd < cc->hi ? cc->cwnd : cc->hi;
    bool queue = has_queue(cc);

    cc->round++;
    if (!queue)
        cc->loss_ppk = (7 * cc->loss_ppk + loss) / 8;

    if (cc->mode == RDP_CC_STARTUP && overflows(c, sent, loss))
        cc->mode = RDP_CC_DRAIN;

    if ((queue && loss > PERMILLE / 50) || loss > PERMILLE * 45 / 100) {
        uint64_t less = cwnd / 8 * 7;
        uint64_t floor = path_bytes(cc, loss > PERMILLE * 45 / 100 ? 25 : 90);

        less = less > floor ? less : floor;
        cc->hi = less > min ? less : min;
    } else if (cc->hi != UINT64_MAX) {
        uint64_t step = cc->hi / 16 > c->datagram ? cc->hi / 16 : c->datagram;
        cc->hi = cc->hi + step > 4 * cc->cwnd ? UINT64_MAX : cc->hi + step;
    }

    end_of_startup(cc, app_limited);
    cc->lost_round = cc->delivered_round = 0;
    cc->rtt_sum = cc->rtt_count = 0;
    cc->round_end = cc->delivered;
}

static void update_window(struct amph_rdp_conn *c, uint64_t acked_bytes, uint64_t now)
{
    struct amph_rdp_cc *cc = &c->cc;
    unsigned gain = GAIN_STARTUP;

    if (cc->mode == RDP_CC_DRAIN && c->inflight <= path_bytes(cc, 100)) {
        cc->mode = RDP_CC_STEADY;
        cc->cycle_at = now;
    }

    if (cc->mode == RDP_CC_STEADY) {
        if (now - cc->cycle_at > cc->min_rtt_ns + SLACK_NS) {
            cc->cycle = (uint8_t)((cc->cycle + 1) % AMPH_COUNTOF(cycle_gain));
            cc->cycle_at = now;
        }

        gain = cycle_gain[cc->cycle];
    } else if (cc->mode == RDP_CC_DRAIN) {
        gain = GAIN_DRAIN;
    }

    uint64_t min = (uint64_t)MIN_PACKETS * c->datagram;
    uint64_t want = path_bytes(cc, GAIN_CWND) + 2 * min + burst_bytes(cc);

    if (cc->mode == RDP_CC_STARTUP) {
        cc->startup_cwnd += acked_bytes;
        want = want > cc->startup_cwnd ? want : cc->startup_cwnd;
        cc->startup_cwnd = want;
    }

    cc->cwnd = want > min ? want : min;

    uint32_t made_up = cc->loss_ppk < PERMILLE / 3 ? cc->loss_ppk : PERMILLE / 3;
    uint64_t base = best_rate(cc);

    /* too little traffic to measure the path's rate */
    if (cc->mode == RDP_CC_STARTUP && cc->min_rtt_ns != UINT64_MAX) {
        double first = (double)cc->startup_cwnd * 1e9 / (double)(cc->min_rtt_ns + SLACK_NS);
        base = first > (double)base ? (uint64_t)first : base;
    }

    double rate = (double)base * gain / 100 * PERMILLE / (PERMILLE - made_up);

    cc->rate = (uint64_t)rate;
}

void amph_rdp_cc_acked(struct amph_rdp_conn *c, const struct amph_rdp_rec *newest,
                       uint64_t acked_bytes, uint64_t lost_bytes, uint64_t rtt_ns, uint64_t now)
{
    struct amph_rdp_cc *cc = &c->cc;

    cc->delivered += acked_bytes;
    cc->delivered_round += acked_bytes;
    cc->lost_round += lost_bytes;
    if (acked_bytes)
        cc->delivered_ns = now;

    if (rtt_ns && (rtt_ns <= cc->min_rtt_ns || now - cc->min_rtt_at > MIN_RTT_NS)) {
        if (rtt_ns > cc->min_rtt_ns + cc->min_rtt_ns / 8 && now >= cc->drain_until)
            cc->drain_until = now + 2 * c->srtt_ns + AMPH_NS_PER_MS;

        cc->min_rtt_ns = rtt_ns;
        cc->min_rtt_at = now;
    }

    if (rtt_ns && rtt_ns < cc->min_rtt_ns)
        cc->min_rtt_ns = rtt_ns;

    cc->rtt_sum += rtt_ns;
    cc->rtt_count += rtt_ns > 0;
    if (!newest)
        return;

    note_burst(cc, acked_bytes, now);

    uint64_t sending = newest->sent_ns - newest->first_sent_ns;
    uint64_t coming = now - newest->delivered_ns;
    uint64_t took = sending > coming ? sending : coming;

    cc->first_sent_ns = newest->sent_ns;
    if (took > 0 && took >= cc->min_rtt_ns / 2) {
        uint64_t rate = (uint64_t)((double)(cc->delivered - newest->delivered) * 1e9 /
                                   (double)took);

        if (!newest->app_limited || rate > best_rate(cc))
            take_rate(cc, rate);
    }

    if (newest->delivered >= cc->round_end)
        end_of_round(c, newest->app_limited, now);

    update_window(c, acked_bytes, now);
}
