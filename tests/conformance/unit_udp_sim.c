/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp conduit's protocol on a simulated network: each message once and in order, whatever the
 * network does; the use of long links; millions of messages through heavy loss.  Layer: tests.
 * Thread rule: one thread.
 *
 *   unit_udp_sim [--tap=FILE] [--seeds N] [--first SEED] [--messages N] [--flood N] [--seconds N]
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/clmul.h"
#include "tests/fuzz/fuzz_udp.h"
#include "tests/conformance/udp_sim.h"

#define LIMIT_NS (3000 * AMPH_NS_PER_S) /* of virtual time */
#define MEMORY (4u << 20)
#define STILL_NS (10 * AMPH_NS_PER_S) /* of virtual time, without a message */

static FILE *tap;
static unsigned ntests;
static bool bad;

static void report(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void report(bool ok, const char *fmt, ...)
{
    va_list ap;

    fprintf(tap, "%s %u - ", ok ? "ok" : "not ok", ++ntests);
    va_start(ap, fmt);
    vfprintf(tap, fmt, ap);
    va_end(ap);
    fprintf(tap, "\n");
    fflush(tap);
    bad = bad || !ok;
}

static uint64_t the_seed;
#define MUST(cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "seed %llu: %s: ", (unsigned long long)the_seed, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, "\n"); \
            fprintf(tap, "not ok %u - seed %llu: %s\n", ++ntests, (unsigned long long)the_seed, \
                    #cond); \
            exit(1); \
        } \
    } while (0)

/* ---- traffic: numbered messages, puts and gets ---- */

#define SEGMENT (1u << 18)
#define RANDOM_NODES 6 /* at most, in a random network */

struct traffic {
    uint64_t sent[RANDOM_NODES][AMPH_NLANES], got[RANDOM_NODES][AMPH_NLANES];
    uint64_t target[RANDOM_NODES][AMPH_NLANES];
    bool echo; /* requests are answered */
    uint64_t owed[RANDOM_NODES];
    uint8_t *segment, *mirror; /* memory, and what must be in it */
    struct amph_mem_region *region;
    uint32_t most;
    uint64_t after_put[RANDOM_NODES];
    uint64_t ops_under_way;
};

static uint32_t size_of(uint64_t seq, uint32_t lane, uint32_t most)
{
    uint64_t z = (seq * 2 + lane) * UINT64_C(0x9e3779b97f4a7c15);

    z ^= z >> 29;
    return (uint32_t)(z % 7 ? z / 7 % 100 : z / 7 % (most + 1));
}

static uint8_t byte_of(uint64_t seq, uint32_t i)
{
    return (uint8_t)(seq * 13 + i * 7 + (i >> 8));
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct sim_node *node = up;
    struct traffic *t = node->user;
    uint64_t seq = t->got[peer][lane]++;

    MUST(am->nargs == 2 && (uint32_t)am->args[0] == (uint32_t)seq,
         "from %u to %u lane %u: %u instead of %u", peer, node->index, (unsigned)lane,
         am->nargs ? (unsigned)am->args[0] : 0, (unsigned)seq);

    uint32_t size = size_of(seq, lane, t->most);

    MUST(am->nbytes == size && am->handler == lane + 1, "%u bytes instead of %u", am->nbytes, size);

    const uint8_t *b = am->payload;

    for (uint32_t i = 0; i < size; i += size < 64 ? 1 : 61)
        MUST(b[i] == byte_of(seq, i), "byte %u of message %u", i, (unsigned)seq);

    if (t->echo && lane == AMPH_LANE_REQUEST)
        t->owed[peer]++;
}

static void on_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    struct sim_node *node = up;

    node->failures++;
    MUST(false, "node %u lost %u: %s", node->index, peer, why);
}

static const struct amph_upcalls upcalls = { on_am, on_error };

