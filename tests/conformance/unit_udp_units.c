/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts and gets of the udp conduit that travel together (conduits/udp/rdp_units.c), between nodes of the
 * simulated network of udp_sim.h.  Layer: tests.  Thread rule: one thread.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clmul.h"
#include "base/wire.h"
#include "tests/conformance/counted.h"
#include "tests/conformance/udp_sim.h"

enum {
    MANY = 400,
    WORDS = 32768,
    FIRST = 2,        /* are sent at once */
    IN_SEGMENT = 146, /* puts of 8 bytes */
    STEPS = 3000000
};

static struct sim *s;
static struct amph_mem_region *region;
static uint64_t words[WORDS]; /* of node 1, who registered them */
static uint64_t got[MANY];
static struct counted ops[MANY];
static unsigned messages, errors;
static const struct amph_am message = { .kind = AMPH_AM_SHORT };

static void count_message(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    messages++;
}

static void count_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    errors++;
}

static const struct amph_upcalls upcalls = { count_message, count_error };

static struct amph_op *op_of(size_t i)
{
    ops[i] = (struct counted)COUNTED;
    return &ops[i].op;
}

static struct amph_rdp *origin(void)
{
    return s->node[0].rdp;
}

static struct amph_rdp_conn *conn(void)
{
    return origin()->conn[1];
}

static struct amph_rdp_conn *answering(void)
{
    return s->node[1].rdp->conn[0];
}

