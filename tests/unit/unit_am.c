/* SPDX-License-Identifier: BSD-3-Clause */
/* am/: handlers, delivery, credits, replies that are put off; two endpoints in one process. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "am/address.h"
#include "am/ep.h"
#include "base/os/clock.h"
#include "base/wire.h"
#include "tests/unit/unit_am_fake.h"
#include "tests/unit/unit_am.h"

struct amph_am_ep *a, *b; /* peer 1 of a is b; peer 0 of b is a */
struct seen seen;

uint8_t segment[256 << 10] __attribute__((aligned(64)));
static int failures_told;

/* What is tested are the fake conduit's own put and get, also when the suite runs with AMPHORA_RMA=emulate. */
static void __attribute__((constructor)) native_rma(void)
{
    unsetenv("AMPHORA_RMA");
}

static void on_error(struct amph_am_ep *ep, uint32_t peer, enum amph_status st, const char *why)
{
    failures_told++;
}

struct amph_am_ep *open_one(uint64_t host, bool threaded)
{
    struct amph_am_config cfg = { .name = "test",
                                  .domain = 1,
                                  .max_peers = 4,
                                  .threaded = threaded,
                                  .use_smp = true,
                                  .net = &fake_ops,
                                  .loopback_only = true,
                                  .host_id = host,
                                  .on_peer_error = on_error };
    struct amph_am_ep *ep = NULL;

    cr_assert_eq(amph_am_open(&cfg, &ep), AMPH_OK);
    return ep;
}

static void connect_ab(void)
{
    size_t len;
    const void *addr = amph_am_address(b, &len);

    cr_assert_eq(amph_am_add_peer(a, 1, addr, len, 0, 0, 1, NULL), AMPH_OK);
    addr = amph_am_address(a, &len);
    cr_assert_eq(amph_am_add_peer(b, 0, addr, len, 1, 1, 0, NULL), AMPH_OK);

    struct amph_rmem rmem = { .base = (uintptr_t)segment, .len_bytes = sizeof segment };

    amph_am_set_segment(b, segment, sizeof segment);
    amph_am_set_segment(a, segment, sizeof segment);
    amph_am_set_peer_segment(a, 1, &rmem);
    amph_am_set_peer_segment(b, 0, &rmem);
}

void start(void)
{
    a = open_one(1, false);
    b = open_one(2, false);
    connect_ab();
    memset(&seen, 0, sizeof seen);
    failures_told = 0;
}

static void setup(void)
{
    fake_reset();
    start();
}

void teardown(void)
{
    amph_am_close(a);
    amph_am_close(b);
}

void count(struct amph_token *token, const struct amph_am *am)
{
    seen.n++;
    for (unsigned i = 0; i < am->nargs; i++)
        seen.sum += am->args[i];

    seen.nbytes = am->nbytes;
    seen.payload = am->payload;

    if (am->nbytes) {
        seen.first = *(const uint8_t *)am->payload;
        seen.last = ((const uint8_t *)am->payload)[am->nbytes - 1];
    }
}

void count_reply(struct amph_token *token, const struct amph_am *am)
{
    cr_assert_not(token->is_request);
    seen.replies++;
    const struct amph_am again = { .kind = AMPH_AM_SHORT, .handler = 21 };

    seen.st = amph_am_reply(token, &again, 0, NULL);
}

void answer(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = { .kind = AMPH_AM_SHORT, .handler = 21 };

    count(token, am);
    cr_assert_eq(amph_am_reply(token, &reply, 0, NULL), AMPH_OK);
    seen.st = amph_am_reply(token, &reply, 0, NULL);
    seen.polled += amph_am_poll(token->ep);
}

void add(struct amph_am_ep *ep, unsigned index, amph_am_fn fn, int kinds, int dirs, int nargs)
{
    const struct amph_am_entry entry = { (void *)fn, false, (uint8_t)kinds, (uint8_t)dirs,
                                         nargs,      NULL,  "test" };

    cr_assert_eq(amph_am_register(ep, index, &entry), AMPH_OK);
}

enum amph_status send_short(unsigned handler, unsigned nargs, unsigned flags)
{
    static const int32_t args[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = (uint8_t)handler, .nargs = (uint8_t)nargs, .args = args
    };