static bool send_one(struct sim_node *node, uint32_t peer, unsigned lane)
{
    static uint8_t payload[RDP_MAX_MEDIUM];
    struct traffic *t = node->user;
    uint64_t seq = t->sent[peer][lane];

    /* amph_rdp_am_send would answer AMPH_AGAIN: the payload need not be made. */
    if (node->rdp->conn[peer]->tx[lane].queued_bytes >= RDP_QUEUE_BYTES)
        return false;

    int32_t args[2] = { (int32_t)seq, (int32_t)(seq >> 32) };
    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = (uint8_t)(lane + 1),
                          .nargs = 2,
                          .args = args,
                          .nbytes = size_of(seq, lane, t->most),
                          .payload = payload };

    for (uint32_t i = 0; i < am.nbytes; i++)
        payload[i] = byte_of(seq, i);

    enum amph_status st = amph_rdp_am_send(node->rdp, peer, lane, &am, NULL);

    MUST(st == AMPH_OK || st == AMPH_AGAIN, "am_send: %s", amph_status_text(st));
    t->sent[peer][lane] += st == AMPH_OK;
    return st == AMPH_OK;
}

/* Sends what the target numbers and the echoes ask for, as far as there is room. */
static bool offer(struct sim_node *node)
{
    struct traffic *t = node->user;
    bool all = true;

    for (uint32_t peer = 0; peer < node->sim->n; peer++) {
        while (t->owed[peer] && send_one(node, peer, AMPH_LANE_REPLY))
            t->owed[peer]--;

        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            while (t->sent[peer][lane] < t->target[peer][lane] &&
                   !(t->echo && lane == AMPH_LANE_REPLY) && send_one(node, peer, lane))
                continue;

        all = all && !t->owed[peer] && t->sent[peer][0] >= t->target[peer][0];
    }

    return all;
}

static bool all_there(const struct sim *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        const struct traffic *t = s->node[i].user;

        if (t->ops_under_way)
            return false;

        for (unsigned j = 0; j < s->n; j++)
            for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
                const struct traffic *from = s->node[j].user;
                if (t->got[j][lane] < from->target[i][lane])
                    return false;
            }
    }

    return true;
}

/* ---- puts and gets ---- */

struct transfer {
    struct amph_op op;
    struct traffic *t, *to;
    uint32_t at, len;
    uint8_t *mine;
    bool put;
};

static void transfer_done(struct amph_op *op, enum amph_status st)
{
    struct transfer *x = AMPH_CONTAINER_OF(op, struct transfer, op);

    MUST(st == AMPH_OK, "transfer: %s", amph_status_text(st));
    MUST(memcmp(x->mine, (x->put ? x->to->segment : x->to->mirror) + x->at, x->len) == 0,
         "%s of %u at %u", x->put ? "put" : "get", x->len, x->at);
    x->t->ops_under_way--;
    free(x->mine);
    free(x);
}

/* Each node writes to a part of its own of every segment and reads the last part, which nobody
 * writes. */
static void transfer(struct sim_node *node, uint32_t peer, bool put)
{
    struct sim *s = node->sim;
    struct traffic *t = node->user;
    struct traffic *to = s->node[peer].user;
    uint32_t part = SEGMENT / (RANDOM_NODES + 1);

    put = put && t->after_put[peer] < 15;

    struct transfer *x = calloc(1, sizeof *x);

    x->op.done = transfer_done;
    x->t = t;
    x->to = to;
    x->put = put;
    x->len = 1 + (uint32_t)(sim_random(s) % (part / 16));
    x->at = (put ? node->index : RANDOM_NODES) * part;

    /* Puts go to places of their own, so that none is overwritten before it has been looked at. */
    x->at += put ? (uint32_t)t->after_put[peer] * (part / 16)
                 : (uint32_t)(sim_random(s) % (part - x->len));
    x->mine = malloc(x->len);
    for (uint32_t i = 0; i < x->len; i++)
        x->mine[i] = put ? (uint8_t)sim_random(s) : 0;

    enum amph_status st =
        put ? amph_rdp_put(node->rdp, peer, to->region->key, x->at, x->mine, x->len, NULL, &x->op)
            : amph_rdp_get(node->rdp, peer, to->region->key, x->at, x->mine, x->len, &x->op);

    MUST(st == AMPH_OK || st == AMPH_AGAIN, "transfer: %s", amph_status_text(st));
    if (st == AMPH_OK) {
        t->ops_under_way++;
        t->after_put[peer] += put;
    } else {
        free(x->mine);
        free(x);
    }
}

