/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the tcp conduit: small puts that travel in one message (pack.c).  Gets: unit_conduit_tcp_gets.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <sys/timerfd.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/wire.h"
#include "tests/conformance/unit_conduit_tcp.h"

enum {
    PACK = 64,      /* puts */
    LARGEST = 4096, /* bytes of a put */
    PUTS = OFI_INTERNAL_FIRST,
    DONE,
    MANY = 1000
};

static uint64_t values[MANY];
static struct counted rcs[MANY];

static struct amph_ofi_cx *cx_of(unsigned i)
{
    return amph_ofi_of(node[i].cx);
}

uint32_t packs_sent(void)
{
    return ops->counts(node[0].cx, 1).sent;
}

uint32_t answers_sent(void)
{
    return ops->counts(node[1].cx, 0).sent;
}

static uint64_t word(unsigned to, size_t i)
{
    return __atomic_load_n((uint64_t *)(void *)node[to].seg + i, __ATOMIC_ACQUIRE);
}

/* Puts value to word i of a node; number: of the put. */
static void put_word(unsigned to, size_t number, size_t i, uint64_t value)
{
    values[number] = value;
    rcs[number] = (struct counted)COUNTED;
    cr_assert_eq(ops->put(node[0].cx, to, &node[0].rmem[to], i * 8, &values[number], 8, NULL,
                          &rcs[number].op),
                 AMPH_OK);
    if (cx_of(0)->pack.held)
        values[number] = ~value; /* a pack has a copy */
}

static bool all_done(size_t from, size_t to, enum amph_status st)
{
    return counted_all(rcs + from, to - from, st);
}

static bool none_done(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (rcs[i].done)
            return false;

    return true;
}

void let_push(bool on)
{
    __atomic_store_n(&cx_of(0)->pusher.set, !on,
                     __ATOMIC_SEQ_CST); /* as if the timer ran for ever */
}

void start_packs(unsigned n, unsigned threaded_nodes)
{
    bursts = true;
    threads_of = threaded_nodes;
    start(n, false);
    for (unsigned i = 1; i < n; i++) {
        send_short(0, i, AMPH_LANE_REQUEST, 1);
        send_short(i, 0, AMPH_LANE_REPLY, 1);
        PUMP_UNTIL(node[i].got[0] == 1 && node[0].from[i] == 1);
    }

    let_push(false);
}

/* Two puts: the second one is in an open pack. */
static void open_pack(void)
{
    put_word(1, 0, 0, 100);
    put_word(1, 1, 1, 101);
    cr_assert(cx_of(0)->pack.held);
}

Test(tcp_packs, a_put_with_nothing_before_it_is_sent_at_once)
{
    start_packs(3, 0);
    for (unsigned i = 0; i < 20; i++) {
        put_word(1, 0, 0, i + 1);
        put_word(2, 1, 0, i + 1); /* to another peer */
        put_word(1, 2, 1, i + 1);
        cr_assert_not(cx_of(0)->pack.held, "in round %u", i);
        PUMP_UNTIL(all_done(0, 3, AMPH_OK));
        cr_assert(word(1, 0) == i + 1 && word(2, 0) == i + 1 && word(1, 1) == i + 1);
        cr_assert(cx_of(0)->peer[1].unacked == 0 && cx_of(0)->peer[2].unacked == 0);
    }

    cr_assert_eq(packs_sent(), 0);
    stop();
}

Test(tcp_packs, a_full_pack_is_sent_at_once_and_has_one_answer)
{
    start_packs(2, 0);
    for (unsigned i = 0; i < 1 + 3 * PACK; i++) {
        put_word(1, i, i, i + 1);
        cr_assert_eq(packs_sent(), i / PACK, "after put %u", i);
    }

    cr_assert_not(cx_of(0)->pack.held);
    cr_assert(none_done(1, 1 + 3 * PACK));

    /* complete only after the data is there */
    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (answers_sent() < 3) {
        ops->progress(node[1].cx, ~0u, 1);
        cr_assert_lt(amph_now_ns(), end);
    }

    for (unsigned i = 0; i < 1 + 3 * PACK; i++)
        cr_assert_eq(word(1, i), i + 1);

    cr_assert(none_done(1, 1 + 3 * PACK));
    PUMP_UNTIL(all_done(0, 1 + 3 * PACK, AMPH_OK));
    cr_assert_eq(packs_sent(), 3);
    cr_assert_eq(answers_sent(), 3);
    cr_assert_eq(cx_of(0)->peer[1].unacked, 0);
    stop();
}

