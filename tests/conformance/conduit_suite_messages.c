/* SPDX-License-Identifier: BSD-3-Clause */
/* The conduit conformance suite: active messages.  See conduit_suite.h. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/settings/counters.h"
#include "tests/conformance/conduit_suite.h"

static void facts(void)
{
    struct suite_world *w = suite_world_open(1, false);
    const struct amph_cx *cx = w->node[0].cx;

    CHECK(strcmp(suite_ops->name, suite_target->conduit) == 0);
    CHECK(suite_ops->summary && suite_ops->summary[0]);
    CHECK(cx->caps.max_medium >= AMPH_AM_MIN_MAX_MEDIUM);
    CHECK(cx->caps.native_rma || !suite_target->emulate);
    CHECK(cx->addr_len > 0 && cx->addr_len <= AMPH_ADDR_MAX_BYTES);
    CHECK(cx->cfg.max_peers == SUITE_NODES && cx->cfg.up == &w->node[0]);
    CHECK(!cx->caps.fd_blocks || cx->ops->wait_fd(w->node[0].cx) >= 0);
    void *const *op = (void *const *)cx->ops;
    for (size_t i = 0; i < sizeof *cx->ops / sizeof *op; i++)
        CHECK_MSG(op[i] != NULL, "operation %zu of the table is NULL", i);

    suite_world_close(w);
}

/* A short with every number of arguments, in both lanes. */
static void shorts(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];

    b->keep_last = true;

    uint64_t count = 0;

    for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
        for (unsigned nargs = 0; nargs <= AMPH_AM_MAX_ARGS; nargs++) {
            int32_t args[AMPH_AM_MAX_ARGS];

            for (unsigned i = 0; i < AMPH_AM_MAX_ARGS; i++)
                args[i] = (int32_t)(0x80000001u * (i + 1) + nargs);

            struct amph_am am = { .kind = AMPH_AM_SHORT,
                                  .handler = (uint8_t)(200 + nargs),
                                  .nargs = (uint8_t)nargs,
                                  .flags = 0xa5,
                                  .args = args };

            suite_send(a, 1, lane, &am, NULL);
            memset(args, 0, sizeof args); /* they were copied */
            SUITE_UNTIL(w, suite_got(b, 0, lane) == nargs + 1);
            count++;
            CHECK(b->last.kind == AMPH_AM_SHORT && b->last.handler == 200 + nargs &&
                  b->last.nargs == nargs && b->last.flags == 0xa5);
            CHECK(b->last_peer == 0 && b->last_lane == (enum amph_lane)lane);
            for (unsigned i = 0; i < nargs; i++)
                CHECK(b->last_args[i] == (int32_t)(0x80000001u * (i + 1) + nargs));
        }

    CHECK(suite_got(b, 0, AMPH_LANE_REQUEST) + suite_got(b, 0, AMPH_LANE_REPLY) == count);
    suite_world_close(w);
}

/* Payloads of every interesting size, with no, some and all arguments, sent with and without a
 * local completion. */
