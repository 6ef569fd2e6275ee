/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the udp conduit's protocol: everything that a peer, or somebody else, can put into
 * a packet.  libFuzzer: compile with clang -fsanitize=fuzzer; tests/conformance/unit_udp_sim.c
 * drives the same with packets of a fixed sequence.
 *
 * The first byte of an input says what is done with the rest: 0, given to the protocol as it is;
 * else first given the code that the peer would give it, so that what lies behind the code is
 * reached.  Bit 5: its bulk is received in place if it has a place.
 */
#include "tests/fuzz/fuzz_udp.h"

#include <stdlib.h>
#include <string.h>

#include "conduits/udp/rdp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define NONCE 77u
static struct amph_rdp *r;
static uint64_t now_ns = AMPH_NS_PER_S;
static uint8_t memory[4096];
static struct amph_mem_region *region;
static unsigned delivered, inputs;
static struct amph_op idle_op;

/* The datagram that comes next. */
static struct fuzz_next {
    const uint8_t *at;
    size_t len_bytes;
} next;

static uint64_t virtual_now(void *ctx)
{
    return now_ns += 1000;
}

static unsigned take_all(void *ctx, const struct amph_port_out *v, unsigned n)
{
    static volatile uint8_t sink;

    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < v[i].nparts; k++)
            for (size_t b = 0; b < v[i].part[k].len_bytes; b += 64)
                sink ^= ((const uint8_t *)v[i].part[k].at)[b];

    return n;
}

static size_t peek(void *ctx, void *head, size_t room)
{
    memcpy(head, next.at, next.len_bytes < room ? next.len_bytes : room);
    return next.len_bytes;
}

static bool take(void *ctx, const struct amph_port_in_parts *parts)
{
    if (parts->head_len + parts->bulk_len + parts->pad_len != next.len_bytes)
        abort();

    memcpy(parts->head, next.at, parts->head_len);
    memcpy(parts->bulk, next.at + parts->head_len, parts->bulk_len);
    return true;
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    static volatile unsigned sum;
    const uint8_t *b = am->payload;

    for (unsigned i = 0; i < am->nargs; i++)
        sum += (unsigned)am->args[i];

    for (uint32_t i = 0; b && i < am->nbytes; i++)
        sum += b[i];

    delivered++;
    if (delivered % 64 == 0)
        amph_rdp_am_send(r, peer, lane, &(struct amph_am){ .kind = AMPH_AM_SHORT }, NULL);
}

static void on_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
}

static void op_done(struct amph_op *op, enum amph_status st)
{
}

/* Peer 0: acquainted, with transfers under way.  Peer 1: not yet. */
static void start(void)
{
    static const struct amph_upcalls upcalls = { on_am, on_error };
    static uint8_t buffer[2048];
    const struct amph_rdp_config cfg = { .env = { NULL, virtual_now, take_all, peek, take },
                                         .place_min = 1,
                                         .auth = RDP_AUTH_NH,
                                         .upcalls = &upcalls,
                                         .max_peers = 2,
                                         .memory = 1 << 20,
                                         .timeout_ns = 1000 * AMPH_NS_PER_S };

    if (amph_rdp_open(&cfg, &r) != AMPH_OK || amph_rdp_add_peer(r, 0, 0, 1, 2, 1472) != AMPH_OK ||
        amph_rdp_add_peer(r, 1, 0, 3, 4, 1472) != AMPH_OK ||
        amph_rdp_mem_reg(r, memory, sizeof memory, &region) != AMPH_OK)
        abort();

    region->key = 5;

    struct amph_rdp_conn *c = r->conn[0];

    c->peer_nonce = NONCE;
    c->state = RDP_CONN_UP;
    amph_rdp_keys_session(c->cookie_out, c->nonce, NONCE, &c->out);
    amph_rdp_keys_session(c->cookie_in, NONCE, c->nonce, &c->in);
    r->conn[1]->nonce = NONCE;
    idle_op.done = op_done;

    for (unsigned i = 0; i < 4; i++) {
        amph_rdp_am_send(
            r, 0, i % 2,
            &(struct amph_am){ .kind = AMPH_AM_MEDIUM, .nbytes = 2000, .payload = buffer },
            &idle_op);
        amph_rdp_put(r, 0, 5, 0, buffer, sizeof buffer, NULL, &idle_op);
        amph_rdp_get(r, 0, 5, 0, buffer, sizeof buffer, &idle_op);
    }

    for (unsigned i = 0; i < 12; i++) { /* that travel together */
        amph_rdp_put(r, 0, 5, 0, buffer, 8 + i, NULL, &idle_op);
        amph_rdp_get(r, 0, 5, 0, buffer, 8 + i, &idle_op);
    }
}