Test(tcp_packs, sizes)
{
    static uint8_t src[16384];
    static const size_t sizes[] = { 1, 2, 7, 8, 9, 63, 64, 511, 512, 513, 4095, 4096, 4097 };
    static struct counted lc[AMPH_COUNTOF(sizes)];
    size_t at = 0;

    start_packs(2, 0);
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)(i * 31 + 1);

    for (unsigned round = 0; round < 30; round++) {
        memset(node[1].seg, 0, sizeof src);
        put_word(1, MANY - 1, sizeof src / 8, 1);
        at = 3;
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); i++) {
            rcs[i] = (struct counted)COUNTED;
            lc[i] = (struct counted)COUNTED;
            cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], at, src + at, sizes[i],
                                  i % 2 ? &lc[i].op : NULL, &rcs[i].op),
                         AMPH_OK);
            cr_assert(sizes[i] > LARGEST || lc[i].done == i % 2, "a copy has been made");
            at += sizes[i] + 1; /* a byte between two must stay 0 */
        }

        PUMP_UNTIL(all_done(0, AMPH_COUNTOF(sizes), AMPH_OK));
        at = 3;
        for (size_t i = 0; i < AMPH_COUNTOF(sizes); i++) {
            cr_assert_arr_eq(node[1].seg + at, src + at, sizes[i]);
            cr_assert_eq(node[1].seg[at + sizes[i]], 0);
            at += sizes[i] + 1;
        }
    }

    cr_assert_gt(packs_sent(), 0);
    stop();
}

/* A pack is full when the next put has no room in it, too. */
Test(tcp_packs, large_puts_fill_a_pack)
{
    enum {
        COUNT = 20,
        IN_PACK = 7
    };
    static uint8_t src[LARGEST];

    start_packs(2, 0);
    put_word(1, MANY - 1, COUNT * sizeof src / 8, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        memset(src, (int)i + 1, sizeof src);
        rcs[i] = (struct counted)COUNTED;
        cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], i * sizeof src, src, sizeof src,
                              NULL, &rcs[i].op),
                     AMPH_OK);
        cr_assert_eq(packs_sent(), i / IN_PACK, "after put %u", i);
    }

    PUMP_UNTIL(all_done(0, COUNT, AMPH_OK));
    for (size_t i = 0; i < COUNT * sizeof src; i++)
        cr_assert_eq(node[1].seg[i], i / sizeof src + 1);

    stop();
}

/* What is left of a burst arrives although the process does not call. */
Test(tcp_packs, the_rest_of_a_burst_is_sent_while_its_process_computes)
{
    start_packs(2, 0);
    let_push(true);
    for (unsigned round = 0; round < 20; round++) {
        open_pack();

        uint64_t end = amph_now_ns() + LIMIT_NS;

        while (word(1, 1) != 101) {
            ops->progress(node[1].cx, ~0u, 64);
            cr_assert_lt(amph_now_ns(), end);
        }

        PUMP_UNTIL(all_done(0, 2, AMPH_OK));
        cr_assert_eq(packs_sent(), round + 1);
        node[1].seg[8] = 0;
    }

    stop();
}

