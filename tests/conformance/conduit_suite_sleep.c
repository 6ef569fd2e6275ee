/* SPDX-License-Identifier: BSD-3-Clause */
/* The conduit conformance suite: sleeping until a message comes.  Every case runs in two processes.
 * See conduit_suite.h. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/conduit_suite.h"

/* What two processes tell each other outside of the conduit. */
struct meeting {
    uint8_t addr[2][AMPH_ADDR_MAX_BYTES];
    size_t addr_len[2];
    unsigned here, quiet;
};

struct side {
    struct meeting *m;
    enum amph_arm how;
    unsigned rounds;
    uint64_t think_ns; /* longest pause before an answer */
};

static void meet(unsigned *counter, unsigned n)
{
    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

    __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < n) {
        CHECK(amph_now_ns() < end);
        sched_yield();
    }
}

/* A world of one node that knows its partner as peer 1 - index. */
static struct suite_world *one_of_two(struct meeting *m, unsigned index)
{
    struct suite_world *w = suite_world_open(1, false);
    struct suite_node *n = &w->node[0];

    n->index = index;
    memcpy(m->addr[index], n->cx->addr, n->cx->addr_len);
    m->addr_len[index] = n->cx->addr_len;
    meet(&m->here, 2);
    CHECK(suite_add(n, 1 - index, m->addr[1 - index], m->addr_len[1 - index]) == AMPH_OK);

    return w;
}

/* Both have all they want; a conduit's own traffic (acknowledgements) may still have to flow. */
static void part(struct suite_world *w, struct meeting *m)
{
    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

    __atomic_add_fetch(&m->quiet, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&m->quiet, __ATOMIC_SEQ_CST) < 2) {
        suite_pump(w);
        sched_yield();
        CHECK(amph_now_ns() < end);
    }

    suite_world_close(w);
}

/* A sleep that must end by a message may never last this long, however busy the machine is. */
#define LOST_NS (15 * AMPH_NS_PER_S)

/* Sleeps once. */
static void sleep_once(struct suite_node *n, enum amph_arm how)
{
    struct amph_cx *cx = n->cx;
    uint64_t start = amph_now_ns();

    cx->ops->flush(cx);
    if (how == AMPH_ARM_SLEEP) {
        cx->ops->arm(cx, AMPH_ARM_SLEEP, LOST_NS);
    } else {
        if (cx->ops->arm(cx, AMPH_ARM_FD, 0) == AMPH_OK) {
            struct pollfd p = { cx->ops->wait_fd(cx), POLLIN, 0 };
            CHECK_MSG(poll(&p, 1, LOST_NS / AMPH_NS_PER_MS) != 0,
                      "a message was lost on a sleeper");
        }

        CHECK(cx->ops->arm(cx, AMPH_ARM_OFF, 0) == AMPH_OK);
    }

    CHECK_MSG(amph_now_ns() - start < LOST_NS, "a message was lost on a sleeper");
}

static void pause_up_to(uint64_t *state, uint64_t ns)
{
    uint64_t t = ns ? suite_random(state) % ns : 0;
    uint64_t end = amph_now_ns() + t;
    struct timespec ts = { 0, (long)t };

    if (t > 50 * AMPH_NS_PER_US)
        nanosleep(&ts, NULL);

    while (amph_now_ns() < end)
        ;
}

/* One side of a ping-pong whose every wait sleeps. */
static void ping_pong(struct side *s, unsigned index)
{
    struct suite_world *w = one_of_two(s->m, index);
    struct suite_node *n = &w->node[0];
    uint32_t peer = 1 - index;
    uint64_t state = index + 1;

    if (s->how == AMPH_ARM_SLEEP ? !n->cx->caps.can_sleep : !n->cx->caps.fd_blocks)
        suite_skip("this conduit cannot sleep that way");

    for (unsigned round = 0; round < s->rounds; round++) {
        if (index == 0) {
            suite_stream(n, peer, round % 2);
            n->cx->ops->flush(n->cx);
        }

        while (suite_got(n, peer, 0) + suite_got(n, peer, 1) <= round)
            if (suite_pump_node(n) == 0)
                sleep_once(n, s->how);

        if (index == 1) {
            pause_up_to(&state, s->think_ns);
            suite_stream(n, peer, round % 2);
            n->cx->ops->flush(n->cx);
        }
    }

    part(w, s->m);
}

static void child_side(void *arg)
{
    ping_pong(arg, 1);
}

static void ping_pong_both(enum amph_arm how, unsigned rounds, uint64_t think_ns)
{
    struct side s = { suite_shared(sizeof(struct meeting)), how, rounds, think_ns };
    struct suite_world *w = suite_world_open(1, false);
    bool can = how == AMPH_ARM_SLEEP ? w->node[0].cx->caps.can_sleep
                                     : w->node[0].cx->caps.fd_blocks;

    suite_world_close(w);
    if (!can)
        suite_skip("this conduit cannot sleep that way");

    pid_t child = suite_fork(child_side, &s);

    ping_pong(&s, 0);
    suite_join(child);
}

static void fd_short(void)
{
    ping_pong_both(AMPH_ARM_FD, 4000, 3 * AMPH_NS_PER_US);
}

static void fd_long(void)
{
    ping_pong_both(AMPH_ARM_FD, 300, 300 * AMPH_NS_PER_US);
}

