/* SPDX-License-Identifier: BSD-3-Clause */
/* am/lost.c: messages that a connection loses are noticed, messages that are only late are not. */
#include <criterion/criterion.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "tests/unit/unit_am_fake.h"
#include "tests/unit/unit_am.h"

#define SILENCE_NS (1500 * AMPH_NS_PER_MS) /* longer than the silence before the first question */
#define LIMIT_NS (15 * AMPH_NS_PER_S)

static void setup(void)
{
    fake_reset();
    start();
    add(b, 20, answer, 1, 1, 0);
    add(a, 21, count_reply, 1, 2, 0);
}

TestSuite(lost, .init = setup, .fini = teardown, .timeout = 60);

static bool is_failed(struct amph_am_ep *ep, uint32_t peer)
{
    return ep->peer[peer].dead;
}

/* Both endpoints wait, as their processes would. */
static void wait_both(uint64_t for_ns, bool until_failed)
{
    struct amph_waiter wa = AMPH_WAITER_INIT;
    struct amph_waiter wb = AMPH_WAITER_INIT;
    uint64_t end_ns = amph_now_ns() + for_ns;

    while (amph_now_ns() < end_ns && !(until_failed && is_failed(a, 1) && is_failed(b, 0))) {
        amph_am_wait_step(a, &wa);
        amph_am_wait_step(b, &wb);
    }
}

static void exchange(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);
        amph_am_poll(b);
        amph_am_poll(a);
    }
}

Test(lost, request)
{
    exchange(10);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    fake_lose(1, AMPH_LANE_REQUEST);
    wait_both(LIMIT_NS, true);
    cr_assert(is_failed(a, 1));
    cr_assert(is_failed(b, 0));
    cr_assert_eq(send_short(20, 0, 0), AMPH_ERR_PEER);
}

Test(lost, reply)
{
    exchange(10);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    amph_am_poll(b);
    fake_lose(0, AMPH_LANE_REPLY);
    wait_both(LIMIT_NS, true);
    cr_assert(is_failed(a, 1));
    cr_assert(is_failed(b, 0));
}

/* Only one side sends, so only that side has something to ask for. */
Test(lost, message_to_a_peer_that_sends_nothing)
{
    add(b, 22, count, 1, 1, 0);
    cr_assert_eq(send_short(22, 0, 0), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(send_short(22, 0, 0), AMPH_OK);
    fake_lose(1, AMPH_LANE_REQUEST);
    wait_both(LIMIT_NS, true);
    cr_assert(is_failed(a, 1));
}

/* A peer that computes for a while answers late. */
Test(lost, not_if_the_peer_polls_late)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    uint64_t end_ns = amph_now_ns() + SILENCE_NS;

    exchange(10);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    while (amph_now_ns() < end_ns)
        amph_am_wait_step(a, &w);

    cr_assert_gt(fake.sent[AMPH_AM_INTERNAL], 0, "a silent peer is asked");
    wait_both(SILENCE_NS, false);
    cr_assert_eq(seen.replies, 11);
    cr_assert_not(is_failed(a, 1));
    cr_assert_not(is_failed(b, 0));
}

/* After one answer nothing is left to ask for. */
Test(lost, few_questions_without_traffic)
{
    exchange(1000);
    wait_both(2 * SILENCE_NS, false);
    cr_assert_gt(fake.sent[AMPH_AM_INTERNAL], 0);
    cr_assert_leq(fake.sent[AMPH_AM_INTERNAL], 4, "%u internal messages",
                  fake.sent[AMPH_AM_INTERNAL]);
}

/* A number is 32 bits wide. */
Test(lost, numbers_wrap_around)
{
    a->peer[1].sent = b->peer[0].received = a->peer[1].received = b->peer[0].sent = UINT32_MAX - 2;
    exchange(10);
    wait_both(SILENCE_NS, false);
    cr_assert_not(is_failed(a, 1));
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    fake_lose(1, AMPH_LANE_REQUEST);
    wait_both(LIMIT_NS, true);
    cr_assert(is_failed(a, 1));
}

/* A peer that comes back under its number begins to count again. */
Test(lost, a_peer_that_comes_back)
{
    size_t len;

    exchange(10);
    amph_am_del_peer(a, 1);
    amph_am_del_peer(b, 0);

    const void *addr = amph_am_address(b, &len);

    cr_assert_eq(amph_am_add_peer(a, 1, addr, len, 0, 0, 1, NULL), AMPH_OK);
    addr = amph_am_address(a, &len);
    cr_assert_eq(amph_am_add_peer(b, 0, addr, len, 1, 1, 0, NULL), AMPH_OK);
    exchange(1);
    wait_both(SILENCE_NS, false);
    cr_assert_not(is_failed(a, 1));
    cr_assert_not(is_failed(b, 0));
}

/* Questions and answers of the wrong form are ignored. */
Test(lost, malformed_questions)
{
    const int32_t args[1] = { 7 };

    for (uint8_t code = AMPH_AM_INTERNAL_ASK; code <= AMPH_AM_INTERNAL_ANSWER; code++) {
        const struct amph_am am = {
            .kind = AMPH_AM_INTERNAL, .handler = code, .nargs = 1, .args = args
        };

        fake_inject(0, 1, AMPH_LANE_REQUEST, &am);
        amph_am_poll(a);
    }

    exchange(1);
    cr_assert_not(is_failed(a, 1));
}