/* Everything else that node 0 may do sends the pack first. */
Test(tcp_packs, an_open_pack_is_sent_before_anything_else)
{
    static uint8_t buf[2 * LARGEST];
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };
    struct amph_peer_spec spec;

    start_packs(3, 0);
    spec = (struct amph_peer_spec){ node[2].cx->addr, node[2].cx->addr_len, 0, 1, 2 };
    for (unsigned what = 0; what < 9; what++) {
        struct counted op = COUNTED;
        struct amph_mem mem;

        open_pack();
        switch (what) {
        case 0:
            ops->progress(node[0].cx, 1u << AMPH_LANE_REPLY, 1);
            break;
        case 1:
            ops->flush(node[0].cx);
            break;
        case 2:
            cr_assert_eq(ops->arm(node[0].cx, AMPH_ARM_FD, 0) == AMPH_ERR_NOSYS, false);
            ops->arm(node[0].cx, AMPH_ARM_OFF, 0);
            break;
        case 3:
            cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL), AMPH_OK);
            break;
        case 4:
            cr_assert_eq(ops->am_send(node[0].cx, 2, AMPH_LANE_REPLY, &am, NULL), AMPH_OK);
            break;
        case 5:
            cr_assert_eq(ops->get(node[0].cx, 1, &node[0].rmem[1], 64, buf, sizeof buf, &op.op),
                         AMPH_OK);
            break;
        case 6:
            cr_assert_eq(
                ops->put(node[0].cx, 1, &node[0].rmem[1], 64, buf, sizeof buf, NULL, &op.op),
                AMPH_OK);
            break;
        case 7:
            cr_assert_eq(ops->mem_reg(node[0].cx, buf, sizeof buf, -1, 0, &mem), AMPH_OK);
            ops->mem_dereg(node[0].cx, &mem);
            break;
        default:
            ops->del_peer(node[0].cx, 2);
            cr_assert_eq(ops->add_peer(node[0].cx, 2, &spec), AMPH_OK);
        }

        cr_assert_not(cx_of(0)->pack.held, "after call %u", what);
        cr_assert_eq(packs_sent(), what + 1);
        PUMP_UNTIL(all_done(0, 2, AMPH_OK) && op.done == (what == 5 || what == 6));
    }

    stop();
}

/* A message is delivered after the puts before it, and so is what the target sends as its reply (an atomic). */
Test(tcp_packs, a_message_arrives_after_the_puts_before_it)
{
    start_packs(2, 0);
    for (unsigned round = 1; round < 100; round++) {
        const uint64_t got = node[1].got[0];
        const unsigned n = 2 + round % 70;

        for (unsigned i = 0; i < n; i++)
            put_word(1, i, i, round);

        send_short(0, 1, AMPH_LANE_REQUEST, 1);

        uint64_t end = amph_now_ns() + LIMIT_NS;

        while (node[1].got[0] == got) {
            ops->progress(node[1].cx, ~0u, 1);
            cr_assert_lt(amph_now_ns(), end);
        }

        for (unsigned i = 0; i < n; i++)
            cr_assert_eq(word(1, i), round);

        PUMP_UNTIL(all_done(0, n, AMPH_OK));
    }

    stop();
}