static void open_traffic(struct sim *s, uint32_t most)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct traffic *t = calloc(1, sizeof *t);

        s->node[i].user = t;
        t->most = most;
        t->segment = malloc(SEGMENT);
        t->mirror = malloc(SEGMENT);
        for (uint32_t k = 0; k < SEGMENT; k++)
            t->segment[k] = t->mirror[k] = (uint8_t)(k * 31 + i + (k >> 9));

        MUST(amph_rdp_mem_reg(s->node[i].rdp, t->segment, SEGMENT, &t->region) == AMPH_OK,
             "mem_reg");
    }
}

static void close_traffic(struct sim *s)
{
    struct traffic *t[RANDOM_NODES];
    unsigned n = s->n;

    for (unsigned i = 0; i < n; i++) {
        t[i] = s->node[i].user;
        amph_rdp_mem_dereg(s->node[i].rdp, t[i]->region);
        MUST(s->node[i].rdp->held_bytes == 0, "%llu bytes are still held",
             (unsigned long long)s->node[i].rdp->held_bytes);
    }

    sim_close(s);
    for (unsigned i = 0; i < n; i++) {
        free(t[i]->segment);
        free(t[i]->mirror);
        free(t[i]);
    }
}

/* ---- any network ---- */

static uint32_t up_to(struct sim *s, uint32_t most)
{
    return (uint32_t)(sim_random(s) % (most + 1));
}

static uint64_t total_packets, total_lost, total_placed;

/* One event, after which all accounts must be right.  false: nothing will ever happen again. */
static bool step(struct sim *s)
{
    bool alive = sim_step(s);
    const char *wrong = sim_wrong_account(s);

    MUST(!wrong, "after %llu ns, %llu packets: %s", (unsigned long long)s->now,
         (unsigned long long)s->packets, wrong);
    return alive;
}

/* The budgets of receivers: am/'s own, smaller ones, and none. */
static unsigned any_budget(uint64_t seed)
{
    static const unsigned budgets[] = { 0, 1, 5, 32, 32, 100 };
    struct sim dice = { .random = seed * 99991 };

    return budgets[sim_random(&dice) % AMPH_COUNTOF(budgets)];
}

/* Nodes without MACs, nodes of machines with carry-less multiplication, and mixtures with others. */
static uint32_t any_auth(uint64_t seed, unsigned node, bool damage)
{
    if (seed % 4 == 0 && !damage)
        return RDP_AUTH_NONE;

    bool fast = amph_clmul_works() && (seed % 4 == 1 || (seed % 4 == 2 && node % 2));

    return RDP_AUTH_NH | (fast ? RDP_AUTH_CLMUL : 0);
}