    return amph_am_request(a, 1, &am, flags, NULL);
}

TestSuite(am, .init = setup, .fini = teardown);

/* ---- handlers and delivery ---- */

Test(am, register_refuses)
{
    struct amph_am_entry e = { (void *)count, false, 1, 1, 0, NULL, "e" };

    cr_assert_eq(amph_am_register(b, 20, &e), AMPH_OK);
    cr_assert_eq(amph_am_register(b, 20, &e), AMPH_ERR_STATE);
    cr_assert_eq(amph_am_register(b, 256, &e), AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_register(b, 0, &e), AMPH_ERR_RANGE);
    e.nargs = 17;
    cr_assert_eq(amph_am_register(b, 22, &e), AMPH_ERR_ARG);
    e.nargs = 0;
    e.kinds = 0;
    cr_assert_eq(amph_am_register(b, 22, &e), AMPH_ERR_ARG);
    cr_assert_not_null(amph_am_handler(b, 20));
    cr_assert_null(amph_am_handler(b, 22));
    cr_assert_null(amph_am_handler(b, 1000));
}

static void refused(struct amph_am am, enum amph_lane lane)
{
    uint64_t before = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

    fake_inject(1, 0, lane, &am);
    amph_am_poll(b);
    cr_assert_eq(amph_counters[AMPH_COUNTER_DROP_MALFORMED], before + 1,
                 "kind %u handler %u lane %d", am.kind, am.handler, lane);
    cr_assert_eq(seen.n, 0);
}

Test(am, hostile_messages_are_dropped_and_counted)
{
    static const int32_t args[16] = { 0 };

    add(b, 20, count, 1, 1, 2);
    add(b, 22, count, 4, 1, 0);
    refused((struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 99 }, AMPH_LANE_REQUEST);
    refused((struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 0 }, AMPH_LANE_REQUEST);
    refused((struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 20, .nargs = 3, .args = args },
            AMPH_LANE_REQUEST);
    refused((struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 20, .nargs = 2, .args = args },
            AMPH_LANE_REPLY);
    refused((struct amph_am){ .kind = AMPH_AM_MEDIUM, .handler = 20, .nargs = 2, .args = args },
            AMPH_LANE_REQUEST);
    refused((struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 20, .nargs = 200, .args = args },
            AMPH_LANE_REQUEST);
    refused((struct amph_am){ .kind = 77, .handler = 20 }, AMPH_LANE_REQUEST);

    const uint64_t base = (uintptr_t)segment;
    const uint64_t dests[] = {
        0, base - 1, base + sizeof segment, base + sizeof segment - 3, UINT64_MAX, UINT64_MAX - 2
    };

    for (size_t i = 0; i < AMPH_COUNTOF(dests); i++)
        refused(
            (struct amph_am){ .kind = AMPH_AM_LONG, .handler = 22, .nbytes = 4, .dest = dests[i] },
            AMPH_LANE_REQUEST);

    refused(
        (struct amph_am){ .kind = AMPH_AM_LONG, .handler = 22, .nbytes = UINT32_MAX, .dest = base },
        AMPH_LANE_REQUEST);
    fake_inject(
        1, 0, AMPH_LANE_REQUEST,
        &(struct amph_am){ .kind = AMPH_AM_LONG, .handler = 22, .nbytes = 4, .dest = base });
    amph_am_poll(b);
    cr_assert_eq(seen.n, 1);
}

static int32_t got_args[18];
static unsigned got_calls;
static void *got_buf;
static size_t got_n;

static void client16(struct amph_token *t, int32_t x0, int32_t x1, int32_t x2, int32_t x3,
                     int32_t x4, int32_t x5, int32_t x6, int32_t x7, int32_t x8, int32_t x9,
                     int32_t x10, int32_t x11, int32_t x12, int32_t x13, int32_t x14, int32_t x15)
{
    const int32_t x[] = { x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 };

    memcpy(got_args, x, sizeof x);
    got_calls++;
}

static void client_data16(struct amph_token *t, void *buf, size_t n, int32_t x0, int32_t x1,
                          int32_t x2, int32_t x3, int32_t x4, int32_t x5, int32_t x6, int32_t x7,
                          int32_t x8, int32_t x9, int32_t x10, int32_t x11, int32_t x12,
                          int32_t x13, int32_t x14, int32_t x15)
{
    got_buf = buf;
    got_n = n;
    client16(t, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15);
}

