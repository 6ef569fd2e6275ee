/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the tcp conduit: small gets that travel in one message (pack.c). */
#include <criterion/criterion.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/wire.h"
#include "tests/conformance/unit_conduit_tcp.h"

enum {
    PACK = 64,      /* gets */
    LARGEST = 4096, /* bytes of a get */
    IN_PACK = 7,    /* of the largest, whose answer is full then */
    PUTS = OFI_INTERNAL_FIRST,
    DONE,
    GETS,
    GOT,
    MANY = 400
};

static uint64_t got[MANY];
static struct counted ops_of[MANY];

static struct amph_ofi_cx *origin(void)
{
    return amph_ofi_of(node[0].cx);
}

static uint64_t *words_of(unsigned i)
{
    return (uint64_t *)(void *)node[i].seg;
}

/* Gets number of word i of node 1. */
static void get_word(size_t number, uint64_t i)
{
    got[number] = 0;
    ops_of[number] = (struct counted)COUNTED;
    cr_assert_eq(
        ops->get(node[0].cx, 1, &node[0].rmem[1], i * 8, &got[number], 8, &ops_of[number].op),
        AMPH_OK);
}

static bool all_done(size_t from, size_t to, enum amph_status st)
{
    return counted_all(ops_of + from, to - from, st);
}

static void number_words(size_t count)
{
    for (size_t i = 0; i < count; i++)
        words_of(1)[i] = i + 1;
}

Test(tcp_gets, a_get_with_nothing_before_it_is_sent_at_once)
{
    start_packs(2, 0);
    number_words(1);
    for (unsigned i = 0; i < 20; i++) {
        get_word(0, 0);
        cr_assert_not(origin()->pack.held);
        PUMP_UNTIL(all_done(0, 1, AMPH_OK));
        cr_assert_eq(got[0], 1);
        cr_assert_eq(origin()->peer[1].unacked, 0);
    }

    cr_assert_eq(packs_sent(), 0);
    stop();
}

Test(tcp_gets, a_full_pack_has_one_answer_with_the_data)
{
    enum {
        COUNT = 1 + 3 * PACK
    };

    start_packs(2, 0);
    number_words(COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        get_word(i, i);
        cr_assert_eq(packs_sent(), i / PACK, "after get %u", i);
    }

    cr_assert_not(origin()->pack.held);
    PUMP_UNTIL(all_done(0, COUNT, AMPH_OK));
    for (unsigned i = 0; i < COUNT; i++)
        cr_assert_eq(got[i], i + 1);

    cr_assert_eq(answers_sent(), 3);
    cr_assert_eq(origin()->peer[1].unacked, 0);
    stop();
}

Test(tcp_gets, sizes)
{
    static uint8_t dst[16384];
    static const size_t sizes[] = { 1, 2, 7, 8, 9, 63, 64, 511, 512, 513, 4095, 4096, 4097 };

    start_packs(2, 0);
    for (size_t i = 0; i < sizeof dst; i++)
        node[1].seg[i] = (uint8_t)(i * 31 + 1);

    for (unsigned round = 0; round < 30; round++) {
        size_t at = 3;

        memset(dst, 0, sizeof dst);
        get_word(MANY - 1, 0);
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); i++) {
            ops_of[i] = (struct counted)COUNTED;
            cr_assert_eq(
                ops->get(node[0].cx, 1, &node[0].rmem[1], at, dst + at, sizes[i], &ops_of[i].op),
                AMPH_OK);
            at += sizes[i] + 1; /* a byte between two must stay 0 */
        }

        PUMP_UNTIL(all_done(0, AMPH_COUNTOF(sizes), AMPH_OK) && all_done(MANY - 1, MANY, AMPH_OK));
        at = 3;
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); i++) {
            cr_assert_arr_eq(dst + at, node[1].seg + at, sizes[i]);
            cr_assert_eq(dst[at + sizes[i]], 0);
            at += sizes[i] + 1;
        }
    }

    cr_assert_gt(packs_sent(), 0);
    stop();
}

/* A pack is full when the answer has no room for one more, too. */
Test(tcp_gets, large_gets_fill_a_pack)
{
    enum {
        COUNT = 20
    };
    static uint8_t dst[COUNT][LARGEST];

    start_packs(2, 0);
    for (size_t i = 0; i < sizeof dst; i++)
        node[1].seg[i] = (uint8_t)(i / LARGEST + 1);

    get_word(MANY - 1, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        ops_of[i] = (struct counted)COUNTED;
        cr_assert_eq(
            ops->get(node[0].cx, 1, &node[0].rmem[1], i * LARGEST, dst[i], LARGEST, &ops_of[i].op),
            AMPH_OK);
        cr_assert_eq(packs_sent(), i / IN_PACK, "after get %u", i);
    }

    PUMP_UNTIL(all_done(0, COUNT, AMPH_OK));
    for (size_t i = 0; i < sizeof dst; i++)
        cr_assert_eq(dst[i / LARGEST][i % LARGEST], i / LARGEST + 1);

    stop();
}