static void mediums(void)
{
    static const uint32_t sizes[] = { 0,   1,    7,    8,    9,    31,    32,   33,
                                      63,  64,   65,   95,   96,   97,    127,  128,
                                      129, 1000, 4095, 4096, 4097, 16384, 65407 };
    static const uint8_t nargs[] = { 0, 1, 5, 16 };
    static const uint8_t kinds[] = { AMPH_AM_MEDIUM, AMPH_AM_LONG_PACKED, AMPH_AM_INTERNAL };
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint32_t most = a->cx->caps.max_medium;
    uint8_t *payload = malloc(most);
    uint64_t sent = 0;

    b->keep_last = true;
    for (unsigned i = 0;
         i < 2 * (AMPH_COUNTOF(sizes) + 1) * AMPH_COUNTOF(nargs) * AMPH_COUNTOF(kinds); i++) {
        unsigned k = i / 2;
        uint32_t size = k % (AMPH_COUNTOF(sizes) + 1) < AMPH_COUNTOF(sizes)
                            ? sizes[k % (AMPH_COUNTOF(sizes) + 1)]
                            : most;

        k /= AMPH_COUNTOF(sizes) + 1;

        int32_t args[AMPH_AM_MAX_ARGS] = { (int32_t)i, -1, -2, -3, -4, [15] = 99 };
        struct suite_op lc = SUITE_OP;
        struct amph_am am = { .kind = kinds[k / AMPH_COUNTOF(nargs)],
                              .handler = 77,
                              .nargs = nargs[k % AMPH_COUNTOF(nargs)],
                              .args = args,
                              .nbytes = size,
                              .payload = payload,
                              .dest = UINT64_C(0x123456789abcdef0) + i };

        for (uint32_t j = 0; j < size; j++)
            payload[j] = (uint8_t)(j * 7 + i);

        suite_send(a, 1, AMPH_LANE_REQUEST, &am, i % 2 ? &lc.op : NULL);
        if (i % 2)
            SUITE_UNTIL(w, __atomic_load_n(&lc.done, __ATOMIC_ACQUIRE) == 1);

        memset(payload, 0xee, size); /* ours again */
        SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == sent + 1);
        sent++;
        CHECK(lc.st == AMPH_OK && b->last.kind == am.kind && b->last.nbytes == size &&
              b->last.nargs == am.nargs && b->last.handler == 77);
        CHECK(memcmp(b->last_args, args, 4u * am.nargs) == 0);
        if (am.kind == AMPH_AM_LONG_PACKED)
            CHECK(b->last.dest == am.dest);

        for (uint32_t j = 0; j < size; j++)
            CHECK_MSG(b->last_payload[j] == (uint8_t)(j * 7 + i), "byte %u of %u", j, size);
    }

    free(payload);
    suite_world_close(w);
}

static void wrong_arguments(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    static uint8_t payload[1 << 20];
    int32_t args[32] = { 0 };
    struct amph_am many = { .kind = AMPH_AM_SHORT, .nargs = 17, .args = args };
    struct amph_am large = { .kind = AMPH_AM_MEDIUM,
                             .nargs = 16,
                             .args = args,
                             .payload = payload,
                             .nbytes = a->cx->caps.max_medium + 1 };
    struct amph_am fine = { .kind = AMPH_AM_SHORT, .nargs = 1, .args = args };
    struct suite_op lc = SUITE_OP;

    CHECK(a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &many, &lc.op) == AMPH_ERR_ARG);
    CHECK(a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &large, &lc.op) == AMPH_ERR_ARG);
    CHECK(a->cx->ops->am_send(a->cx, SUITE_NODES, AMPH_LANE_REQUEST, &fine, &lc.op) != AMPH_OK);
    CHECK(a->cx->ops->am_send(a->cx, UINT32_MAX, AMPH_LANE_REQUEST, &fine, &lc.op) != AMPH_OK);

    /* never added */
    CHECK(a->cx->ops->am_send(a->cx, 5, AMPH_LANE_REPLY, &fine, &lc.op) != AMPH_OK);
    CHECK(lc.done == 0);
    suite_stream(a, 1, AMPH_LANE_REQUEST);
    SUITE_UNTIL(w, suite_got(&w->node[1], 0, AMPH_LANE_REQUEST) == 1);
    suite_world_close(w);
}

/* Each of five sends to each, itself included, and each request is answered from inside the
 * upcall. */
static void all_to_all(void)
{
    enum {
        N = 5,
        EACH = 300
    };

    struct suite_world *w = suite_world(N, false);

    for (unsigned i = 0; i < N; i++)
        w->node[i].reply = true;

    for (unsigned k = 0; k < EACH; k++)
        for (unsigned i = 0; i < N; i++)
            for (unsigned j = 0; j < N; j++)
                suite_stream(&w->node[i], j, AMPH_LANE_REQUEST);

    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++) {
            SUITE_UNTIL(w, suite_got(&w->node[i], j, AMPH_LANE_REQUEST) == EACH);
            SUITE_UNTIL(w, suite_got(&w->node[i], j, AMPH_LANE_REPLY) == EACH);
        }

    suite_world_close(w);
}