/* Gives a packet the code that its peer would give it. */
static void seal(uint8_t *packet, size_t len)
{
    struct amph_rdp_packet p;
    struct amph_mac_key key;

    if (!amph_rdp_parse(packet, len, &p) || p.h.src > 1 || p.h.split > RDP_BULK_BYTES)
        return;

    struct amph_rdp_conn *c = r->conn[p.h.src];
    struct amph_mac_part body = { p.body, p.h.split };
    bool hello = p.kind == RDP_HELLO;

    if (hello)
        amph_rdp_keys_hello(c->cookie_in, &key);
    else if (!c->peer_nonce || !amph_rdp_keys_want_hash(&c->in, true))
        return;

    if (hello && p.h.split < p.h.body_len)
        return;

    uint64_t bulk = hello ? 0 : amph_rdp_bulk_mac(&c->in, p.bulk, p.bulk_len);

    bulk = amph_le64(bulk);
    memcpy(packet + offsetof(struct amph_rdp_hdr, bulk_mac), &bulk, sizeof bulk);

    uint64_t code = hello ? amph_rdp_hello_mac(&key, packet, p.head_len, &body)
                          : amph_rdp_head_mac(&c->in, packet, p.head_len, &body, 1);

    code = amph_le64(code);
    memcpy(packet, &code, sizeof code);
}

unsigned fuzz_udp_feed(const uint8_t *bytes, size_t len)
{
    if (len < 1 || len > RDP_DATAGRAM_MAX)
        return 0;

    if (r && ++inputs % 512 == 0) {
        amph_rdp_mem_dereg(r, region);
        amph_rdp_close(r);
        r = NULL;
    }

    if (!r)
        start();

    unsigned before = delivered;
    uint8_t how = bytes[0];

    /* a sanitizer sees each byte too many, to the next eight */
    uint8_t *packet = aligned_alloc(8, (len - 1 + 8) & ~(size_t)7);

    memcpy(packet, bytes + 1, len - 1);
    if (how)
        seal(packet, len - 1);

    next = (struct fuzz_next){ packet, len - 1 };

    unsigned lanes = how & 4 ? 2 : 3;
    unsigned budget = how & 8 ? 1 : 64;
    unsigned n = 0;

    if (!(how & 32) || amph_rdp_input_placed(r, lanes, budget, &n) != RDP_NEXT_HANDLED)
        amph_rdp_input(r, packet, len - 1, lanes, budget);

    if (how & 16) {
        now_ns += (uint64_t)how << 20;
        amph_rdp_progress(r, 3, 64);
    }

    amph_rdp_after_input(r);
    free(packet);
    return delivered - before;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_udp_feed(bytes, len);
    return 0;
}

/* ---- packets of a fixed sequence ---- */

static uint64_t dice(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 29);
}

/* A unit of an RMA lane that is nearly right; gives its length. */
static size_t make_unit(uint64_t *s, uint8_t *to)
{
    struct amph_rdp_rma m = { .code = (uint8_t)(dice(s) % 7),
                              .id = dice(s) % 40,
                              .key = dice(s) % 4 ? 5 : 6,
                              .offset = dice(s) % 5000,
                              .len_bytes = (uint32_t)(dice(s) % 200),
                              .total = dice(s) % 4 ? dice(s) % 100 : dice(s) % 5000 };
    bool data = m.code == RDP_RMA_PUT || m.code == RDP_RMA_DATA || m.code == RDP_RMA_VOID;
    size_t n = amph_rdp_put_rma(to, &m);

    return n + (data ? amph_rdp_pad8(m.len_bytes) : 0);
}