/* A pack has puts or gets.  The pusher sends either while the process computes. */
Test(tcp_gets, puts_and_gets_take_turns)
{
    static uint64_t values[MANY];

    start_packs(2, 0);
    let_push(true);
    for (unsigned round = 1; round < 50; round++) {
        for (unsigned i = 0; i < 100; i++) {
            const bool puts = i / (round % 5 + 1) % 2;

            words_of(1)[i] = puts ? 0 : round + i;
            if (!puts) {
                get_word(i, i);
                continue;
            }

            values[i] = round + i;
            ops_of[i] = (struct counted)COUNTED;
            cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], i * 8, &values[i], 8, NULL,
                                  &ops_of[i].op),
                         AMPH_OK);
        }

        const uint64_t until = amph_now_ns() + round % 8 * (OFI_PUSH_NS / 4);

        do { /* computes */
            ops->progress(node[1].cx, ~0u, 64);
        } while (amph_now_ns() < until);

        PUMP_UNTIL(all_done(0, 100, AMPH_OK));
        for (unsigned i = 0; i < 100; i++)
            cr_assert_eq(i / (round % 5 + 1) % 2 ? words_of(1)[i] : got[i], round + i);
    }

    cr_assert_eq(packs_sent(), answers_sent());
    stop();
}

/* Where others followed the first one, it waits for them the next time, and no longer after it was alone. */
Test(tcp_gets, the_first_of_many_goes_with_the_others)
{
    enum {
        COUNT = 20
    };

    start_packs(2, 0);
    number_words(COUNT);
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            get_word(i, i);
            cr_assert_eq(origin()->pack.held, i > 0 || round > 0);
        }

        PUMP_UNTIL(all_done(0, COUNT, AMPH_OK));
        for (unsigned i = 0; i < COUNT; i++)
            cr_assert_eq(got[i], i + 1);
    }

    for (unsigned i = 0; i < 2; i++) {
        get_word(0, 0);
        cr_assert_eq(origin()->pack.held, i == 0, "it was alone");
        PUMP_UNTIL(all_done(0, 1, AMPH_OK));
    }

    stop();
}

/* More than packs hold: the others are sent by themselves, or find no room. */
Test(tcp_gets, more_gets_than_packs_hold)
{
    enum {
        WORDS = 20000
    };
    static struct counted done = COUNTED;
    static uint64_t dst[WORDS];

    start_packs(2, 0);
    number_words(WORDS);
    for (unsigned i = 0; i < WORDS; i++)
        while (ops->get(node[0].cx, 1, &node[0].rmem[1], i * 8, &dst[i], 8, &done.op) == AMPH_AGAIN)
            pump();

    PUMP_UNTIL(done.done == WORDS);
    for (unsigned i = 0; i < WORDS; i++)
        cr_assert_eq(dst[i], i + 1);

    cr_assert_eq(origin()->peer[1].unacked, 0);
    stop();
}

Test(tcp_gets, a_get_outside_of_the_memory_fails)
{
    start_packs(2, 0);
    get_word(0, 0);
    get_word(1, 1);
    get_word(2, SEG_BYTES / 8);
    PUMP_UNTIL(all_done(1, 3, AMPH_ERR_RANGE) && all_done(0, 1, AMPH_OK));
    cr_assert(got[1] == 0 && got[2] == 0);
    stop();
}

Test(tcp_gets, gets_of_a_peer_that_is_removed_or_gone)
{
    start_packs(3, 0);
    for (unsigned what = 0; what < 2; what++) {
        for (unsigned i = 0; i < 1 + PACK + 5; i++) /* one pack is in flight, one open */
            get_word(i, i);

        if (what == 0)
            ops->peer_gone(node[0].cx, 1);
        else
            ops->del_peer(node[0].cx, 1);

        cr_assert(all_done(1, 1 + PACK + 5, AMPH_ERR_PEER));
        for (unsigned i = 0; i < 100; i++)
            pump();

        cr_assert(all_done(1, 1 + PACK + 5, AMPH_ERR_PEER), "once");
    }

    stop();
}

/* ---- peers that lie ---- */

static void expect_refused(uint64_t key, uint64_t offset, uint64_t len_bytes, size_t message_bytes)
{
    const uint64_t words[4] = { amph_le64(key), amph_le64(offset), amph_le64(len_bytes), 0 };

    expect_dropped(AMPH_LANE_REQUEST, GETS, 1, words, message_bytes, true);
}

