/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acknowledgement, round-trip time and loss detection.
 * Layer: conduits (udp).  Thread rule: the caller holds the lock of struct amph_rdp.
 *
 * Each transmission has its own number, so round-trip samples are not ambiguous (Karn's problem does
 * not arise).  A packet counts as lost if enough later ones were acknowledged, or if it is older than
 * a round trip and a later one was acknowledged.  How many is "enough" is adapted when a packet that
 * counted as lost is acknowledged after all.  If nothing is acknowledged, the oldest segments are sent
 * again after time-outs, each twice as long as the one before; the acknowledgement of these shows
 * which packets were lost.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/wire.h"
#include "conduits/conduit.h"
#include "conduits/udp/rdp.h"

#define WORDS (RDP_PN_WINDOW / 64)
_Static_assert(WORDS == 32, "amph_rdp_conn.repeating has a bit for each");
#define ACK_REPEATS 3 /* acknowledgements that repeat a word */
#define ACK_PACKETS 16u
#define ACK_BYTES (192u << 10)
#define ACK_MIN_NS (25 * AMPH_NS_PER_US)
#define ACK_MAX_NS AMPH_NS_PER_MS
#define PING_BACKOFF 5u
#define REORDER_MAX 1024u
#define KEEP_NS \
    (5 * AMPH_NS_PER_MS) /* and two round trips: how long a lost packet may still turn up */

/* ---- received packets ---- */

static void enter_words(struct amph_rdp_conn *c, uint64_t pn)
{
    uint64_t from = c->largest / 64 + 1;
    uint64_t to = pn / 64;

    if (to - from >= WORDS && to >= from)
        from = to - WORDS + 1;

    for (uint64_t w = from; w <= to; w++) {
        c->received[w % WORDS] = 0;
        c->repeating &= ~(UINT32_C(1) << w % WORDS);
    }
}

/* Records a received packet that needs an acknowledgement. */
void amph_rdp_note_packet(struct amph_rdp *r, struct amph_rdp_conn *c,
                          const struct amph_rdp_packet *p, size_t len_bytes, uint64_t now)
{
    uint64_t pn = p->h.pn;
    bool gap = c->any_received && pn != c->largest + 1;

    if (!c->any_received || pn > c->largest) {
        enter_words(c, pn);
        c->largest = pn;
        c->largest_ns = now;
        c->any_received = true;
    } else if (c->largest / 64 - pn / 64 >= WORDS) {
        return; /* too late to be acknowledged: its segment will be sent again */
    }

    c->received[pn / 64 % WORDS] |= UINT64_C(1) << pn % 64;
    c->repeats[pn / 64 % WORDS] = ACK_REPEATS;
    c->repeating |= UINT32_C(1) << pn / 64 % WORDS;
    c->ack_packets++;
    c->ack_bytes += (uint32_t)len_bytes;

    uint64_t delay = c->srtt_ns / 8;

    if (delay < ACK_MIN_NS)
        delay = ACK_MIN_NS;
    else if (delay > ACK_MAX_NS)
        delay = ACK_MAX_NS;

    if (len_bytes <= RDP_COPY_BYTES && delay < RDP_ACK_WAIT_NS)
        delay = RDP_ACK_WAIT_NS;

    if (gap || p->h.flags & RDP_F_NOW || c->ack_packets >= ACK_PACKETS || c->ack_bytes >= ACK_BYTES)
        delay = 0;

    if (now + delay < c->ack_ns)
        c->ack_ns = now + delay;

    amph_rdp_activate(r, c);
    amph_rdp_note_deadline(r, c->ack_ns);
    if (c->ack_ns < c->timer_ns)
        c->timer_ns = c->ack_ns;
}

/* Returns how many words an acknowledgement needs from word `top` back to the oldest one that it repeats, at
 * least 1. */
static unsigned back_to_repeat(const struct amph_rdp_conn *c, unsigned top)
{
    /* turned so that the word at `top` is the highest bit */
    const uint32_t below = c->repeating << (WORDS - 1 - top);
    const uint32_t above = top == WORDS - 1 ? 0 : c->repeating >> (top + 1);
    const uint32_t turned = below | above;

    return turned ? WORDS - (unsigned)__builtin_ctz(turned) : 1;
}