/* Packs are handled while only replies are wanted, and a later put waits for no request. */
Test(tcp_packs, puts_arrive_while_only_replies_are_wanted)
{
    start_packs(2, 0);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    open_pack();

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (!all_done(0, 2, AMPH_OK)) {
        ops->progress(node[0].cx, ~0u, 64);
        ops->progress(node[1].cx, 1u << AMPH_LANE_REPLY, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert_eq(node[1].got[0], 1);
    PUMP_UNTIL(node[1].got[0] == 2);
    stop();
}

/* ---- no room ---- */

enum {
    BUFFERS = 4096
};

/* Takes what a node's longer messages need; returns how many buffers that were. */
static unsigned take_room(unsigned i, void **taken)
{
    unsigned n = 0;

    while (n < BUFFERS && (taken[n] = amph_ofi_pool_get(&cx_of(i)->bounce[OFI_BOUNCE_SMALL])))
        n++;

    cr_assert(n > 0 && n < BUFFERS);
    return n;
}

static void give_room(unsigned i, void **taken, unsigned n)
{
    while (n-- > 0)
        amph_ofi_pool_put(&cx_of(i)->bounce[OFI_BOUNCE_SMALL], taken[n],
                          ((struct amph_ofi_item *)taken[n])->reg);
}

Test(tcp_packs, a_pack_waits_for_room)
{
    static void *taken[BUFFERS];
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };
    struct counted op = COUNTED;
    uint8_t buf[8];

    start_packs(3, 0);
    for (unsigned i = 0; i < PACK - 1; i++)
        put_word(1, i, i, i + 1);

    unsigned n = take_room(0, taken);

    /* the last put of a pack fits in, the next one does not */
    put_word(1, PACK - 1, PACK - 1, PACK);
    put_word(1, PACK, PACK, PACK + 1);
    cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], 8 * (PACK + 1), buf, 8, NULL, &op.op),
                 AMPH_AGAIN);
    cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL), AMPH_AGAIN);
    cr_assert_eq(ops->get(node[0].cx, 1, &node[0].rmem[1], 0, buf, 8, &op.op), AMPH_AGAIN);

    /* other peers wait for nothing */
    cr_assert_eq(ops->am_send(node[0].cx, 2, AMPH_LANE_REQUEST, &am, NULL), AMPH_OK);
    PUMP_UNTIL(node[2].got[0] == 2 && all_done(0, 1, AMPH_OK));
    for (unsigned i = 0; i < 200; i++)
        pump();

    cr_assert(none_done(1, PACK + 1) && packs_sent() == 0 && op.done == 0);
    cr_assert_eq(word(1, 1), 0);

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (ops->arm(node[0].cx, AMPH_ARM_FD, 0) != AMPH_OK) { /* it may sleep */
        pump();
        cr_assert_lt(amph_now_ns(), end);
    }

    ops->arm(node[0].cx, AMPH_ARM_OFF, 0);
    give_room(0, taken, n);
    PUMP_UNTIL(all_done(0, PACK + 1, AMPH_OK));
    for (unsigned i = 0; i <= PACK; i++)
        cr_assert_eq(word(1, i), i + 1);

    cr_assert_eq(packs_sent(), 1);
    stop();
}