Test(tcp_gets, malformed_messages_are_dropped)
{
    static uint64_t too_many[9][3];

    start_packs(2, 0);

    const uint64_t key = node[0].rmem[1].rkey;

    for (size_t len = 1; len < 24; len++)
        expect_refused(key, 0, 8, len); /* a part of a header */

    expect_refused(key, 0, 8, 32); /* a second one */
    expect_refused(key, 0, UINT64_MAX, 24);
    expect_refused(key, 0, UINT64_MAX - 7, 24);
    expect_refused(key, 0, UINT64_C(1) << 32, 24);
    expect_refused(key, 0, 40000, 24); /* more than an answer has room for */
    expect_refused(key, SEG_BYTES - 7, 8, 24);
    expect_refused(key, UINT64_MAX - 7, 8, 24);
    expect_refused(key + 1000, 0, 8, 24); /* no key */

    for (size_t i = 0; i < AMPH_COUNTOF(too_many); i++) {
        too_many[i][0] = amph_le64(key);
        too_many[i][2] = amph_le64(LARGEST);
    }

    expect_dropped(AMPH_LANE_REQUEST, GETS, 1, too_many, sizeof too_many, true);
    expect_dropped(AMPH_LANE_REQUEST, GETS, 0, NULL, 0, false);
    expect_dropped(AMPH_LANE_REPLY, GETS, 1, NULL, 0, false);
    expect_dropped(AMPH_LANE_REPLY, GOT, 2, NULL, 0, false); /* nothing is in flight */
    expect_dropped(AMPH_LANE_REQUEST, GOT, 2, NULL, 0, false);

    number_words(2);
    get_word(0, 0);
    get_word(1, 1);
    PUMP_UNTIL(all_done(0, 2, AMPH_OK));
    cr_assert_eq(got[1], 2);
    stop();
}

/* Node 1 answers pack 1 of node 0 in a wrong way before it sees the question; the true answer is dropped. */
static void expect_false_answer(uint8_t handler, uint32_t nbytes)
{
    static const uint64_t data[4] = { 1, 2, 3, 4 };
    static const int32_t args[2] = { 1, AMPH_OK };
    const struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                                .handler = handler,
                                .nargs = 2,
                                .nbytes = nbytes,
                                .args = args,
                                .payload = data };
    const uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

    start_packs(2, 0);
    get_word(0, 0);
    get_word(1, 1);
    get_word(2, 2);
    ops->flush(node[0].cx);
    cr_assert_eq(origin()->pack.last_id, 1);
    cr_assert_eq(ops->am_send(node[1].cx, 0, AMPH_LANE_REPLY, &am, NULL), AMPH_OK);

    const uint64_t end = amph_now_ns() + LIMIT_NS;

    while (!ops_of[1].done) {
        ops->progress(node[0].cx, ~0u, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert(all_done(1, 3, AMPH_ERR_PROTO) && got[1] == 0 && got[2] == 0);
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_MALFORMED] == dropped + 1);
    stop();
}

Test(tcp_gets, an_answer_with_too_few_bytes)
{
    expect_false_answer(GOT, 8);
}

Test(tcp_gets, an_answer_with_too_many_bytes)
{
    expect_false_answer(GOT, 24);
}

Test(tcp_gets, an_answer_to_puts)
{
    expect_false_answer(DONE, 0);
}

static void expect_order(bool big)
{
    amph_wire_swapped = big != AMPH_BIG_ENDIAN;
    start_packs(2, 0);
    number_words(0x300);
    for (unsigned i = 0; i < 3; i++)
        get_word(i, 0x201 + i);

    PUMP_UNTIL(all_done(0, 3, AMPH_OK) && packs_sent() == 1);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(got[i], 0x202 + i, "data are bytes");

    stop();
}

Test(tcp_gets, words_are_little_endian)
{
    expect_order(false);
}

Test(tcp_gets, the_other_byte_order)
{
    expect_order(true);
}

/* ---- threads ---- */

Test(tcp_gets, threaded_instances_send_gets_by_themselves)
{
    start_packs(2, 1u << 0);
    number_words(10);
    for (unsigned i = 0; i < 10; i++)
        get_word(i, i);

    PUMP_UNTIL(all_done(0, 10, AMPH_OK));
    cr_assert_eq(packs_sent(), 0);
    stop();
}

Test(tcp_gets, a_threaded_target_answers)
{
    start_packs(2, 1u << 1);
    number_words(10);
    for (unsigned i = 0; i < 10; i++)
        get_word(i, i);

    PUMP_UNTIL((ops->flush(node[1].cx), all_done(0, 10, AMPH_OK)));
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(got[i], i + 1);

    cr_assert_eq(answers_sent(), 1);
    stop();
}