/* A long run, so that counters and rings go round many times. */
static void long_run(void)
{
    enum {
        COUNT = 30000
    };

    struct suite_world *w = suite_world(2, false);

    for (unsigned k = 0; k < COUNT; k++)
        suite_stream(&w->node[0], 1, k % 3 ? AMPH_LANE_REQUEST : AMPH_LANE_REPLY);

    SUITE_UNTIL(w, suite_got(&w->node[1], 0, AMPH_LANE_REQUEST) +
                           suite_got(&w->node[1], 0, AMPH_LANE_REPLY) ==
                       COUNT);
    suite_world_close(w);
}

/* Requests that nobody takes never hold up a reply; a bounded lane says AGAIN and has room again
 * later. */
static void lanes(void)
{
    enum {
        WINDOW = 64,
        REPLIES = 20
    };

    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    unsigned sent = 0;
    unsigned most = a->cx->caps.self_flow ? SUITE_STREAM - 1 : WINDOW;

    suite_warm_up(w);
    while (sent < most && suite_stream_alone(a, 1, AMPH_LANE_REQUEST))
        sent++;

    CHECK_MSG(!a->cx->caps.self_flow || sent < most, "%u requests were taken that nobody reads",
              sent);
    CHECK(sent > 0);

    unsigned replies = 0;
    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

    while (suite_got(b, 0, AMPH_LANE_REPLY) < REPLIES) {
        if (replies < REPLIES && suite_stream_try(a, 1, AMPH_LANE_REPLY) == AMPH_OK)
            replies++;

        a->cx->ops->flush(a->cx);
        a->cx->ops->progress(a->cx, 1u << AMPH_LANE_REPLY, 8);
        b->cx->ops->progress(b->cx, 1u << AMPH_LANE_REPLY, 8);
        CHECK_MSG(suite_got(b, 0, AMPH_LANE_REQUEST) == 0,
                  "a request came although only replies were asked for");
        CHECK_MSG(amph_now_ns() < end, "%u of %u replies passed %u waiting requests",
                  (unsigned)suite_got(b, 0, AMPH_LANE_REPLY), replies, sent);
    }

    SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == sent);
    for (unsigned k = 0; k < 200; k++, sent++)
        suite_stream(a, 1, AMPH_LANE_REQUEST);

    SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == sent);
    suite_world_close(w);
}

/* progress takes no more than its budget, and a busy peer does not keep another from being
 * heard. */
static void budget(void)
{
    enum {
        N = 6,
        EACH = 20
    };

    struct suite_world *w = suite_world(N, false);
    struct suite_node *to = &w->node[N - 1];
    uint64_t before = 0;
    uint64_t now;

    suite_warm_up(w);
    for (unsigned k = 0; k < EACH; k++)
        for (unsigned i = 0; i + 1 < N; i++)
            CHECK(suite_stream_alone(&w->node[i], N - 1, AMPH_LANE_REPLY));

    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

    do {
        for (unsigned i = 0; i + 1 < N; i++)
            w->node[i].cx->ops->progress(w->node[i].cx, 3, 8);

        to->cx->ops->progress(to->cx, 3, 3);
        now = 0;
        for (unsigned i = 0; i + 1 < N; i++)
            now += suite_got(to, i, AMPH_LANE_REPLY);

        CHECK_MSG(now - before <= 3, "%u messages in a progress call with a budget of 3",
                  (unsigned)(now - before));
        before = now;
        CHECK(amph_now_ns() < end);
    } while (now < EACH * (N - 1));

    suite_world_close(w);
}