/* What is accepted while buffers run out is sent although its process calls nothing any more. */
Test(tcp_packs, packs_arrive_if_their_process_computes_without_room)
{
    static uint8_t src[LARGEST];
    enum amph_status st;
    unsigned n = 0;

    start_packs(2, 0);
    put_word(1, MANY - 1, SEG_BYTES / 8 - 1, 1);
    let_push(true);
    do {
        memset(src, (int)n + 1, sizeof src);
        rcs[n] = (struct counted)COUNTED;
        st = ops->put(node[0].cx, 1, &node[0].rmem[1], n * sizeof src, src, sizeof src, NULL,
                      &rcs[n].op);
        ops->progress(node[1].cx, ~0u, 64); /* what the kernel does not take is left to progress */
    } while (st == AMPH_OK && ++n < MANY - 1);

    cr_assert(st == AMPH_AGAIN && n > 0);

    const uint64_t end = amph_now_ns() + LIMIT_NS;
    const uint8_t *last = node[1].seg + n * sizeof src - 1;

    while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != (uint8_t)n) {
        ops->progress(node[1].cx, ~0u, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    PUMP_UNTIL(all_done(0, n, AMPH_OK));
    stop();
}

/* More puts in flight than packs hold: the others are sent by themselves, or find no room. */
Test(tcp_packs, more_puts_than_packs_hold)
{
    enum {
        WORDS = 20000
    };
    static struct counted rc = COUNTED;
    static uint64_t src[WORDS];

    start_packs(2, 0);
    for (unsigned round = 0; round < 2; round++) {
        unsigned refused = 0;

        rc.done = 0;
        for (unsigned i = 0; i < WORDS; i++) {
            src[i] = i + 1 + round;
            while (ops->put(node[0].cx, 1, &node[0].rmem[1], i * 8, &src[i], 8, NULL, &rc.op) ==
                   AMPH_AGAIN) {
                pump();
                refused++;
            }
        }

        PUMP_UNTIL(rc.done == WORDS);
        cr_assert_gt(refused, 0);
        for (unsigned i = 0; i < WORDS; i++)
            cr_assert_eq(word(1, i), i + 1 + round);
    }

    cr_assert_eq(cx_of(0)->peer[1].unacked, 0);
    stop();
}

/* ---- the end of a peer and of an instance ---- */

Test(tcp_packs, close_gives_packed_puts_back)
{
    start_packs(2, 0);
    for (unsigned i = 0; i < 1 + PACK + 5; i++) /* one pack is in flight, one open */
        put_word(1, i, i, 1);

    cr_assert(cx_of(0)->pack.held);
    ops->mem_dereg(node[0].cx, &node[0].mem);
    ops->close(node[0].cx);
    cr_assert(all_done(0, 1 + PACK + 5, AMPH_ERR_STATE));

    ops->mem_dereg(node[1].cx, &node[1].mem);
    ops->close(node[1].cx);
}

Test(tcp_packs, puts_to_a_peer_that_is_removed_or_gone)
{
    start_packs(3, 0);
    for (unsigned what = 0; what < 2; what++) {
        for (unsigned i = 0; i < 1 + PACK + 5; i++)
            put_word(1, i, i, 1);

        /* to another one, which goes on */
        put_word(2, MANY - 2, 0, 7);
        put_word(2, MANY - 1, 1, 8);

        if (what == 0)
            ops->peer_gone(node[0].cx, 1);
        else
            ops->del_peer(node[0].cx, 1);

        cr_assert(all_done(1, 1 + PACK + 5, AMPH_ERR_PEER));
        PUMP_UNTIL(all_done(MANY - 2, MANY, AMPH_OK));
        for (unsigned i = 0; i < 100; i++)
            pump();

        cr_assert(all_done(1, 1 + PACK + 5, AMPH_ERR_PEER), "once");
    }

    stop();
}

/* The same where an open pack has found no room. */
Test(tcp_packs, a_pack_without_room_fails_with_its_peer)
{
    static void *taken[BUFFERS];

    start_packs(2, 0);
    for (unsigned what = 0; what < 2; what++) {
        cx_of(0)->pack.run = 0; /* none of many */
        for (unsigned i = 0; i < PACK; i++)
            put_word(1, i, i, 1);

        unsigned n = take_room(0, taken);

        if (what == 0)
            ops->peer_gone(node[0].cx, 1);
        else
            ops->del_peer(node[0].cx, 1);

        give_room(0, taken, n);
        cr_assert(all_done(1, PACK, AMPH_ERR_PEER));
        PUMP_UNTIL(all_done(0, 1, AMPH_OK));
        cr_assert_eq(packs_sent(), 0);
    }

    cr_assert_not(cx_of(0)->pack.held);
    stop();
}

/* ---- peers that lie ---- */

/* One put of a message as node 0 sends it. */
struct forged {
    uint64_t key, offset, len_bytes;
    uint8_t data[16];
};

void send_forged(enum amph_lane lane, uint8_t handler, uint8_t nargs, const void *payload,
                 size_t len_bytes)
{
    static const int32_t args[3] = { 0x7ffffff0, 0, 0 };
    const struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                                .handler = handler,
                                .nargs = nargs,
                                .nbytes = (uint32_t)len_bytes,
                                .args = args,
                                .payload = payload };

    send_am(0, 1, lane, &am, NULL);
}

void expect_dropped(enum amph_lane lane, uint8_t handler, uint8_t nargs, const void *payload,
                    size_t len_bytes, bool answered)
{
    const uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_MALFORMED];
    const uint32_t answers = answers_sent();

    send_forged(lane, handler, nargs, payload, len_bytes);
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_MALFORMED] - dropped == 1u + answered);
    cr_assert_eq(answers_sent(), answers + answered);
}