#define RUN_UNTIL(cond) \
    do { \
        unsigned steps = 0; \
        while (!(cond)) { \
            cr_assert(sim_step(s) && ++steps < STEPS, "%s never comes true", #cond); \
            cr_assert_null(sim_wrong_account(s)); \
        } \
    } while (0)

static void rest(void)
{
    for (unsigned i = 0; i < 2000 && sim_step(s); i++)
        continue;
}

static void open_link(const struct sim_link *link, uint64_t seed, uint32_t auth)
{
    s = sim_open(2, link, seed, &upcalls, 4u << 20);
    for (unsigned i = 0; i < 2; i++)
        s->node[i].rdp->cfg.auth = auth;

    memset(words, 0, sizeof words);
    messages = errors = 0;
    cr_assert_eq(amph_rdp_mem_reg(s->node[1].rdp, words, sizeof words, &region), AMPH_OK);
    amph_rdp_am_send(origin(), 1, AMPH_LANE_REQUEST, &message, NULL);
    RUN_UNTIL(messages == 1);
    rest();
}

static void open_pair(void)
{
    const struct sim_link link = { .delay_ns = 50000, .datagram = 65504 };

    open_link(&link, 99, RDP_AUTH_NH);
}

static void close_pair(void)
{
    amph_rdp_mem_dereg(s->node[1].rdp, region);
    sim_close(s);
}

static enum amph_status try_put(size_t number, uint64_t at, const void *from, size_t len)
{
    return amph_rdp_put(origin(), 1, region->key, at, from, len, NULL, op_of(number));
}

/* Puts to word i of node 1. */
static void put_word(size_t number, uint64_t i, uint64_t value)
{
    cr_assert_eq(try_put(number, i * 8, &value, 8), AMPH_OK);
}

static void get_word(size_t number, uint64_t i)
{
    got[number] = 0;
    cr_assert_eq(amph_rdp_get(origin(), 1, region->key, i * 8, &got[number], 8, op_of(number)),
                 AMPH_OK);
}

static bool all_done(size_t from, size_t to, enum amph_status st)
{
    return counted_all(ops + from, to - from, st);
}

/* The operations are complete, and then nothing else happens to them. */
static void expect_all(size_t from, size_t to)
{
    RUN_UNTIL(all_done(from, to, AMPH_OK));
    rest();
    cr_assert(all_done(from, to, AMPH_OK), "once");
}

static void number_words(size_t count)
{
    for (size_t i = 0; i < count; i++)
        words[i] = i + 1;
}

/* ---- when they are sent ---- */

Test(udp_units, a_put_or_get_with_nothing_before_it_is_sent_at_once)
{
    open_pair();
    for (unsigned i = 0; i < 20; i++) {
        put_word(0, 0, i + 1);
        cr_assert_null(conn()->tx[RDP_PUT].head);
        RUN_UNTIL(all_done(0, 1, AMPH_OK));
        cr_assert_eq(words[0], i + 1);
        rest();

        get_word(0, 0);
        cr_assert_null(conn()->tx[RDP_GET].head);
        RUN_UNTIL(all_done(0, 1, AMPH_OK));
        cr_assert_eq(got[0], i + 1);
        rest();
    }

    cr_assert_eq(conn()->tx[RDP_PUT].next_lseq, 20);
    cr_assert_eq(conn()->tx[RDP_GET].next_lseq, 20);
    close_pair();
}

Test(udp_units, puts_that_follow_travel_in_one_segment)
{
    enum {
        COUNT = FIRST + IN_SEGMENT
    };

    open_pair();
    for (unsigned i = 0; i < COUNT; i++)
        put_word(i, i, i + 7);

    cr_assert_not_null(conn()->tx[RDP_PUT].head);
    cr_assert(amph_rdp_is_corked(origin()));
    cr_assert_eq(conn()->tx[RDP_PUT].next_lseq, FIRST + 1);
    put_word(COUNT, COUNT, COUNT + 7);
    cr_assert_eq(conn()->tx[RDP_PUT].next_lseq, FIRST + 2, "it is full");

    amph_rdp_progress(origin(), 3, 64);
    cr_assert_null(conn()->tx[RDP_PUT].head, "progress sends it");
    expect_all(0, COUNT + 1);
    for (unsigned i = 0; i <= COUNT; i++)
        cr_assert_eq(words[i], i + 7);

    cr_assert_eq(answering()->seen[0].floor, FIRST + 2);
    close_pair();
}

Test(udp_units, gets_that_follow_travel_in_one_segment_and_their_answers)
{
    enum {
        COUNT = 100
    };

    open_pair();
    number_words(COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        get_word(i, i);

    cr_assert_not_null(conn()->tx[RDP_GET].head);
    expect_all(0, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        cr_assert_eq(got[i], i + 1);

    cr_assert_eq(conn()->tx[RDP_GET].next_lseq, FIRST + 1);
    cr_assert_eq(answering()->tx[RDP_GET].next_lseq, FIRST + 1);
    cr_assert(conn()->ngets == 0 && answering()->nanswers == 0);
    close_pair();
}

Test(udp_units, the_first_of_many_goes_with_the_others)
{
    enum {
        COUNT = 20
    };

    open_pair();
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            put_word(i, i, round + i);
            cr_assert_eq(conn()->tx[RDP_PUT].head != NULL, i >= FIRST || round > 0);
        }

        expect_all(0, COUNT);
    }

    for (unsigned i = 0; i < 2; i++) {
        put_word(0, 0, 1);
        cr_assert_eq(conn()->tx[RDP_PUT].head != NULL, i == 0, "it was alone");
        expect_all(0, 1);
    }

    close_pair();
}

Test(udp_units, a_flag_after_its_data_is_sent_at_once)
{
    open_pair();
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < FIRST; i++) {
            put_word(i, i, round);
            cr_assert_null(conn()->tx[RDP_PUT].head);
        }

        expect_all(0, FIRST);
    }

    close_pair();
}

Test(udp_units, many_bytes_do_not_wait)
{
    static const uint8_t from[4096];
    unsigned n = FIRST;

    open_pair();
    put_word(0, 0, 1);
    put_word(1, 1, 1);
    do {
        cr_assert_eq(try_put(n++, 0, from, sizeof from), AMPH_OK);
    } while (conn()->tx[RDP_PUT].head);

    cr_assert(n > 4 && n < 12, "%u", n);
    expect_all(0, n);
    close_pair();
}