static void only_count(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                       const struct amph_am *am)
{
    unsigned expected = (unsigned)suite_got(n, peer, lane);

    CHECK_MSG((unsigned)am->args[0] == expected, "message %u came as number %u",
              (unsigned)am->args[0], expected);
}

/* Many small messages travel together, so a budget ends anywhere between them.  That costs the
 * sender no room: a flood goes on to its end. */
static void flood_in_small_budgets(void)
{
    enum {
        COUNT = 100000
    };

    static const unsigned budgets[] = { 1, 2, 3, 7, 32 };
    struct suite_world *w = suite_world(2, false);
    struct suite_node *from = &w->node[0];
    struct suite_node *to = &w->node[1];
    uint64_t payload = 0;
    uint64_t end = amph_now_ns() + 2 * SUITE_LIMIT_NS;
    int32_t args[1] = { 0 };
    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = 1,
                          .nargs = 1,
                          .args = args,
                          .nbytes = sizeof payload,
                          .payload = &payload };

    suite_warm_up(w);
    to->hook = only_count;

    for (unsigned turn = 0; suite_got(to, 0, AMPH_LANE_REQUEST) < COUNT; turn++) {
        for (unsigned k = 0; k < 64 && args[0] < COUNT; k++) {
            if (from->cx->ops->am_send(from->cx, 1, AMPH_LANE_REQUEST, &am, NULL) != AMPH_OK)
                break;

            args[0]++;
        }

        from->cx->ops->flush(from->cx);
        from->cx->ops->progress(from->cx, 3, 32);
        to->cx->ops->progress(to->cx, 3, budgets[turn % AMPH_COUNTOF(budgets)]);
        CHECK_MSG(amph_now_ns() < end, "the flood stands still: %u messages sent, %u received",
                  (unsigned)args[0], (unsigned)suite_got(to, 0, AMPH_LANE_REQUEST));
    }

    suite_world_close(w);
}

/* While peer 0 floods without end, peers 1.. are heard too, also with a small budget. */
static void fairness(void)
{
    enum {
        N = 5
    };

    struct suite_world *w = suite_world(N, false);
    struct suite_node *to = &w->node[N - 1];

    suite_warm_up(w);
    while (w->node[0].sent[N - 1][AMPH_LANE_REQUEST] < 200 &&
           suite_stream_alone(&w->node[0], N - 1, AMPH_LANE_REQUEST))
        ;

    for (unsigned i = 1; i + 1 < N; i++)
        CHECK(suite_stream_alone(&w->node[i], N - 1, AMPH_LANE_REQUEST));

    bool all = false;

    for (unsigned round = 0; round < 4000 && !all; round++) {
        for (unsigned k = 0; k < 8 && w->node[0].sent[N - 1][AMPH_LANE_REQUEST] < SUITE_STREAM; k++)
            suite_stream_try(&w->node[0], N - 1, AMPH_LANE_REQUEST);

        for (unsigned i = 0; i + 1 < N; i++) {
            w->node[i].cx->ops->flush(w->node[i].cx);
            w->node[i].cx->ops->progress(w->node[i].cx, 3, 8);
        }

        to->cx->ops->progress(to->cx, 3, 4);
        all = true;
        for (unsigned i = 1; i + 1 < N; i++)
            all &= suite_got(to, i, AMPH_LANE_REQUEST) == 1;
    }

    CHECK_MSG(all, "a flood of peer 0 keeps others from being heard");
    suite_world_close(w);
}