static void one_seed(uint64_t seed, unsigned budget)
{
    static const uint32_t datagrams[] = { 512, 1472, 1472, 8952, 65504 };
    struct sim dice = { .random = seed * 77777 };
    struct sim_link link = { .delay_ns = 1000 + sim_random(&dice) %
                                                    (up_to(&dice, 3) ? 100000 : 20000000) };

    link.jitter_ns = up_to(&dice, 2) ? sim_random(&dice) % (2 * link.delay_ns) : 0;
    if (up_to(&dice, 3)) {
        unsigned most = up_to(&dice, 3) ? 500 : 4000;

        link.loss = up_to(&dice, most);
    }

    link.twice = up_to(&dice, 1) ? up_to(&dice, 2000) : 0;
    link.damage = up_to(&dice, 2) ? 0 : up_to(&dice, 1000);
    link.datagram = datagrams[up_to(&dice, 4)];
    link.rate = up_to(&dice, 1) ? 0 : 1e6 + (double)(sim_random(&dice) % 1000000000);
    link.queue_bytes = 4 * link.datagram + up_to(&dice, 1 << 20);
    the_seed = seed;

    struct sim *s = sim_open(1 + up_to(&dice, 3), &link, seed, &upcalls, MEMORY);

    s->napping = up_to(&dice, 1);
    s->budget = budget;
    for (unsigned i = 0; i < s->n; i++)
        s->node[i].rdp->cfg.auth = any_auth(seed, i, link.damage > 0);

    open_traffic(s, up_to(&dice, 3) ? 2000 : RDP_MAX_MEDIUM);

    for (unsigned i = 0; i < s->n; i++) {
        struct traffic *t = s->node[i].user;
        t->echo = up_to(&dice, 1) == 0;
    }

    for (unsigned i = 0; i < s->n; i++)
        for (unsigned j = 0; j < s->n; j++) {
            struct traffic *t = s->node[i].user;
            struct traffic *to = s->node[j].user;

            t->target[j][0] = up_to(&dice, 60);
            if (to->echo) /* what it answers */
                to->target[i][1] = t->target[j][0];
            else
                to->target[i][1] = up_to(&dice, 60);
        }

    unsigned transfers = up_to(&dice, 40);
    uint64_t steps = 0;

    while (!all_there(s) || transfers) {
        for (unsigned i = 0; i < s->n; i++)
            offer(&s->node[i]);

        if (transfers && up_to(&dice, 3) == 0) {
            transfers--;
            transfer(&s->node[up_to(&dice, s->n - 1)], up_to(&dice, s->n - 1), up_to(&dice, 1));
        }

        bool alive = step(s);

        MUST(alive || transfers || all_there(s),
             "nothing will ever happen again, and not all has come");
        MUST(s->now < LIMIT_NS && ++steps < 20000000,
             "not all has come in %llu s of virtual time, %llu steps",
             (unsigned long long)(s->now / AMPH_NS_PER_S), (unsigned long long)steps);
    }

    MUST(s->most_held <= MEMORY + 2 * RDP_MAX_MEDIUM, "%llu bytes waited in a node",
         (unsigned long long)s->most_held);
    MUST(link.damage || !s->refused, "%llu packets received in place were refused",
         (unsigned long long)s->refused);
    total_packets += s->packets;
    total_lost += s->lost;
    total_placed += s->placed;
    close_traffic(s);
}

/* Seeds that have shown something once.  5011178: the end of a stream was lost, and the
 * acknowledgement of the peer's pings put the time-out off for ever. */
static const uint64_t remembered[] = { 5011178 };

static void many_seeds(uint64_t first, unsigned count)
{
    uint64_t start = amph_now_ns();

    for (unsigned i = 0; i < AMPH_COUNTOF(remembered); i++)
        one_seed(remembered[i], 0);

    for (unsigned i = 0; i < count; i++)
        one_seed(first + i, any_budget(first + i));

    report(true,
           "%u seeds from %llu: %llu packets, %llu of them lost, each message once and in order "
           "(%llu ms)",
           count, (unsigned long long)first, (unsigned long long)total_packets,
           (unsigned long long)total_lost,
           (unsigned long long)((amph_now_ns() - start) / AMPH_NS_PER_MS));
}

/* ---- MACs ---- */

static void known_codes(void)
{
    /* the first words of the test vectors of SipHash's authors: key 00 01 .. 0f, text 00 01 02 .. */
    static const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
    static const uint64_t code[] = { UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x93f5f5799a932462),
                                     UINT64_C(0x3f2acc7f57c29bdb) };
    unsigned right = 0;

    for (unsigned i = 0; i < AMPH_COUNTOF(code); i++)
        right += amph_rdp_prf(key, key, i) == code[i];

    report(right == AMPH_COUNTOF(code), "SipHash-2-4 of %u known texts", right);
}

/* The sum that amph_clmul_sum computes, bit by bit.  It takes words as they lie in memory, also with
 * AMPHORA_TEST_SWAP: only little-endian processors have its instructions. */
static void slow_sum(const uint64_t *key, const uint64_t *word, unsigned n, uint64_t sum[2])
{
    sum[0] = sum[1] = 0;
    for (unsigned i = 0; i < n; i += 2) {
        uint64_t a = word[i] ^ key[i];
        uint64_t b = word[i + 1] ^ key[i + 1];

        for (unsigned bit = 0; bit < 64; bit++)
            if (b >> bit & 1) {
                sum[0] ^= a << bit;
                sum[1] ^= bit ? a >> (64 - bit) : 0;
            }
    }
}