static void sleep_short(void)
{
    ping_pong_both(AMPH_ARM_SLEEP, 4000, 3 * AMPH_NS_PER_US);
}

static void sleep_long(void)
{
    ping_pong_both(AMPH_ARM_SLEEP, 300, 300 * AMPH_NS_PER_US);
}

/* What is already there is not slept on. */
static void arm_with_work(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct amph_cx *cx = b->cx;

    if (!cx->caps.fd_blocks)
        suite_skip("this conduit cannot sleep on a descriptor");

    for (unsigned round = 0; round < 20; round++) {
        suite_stream(a, 1, round % 2);
        a->cx->ops->flush(a->cx);

        uint64_t want = suite_got(b, 0, 0) + suite_got(b, 0, 1) + 1;
        uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

        /* On a network the message needs time: then the descriptor must become readable. */
        while (suite_got(b, 0, 0) + suite_got(b, 0, 1) < want) {
            a->cx->ops->progress(a->cx, 3, 16);
            if (cx->ops->arm(cx, AMPH_ARM_FD, 0) == AMPH_OK) {
                struct pollfd p = { cx->ops->wait_fd(cx), POLLIN, 0 };

                CHECK(!cx->caps.maps_memory || poll(&p, 1, 0) == 1);
                poll(&p, 1, 10);
            }

            cx->ops->arm(cx, AMPH_ARM_OFF, 0);
            cx->ops->progress(cx, 3, 16);
            CHECK(amph_now_ns() < end);
        }
    }

    suite_world_close(w);
}

static uint64_t core_us(const struct rusage *u)
{
    return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* An idle sleeper uses no time of its core, and a time-out ends a sleep. */
static void idle(void)
{
    struct suite_world *w = suite_world(2, false);
    struct amph_cx *cx = w->node[0].cx;
    struct rusage before, after;

    if (!cx->caps.fd_blocks && !cx->caps.can_sleep)
        suite_skip("this conduit cannot sleep");

    suite_stream(&w->node[1], 0, AMPH_LANE_REQUEST);
    SUITE_UNTIL(w, suite_got(&w->node[0], 1, AMPH_LANE_REQUEST) == 1);
    for (unsigned k = 0; k < 1000; k++)
        suite_pump(w);

    getrusage(RUSAGE_SELF, &before);

    uint64_t start = amph_now_ns();
    uint64_t end = start + 600 * AMPH_NS_PER_MS;
    unsigned sleeps = 0;

    for (; amph_now_ns() < end; sleeps++) {
        cx->ops->progress(cx, 3, 16);
        if (cx->caps.can_sleep && sleeps % 2) {
            cx->ops->arm(cx, AMPH_ARM_SLEEP, 20 * AMPH_NS_PER_MS);
        } else if (cx->caps.fd_blocks) {
            struct pollfd p = { cx->ops->wait_fd(cx), POLLIN, 0 };

            if (cx->ops->arm(cx, AMPH_ARM_FD, 0) == AMPH_OK)
                poll(&p, 1, 20);

            cx->ops->arm(cx, AMPH_ARM_OFF, 0);
        }
    }

    getrusage(RUSAGE_SELF, &after);

    uint64_t us = core_us(&after) - core_us(&before);

    CHECK_MSG(sleeps < 120, "%u sleeps of 20 ms in 600 ms", sleeps);
    CHECK_MSG(us < 30000, "%u us of a core in 600 ms of sleep", (unsigned)us);
    suite_world_close(w);
}

/* A woken instance that does not sleep needs no doorbell: the descriptor goes quiet again. */
static void doorbell_is_cleared(void)
{
    struct suite_world *w = suite_world(2, false);
    struct amph_cx *cx = w->node[0].cx;

    if (!cx->caps.fd_blocks)
        suite_skip("this conduit cannot sleep on a descriptor");

    if (suite_target->lossy)
        suite_skip("on a lossy wire something may come at any time");

    struct pollfd p = { cx->ops->wait_fd(cx), POLLIN, 0 };

    for (unsigned round = 0; round < 10; round++) {
        for (unsigned k = 0; k < 50; k++)
            suite_pump(w);

        enum amph_status st = AMPH_AGAIN;

        SUITE_UNTIL(w, (st = cx->ops->arm(cx, AMPH_ARM_FD, 0)) == AMPH_OK);
        CHECK_MSG(poll(&p, 1, 5) == 0, "the descriptor is readable and there is nothing");
        suite_stream(&w->node[1], 0, AMPH_LANE_REPLY);
        w->node[1].cx->ops->flush(w->node[1].cx);
        CHECK_MSG(poll(&p, 1, 5000) == 1, "the descriptor stays silent");
        CHECK(cx->ops->arm(cx, AMPH_ARM_OFF, 0) == AMPH_OK);
        SUITE_UNTIL(w, suite_got(&w->node[0], 1, AMPH_LANE_REPLY) == round + 1);
    }

    suite_world_close(w);
}

/* clang-format off */
const struct suite_case suite_sleep_cases[] = {
    { "sleeping on the descriptor, quick partner", fd_short },
    { "sleeping on the descriptor, slow partner", fd_long },
    { "sleeping inside arm, quick partner", sleep_short },
    { "sleeping inside arm, slow partner", sleep_long },
    { "no sleep where there is work", arm_with_work },
    { "an idle sleeper costs nothing", idle },
    { "the doorbell is cleared", doorbell_is_cleared },
    { NULL, NULL },
};
/* clang-format on */