static void expect_refused(uint64_t key, uint64_t offset, uint64_t len_bytes, size_t message_bytes)
{
    struct forged f = { amph_le64(key), amph_le64(offset), amph_le64(len_bytes), { 0 } };

    memset(f.data, 0xee, sizeof f.data);
    expect_dropped(AMPH_LANE_REQUEST, PUTS, 1, &f, message_bytes, true);
}

Test(tcp_packs, malformed_packs_are_dropped)
{
    const struct forged nothing = { 0 };

    start_packs(2, 0);

    const uint64_t key = node[0].rmem[1].rkey;
    uint8_t *before = malloc(SEG_BYTES);

    memset(node[1].seg, 0x55, SEG_BYTES);
    memcpy(before, node[1].seg, SEG_BYTES);

    for (size_t len = 1; len < 24; len++)
        expect_refused(key, 0, 8, len); /* a part of a header */

    expect_refused(key, 0, 8, 24); /* lengths beyond the end */
    expect_refused(key, 0, 9, 32);
    expect_refused(key, 0, 9, 33); /* its padding, too */
    expect_refused(key, 0, UINT64_MAX, 40);
    expect_refused(key, 0, UINT64_MAX - 7, 40);
    expect_refused(key, 0, UINT64_C(1) << 32, 40);
    expect_refused(key, SEG_BYTES - 7, 8, 32); /* outside of the memory */
    expect_refused(key, SEG_BYTES, 8, 32);
    expect_refused(key, UINT64_MAX, 8, 32);
    expect_refused(key, UINT64_MAX - 7, 8, 32);
    expect_refused(key, (uintptr_t)node[1].seg, 8, 32);
    expect_refused(key + 1000, 0, 8, 32); /* no key */
    expect_refused(~key, 0, 8, 32);

    expect_dropped(AMPH_LANE_REQUEST, PUTS, 0, &nothing, 0, false);
    expect_dropped(AMPH_LANE_REQUEST, PUTS, 2, &nothing, 0, false);
    expect_dropped(AMPH_LANE_REPLY, PUTS, 1, &nothing, 0, false);
    expect_dropped(AMPH_LANE_REPLY, DONE, 2, NULL, 0, false); /* nothing is in flight */
    expect_dropped(AMPH_LANE_REQUEST, DONE, 2, NULL, 0, false);
    expect_dropped(AMPH_LANE_REPLY, DONE, 3, NULL, 0, false);
    cr_assert(memcmp(node[1].seg, before, SEG_BYTES) == 0);
    free(before);

    /* the last byte of the memory, and good ones after all that */
    put_word(1, 0, 0, 1);
    put_word(1, 1, SEG_BYTES / 8 - 1, 2);
    PUMP_UNTIL(all_done(0, 2, AMPH_OK));
    cr_assert_eq(word(1, SEG_BYTES / 8 - 1), 2);
    stop();
}

static void put_number(uint8_t *at, uint64_t v, bool big)
{
    for (unsigned i = 0; i < 8; i++)
        at[big ? 7 - i : i] = (uint8_t)(v >> 8 * i);
}

/* The bytes of a message, as a process of either byte order reads and writes them. */
static void expect_order(bool big)
{
    uint8_t message[32] = { 0 };

    amph_wire_swapped = big != AMPH_BIG_ENDIAN;
    start_packs(2, 0);
    put_number(message, node[0].rmem[1].rkey, big);
    put_number(message + 8, 0x10203, big);
    put_number(message + 16, 5, big);
    memcpy(message + 24, "bytes", 5);
    send_forged(AMPH_LANE_REQUEST, PUTS, 1, message, sizeof message);
    PUMP_UNTIL(answers_sent() == 1);
    cr_assert_arr_eq(node[1].seg + 0x10202, "\0bytes\0", 7);

    open_pack();
    PUMP_UNTIL(all_done(0, 2, AMPH_OK) && packs_sent() == 1);
    cr_assert_eq(word(1, 1), 101);
    stop();
}

Test(tcp_packs, words_are_little_endian)
{
    expect_order(false);
}