/* A message that does not carry the pair's cookie is never delivered. */
static void wrong_cookie(void)
{
    struct suite_world *w = suite_world_open(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    struct amph_peer_spec spec = { b->cx->addr, b->cx->addr_len, 0, 0x666, suite_cookie(1, 0) };

    CHECK(a->cx->ops->add_peer(a->cx, 1, &spec) == AMPH_OK);
    suite_link(b, a);
    suite_link(c, b);
    suite_link(b, c);

    uint64_t before = amph_counters[AMPH_COUNTER_DROP_COOKIE];
    uint64_t end = amph_now_ns() + 5 * AMPH_NS_PER_S;

    for (unsigned k = 0; k < 10; k++) {
        suite_stream_try(a, 1, AMPH_LANE_REQUEST);
        suite_pump(w);
    }

    while (amph_counters[AMPH_COUNTER_DROP_COOKIE] == before && amph_now_ns() < end) {
        /* the first ones may have found no connection yet */
        suite_stream_try(a, 1, AMPH_LANE_REQUEST);
        suite_pump(w);
    }

    CHECK(suite_got(b, 0, AMPH_LANE_REQUEST) == 0);
    CHECK_MSG(amph_counters[AMPH_COUNTER_DROP_COOKIE] > before,
              "what was dropped has not been counted");
    suite_stream(c, 1, AMPH_LANE_REQUEST); /* others are not harmed */
    SUITE_UNTIL(w, suite_got(b, 2, AMPH_LANE_REQUEST) == 1);
    suite_world_close(w);
}

/* ---- two threads a node: one sends, the other makes progress ---- */

enum {
    THREAD_COUNT = 20000
};

static void *sender(void *arg)
{
    struct suite_node *n = arg;
    uint64_t end = amph_now_ns() + 3 * SUITE_LIMIT_NS;

    for (unsigned k = 0; k < THREAD_COUNT; k++) {
        enum amph_status st;

        while ((st = suite_stream_try(n, 1 - n->index,
                                      k % 2 ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST)) == AMPH_AGAIN) {
            CHECK(amph_now_ns() < end);
            sched_yield();
        }

        CHECK(st == AMPH_OK);
        if (k % 64 == 0)
            n->cx->ops->flush(n->cx);
    }

    n->cx->ops->flush(n->cx);
    return NULL;
}

static void *receiver(void *arg)
{
    struct suite_node *n = arg;
    struct suite_node *other = &n->world->node[1 - n->index];
    uint64_t end = amph_now_ns() + 3 * SUITE_LIMIT_NS;

    while (suite_got(n, other->index, 0) + suite_got(n, other->index, 1) < THREAD_COUNT ||
           suite_got(other, n->index, 0) + suite_got(other, n->index, 1) <
               THREAD_COUNT) { /* what we sent may need us */
        if (n->cx->ops->progress(n->cx, 3, 64) == 0)
            sched_yield();
        CHECK(amph_now_ns() < end);
    }

    return NULL;
}

static void two_sides_two_threads(void)
{
    struct suite_world *w = suite_world(2, true);
    pthread_t t[4];

    for (unsigned i = 0; i < 2; i++) {
        CHECK(pthread_create(&t[2 * i], NULL, sender, &w->node[i]) == 0);
        CHECK(pthread_create(&t[2 * i + 1], NULL, receiver, &w->node[i]) == 0);
    }

    for (unsigned i = 0; i < 2; i++)
        pthread_join(t[2 * i], NULL);

    for (unsigned i = 0; i < 2; i++)
        pthread_join(t[2 * i + 1], NULL);

    suite_world_close(w);
}

/* clang-format off */
const struct suite_case suite_message_cases[] = {
    { "facts and table are complete", facts },
    { "shorts with 0 to 16 arguments", shorts },
    { "payloads of every size and kind", mediums },
    { "impossible messages are refused", wrong_arguments },
    { "all to all with replies", all_to_all },
    { "a long run", long_run },
    { "requests never hold up replies", lanes },
    { "progress keeps its budget", budget },
    { "a flood taken in small budgets goes on", flood_in_small_budgets },
    { "a flood does not silence others", fairness },
    { "a wrong cookie is not heard", wrong_cookie },
    { "send side and progress side in two threads", two_sides_two_threads },
    { NULL, NULL },
};
/* clang-format on */