static void client3(struct amph_token *t, int32_t x0, int32_t x1, int32_t x2)
{
    client16(t, x0, x1, x2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void client_data0(struct amph_token *t, void *buf, size_t n)
{
    got_buf = buf;
    got_n = n;
    got_calls++;
}

Test(am, client_forms)
{
    const struct amph_am_entry e[] = { { (void *)client16, true, 1, 3, 16, NULL, "" },
                                       { (void *)client_data16, true, 6, 3, 16, NULL, "" },
                                       { (void *)client3, true, 1, 3, 3, NULL, "" },
                                       { (void *)client_data0, true, 2, 3, 0, NULL, "" } };

    for (unsigned i = 0; i < AMPH_COUNTOF(e); i++)
        cr_assert_eq(amph_am_register(b, 200 + i, &e[i]), AMPH_OK);

    int32_t args[16];

    for (int i = 0; i < 16; i++)
        args[i] = i & 1 ? INT32_MIN + i : i * 1000;

    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 200, .nargs = 16, .args = args };

    cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
    amph_am_poll(b);
    cr_assert_arr_eq(got_args, args, sizeof args);
    am = (struct amph_am){ .kind = AMPH_AM_MEDIUM,
                           .handler = 201,
                           .nargs = 16,
                           .args = args,
                           .nbytes = 5,
                           .payload = "four" };
    memset(got_args, 0, sizeof got_args);
    cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
    amph_am_poll(b);
    cr_assert_arr_eq(got_args, args, sizeof args);
    cr_assert_eq(got_n, 5);
    am = (struct amph_am){ .kind = AMPH_AM_LONG,
                           .handler = 201,
                           .nargs = 16,
                           .args = args,
                           .nbytes = 5,
                           .payload = "four",
                           .dest = (uintptr_t)segment + 100 };
    cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(got_buf, segment + 100);
    cr_assert_str_eq((char *)segment + 100, "four");
    am = (struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 202, .nargs = 3, .args = args };
    cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
    amph_am_poll(b);
    cr_assert_arr_eq(got_args, args, 3 * sizeof args[0]);
    am = (struct amph_am){ .kind = AMPH_AM_MEDIUM, .handler = 203, .nbytes = 0 };
    cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(got_calls, 5);
    cr_assert_eq(got_n, 0);
}

/* A client's handlers for each number of arguments, short and with payload: what they got lands in
 * got_args[1..]. */
#define L0
#define X0
#define L1 , int32_t x0
#define X1 , x0
#define L2 L1, int32_t x1
#define X2 X1, x1
#define L3 L2, int32_t x2
#define X3 X2, x2
#define L4 L3, int32_t x3
#define X4 X3, x3
#define L5 L4, int32_t x4
#define X5 X4, x4
#define L6 L5, int32_t x5
#define X6 X5, x5
#define L7 L6, int32_t x6
#define X7 X6, x6
#define L8 L7, int32_t x7
#define X8 X7, x7
#define L9 L8, int32_t x8
#define X9 X8, x8
#define L10 L9, int32_t x9
#define X10 X9, x9
#define L11 L10, int32_t x10
#define X11 X10, x10
#define L12 L11, int32_t x11
#define X12 X11, x11
#define L13 L12, int32_t x12
#define X13 X12, x12
#define L14 L13, int32_t x13
#define X14 X13, x13
#define L15 L14, int32_t x14
#define X15 X14, x14
#define L16 L15, int32_t x15
#define X16 X15, x15
#define TAKE(n) \
    static void take_##n(struct amph_token *t L##n) \
    { \
        const int32_t x[] = { n X##n }; \
        memcpy(got_args, x, sizeof x); \
        got_calls++; \
    } \
    static void take_data_##n(struct amph_token *t, void *buf, size_t nbytes L##n) \
    { \
        got_buf = buf; \
        got_n = nbytes; \
        take_##n(t X##n); \
    }
#define EACH(M) \
    M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16)

EACH(TAKE)
#define NAMES(n) { (void *)take_##n, (void *)take_data_##n },
static void *const takers[][2] = { EACH(NAMES) };

Test(am, each_number_of_arguments)
{
    int32_t args[16];

    for (int i = 0; i < 16; i++)
        args[i] = -1000 - i;

    for (int n = 0; n <= 16; n++) {
        const struct amph_am_entry e = { takers[n][0], true, 1, 1, n, NULL, "" };
        const struct amph_am_entry data = { takers[n][1], true, 2, 1, n, NULL, "" };

        cr_assert_eq(amph_am_register(b, 130 + (unsigned)n, &e), AMPH_OK);
        cr_assert_eq(amph_am_register(b, 160 + (unsigned)n, &data), AMPH_OK);

        struct amph_am am = {
            .kind = AMPH_AM_SHORT, .handler = (uint8_t)(130 + n), .nargs = (uint8_t)n, .args = args
        };

        for (int with_data = 0; with_data < 2; with_data++) {
            memset(got_args, 0, sizeof got_args);
            cr_assert_eq(amph_am_request(a, 1, &am, 0, NULL), AMPH_OK);
            amph_am_poll(b);
            cr_assert_eq(got_args[0], n);
            cr_assert_arr_eq(got_args + 1, args, (size_t)n * sizeof args[0]);
            cr_assert(n == 16 || got_args[n + 1] == 0);
            am.kind = AMPH_AM_MEDIUM;
            am.handler = (uint8_t)(160 + n);
            am.nbytes = 3;
            am.payload = "abc";
        }

        cr_assert_eq(got_calls, 2 * (n + 1));
        cr_assert_eq(got_n, 3);
    }

    cr_assert_eq(send_short(20, 17, 0), AMPH_ERR_ARG);
}

/* ---- requests, replies, credits ---- */

Test(am, one_reply_and_no_polling_inside_handlers)
{
    add(b, 20, answer, 1, 1, 0);
    add(a, 21, count_reply, 1, 2, 0);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(seen.st, AMPH_ERR_STATE); /* second reply */
    cr_assert_eq(seen.polled, 0);
    amph_am_poll(a);
    cr_assert_eq(seen.replies, 1);
    cr_assert_eq(seen.st, AMPH_ERR_STATE); /* reply to a reply */
}

Test(am, range_and_unknown_peers)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 20 };

    cr_assert_eq(amph_am_request(a, 4, &am, 0, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_request(a, UINT32_MAX, &am, 0, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_request(a, 3, &am, 0, NULL), AMPH_ERR_PEER);

    const struct amph_am odd = { .kind = AMPH_AM_INTERNAL, .handler = 1 };

    cr_assert_eq(amph_am_request(a, 1, &odd, 0, NULL), AMPH_ERR_ARG);
}

Test(am, ping_pong_needs_no_credit_messages)
{
    add(b, 20, answer, 1, 1, 0);
    add(a, 21, count_reply, 1, 2, 0);

    for (unsigned i = 0; i < 1000; i++) {
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);
        amph_am_poll(b);
        amph_am_poll(a);
    }

    cr_assert_eq(seen.replies, 1000);
    cr_assert_eq(fake.sent[AMPH_AM_INTERNAL], 0);
    cr_assert_eq(fake.sent[AMPH_AM_SHORT], 2000);
}