Test(tcp_packs, the_other_byte_order)
{
    expect_order(true);
}

Test(tcp_packs, a_put_outside_of_the_memory_fails)
{
    start_packs(2, 0);
    open_pack();
    put_word(1, 2, SEG_BYTES / 8, 1);
    PUMP_UNTIL(all_done(1, 3, AMPH_ERR_RANGE));
    stop();
}

/* A peer says that a pack of the other's is done, in various ways. */
Test(tcp_packs, forged_answers)
{
    int32_t args[2] = { 1, AMPH_STATUS_COUNT };
    const struct amph_am am = {
        .kind = AMPH_AM_INTERNAL, .handler = DONE, .nargs = 2, .args = args
    };
    const uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

    start_packs(3, 0);
    open_pack();
    ops->flush(node[0].cx);
    cr_assert_eq(cx_of(0)->pack.last_id, 1);

    send_am(2, 0, AMPH_LANE_REPLY, &am, NULL); /* another peer's pack */
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_MALFORMED] == dropped + 1 &&
               all_done(0, 2, AMPH_OK));

    put_word(1, 0, 0, 1);
    put_word(1, 1, 1, 1);
    ops->flush(node[0].cx);
    args[0] = 2;
    cr_assert_eq(ops->am_send(node[1].cx, 0, AMPH_LANE_REPLY, &am, NULL), AMPH_OK);

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (!rcs[1].done) {
        ops->progress(node[0].cx, ~0u, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert_eq(rcs[1].st, AMPH_ERR_PROTO, "a status that does not exist");
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_MALFORMED] == dropped + 2); /* the true answer */
    cr_assert_eq(rcs[1].done, 1);
    stop();
}