Test(udp_units, the_guard_sends_them_while_the_process_computes)
{
    open_pair();
    for (unsigned i = 0; i < 5; i++)
        put_word(i, i, i + 1);

    amph_rdp_guard(origin(), false);
    cr_assert_not_null(conn()->tx[RDP_PUT].head);
    s->now += 2 * RDP_CORK_NS;
    amph_rdp_guard(origin(), false);
    cr_assert_null(conn()->tx[RDP_PUT].head);
    cr_assert_not(amph_rdp_is_corked(origin()));
    expect_all(0, 5);
    close_pair();
}

Test(udp_units, a_message_takes_what_waits_along)
{
    open_pair();
    for (unsigned i = 0; i < 5; i++)
        put_word(i, i, i + 1);

    amph_rdp_am_send(origin(), 1, AMPH_LANE_REQUEST, &message, NULL);
    cr_assert_null(conn()->tx[RDP_PUT].head);
    RUN_UNTIL(messages == 2);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(words[i], i + 1, "a message arrives after the puts before it");

    expect_all(0, 5);
    close_pair();
}

/* ---- what arrives ---- */

static void expect_sizes(uint32_t datagram)
{
    static const size_t sizes[] = { 1,   2,   7,   8,    9,    63,   64,   511,
                                    512, 513, 900, 1024, 1025, 4095, 4096, 4097 };
    static uint8_t from[24576], to[24576];
    const struct sim_link link = { .delay_ns = 50000, .datagram = datagram };
    uint8_t *bytes = (uint8_t *)words;

    open_link(&link, datagram, RDP_AUTH_NH);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 31 + 1);

    for (unsigned round = 0; round < 5; round++) {
        size_t at = 3;

        memset(words, 0, sizeof from);
        memset(to, 0, sizeof to);
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); at += sizes[i++] + 1)
            cr_assert_eq(try_put(i, at, from + at, sizes[i]), AMPH_OK);

        expect_all(0, AMPH_COUNTOF(sizes));
        at = 3;
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); at += sizes[i++] + 1)
            cr_assert_eq(amph_rdp_get(origin(), 1, region->key, at, to + at, sizes[i], op_of(i)),
                         AMPH_OK);

        expect_all(0, AMPH_COUNTOF(sizes));
        at = 3;
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); at += sizes[i++] + 1) {
            cr_assert_arr_eq(bytes + at, from + at, sizes[i]);
            cr_assert_arr_eq(to + at, from + at, sizes[i]);
            cr_assert(bytes[at + sizes[i]] == 0 && to[at + sizes[i]] == 0, "nothing beyond");
        }
    }

    close_pair();
}

Test(udp_units, sizes)
{
    expect_sizes(65504);
    expect_sizes(1472);
    expect_sizes(512);
}

/* More than may be in flight: the others find no room until some have been answered. */
Test(udp_units, more_than_there_is_room_for)
{
    static struct counted done = { .op = { count_done } };
    static uint64_t to[WORDS];

    open_pair();
    for (unsigned i = 0; i < WORDS; i++) {
        const uint64_t value = i + 1;

        while (amph_rdp_put(origin(), 1, region->key, i * 8, &value, 8, NULL, &done.op) ==
               AMPH_AGAIN)
            cr_assert(sim_step(s));
    }

    RUN_UNTIL(done.done == WORDS);
    for (unsigned i = 0; i < WORDS; i++)
        while (amph_rdp_get(origin(), 1, region->key, i * 8, &to[i], 8, &done.op) == AMPH_AGAIN)
            cr_assert(sim_step(s));

    RUN_UNTIL(done.done == 2 * WORDS);
    for (unsigned i = 0; i < WORDS; i++)
        cr_assert_eq(to[i], i + 1);

    close_pair();
}