static void products(void)
{
    struct sim dice = { .random = 4711 };
    uint64_t key[64], word[64], fast[2], slow[2];
    unsigned wrong = 0;

    for (unsigned i = 0; i < 64; i++) {
        key[i] = sim_random(&dice);
        word[i] = sim_random(&dice);
    }

    for (unsigned groups = 0; groups <= 16 && amph_clmul_works(); groups++) {
        amph_clmul_sum(key, word, groups, fast);
        slow_sum(key, word, 4 * groups, slow);
        wrong += fast[0] != slow[0] || fast[1] != slow[1];
    }

    report(!wrong, "sums of carry-less products%s",
           amph_clmul_works() ? "" : " # SKIP this processor has no instructions for them");
}

static unsigned refusals;

static void no_message(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    MUST(false, "a message without a MAC arrived");
}

static void on_refusal(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    refusals += st == AMPH_ERR_DENIED && strstr(why, "AMPHORA_UDP_MAC") != NULL;
}

/* One of two nodes has its MACs off: both must say so, and nothing is delivered. */
static void disagreement(void)
{
    static const struct amph_upcalls loud = { no_message, on_refusal };
    const struct sim_link link = { .delay_ns = 50000, .datagram = 1472 };
    const struct amph_am am = { .kind = AMPH_AM_SHORT };

    for (unsigned from = 0; from < 2; from++) {
        struct sim *s = sim_open(2, &link, 1 + from, &loud, MEMORY);

        s->node[0].rdp->cfg.auth = RDP_AUTH_NONE;
        amph_rdp_am_send(s->node[from].rdp, 1 - from, AMPH_LANE_REQUEST, &am, NULL);
        for (unsigned i = 0; i < 100 && sim_step(s); i++)
            continue;

        sim_close(s);
    }

    report(refusals == 4, "peers of which one sends no MACs refuse each other (%u of 4)", refusals);
}

/* ---- long links ---- */

struct stream {
    struct amph_op op;
    uint64_t done;
    unsigned under_way;
    bool over; /* what is left is given up */
};

static void stream_done(struct amph_op *op, enum amph_status st)
{
    struct stream *m = AMPH_CONTAINER_OF(op, struct stream, op);

    MUST(st == AMPH_OK || m->over, "put: %s", amph_status_text(st));
    m->under_way--;
    m->done++;
}

/* Puts of 1 MiB, 32 MiB under way, for some seconds of virtual time; gives the share of the link
 * that the data had. */
static double share(uint64_t rtt_ns, uint32_t loss, uint64_t seconds, uint64_t *lost_p)
{
    enum {
        EACH = 1 << 20,
        DEEP = 32
    };

    static uint8_t from[EACH], to[EACH];
    struct sim_link link = { .delay_ns = rtt_ns / 2,
                             .rate = 125e6,
                             .queue_bytes = 512 << 10,
                             .loss = loss,
                             .datagram = 1472 };

    the_seed = rtt_ns + loss;

    struct sim *s = sim_open(2, &link, the_seed, &upcalls, 64u << 20);
    struct stream m = { .op = { stream_done } };
    struct amph_mem_region *region;

    MUST(amph_rdp_mem_reg(s->node[1].rdp, to, EACH, &region) == AMPH_OK, "mem_reg");

    uint64_t start = s->now;

    while (s->now - start < seconds * AMPH_NS_PER_S) {
        while (m.under_way < DEEP &&
               amph_rdp_put(s->node[0].rdp, 1, region->key, 0, from, EACH, NULL, &m.op) == AMPH_OK)
            m.under_way++;

        MUST(sim_step(s), "the stream has come to a stop");
    }

    double bytes = (double)m.done * EACH;
    double took = (double)(s->now - start) / 1e9;

    *lost_p = s->lost;
    m.over = true;
    amph_rdp_mem_dereg(s->node[1].rdp, region);
    sim_close(s);

    return bytes / took / link.rate;
}