unsigned amph_rdp_make_ack(struct amph_rdp_conn *c, unsigned max_words, struct amph_rdp_ackblk *blk,
                           uint64_t words[], uint64_t now)
{
    uint64_t top = c->largest / 64;
    uint32_t named = 0; /* words of this acknowledgement */
    unsigned n = back_to_repeat(c, (unsigned)(top % WORDS));

    if (!c->any_received)
        return 0;

    n = n < RDP_ACK_WORDS ? n : RDP_ACK_WORDS;
    if (n > max_words)
        return 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned w = (unsigned)((top - i) % WORDS);

        words[i] = c->received[w];
        if (c->repeating >> w & 1 && --c->repeats[w])
            named |= UINT32_C(1) << w;
    }

    c->repeating = named;

    uint64_t delay = (now - c->largest_ns) / AMPH_NS_PER_US;

    *blk = (struct amph_rdp_ackblk){ .largest = c->largest,
                                     .delay_us = delay < UINT32_MAX ? (uint32_t)delay
                                                                    : UINT32_MAX };
    for (unsigned i = 0; i < AMPH_NLANES; i++) {
        struct amph_rdp_rxlane *rx = &c->rx[i];

        if (rx->used_bytes + rx->window > rx->limit)
            rx->limit = rx->used_bytes + rx->window;

        blk->limit[i] = rx->limit;
    }

    c->ack_packets = c->ack_bytes = 0;
    c->ack_ns = RDP_NEVER;
    return n;
}

/* ---- acknowledged packets ---- */

struct amph_rdp_rec *amph_rdp_rec_new(struct amph_rdp_conn *c, uint64_t now, size_t bytes)
{
    struct amph_rdp_rec *rec = &c->rec[c->next_pn & (c->nrec - 1)];

    *rec = (struct amph_rdp_rec){ .sent_ns = now, .bytes = (uint32_t)bytes, .state = RDP_REC_OUT };
    return rec;
}

static struct amph_rdp_rec *rec_of(struct amph_rdp_conn *c, uint64_t pn)
{
    return &c->rec[pn & (c->nrec - 1)];
}

static void no_longer_in_flight(struct amph_rdp_conn *c, const struct amph_rdp_rec *rec)
{
    c->inflight -= rec->bytes;
    c->inflight_cost -= amph_rdp_queue_cost(rec->bytes);
    c->out_packets--;
}

static void end_record(struct amph_rdp *r, struct amph_rdp_rec *rec)
{
    rec->state = RDP_REC_NONE;
    if (rec->seg)
        amph_rdp_seg_unref(r, rec->seg);

    rec->seg = NULL;
}

struct acked {
    uint64_t bytes, newest_pn;
    bool segment; /* not only pings */
    struct amph_rdp_rec newest;
};

static void one_acked(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t pn, struct acked *a)
{
    struct amph_rdp_rec *rec = rec_of(c, pn);

    if (rec->state == RDP_REC_NONE)
        return;

    if (rec->state == RDP_REC_OUT) {
        no_longer_in_flight(c, rec);
    } else if (c->largest_acked > pn) { /* it counted as lost too early */
        uint64_t late = c->largest_acked - pn + 1;
        if (late > c->reorder)
            c->reorder = late < REORDER_MAX ? (uint32_t)late : REORDER_MAX;
    }

    a->bytes += rec->bytes;
    if (pn >= a->newest_pn) {
        a->newest_pn = pn;
        a->newest = *rec;
    }

    if (rec->seg) {
        a->segment = true;
        amph_rdp_seg_arrived(r, c, rec->seg);
    }

    end_record(r, rec);
}

static void walk_ack(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                     struct acked *a)
{
    uint64_t top = p->ack.largest & ~UINT64_C(63);

    for (unsigned i = 0; i < p->h.ack_words; i++) {
        uint64_t bits;
        uint64_t base = top - 64 * (uint64_t)i;

        memcpy(&bits, p->word + 8 * i, sizeof bits);
        bits = amph_le64(bits);
        if (base + 63 < c->oldest_pn || base > top)
            break;

        if (base < c->oldest_pn)
            bits &= ~UINT64_C(0) << (c->oldest_pn - base);

        for (; bits; bits &= bits - 1) {
            uint64_t pn = base + (unsigned)__builtin_ctzll(bits);
            if (pn < c->next_pn)
                one_acked(r, c, pn, a);
        }
    }
}

static void take_rtt(struct amph_rdp_conn *c, uint64_t rtt)
{
    if (c->cc.round == 0 && c->cc.delivered == 0) {
        c->srtt_ns = rtt;
        c->rttvar_ns = rtt / 2;
        return;
    }

    uint64_t diff = rtt > c->srtt_ns ? rtt - c->srtt_ns : c->srtt_ns - rtt;

    c->rttvar_ns = (3 * c->rttvar_ns + diff) / 4;
    c->srtt_ns = (7 * c->srtt_ns + rtt) / 8;
}