/* A conduit that counts credits, and one that limits its flow itself, whose messages take a shorter way. */
Test(am, a_message_ends_the_rest_between_looks)
{
    for (unsigned i = 0; i < 2; i++) {
        teardown();
        fake.self_flow = i == 1;
        start();
        add(b, 20, answer, 1, 1, 0);
        add(a, 21, count_reply, 1, 2, 0);
        cr_assert_eq(a->peer[1].fast != NULL, fake.self_flow);

        a->rest.until_ns = b->rest.until_ns = UINT64_MAX;
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);
        cr_assert_eq(a->rest.until_ns, 0, "after a request");

        amph_am_poll(b);
        cr_assert_eq(seen.n, 1);
        cr_assert_eq(b->rest.until_ns, 0, "after a reply");
    }
}

Test(am, window_and_its_return)
{
    add(b, 20, count, 1, 1, 0);
    for (unsigned i = 0; i < AMPH_AM_WINDOW; i++)
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);

    cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_AGAIN);
    while (amph_am_poll(b))
        ;

    cr_assert_eq(seen.n, AMPH_AM_WINDOW);
    cr_assert_eq(fake.sent[AMPH_AM_INTERNAL], 2);
    while (amph_am_poll(a))
        ;

    for (unsigned i = 0; i < AMPH_AM_WINDOW; i++)
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);

    cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_AGAIN);
}