/* A peer that sends puts without end and takes no answers. */
Test(tcp_packs, answers_that_find_no_room_are_bounded)
{
    enum {
        SENT = 500,
        PACKS_MAX = 32
    };

    start_packs(2, 1u << 1); /* node 1 is threaded: its answers wait for a flush */

    const uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

    for (unsigned i = 0; i < SENT; i++) {
        send_forged(AMPH_LANE_REQUEST, PUTS, 1, NULL, 0);
        ops->progress(node[1].cx, ~0u, 64);
    }

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (amph_counters[AMPH_COUNTER_DROP_MALFORMED] < dropped + SENT - PACKS_MAX) {
        ops->progress(node[0].cx, ~0u, 64);
        ops->progress(node[1].cx, ~0u, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert_eq(cx_of(1)->peer[0].answers, PACKS_MAX);
    cr_assert_eq(answers_sent(), 0);
    ops->del_peer(node[1].cx, 0);
    cr_assert_eq(cx_of(1)->pack.nanswers, 0);
    stop();
}

/* ---- threads ---- */

Test(tcp_packs, threaded_instances_send_puts_by_themselves)
{
    start_packs(2, 1u << 0);
    for (unsigned i = 0; i < 20; i++)
        put_word(1, i, i, i + 1);

    PUMP_UNTIL(all_done(0, 20, AMPH_OK));
    cr_assert_eq(packs_sent(), 0);
    stop();
}

static pthread_mutex_t send_lock = PTHREAD_MUTEX_INITIALIZER;
static bool stop_polling;

/* Makes progress as am/poll.c does. */
static void *poll_thread(void *arg)
{
    while (!__atomic_load_n(&stop_polling, __ATOMIC_ACQUIRE)) {
        if (ops->progress(node[1].cx, ~0u, 64) == 0)
            continue;

        pthread_mutex_lock(&send_lock);
        ops->flush(node[1].cx);
        pthread_mutex_unlock(&send_lock);
    }

    return NULL;
}

/* A threaded target sends its answers from the thread that polls, and messages from another. */
Test(tcp_packs, a_threaded_target_answers)
{
    pthread_t thread;
    uint64_t sent = 0;

    start_packs(2, 1u << 1);
    cr_assert_eq(pthread_create(&thread, NULL, poll_thread, NULL), 0);

    for (unsigned round = 1; round < 200; round++) {
        for (unsigned i = 0; i < 1 + PACK + 20; i++)
            put_word(1, i, i, round);

        uint64_t end = amph_now_ns() + LIMIT_NS;

        while (!all_done(0, 1 + PACK + 20, AMPH_OK)) {
            const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };

            pthread_mutex_lock(&send_lock);
            sent += ops->am_send(node[1].cx, 0, AMPH_LANE_REQUEST, &am, NULL) == AMPH_OK;
            pthread_mutex_unlock(&send_lock);
            ops->progress(node[0].cx, ~0u, 64);
            cr_assert_lt(amph_now_ns(), end);
        }

        for (unsigned i = 0; i < 1 + PACK + 20; i++)
            cr_assert_eq(word(1, i), round);
    }

    __atomic_store_n(&stop_polling, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    PUMP_UNTIL(node[0].got[0] == sent);
    cr_assert_gt(packs_sent(), 0);
    stop();
}

/* A process that sends packs is looked at less often, until it has stopped; a message shortens that. */
Test(tcp_packs, the_pusher_looks_less_often_at_a_process_that_sends)
{
    struct amph_ofi_pusher *pusher;
    struct itimerspec left;

    start_packs(2, 0);
    pusher = &cx_of(0)->pusher;
    let_push(true);

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (__atomic_load_n(&pusher->pack_ns, __ATOMIC_RELAXED) < OFI_PUSH_LATE_NS) {
        for (unsigned i = 0; i < 10; i++)
            put_word(1, i, i, 1);

        PUMP_UNTIL(all_done(0, 10, AMPH_OK));
        cr_assert_lt(amph_now_ns(), end);
    }

    /* a pack is sent by the second look */
    open_pack();
    while (word(1, 1) != 101) {
        ops->progress(node[1].cx, ~0u, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    PUMP_UNTIL(all_done(0, 2, AMPH_OK));
    while (__atomic_load_n(&pusher->set, __ATOMIC_SEQ_CST)) {
        pump();
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert_eq(__atomic_load_n(&pusher->pack_ns, __ATOMIC_RELAXED), OFI_PUSH_NS);

    /* a message that is kept back does not wait for as long as a pack */
    __atomic_store_n(&pusher->pack_ns, 100 * AMPH_NS_PER_MS, __ATOMIC_RELAXED);
    open_pack();
    cr_assert(pusher->late);
    cr_assert_eq(timerfd_gettime(pusher->fd, &left), 0);
    cr_assert_gt(left.it_value.tv_nsec, 10 * (long)AMPH_NS_PER_MS);
    for (int i = 0; i < 10; i++)
        send_short(0, 1, AMPH_LANE_REQUEST, i);

    cr_assert_not(pusher->late);
    cr_assert_eq(timerfd_gettime(pusher->fd, &left), 0);
    cr_assert_leq(left.it_value.tv_nsec, (long)OFI_PUSH_NS);
    PUMP_UNTIL(all_done(0, 2, AMPH_OK) && node[1].got[0] == 11);
    stop();
}

/* The pusher's thread and the process send packs by turns. */
Test(tcp_packs, the_process_and_its_pusher_send_packs_by_turns)
{
    start_packs(2, 0);
    let_push(true);
    for (unsigned round = 1; round < 400; round++) {
        const uint64_t until = amph_now_ns() + round % 8 * (OFI_PUSH_NS / 4);

        for (unsigned i = 0; i < 10; i++)
            put_word(1, i, i, round);

        do { /* computes */
            ops->progress(node[1].cx, ~0u, 64);
        } while (amph_now_ns() < until);

        send_short(0, 1, AMPH_LANE_REQUEST, 1);
        PUMP_UNTIL(all_done(0, 10, AMPH_OK) && node[1].got[0] == round + 1);
        for (unsigned i = 0; i < 10; i++)
            cr_assert_eq(word(1, i), round);
    }

    stop();
}