/* What is answered has been read: the memory may go. */
Test(udp_units, memory_that_is_deregistered_after_the_answer)
{
    open_pair();
    number_words(10);
    for (unsigned i = 0; i < 10; i++)
        get_word(i, i);

    RUN_UNTIL(answering()->nanswers == 10);
    amph_rdp_mem_dereg(s->node[1].rdp, region);
    memset(words, 0xff, 80);
    expect_all(0, 10);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(got[i], i + 1);

    sim_close(s);
}

/* ---- puts and gets that are refused ---- */

/* Whether put or get i of 20 names a word beyond the end of the memory. */
static bool is_refused(unsigned i)
{
    return i % 7 == 3;
}

/* Each of 20 puts or gets has ended once, and value[] has the words of those that were not refused. */
static void expect_all_but_refused(const uint64_t *value)
{
    rest();
    for (unsigned i = 0; i < 20; i++) {
        cr_assert(all_done(i, i + 1, is_refused(i) ? AMPH_ERR_RANGE : AMPH_OK), "%u", i);
        cr_assert_eq(value[i], is_refused(i) ? 0 : i + 1);
    }
}

Test(udp_units, a_refused_put_does_not_touch_the_others)
{
    open_pair();
    for (unsigned i = 0; i < 20; i++)
        put_word(i, is_refused(i) ? WORDS + i : i, i + 1);

    RUN_UNTIL(ops[3].done);
    for (unsigned i = FIRST; i < 20; i++)
        cr_assert_eq(words[i], 0, "all or nothing");

    RUN_UNTIL(all_done(19, 20, AMPH_OK));
    expect_all_but_refused(words);
    close_pair();
}

Test(udp_units, all_puts_are_refused)
{
    open_pair();
    for (unsigned i = 0; i < 100; i++)
        put_word(i, WORDS + i, 1);

    RUN_UNTIL(all_done(0, 100, AMPH_ERR_RANGE));
    rest();
    cr_assert(all_done(0, 100, AMPH_ERR_RANGE), "once");
    cr_assert_null(conn()->tx[RDP_PUT].out);
    put_word(0, 5, 6);
    expect_all(0, 1);
    cr_assert_eq(words[5], 6);
    close_pair();
}

Test(udp_units, a_refused_get_does_not_touch_the_others)
{
    open_pair();
    number_words(20);
    for (unsigned i = 0; i < 20; i++)
        get_word(i, is_refused(i) ? WORDS + i : i);

    RUN_UNTIL(all_done(19, 20, AMPH_OK) && ops[17].done);
    expect_all_but_refused(got);
    close_pair();
}

/* ---- bad networks ---- */

Test(udp_units, a_repeated_segment_is_not_written_again)
{
    const struct sim_link link = { .delay_ns = 50000, .twice = 10000, .datagram = 1472 };

    open_link(&link, 5, RDP_AUTH_NH);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 30; i++)
            put_word(i, i, i + 1);

        RUN_UNTIL(all_done(0, 30, AMPH_OK));
        memset(words, 0, 240);
        rest();
        for (unsigned i = 0; i < 30; i++)
            cr_assert_eq(words[i], 0);
    }

    close_pair();
}

/* A burst of puts to the first half of the words and gets from the second half, some of them refused. */
static void burst(unsigned count, uint64_t base)
{
    static bool puts[MANY], refused[MANY];

    for (unsigned i = 0; i < count; i++) {
        const uint64_t word = sim_random(s) % 8 ? i : WORDS;

        puts[i] = sim_random(s) % 2;
        refused[i] = word == WORDS;
        if (puts[i])
            put_word(i, word, base + i);
        else
            get_word(i, refused[i] ? word : WORDS / 2 + word);

        if (sim_random(s) % 16 == 0)
            cr_assert(sim_step(s));
    }

    for (unsigned i = 0; i < count; i++)
        RUN_UNTIL(ops[i].done);

    for (unsigned i = 0; i < count; i++) {
        cr_assert(all_done(i, i + 1, refused[i] ? AMPH_ERR_RANGE : AMPH_OK), "%u", i);
        if (!refused[i])
            cr_assert_eq(puts[i] ? words[i] : got[i], puts[i] ? base + i : WORDS / 2 + i + 1);
    }
}