static void long_links(uint64_t seconds)
{
    static const uint64_t rtts[] = { 1, 10, 50 };

    for (unsigned i = 0; i < AMPH_COUNTOF(rtts); i++)
        for (uint32_t loss = 0; loss <= 10; loss += 10) {
            uint64_t lost;

            /* The first half second of a long link is spent on finding out how fast it is. */
            double got = share(rtts[i] * AMPH_NS_PER_MS, loss, rtts[i] > 10 ? 4 * seconds : seconds,
                               &lost);

            report(got >= 0.8,
                   "1 Gbit/s, %u ms round trip, %.1f %% loss: %.2f of the link (%llu packets lost)",
                   (unsigned)rtts[i], loss / 100.0, got, (unsigned long long)lost);
        }
}

/* ---- puts that the target refuses ---- */

static void refused_done(struct amph_op *op, enum amph_status st)
{
    struct stream *m = AMPH_CONTAINER_OF(op, struct stream, op);

    MUST(st == AMPH_ERR_RANGE, "put to memory that does not exist: %s", amph_status_text(st));
    m->under_way--;
    m->done++;
}

/* The refusal comes while segments of the put are queued, in flight and not yet cut. */
static void refused_puts(void)
{
    enum {
        EACH = 1 << 20,
        COUNT = 50
    };

    static uint8_t from[EACH];
    struct sim_link link = {
        .delay_ns = 50000, .rate = 125e6, .queue_bytes = 512 << 10, .datagram = 1472
    };
    struct stream m = { .op = { refused_done } };

    the_seed = 815;

    struct sim *s = sim_open(2, &link, the_seed, &upcalls, MEMORY);

    while (m.done < COUNT) {
        while (m.done + m.under_way < COUNT && m.under_way < 4) {
            if (amph_rdp_put(s->node[0].rdp, 1, 12345, 0, from, EACH, NULL, &m.op) != AMPH_OK)
                break;

            m.under_way++;
        }

        MUST(step(s), "nothing will ever happen again");
    }

    report(true, "%u puts to memory that does not exist are refused, all accounts are right",
           (unsigned)COUNT);
    sim_close(s);
}

/* ---- processes that are stopped ---- */

/* Two nodes are stopped in the middle of their traffic for six times the time-out, and continued up to
 * half a time-out apart: what was in flight then is no sign that the other is dead. */
static void one_pause(unsigned steps)
{
    static const uint64_t timeout_ns = 10 * AMPH_NS_PER_S;
    struct sim_link link = {
        .delay_ns = 50000, .rate = 125e6, .queue_bytes = 512 << 10, .datagram = 1472
    };

    the_seed = steps;

    struct sim *s = sim_open(2, &link, the_seed, &upcalls, MEMORY);

    open_traffic(s, 100);
    for (unsigned i = 0; i < s->n; i++) {
        struct traffic *t = s->node[i].user;

        t->target[1 - i][AMPH_LANE_REQUEST] = 200;
        s->node[i].rdp->cfg.timeout_ns = timeout_ns;
    }

    for (unsigned k = 0; !all_there(s); k++) {
        for (unsigned i = 0; i < s->n; i++)
            if (s->node[i].asleep_until <= s->now)
                offer(&s->node[i]);

        if (k == steps)
            for (unsigned i = 0; i < s->n; i++)
                s->node[i].asleep_until = s->now + 6 * timeout_ns +
                                          sim_random(s) % (timeout_ns / 2);

        MUST(step(s), "nothing will ever happen again");
    }

    close_traffic(s);
}

static void pauses(void)
{
    for (unsigned steps = 0; steps < 60; steps++)
        one_pause(steps);

    report(true, "two processes that were stopped for six times the time-out go on, at %u moments",
           60u);
}

/* ---- many messages through heavy loss ---- */