Test(am, dropped_requests_give_their_credit_back)
{
    for (unsigned i = 0; i < 4 * AMPH_AM_WINDOW; i++) {
        cr_assert_eq(send_short(99, 0, AMPH_AM_IMMEDIATE), AMPH_OK);
        amph_am_poll(b);
        amph_am_poll(a);
    }
}

Test(am, too_many_credits_are_no_gain)
{
    const struct amph_am gift = { .kind = AMPH_AM_INTERNAL,
                                  .handler = AMPH_AM_INTERNAL_CREDITS,
                                  .aux = 60000 };

    fake_inject(0, 1, AMPH_LANE_REPLY, &gift);
    amph_am_poll(a);
    cr_assert_eq(a->peer[1].credits, AMPH_AM_WINDOW_MAX);
}

/* A sender that had to wait for credits gets more, up to a limit. */
Test(am, window_grows_where_it_is_used_up)
{
    unsigned window = 0;

    add(b, 20, count, 1, 1, 0);
    for (unsigned round = 0; round < 10; round++) {
        for (window = 0; send_short(20, 0, AMPH_AM_IMMEDIATE) == AMPH_OK; window++)
            ;

        cr_assert_leq(window, AMPH_AM_WINDOW_MAX);
        while (amph_am_poll(b) + amph_am_poll(a))
            ;
    }

    cr_assert_eq(window, AMPH_AM_WINDOW_MAX);
    cr_assert_eq(b->peer[0].window, AMPH_AM_WINDOW_MAX);
}

Test(am, replies_without_room_are_put_off)
{
    add(b, 20, answer, 1, 1, 0);
    add(a, 21, count_reply, 1, 2, 0);
    fake.room[AMPH_LANE_REPLY] = 1;
    for (unsigned i = 0; i < 50; i++)
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);

    for (unsigned i = 0; i < 10; i++)
        amph_am_poll(b);

    cr_assert_eq(seen.n, AMPH_AM_BUDGET, "no further requests while replies are put off (%u)",
                 seen.n);
    cr_assert_not_null(b->deferred);

    for (unsigned i = 0; i < 200 && seen.replies < 50; i++) {
        amph_am_poll(a);
        amph_am_poll(b);
    }

    cr_assert_eq(seen.replies, 50);
    cr_assert_null(b->deferred);
    cr_assert_eq(b->deferred_end, &b->deferred);
}

/* Nothing wakes a sleeper when there is room for a reply again. */
Test(am, sleeps_are_short_while_replies_are_put_off, .timeout = 20)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    add(b, 20, answer, 1, 1, 0);
    fake.room[AMPH_LANE_REPLY] = 1;
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);

    amph_am_poll(b);
    cr_assert_not_null(b->deferred);

    b->cx[AMPH_CX_NET]->caps.fd_blocks = true;
    amph_job.sleep_factor = 16;
    amph_am_set_wait_mode(AMPH_WAIT_BLOCK);

    uint64_t begin = amph_now_ns();

    for (unsigned i = 0; i < 20; i++)
        amph_am_wait_step(b, &w);

    cr_assert_lt(amph_now_ns() - begin, AMPH_NS_PER_S);
}

static void greedy(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am more = { .kind = AMPH_AM_SHORT, .handler = 20 };

    fake.room[AMPH_LANE_REQUEST] = 0;
    seen.n++;
    seen.st = amph_am_request(token->ep, token->peer, &more, 0, NULL);
}

Test(am, handlers_cannot_wait_for_room)
{
    add(b, 20, greedy, 1, 1, 0);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(seen.n, 1);
    cr_assert_eq(seen.st, AMPH_ERR_STATE);
}

/* ---- peers ---- */