/* MACs of each kind and none; long and short datagrams; loss, repetition, overtaking. */
Test(udp_units, bursts_over_bad_networks)
{
    static const uint32_t auths[] = { RDP_AUTH_NONE, RDP_AUTH_NH, RDP_AUTH_CLMUL };
    static const uint32_t datagrams[] = { 512, 1472, 65504 };

    for (uint64_t seed = 1; seed <= 60; seed++) {
        const uint32_t auth = amph_clmul_works() ? auths[seed % 3] : auths[seed % 2];
        const struct sim_link link = { .delay_ns = 20000,
                                       .jitter_ns = seed % 4 ? 60000 : 0,
                                       .loss = (uint32_t)(seed % 5 * 700),
                                       .twice = (uint32_t)(seed % 2 * 2000),
                                       .damage = auth == RDP_AUTH_NONE ? 0
                                                                       : (uint32_t)(seed % 3 * 300),
                                       .datagram = datagrams[seed / 3 % 3] };

        open_link(&link, seed, auth);
        s->napping = seed % 7 == 0;
        number_words(WORDS);
        for (unsigned round = 1; round <= 10; round++)
            burst(1 + (unsigned)(sim_random(s) % (MANY / 2)), round * 10000);

        rest();
        cr_assert(conn()->ngets == 0 && !amph_rdp_has_outgoing(conn()) && errors == 0);
        close_pair();
    }
}

/* ---- peers that go ---- */

Test(udp_units, operations_of_a_peer_that_is_removed)
{
    open_pair();
    for (unsigned i = 0; i < 50; i++) { /* the first of each kind is in flight, the others wait */
        put_word(i, i, 1);
        get_word(100 + i, i);
    }

    amph_rdp_del_peer(origin(), 1);
    cr_assert(all_done(0, 50, AMPH_ERR_PEER) && all_done(100, 150, AMPH_ERR_PEER));
    cr_assert_eq(try_put(200, 0, words, 8), AMPH_ERR_STATE);
    amph_rdp_mem_dereg(s->node[1].rdp, region);
    sim_close(s);
    cr_assert(all_done(0, 50, AMPH_ERR_PEER) && all_done(100, 150, AMPH_ERR_PEER), "once");
}

Test(udp_units, operations_of_a_peer_that_dies)
{
    open_pair();
    for (unsigned i = 0; i < 50; i++) {
        put_word(i, i, 1);
        get_word(100 + i, i);
    }

    amph_rdp_refused(origin(), 1);
    s->now += AMPH_NS_PER_S;
    amph_rdp_refused(origin(), 1);
    amph_rdp_progress(origin(), 3, 64);
    cr_assert(all_done(0, 50, AMPH_ERR_PEER) && all_done(100, 150, AMPH_ERR_PEER));
    cr_assert_eq(errors, 1);
    cr_assert_eq(try_put(200, 0, words, 8), AMPH_ERR_PEER);
    close_pair();
}

Test(udp_units, operations_when_the_instance_is_closed)
{
    open_pair();
    for (unsigned i = 0; i < 50; i++) {
        put_word(i, i, 1);
        get_word(100 + i, i);
    }

    close_pair();
    cr_assert(all_done(0, 50, AMPH_ERR_STATE) && all_done(100, 150, AMPH_ERR_STATE));
}

/* ---- the wire ---- */