static void heavy_loss(uint64_t messages)
{
    struct sim_link link = { .delay_ns = 50000,
                             .jitter_ns = 60000,
                             .loss = 2000,
                             .twice = 500,
                             .datagram = 1472,
                             .rate = 1.25e9,
                             .queue_bytes = 4 << 20 };

    the_seed = 4711;

    uint64_t start = amph_now_ns();
    struct sim *s = sim_open(2, &link, the_seed, &upcalls, 16u << 20);

    open_traffic(s, 100);

    struct traffic *t = s->node[0].user;

    t->target[1][AMPH_LANE_REQUEST] = messages;
    while (!all_there(s)) {
        offer(&s->node[0]);
        MUST(step(s), "nothing will ever happen again");
    }

    report(true,
           "%llu messages at 20 %% loss with repetition and reordering, each once and in order: "
           "%llu packets, %llu lost (%llu ms)",
           (unsigned long long)messages, (unsigned long long)s->packets,
           (unsigned long long)s->lost,
           (unsigned long long)((amph_now_ns() - start) / AMPH_NS_PER_MS));
    close_traffic(s);
}

/* ---- floods that a receiver takes in turns ---- */

/* Both nodes flood each other with small messages and now and then one of up to `most` bytes.  The
 * receiver's budget ends inside segments all the time. */
static void flood(uint64_t messages, uint32_t most, uint32_t datagram, unsigned budget)
{
    struct sim_link link = { .delay_ns = 5000, .datagram = datagram };
    uint64_t start = amph_now_ns();
    uint64_t heard_ns = 0;
    uint64_t heard = 0;

    the_seed = datagram + budget;

    struct sim *s = sim_open(2, &link, the_seed, &upcalls, 16u << 20);

    s->budget = budget;
    open_traffic(s, most);

    for (unsigned i = 0; i < s->n; i++) {
        struct traffic *t = s->node[i].user;
        t->target[1 - i][AMPH_LANE_REQUEST] = messages / 2;
    }

    while (!all_there(s)) {
        uint64_t got = 0;

        for (unsigned i = 0; i < s->n; i++) {
            const struct traffic *t = s->node[i].user;

            offer(&s->node[i]);
            got += t->got[1 - i][AMPH_LANE_REQUEST];
        }

        MUST(step(s), "nothing will ever happen again");
        if (got != heard)
            heard_ns = s->now;

        heard = got;
        MUST(s->now - heard_ns < STILL_NS, "the flood stands still after %llu messages",
             (unsigned long long)got);
    }

    report(
        true,
        "a flood of %llu messages in packets of %u bytes, %u in a turn of the receiver (%llu ms)",
        (unsigned long long)messages, datagram, budget,
        (unsigned long long)((amph_now_ns() - start) / AMPH_NS_PER_MS));
    close_traffic(s);
}

static void floods(uint64_t messages)
{
    flood(messages, 8, 65504, 32);
    flood(messages / 8, 1024, 65504, 32);
    flood(messages / 8, 100, 1472, 32);
    flood(messages / 64, RDP_MAX_MEDIUM, 8952, 7);
    flood(messages / 8, 8, 512, 1);
}

int main(int argc, char **argv)
{
    unsigned seeds = 2000;
    uint64_t first = 1;
    uint64_t messages = 2000000;
    uint64_t flooded = 2000000;
    uint64_t seconds = 2;

    tap = stdout;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--tap=", 6) == 0)
            tap = fopen(argv[i] + 6, "w");
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--messages") == 0 && i + 1 < argc)
            messages = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--flood") == 0 && i + 1 < argc)
            flooded = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtoull(argv[++i], NULL, 10);
    }

    if (!tap) {
        perror("unit_udp_sim: the file of --tap");
        return 1;
    }

    report(fuzz_udp_made_up(first, 200000) > 1000,
           "200000 packets, right and nearly right, from somebody who knows the keys");
    many_seeds(first, seeds);
    report(total_placed > seeds, "%llu of these packets were received in place",
           (unsigned long long)total_placed);
    known_codes();
    products();
    disagreement();
    refused_puts();
    pauses();
    if (seconds)
        long_links(seconds);

    if (messages)
        heavy_loss(messages);

    if (flooded)
        floods(flooded);

    fprintf(tap, "1..%u\n", ntests);
    if (tap != stdout)
        fclose(tap);

    return bad;
}