/* A body that is nearly right for its lane; gives its length. */
static size_t make_body(uint64_t *s, unsigned lane, uint8_t *to)
{
    if (lane >= RDP_PUT) {
        const unsigned units = dice(s) % 2 ? 1 : 1 + (unsigned)(dice(s) % 8);
        size_t n = 0;

        for (unsigned i = 0; i < units; i++)
            n += make_unit(s, to + n);

        return dice(s) % 8 ? n : 8 * (dice(s) % 40);
    }

    size_t n = 0;

    for (unsigned i = 0; i <= dice(s) % 3; i++) {
        int32_t args[AMPH_AM_MAX_ARGS] = { 1, 2, 3 };
        struct amph_am am = { .kind = (uint8_t)(dice(s) % 6),
                              .nargs = (uint8_t)(dice(s) % 18),
                              .args = args,
                              .nbytes = (uint32_t)(dice(s) % 16 ? dice(s) % 100
                                                                : dice(s) % 100000) };
        uint8_t wrong = am.nargs;

        am.nargs = am.nargs > AMPH_AM_MAX_ARGS ? AMPH_AM_MAX_ARGS : am.nargs;

        size_t head = amph_rdp_put_msg(to + n, &am);

        to[n + offsetof(struct amph_rdp_msg, nargs)] = wrong;
        n += head + (am.nbytes < 100 ? amph_rdp_pad8(am.nbytes) : 96);
    }

    return n;
}

static size_t make_packet(uint64_t *s, uint8_t *to)
{
    static uint64_t pn;
    uint8_t body[2560];

    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)dice(s);

    struct amph_rdp_hdr h = {
        .src = dice(s) % 16 == 0,
        .type = (uint8_t)(dice(s) % 16 ? RDP_DATA : dice(s) % 4) | RDP_VERSION << 4,
        .flags = (uint8_t)(dice(s) % 4 ? RDP_F_SEG | (dice(s) & (RDP_F_ACK | RDP_F_NOW)) : dice(s)),
        .ack_words = (uint8_t)(dice(s) % 4),
        .lane = (uint8_t)(dice(s) % (RDP_NLANES + dice(s) % 8 / 7)),
        .pn = dice(s) % 8 ? ++pn : dice(s) >> dice(s) % 64
    };

    h.ack_words = h.flags & RDP_F_ACK ? h.ack_words : 0;

    size_t len = h.lane < RDP_NLANES ? make_body(s, h.lane, body) : 64;

    if ((h.type & 15) == RDP_HELLO) {
        struct amph_rdp_hello hello = { .nonce = dice(s) % 4 ? NONCE : dice(s),
                                        .echo = dice(s) % 4 ? NONCE : 0,
                                        .want = dice(s) & 1,
                                        .auth = (uint32_t)dice(s) % 8 };

        len = amph_rdp_put_hello(body, &hello);
        h.flags = 0;
        h.ack_words = 0;
    }

    h.body_len = (uint32_t)len;
    h.split = len < RDP_BULK_BYTES ? (uint32_t)len : 0;
    if (dice(s) % 4 == 0)
        h.split = (uint32_t)(dice(s) % 2000);
    else if (dice(s) % 4 == 0)
        h.split = h.lane >= RDP_PUT ? (uint32_t)sizeof(struct amph_rdp_rma) : 24;

    size_t n = amph_rdp_put_hdr(to, &h);
    uint64_t words[4] = { dice(s), dice(s), dice(s), dice(s) };
    struct amph_rdp_ackblk ack = { .largest = dice(s) % 40,
                                   .delay_us = (uint32_t)(dice(s) % 1000),
                                   .limit = { dice(s) >> dice(s) % 64, 0 } };

    if (h.flags & RDP_F_ACK)
        n += amph_rdp_put_ack(to + n, &ack, words, h.ack_words);

    const struct amph_rdp_conn *c = r ? r->conn[0] : NULL;
    uint64_t next = 0;

    if (c && h.lane < AMPH_NLANES)
        next = c->rx[h.lane].expected;
    else if (c)
        next = c->seen[h.lane % 2].floor;

    if (dice(s) % 4 == 0)
        next += dice(s) % 8 ? dice(s) % 20 : dice(s);

    struct amph_rdp_seghdr seg = { .lseq = next, .after = dice(s) % 8 ? 0 : dice(s) % 50 };

    if (h.flags & RDP_F_SEG)
        n += amph_rdp_put_seghdr(to + n, &seg);

    memcpy(to + n, body, len);
    return n + len;
}

unsigned fuzz_udp_made_up(uint64_t seed, unsigned count)
{
    static uint8_t input[4096];
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++) {
        size_t len = make_packet(&seed, input + 1);

        input[0] = dice(&seed) % 64 ? (uint8_t)dice(&seed) : 0;
        if (dice(&seed) % 16 == 0)
            input[1 + dice(&seed) % len] ^= (uint8_t)dice(&seed);

        if (dice(&seed) % 64 == 0)
            len = dice(&seed) % (len + 1);

        n += fuzz_udp_feed(input, len + 1);
    }

    return n;
}