/* Marks packets as lost.  Returns their bytes. */
static uint64_t find_lost(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    uint64_t lost = 0;
    uint64_t patience = c->srtt_ns + c->srtt_ns / 4 + 20 * AMPH_NS_PER_US;

    c->loss_ns = RDP_NEVER;
    if (c->scan_pn < c->oldest_pn)
        c->scan_pn = c->oldest_pn;

    bool first = true;

    for (uint64_t pn = c->scan_pn; pn < c->largest_acked && pn < c->next_pn; pn++) {
        struct amph_rdp_rec *rec = rec_of(c, pn);

        if (rec->state == RDP_REC_OUT &&
            (pn + c->reorder <= c->largest_acked || rec->sent_ns + patience <= now)) {
            rec->state = RDP_REC_LOST;
            no_longer_in_flight(c, rec);
            lost += rec->bytes;
            if (rec->seg && rec->seg->last_pn == pn)
                amph_rdp_seg_lost(c, rec->seg);
        }

        if (rec->state != RDP_REC_OUT) {
            c->scan_pn += first;
            continue;
        }

        first = false;
        if (rec->sent_ns + patience < c->loss_ns)
            c->loss_ns = rec->sent_ns + patience;
    }

    return lost;
}

/* Frees the oldest records, which no acknowledgement can name any more. */
static void advance(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    uint64_t keep = 2 * c->srtt_ns + KEEP_NS;

    while (c->oldest_pn < c->next_pn) {
        struct amph_rdp_rec *rec = rec_of(c, c->oldest_pn);
        bool old = rec->state == RDP_REC_LOST &&
                   (!rec->seg || rec->seg->state == RDP_SEG_DONE || now - rec->sent_ns > keep);

        if (rec->state != RDP_REC_NONE && !old)
            break;

        if (old)
            end_record(r, rec);

        c->oldest_pn++;
    }
}

void amph_rdp_on_ack(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                     uint64_t now)
{
    struct acked a = { .newest_pn = 0 };
    uint64_t rtt = 0;

    if (p->ack.largest >= c->next_pn) {
        amph_count(DROP_MALFORMED);
        return;
    }

    for (unsigned i = 0; i < AMPH_NLANES; i++)
        if (p->ack.limit[i] > c->tx[i].limit)
            c->tx[i].limit = p->ack.limit[i];

    walk_ack(r, c, p, &a);
    if (a.bytes) {
        uint64_t away = (uint64_t)p->ack.delay_us * AMPH_NS_PER_US;
        uint64_t whole = now - a.newest.sent_ns;

        if (a.newest_pn == p->ack.largest) {
            rtt = whole > away ? whole - away : whole;
            rtt = rtt ? rtt : 1;
            take_rtt(c, rtt);
        }

        if (a.newest_pn > c->largest_acked)
            c->largest_acked = a.newest_pn;

        if (a.segment)
            c->pto_count = 0;
    }

    uint64_t lost = find_lost(r, c, now);

    advance(r, c, now);
    if (a.bytes || lost)
        amph_rdp_cc_acked(c, a.bytes ? &a.newest : NULL, a.bytes, lost, rtt, now);
}

/* ---- time-outs ---- */

/* Sends up to two of the oldest segments again, regardless of congestion. */
static void probe(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    unsigned n = 0;

    for (unsigned i = 0; i < RDP_NLANES && n < 2; i++) {
        struct amph_rdp_seg *s = c->tx[(c->pto_count + i) % RDP_NLANES].out;

        if (s) {
            amph_rdp_seg_lost(c, s);
            n++;
        }
    }

    c->probes = n;
    c->pto_count++;
    if (!c->confirmed)
        amph_rdp_send_hello(r, c, now);

    /* A window has not opened or an answer has not arrived.  The interval between pings grows, but is
     * bounded, so that a lost answer does not cost long. */
    if (n == 0) {
        amph_rdp_send_ping(r, c, now);
        c->pto_count = c->pto_count < PING_BACKOFF ? c->pto_count : PING_BACKOFF;
    }
}

void amph_rdp_on_timer(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    bool passed = now >= c->loss_ns && !amph_rdp_postpones(r, c, c->loss_ns, now);
    uint64_t lost = passed ? find_lost(r, c, now) : 0;

    advance(r, c, now);
    if (lost)
        amph_rdp_cc_acked(c, NULL, 0, lost, 0, now);

    uint64_t send = c->send_ns;

    amph_rdp_rearm(r, c, now);

    /* The deadline was neither pacing nor loss, so it is the time-out: nothing was received for too
     * long. */
    if (c->timer_ns <= now && now < send && now < c->loss_ns &&
        !amph_rdp_postpones(r, c, c->timer_ns, now))
        probe(r, c, now);

    amph_rdp_pump(r, c, now);
}