Test(am, addresses_parse_whole_or_not_at_all)
{
    size_t len;
    const uint8_t *addr = amph_am_address(b, &len);
    uint8_t copy[AMPH_AM_ADDR_MAX_BYTES + 1];
    struct amph_address parsed;

    cr_assert_leq(len, AMPH_AM_ADDR_MAX_BYTES);
    cr_assert_eq(amph_am_address_parse(addr, len, &parsed), AMPH_OK);
    cr_assert_eq(parsed.host, 2);
    for (size_t cut = 0; cut < len; cut++)
        cr_assert_eq(amph_am_add_peer(a, 2, addr, cut, 0, 0, 2, NULL), AMPH_ERR_PROTO, "%zu bytes",
                     cut);

    memcpy(copy, addr, len);
    copy[len] = 0;
    cr_assert_eq(amph_am_add_peer(a, 2, copy, len + 1, 0, 0, 2, NULL), AMPH_ERR_PROTO);

    for (size_t i = 0; i < 2000; i++) {
        memcpy(copy, addr, len);
        copy[(i * 7919) % len] ^= (uint8_t)(1 + i % 255);
        amph_am_address_parse(copy, len,
                              &parsed); /* any answer, no overrun: the sanitizers look on */
    }

    cr_assert_eq(amph_am_add_peer(a, 1, addr, len, 0, 0, 1, NULL), AMPH_ERR_STATE);
    cr_assert_eq(amph_am_add_peer(a, 9, addr, len, 0, 0, 1, NULL), AMPH_ERR_RANGE);
}

Test(am, providers_of_other_protocols_do_not_reach_each_other)
{
    struct amph_am_why why = { .peer = "it", .self = "this one" };
    size_t len;

    fake.protocol = 7;
    fake.provider = "the provider of the other side, whose name is too long for an address";

    struct amph_am_ep *c = open_one(3, false);
    const void *addr = amph_am_address(c, &len);

    cr_assert_eq(amph_am_add_peer(a, 2, addr, len, 0, 0, 2, &why), AMPH_ERR_PEER);
    cr_assert(strstr(why.text, "provider the provider of the other side,  and this one"), "%s",
              why.text);
    cr_assert_eq(amph_am_add_peer(a, 2, addr, len, 0, 0, 2, NULL), AMPH_ERR_PEER);
    cr_assert_eq(amph_am_add_peer(a, 2, addr, len - 1, 0, 0, 2, &why), AMPH_ERR_PROTO);
    cr_assert_str_eq(why.text, "the address of it is malformed");

    addr = amph_am_address(a, &len);
    cr_assert_eq(amph_am_add_peer(c, 0, addr, len, 0, 0, 0, &why), AMPH_ERR_PEER);
    cr_assert(strstr(why.text, "it runs the network fake"), "%s", why.text);

    /* a reason of another kind */
    cr_assert_eq(amph_am_add_peer(a, 9, addr, len, 0, 0, 1, &why), AMPH_ERR_RANGE);
    cr_assert_str_eq(why.text, "");
    amph_am_close(c);
}

/* One provider, or none, but the messages differ: another version of Amphora. */
static void meet_other_version(const char *provider)
{
    struct amph_am_why why = { .peer = "it", .self = "this one" };
    size_t len;

    fake.protocol = 7;
    fake.provider = provider;

    struct amph_am_ep *c = open_one(3, false);

    fake.protocol = 8;

    struct amph_am_ep *d = open_one(4, false);
    const void *addr = amph_am_address(c, &len);

    cr_assert_eq(amph_am_add_peer(d, 2, addr, len, 0, 0, 2, &why), AMPH_ERR_PEER);
    cr_assert_str_eq(
        why.text, "it and this one have versions of Amphora whose messages over the network fake "
                  "differ; give both the same version");
    amph_am_close(c);
    amph_am_close(d);
}

Test(am, versions_with_other_messages_do_not_reach_each_other)
{
    meet_other_version("tcp");
    meet_other_version(NULL);
}

Test(am, pretended_hosts_share_no_memory)
{
    cr_assert_str_eq(amph_am_peer_conduit(a, 1), "fake");
    cr_assert_not(amph_am_peer_is_local(a, 1));

    struct amph_am_ep *c = open_one(1, false);
    size_t len;
    const void *addr = amph_am_address(c, &len);

    cr_assert_eq(amph_am_add_peer(a, 2, addr, len, 0, 0, 2, NULL), AMPH_OK);
    cr_assert(amph_am_peer_is_local(a, 2));
    amph_am_del_peer(a, 2);
    amph_am_close(c);
    addr = amph_am_address(a, &len);
    cr_assert_eq(amph_am_add_peer(a, 0, addr, len, 0, 0, 0, NULL), AMPH_OK);
    cr_assert(amph_am_peer_is_local(a, 0));
    cr_assert_eq(amph_am_host_id("n1"), amph_am_host_id("n1"));
    cr_assert_neq(amph_am_host_id("n1"), amph_am_host_id("n2"));
    cr_assert_neq(amph_am_host_id(NULL), 0);
}