Test(udp_units, malformed_units)
{
    static const struct {
        struct amph_rdp_rma m;
        size_t left, length;
    } rows[] = {
        { { .code = RDP_RMA_PUT, .len_bytes = 8 }, 48, 48 },
        { { .code = RDP_RMA_PUT, .len_bytes = 1 }, 64, 48 },
        { { .code = RDP_RMA_PUT, .len_bytes = 9 }, 48, 0 },
        { { .code = RDP_RMA_PUT, .len_bytes = 0 }, 48, 0 },
        { { .code = RDP_RMA_PUT, .len_bytes = 8 }, 40, 0 },
        { { .code = RDP_RMA_PUT, .len_bytes = UINT32_MAX }, 48, 0 },
        { { .code = RDP_RMA_PUT, .len_bytes = UINT32_MAX - 7 }, 48, 0 },
        { { .code = RDP_RMA_DATA, .len_bytes = 8 }, 48, 48 },
        { { .code = RDP_RMA_DATA, .len_bytes = 17 }, 56, 0 },
        { { .code = RDP_RMA_VOID, .len_bytes = 8 }, 48, 48 },
        { { .code = RDP_RMA_VOID, .len_bytes = 24 }, 56, 0 },
        { { .code = RDP_RMA_GET, .total = UINT64_MAX }, 48, 40 },
        { { .code = RDP_RMA_REFUSED }, 40, 40 },
        { { .code = RDP_RMA_GET }, 32, 0 },
        { { .code = 0 }, 48, 0 },
        { { .code = RDP_RMA_VOID + 1, .len_bytes = 8 }, 48, 0 },
    };
    uint64_t bytes[16] = { 0 };
    struct amph_rdp_rma m;

    for (size_t i = 0; i < AMPH_COUNTOF(rows); i++) {
        amph_rdp_put_rma(bytes, &rows[i].m);
        cr_assert_eq(amph_rdp_get_unit((uint8_t *)bytes, rows[i].left, &m), rows[i].length, "%zu",
                     i);
    }
}

/* One that is malformed spoils all, before anything is written. */
Test(udp_units, a_malformed_unit_after_a_good_one)
{
    open_pair();
    put_word(0, 0, 1);
    put_word(1, 1, 2);
    put_word(2, 2, 3);
    put_word(3, 3, 4);
    conn()->tx[RDP_PUT].tail->head[48] = 99;

    const uint64_t dropped = amph_count_now(AMPH_COUNTER_DROP_MALFORMED);

    RUN_UNTIL(amph_count_now(AMPH_COUNTER_DROP_MALFORMED) == dropped + 1);
    cr_assert(words[1] == 2 && words[2] == 0 && words[3] == 0);
    rest();
    close_pair();
}

Test(udp_units, packets_of_another_version_are_malformed)
{
    struct amph_rdp_hdr h = { .type = RDP_DATA | RDP_VERSION << 4 };
    struct amph_rdp_packet p;
    uint64_t bytes[sizeof h / 8];

    amph_rdp_put_hdr(bytes, &h);
    cr_assert(amph_rdp_parse(bytes, sizeof bytes, &p));
    h.type = RDP_DATA | (RDP_VERSION - 1) << 4;
    amph_rdp_put_hdr(bytes, &h);
    cr_assert_not(amph_rdp_parse(bytes, sizeof bytes, &p));
}

static void expect_order(bool big)
{
    amph_wire_swapped = big != AMPH_BIG_ENDIAN;
    open_pair();
    number_words(0x300);
    for (unsigned i = 0; i < 5; i++) {
        get_word(i, 0x201 + i);
        put_word(10 + i, 0x401 + i, 0x0102030405060700 + i);
    }

    expect_all(0, 5);
    expect_all(10, 15);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(got[i], 0x202 + i, "data are bytes");
        cr_assert_eq(words[0x401 + i], 0x0102030405060700 + i);
    }

    close_pair();
    amph_wire_swapped = false;
}

Test(udp_units, words_are_little_endian)
{
    expect_order(false);
}

Test(udp_units, the_other_byte_order)
{
    expect_order(true);
}