Test(am, to_oneself_through_shared_memory)
{
    size_t len;
    const void *addr = amph_am_address(a, &len);

    cr_assert_eq(amph_am_add_peer(a, 0, addr, len, 0, 0, 0, NULL), AMPH_OK);
    add(a, 20, answer, 3, 1, 0);
    add(a, 21, count_reply, 1, 2, 0);

    const struct amph_am am = {
        .kind = AMPH_AM_MEDIUM, .handler = 20, .nbytes = 6, .payload = "hello"
    };

    for (unsigned i = 0; i < 1000; i++)
        cr_assert_eq(amph_am_request(a, 0, &am, 0, NULL), AMPH_OK);

    for (unsigned i = 0; i < 100000 && seen.replies < 1000; i++)
        amph_am_poll(a);

    cr_assert_eq(seen.n, 1000);
    cr_assert_eq(seen.replies, 1000);
}

Test(am, dead_peers_fail_instead_of_filling_up)
{
    struct amph_rmem rmem = { .base = (uintptr_t)segment, .len_bytes = sizeof segment };

    fake_fail_peer(0, 1);
    amph_am_poll(a);
    amph_am_peer_failed(a, 1, AMPH_ERR_PEER, "again");
    cr_assert_eq(failures_told, 1);
    cr_assert_eq(send_short(20, 0, 0), AMPH_ERR_PEER);
    cr_assert_eq(send_long((uintptr_t)segment, segment, 100, 0, NULL), AMPH_ERR_PEER);
    cr_assert_eq(send_long((uintptr_t)segment, segment, 100000, 0, NULL), AMPH_ERR_PEER);
    cr_assert_eq(amph_am_put(a, 1, &rmem, 0, segment, 10, 0, NULL, NULL), AMPH_ERR_PEER);
    amph_am_del_peer(a, 1);

    size_t len;
    const void *addr = amph_am_address(b, &len);

    cr_assert_eq(amph_am_add_peer(a, 1, addr, len, 0, 0, 1, NULL), AMPH_OK);
    cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
}

static void tick_that_kills(struct amph_am_ep *ep)
{
    amph_am_peer_failed(ep, 1, AMPH_ERR_PEER, "the launcher says so");
}

Test(am, waiting_for_room_ends_with_the_peer, .timeout = 20)
{
    fake.room[AMPH_LANE_REQUEST] = 0;
    amph_am_set_tick(a, tick_that_kills);
    cr_assert_eq(send_short(20, 0, 0), AMPH_ERR_PEER);
}

/* ---- page sizes ---- */

Test(pages, negotiation)
{
    uint32_t page = 0;
    size_t x = 99;
    size_t y = 99;

    cr_assert_eq(amph_am_page_negotiate((uint32_t[]){ 4096, 65536, 16384, 4096 }, 4, &page, &x, &y),
                 AMPH_OK);
    cr_assert_eq(page, 65536);
    cr_assert_eq(amph_am_page_negotiate((uint32_t[]){ 4096 }, 1, &page, &x, &y), AMPH_OK);
    cr_assert_eq(page, 4096);
    page = 1;
    cr_assert_eq(amph_am_page_negotiate((uint32_t[]){ 4096, 12288, 8192 }, 3, &page, &x, &y),
                 AMPH_ERR_ARG);
    cr_assert_eq(x, 2);
    cr_assert_eq(y, 1);
    cr_assert_eq(page, 1);
    cr_assert_eq(amph_am_page_negotiate((uint32_t[]){ 4096, 0 }, 2, &page, &x, &y), AMPH_ERR_ARG);
    cr_assert_eq(x, 1);
    cr_assert_eq(amph_am_page_negotiate(NULL, 0, &page, &x, &y), AMPH_ERR_ARG);
}
