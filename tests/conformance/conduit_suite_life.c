/* SPDX-License-Identifier: BSD-3-Clause */
/* The conduit conformance suite: peers and instances that come, go and die.  See
 * conduit_suite.h. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/conduit_suite.h"

static void numbers(void)
{
    struct suite_world *w = suite_world_open(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint8_t garbage[AMPH_ADDR_MAX_BYTES];
    uint64_t state = 3;

    CHECK(suite_add(a, SUITE_NODES, b->cx->addr, b->cx->addr_len) == AMPH_ERR_RANGE);
    CHECK(suite_add(a, 1, b->cx->addr, b->cx->addr_len - 1) != AMPH_OK);
    CHECK(suite_add(a, 1, b->cx->addr, 0) != AMPH_OK);

    for (unsigned round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (uint8_t)suite_random(&state);

        if (suite_add(a, 1, garbage, 1 + suite_random(&state) % sizeof garbage) == AMPH_OK)
            a->cx->ops->del_peer(a->cx, 1);
    }

    suite_link(a, b);
    CHECK(suite_add(a, 1, b->cx->addr, b->cx->addr_len) == AMPH_ERR_STATE);
    suite_link(b, a);
    a->cx->ops->del_peer(a->cx, 40); /* was never there */
    a->cx->ops->del_peer(a->cx, UINT32_MAX);
    suite_stream(a, 1, AMPH_LANE_REQUEST);
    SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == 1);
    suite_world_close(w);
}

/* A message may be sent before the receiver has been told of the sender. */
static void early_message(void)
{
    struct suite_world *w = suite_world_open(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];

    suite_link(a, b);
    if (!a->cx->caps.self_flow)
        suite_skip("said for conduits that hold messages themselves");

    for (unsigned k = 0; k < 5; k++)
        suite_stream(a, 1, AMPH_LANE_REQUEST);

    for (unsigned k = 0; k < 20; k++)
        suite_pump(w);

    CHECK(suite_got(b, 0, AMPH_LANE_REQUEST) == 0);
    suite_link(b, a);
    SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == 5);
    suite_world_close(w);
}

static void forget_streams(struct suite_node *n, uint32_t peer)
{
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        free(n->seen[peer][lane]);
        n->seen[peer][lane] = NULL;
        n->got[peer][lane] = n->sent[peer][lane] = 0;
    }

    n->owed[peer] = 0;
    n->errors[peer] = 0;
}

/* Instances come and go under one number, some leaving unread messages behind; the others are not
 * disturbed. */
static void come_and_go(void)
{
    enum {
        CYCLES = 25
    };

    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    uint64_t from_c = 0;

    for (unsigned cycle = 0; cycle < CYCLES; cycle++) {
        unsigned count = 1 + 41 * cycle % 300;

        for (unsigned k = 0; k < count; k++) {
            suite_stream(b, 0, k % 2);
            suite_stream(a, 1, k % 2);
        }

        SUITE_UNTIL(w, suite_got(a, 1, 0) + suite_got(a, 1, 1) == count &&
                           suite_got(b, 0, 0) + suite_got(b, 0, 1) == count);
        suite_stream(c, 0, AMPH_LANE_REQUEST);
        from_c++;
        if (cycle % 3 == 0 && suite_stream_try(b, 0, AMPH_LANE_REQUEST) == AMPH_OK)
            b->cx->ops->flush(b->cx); /* left behind */

        if (cycle % 2)
            suite_close_node(b);

        a->cx->ops->del_peer(a->cx, 1);
        c->cx->ops->del_peer(c->cx, 1);

        struct amph_am none = { .kind = AMPH_AM_SHORT };

        CHECK(a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &none, NULL) != AMPH_OK);
        suite_close_node(b);
        forget_streams(a, 1);
        forget_streams(c, 1);
        suite_open_node(w, 1);
        for (unsigned i = 0; i < 3; i++)
            suite_link(b, &w->node[i]);

        suite_link(a, b);
        suite_link(c, b);
        SUITE_UNTIL(w, suite_got(a, 2, AMPH_LANE_REQUEST) == from_c);
    }

    suite_world_close(w);
}

/* Both forget each other and meet again, the instances being the same; in both orders. */
static void meet_again(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];

    for (unsigned cycle = 0; cycle < 12; cycle++) {
        unsigned count = 1 + 67 * cycle % 200;

        for (unsigned k = 0; k < count; k++) {
            suite_stream(a, 1, AMPH_LANE_REQUEST);
            suite_stream(b, 0, AMPH_LANE_REPLY);
        }

        SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == count &&
                           suite_got(a, 1, AMPH_LANE_REPLY) == count);
        for (unsigned k = 0; k < 50; k++)
            suite_pump(w);

        a->cx->ops->del_peer(a->cx, 1);
        for (unsigned k = 0; k < 50; k++)
            suite_pump(w); /* a network's farewell arrives */

        b->cx->ops->del_peer(b->cx, 0);
        forget_streams(a, 1);
        forget_streams(b, 0);
        suite_link(cycle % 2 ? a : b, cycle % 2 ? b : a);
        suite_link(cycle % 2 ? b : a, cycle % 2 ? a : b);
    }

    suite_world_close(w);
}

static void drop_sender(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                        const struct amph_am *am)
{
    if (lane == AMPH_LANE_REQUEST && peer != 2)
        n->cx->ops->del_peer(n->cx, peer);
}

/* An upcall may forget the very peer whose message it handles; what follows of it is not heard. */
static void forget_in_upcall(void)
{
    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];

    suite_warm_up(w);
    a->hook = drop_sender;
    for (unsigned k = 0; k < 20; k++)
        suite_stream_alone(b, 0, AMPH_LANE_REQUEST);

    SUITE_UNTIL(w, suite_got(a, 1, AMPH_LANE_REQUEST) > 0);
    suite_stream(c, 0, AMPH_LANE_REQUEST);
    SUITE_UNTIL(w, suite_got(a, 2, AMPH_LANE_REQUEST) == 1);
    for (unsigned k = 0; k < 100; k++)
        suite_pump(w);

    unsigned got = (unsigned)suite_got(a, 1, AMPH_LANE_REQUEST);

    CHECK_MSG(got == 1, "%u messages of a forgotten peer", got);
    suite_world_close(w);
}

/* One node with more than forty others, most of them quiet for long. */
static void many_peers(void)
{
    struct suite_world *w = suite_world_open(SUITE_NODES, false);
    struct suite_node *hub = &w->node[0];
    uint64_t state = 5;
    uint64_t want[SUITE_NODES] = { 0 };

    for (unsigned i = 0; i < SUITE_NODES; i++) {
        suite_link(&w->node[i], hub);
        if (i)
            suite_link(hub, &w->node[i]);

        w->node[i].reply = true;
    }

    for (unsigned k = 0; k < 6000; k++) {
        uint32_t i = k < 3000 ? suite_random(&state) % 3 : suite_random(&state) % SUITE_NODES;

        suite_stream(&w->node[i], 0, AMPH_LANE_REQUEST);
        want[i]++;
    }

    for (unsigned i = 0; i < SUITE_NODES; i++)
        SUITE_UNTIL(w, suite_got(hub, i, AMPH_LANE_REQUEST) == want[i] &&
                           suite_got(&w->node[i], 0, AMPH_LANE_REPLY) == want[i]);

    for (unsigned k = 0; k < 10000; k++) /* all go quiet */
        hub->cx->ops->progress(hub->cx, 3, 16);

    for (unsigned i = 0; i < SUITE_NODES; i++) {
        suite_stream(&w->node[i], 0, AMPH_LANE_REQUEST);
        SUITE_UNTIL(w, suite_got(hub, i, AMPH_LANE_REQUEST) == want[i] + 1);
    }

    suite_world_close(w);
}

/* Transfers and messages under way when an instance is closed are given back, each once. */
static void close_in_flight(void)
{
    enum {
        COUNT = 40,
        EACH = 50000
    };

    static struct suite_op op[2 * COUNT];
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_segment seg;
    struct amph_rmem rmem;
    uint8_t *data = calloc(1, COUNT * EACH);
    unsigned started = 0;

    suite_warm_up(w);
    suite_segment_open(b, COUNT * EACH, &seg);
    CHECK(a->cx->ops->mem_import(a->cx, 1, seg.mem.key, seg.mem.key_len, &rmem) == AMPH_OK);
    for (unsigned i = 0; i < 2 * COUNT; i++)
        op[i] = (struct suite_op)SUITE_OP;

    for (unsigned i = 0; i < COUNT; i++, started = 2 * i) {
        struct amph_am am = { .kind = AMPH_AM_MEDIUM, .payload = data, .nbytes = 20000 };

        if (a->cx->ops->put(a->cx, 1, &rmem, i * EACH, data + i * EACH, EACH, NULL,
                            &op[2 * i].op) != AMPH_OK)
            break;

        if (a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &am, &op[2 * i + 1].op) != AMPH_OK) {
            op[2 * i + 1].done = 1;
            started = 2 * i + 2;
            break;
        }
    }

    CHECK(started > 0);
    a->cx->ops->close(a->cx);
    a->cx = NULL;

    for (unsigned i = 0; i < started; i++)
        CHECK_MSG(op[i].done == 1 && (op[i].st == AMPH_OK || op[i].st == AMPH_ERR_STATE),
                  "operation %u: done %u, %s", i, op[i].done, amph_status_text(op[i].st));

    b->keep_last = true;
    suite_segment_close(b, &seg);
    suite_world_close(w);
    free(data);
}

static unsigned open_files(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");

    while (d && readdir(d))
        n++;

    if (d)
        closedir(d);

    return n;
}

static unsigned shared_maps(void)
{
    char line[512];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "re");

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "memfd:") || strstr(line, "/dev/shm");

    if (f)
        fclose(f);

    return n;
}

/* Instances and peers leave no descriptors, mappings or names behind. */
static void nothing_left(void)
{
    unsigned files = 0;
    unsigned maps = 0;

    for (unsigned round = 0; round < 30; round++) {
        struct suite_world *w = suite_world(3, false);
        struct suite_segment seg;
        struct amph_rmem rmem;

        suite_segment_open(&w->node[1], 65536, &seg);
        CHECK(w->node[0].cx->ops->mem_import(w->node[0].cx, 1, seg.mem.key, seg.mem.key_len,
                                             &rmem) == AMPH_OK);
        for (unsigned k = 0; k < 20; k++)
            suite_stream(&w->node[k % 3], k % 2, AMPH_LANE_REQUEST);

        for (unsigned k = 0; k < 50; k++)
            suite_pump(w);

        if (round % 2)
            w->node[0].cx->ops->del_peer(w->node[0].cx, 1);

        suite_segment_close(&w->node[1], &seg);
        suite_world_close(w);

        if (round == 3) { /* what a library keeps for good is there by now */
            files = open_files();
            maps = shared_maps();
        }
    }

    CHECK_MSG(open_files() <= files, "%u descriptors, %u before", open_files(), files);
    CHECK_MSG(shared_maps() <= maps, "%u shared mappings, %u before", shared_maps(), maps);
}

/* ---- several processes ---- */

enum {
    PROCS = 4,
    PROC_MESSAGES = 1500
};

struct job {
    uint8_t addr[PROCS][AMPH_ADDR_MAX_BYTES];
    size_t addr_len[PROCS];
    unsigned here, linked, done, index;
};

static void job_meet(struct job *j, struct suite_world *w, unsigned *counter, unsigned n)
{
    uint64_t end = amph_now_ns() + 2 * SUITE_LIMIT_NS;

    __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < n) {
        if (suite_pump(w) == 0)
            sched_yield();

        CHECK(amph_now_ns() < end);
    }
}

static void job_publish(struct job *j, const struct suite_node *n)
{
    memcpy(j->addr[n->index], n->cx->addr, n->cx->addr_len);
    j->addr_len[n->index] = n->cx->addr_len;
}

/* Adds all processes of the job, and returns when each of them has done so: a process that is
 * killed afterwards was known to all. */
static void job_link(struct job *j, struct suite_world *w, unsigned procs)
{
    job_meet(j, w, &j->here, procs);

    for (unsigned i = 0; i < procs; i++)
        CHECK(suite_add(&w->node[0], i, j->addr[i], j->addr_len[i]) == AMPH_OK);

    job_meet(j, w, &j->linked, procs);
}

static struct suite_world *job_join(struct job *j, unsigned procs, unsigned *index_p)
{
    struct suite_world *w = suite_world_open(1, false);
    struct suite_node *n = &w->node[0];

    n->index = __atomic_fetch_add(&j->index, 1, __ATOMIC_SEQ_CST);
    job_publish(j, n);
    job_link(j, w, procs);

    *index_p = n->index;

    return w;
}

static bool job_has_all(const struct suite_node *n)
{
    for (unsigned i = 0; i < PROCS; i++)
        if (suite_got(n, i, AMPH_LANE_REQUEST) < PROC_MESSAGES ||
            suite_got(n, i, AMPH_LANE_REPLY) < PROC_MESSAGES)
            return false;

    return true;
}

static void job_member(void *arg)
{
    struct job *j = arg;
    unsigned index;
    struct suite_world *w = job_join(j, PROCS, &index);
    struct suite_node *n = &w->node[0];

    n->reply = true;
    for (unsigned k = 0; k < PROC_MESSAGES; k++)
        for (unsigned i = 0; i < PROCS; i++)
            suite_stream(n, (index + i) % PROCS, AMPH_LANE_REQUEST);

    SUITE_UNTIL(w, job_has_all(n));
    job_meet(j, w, &j->done, PROCS);
    suite_world_close(w);
}

static void processes(void)
{
    struct job *j = suite_shared(sizeof *j);
    pid_t pid[PROCS];

    for (unsigned i = 0; i < PROCS; i++)
        pid[i] = suite_fork(job_member, j);

    for (unsigned i = 0; i < PROCS; i++)
        suite_join(pid[i]);
}

static void victim(void *arg)
{
    unsigned index;
    struct suite_world *w = job_join(arg, 3, &index);

    w->node[0].reply = true;
    for (;;)
        if (suite_pump(w) == 0)
            sched_yield();
}

static void fork_victim(void *arg)
{
    victim(arg);
}

static void survivor(void *arg)
{
    unsigned index;
    struct suite_world *w = job_join(arg, 3, &index);

    w->node[0].reply = true;
    while (suite_got(&w->node[0], 0, AMPH_LANE_REQUEST) < 500)
        suite_pump(w);

    job_meet(arg, w, &((struct job *)arg)->done, 2);
    suite_world_close(w);
}

/* A killed process stops nobody: calls for it end with OK, AGAIN or an error, the others go on,
 * closing works. */
static void killed_peer(void)
{
    struct job *j = suite_shared(sizeof *j);
    pid_t dead, alive;

    /* Numbers in order: this process 0, the victim 1, the survivor 2. */
    struct suite_world *w = suite_world_open(1, false);
    struct suite_node *n = &w->node[0];

    job_publish(j, n);
    j->index = 1;
    dead = suite_fork(fork_victim, j);
    while (__atomic_load_n(&j->index, __ATOMIC_SEQ_CST) < 2)
        sched_yield();

    alive = suite_fork(survivor, j);
    job_link(j, w, 3);
    for (unsigned k = 0; k < 100; k++)
        suite_stream(n, 1, AMPH_LANE_REQUEST);

    SUITE_UNTIL(w, suite_got(n, 1, AMPH_LANE_REPLY) >= 50);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);

    unsigned to_dead = 0;
    unsigned to_alive = 0;
    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;

    while (to_alive < 500 && amph_now_ns() < end) {
        enum amph_status st = suite_stream_try(n, 1, AMPH_LANE_REQUEST);

        CHECK(st == AMPH_OK || st == AMPH_AGAIN || st >= AMPH_ERR_ARG);
        to_dead += st == AMPH_OK;
        if (to_alive - suite_got(n, 2, AMPH_LANE_REPLY) < 64)
            to_alive += suite_stream_try(n, 2, AMPH_LANE_REQUEST) == AMPH_OK;

        uint64_t start = amph_now_ns();

        suite_pump(w);
        CHECK_MSG(amph_now_ns() - start < 2 * AMPH_NS_PER_S, "progress blocked on a dead peer");
    }

    CHECK_MSG(to_alive == 500, "%u of 500 messages went to the living peer (%u to the dead one)",
              to_alive, to_dead);
    SUITE_UNTIL(w, suite_got(n, 2, AMPH_LANE_REPLY) == 500);
    job_meet(j, w, &j->done, 2);
    CHECK(n->errors[1] <= 1 && n->errors[2] == 0);
    n->cx->ops->del_peer(n->cx, 1);
    suite_world_close(w);
    suite_join(alive);
}

/* Publishes its address, and talks to nobody. */
static void short_lived(void *arg)
{
    struct job *j = arg;
    struct suite_world *w = suite_world_open(1, false);

    w->node[0].index = 2;
    job_publish(j, &w->node[0]);
    __atomic_add_fetch(&j->here, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

static void exchange(struct suite_world *w, unsigned count)
{
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint64_t at_a = suite_got(a, 1, AMPH_LANE_REQUEST) + count;
    uint64_t at_b = suite_got(b, 0, AMPH_LANE_REQUEST) + count;

    for (unsigned k = 0; k < count; k++) {
        suite_stream(a, 1, AMPH_LANE_REQUEST);
        suite_stream(b, 0, AMPH_LANE_REQUEST);
    }

    SUITE_UNTIL(w, suite_got(a, 1, AMPH_LANE_REQUEST) == at_a &&
                       suite_got(b, 0, AMPH_LANE_REQUEST) == at_b);
}

/* A process that is killed before it is added: add_peer takes it or says AMPH_ERR_PEER, and the
 * others go on. */
static void killed_before_added(void)
{
    struct job *j = suite_shared(sizeof *j);
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    pid_t dead = suite_fork(short_lived, j);

    job_meet(j, w, &j->here, 2);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);

    enum amph_status st = suite_add(a, 2, j->addr[2], j->addr_len[2]);

    CHECK_MSG(st == AMPH_OK || st == AMPH_ERR_PEER, "add_peer: %s", amph_status_text(st));
    for (unsigned k = 0; st == AMPH_OK && k < 20; k++)
        suite_stream_try(a, 2, AMPH_LANE_REQUEST);

    exchange(w, 200);
    a->cx->ops->del_peer(a->cx, 2);
    exchange(w, 200);
    suite_world_close(w);
}

/* An instance closes while messages to it are under way, and is sent more before its end has been
 * noticed. */
static void send_after_close(void)
{
    enum {
        ROUNDS = 5
    };

    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *c = &w->node[2];

    suite_warm_up(w);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned k = 0; k < 20; k++)
            suite_stream_try(a, 2, AMPH_LANE_REQUEST);

        a->cx->ops->flush(a->cx);
        suite_close_node(c);

        for (unsigned k = 0; k < 20; k++)
            suite_stream_try(a, 2, k % 2);

        a->cx->ops->flush(a->cx);
        exchange(w, 200);
        CHECK(a->errors[2] <= 1);

        a->cx->ops->del_peer(a->cx, 2);
        w->node[1].cx->ops->del_peer(w->node[1].cx, 2);
        forget_streams(a, 2);
        suite_open_node(w, 2);

        for (unsigned i = 0; i < 3; i++) {
            suite_link(c, &w->node[i]);
            if (i < 2)
                suite_link(&w->node[i], c);
        }

        suite_stream(a, 2, AMPH_LANE_REQUEST);
        SUITE_UNTIL(w, suite_got(c, 0, AMPH_LANE_REQUEST) == 1);
        forget_streams(a, 2);
        forget_streams(c, 0);
    }

    suite_world_close(w);
}

static void swallow(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                    const struct amph_am *am)
{
}

/* An instance closes before its large messages have been taken, and before others have taken from
 * its memory: a provider that fetches what it was told of finds nobody. */
static void close_before_taken(void)
{
    enum {
        ROUNDS = 5,
        COUNT = 12,
        LEN = 60000
    };

    static uint8_t data[LEN], got[COUNT][LEN];
    static struct suite_op back[COUNT];

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct suite_world *w = suite_world(3, false);
        struct suite_node *a = &w->node[0];
        struct suite_node *c = &w->node[2];
        struct suite_segment seg;
        struct amph_rmem rmem;
        unsigned gets = 0;

        suite_warm_up(w);
        suite_segment_open(c, LEN, &seg);
        CHECK(a->cx->ops->mem_import(a->cx, 2, seg.mem.key, seg.mem.key_len, &rmem) == AMPH_OK);
        a->hook = swallow;

        for (unsigned k = 0; k < COUNT; k++) {
            struct amph_am am = { .kind = AMPH_AM_MEDIUM, .payload = data, .nbytes = LEN };
            c->cx->ops->am_send(c->cx, 0, AMPH_LANE_REQUEST, &am, NULL);
        }

        c->cx->ops->flush(c->cx);
        suite_segment_close(c, &seg);
        suite_close_node(c);

        for (unsigned k = 0; round % 2 && k < COUNT; k++) {
            back[k] = (struct suite_op)SUITE_OP;
            if (a->cx->ops->get(a->cx, 2, &rmem, 0, got[k], LEN, &back[k].op) != AMPH_OK)
                break;

            gets++;
        }

        for (unsigned k = 0; k < 2000; k++)
            suite_pump_node(a);

        CHECK(a->errors[2] <= 1);

        a->hook = NULL;
        exchange(w, 100);
        a->cx->ops->del_peer(a->cx, 2);
        suite_world_close(w);

        for (unsigned k = 0; k < gets; k++)
            CHECK_MSG(back[k].done == 1, "get %u of %u was given back %u times", k, gets,
                      back[k].done);
    }
}

/* An instance closes in the middle of taking large messages, after each number of steps. */
static void close_in_the_middle(void)
{
    enum {
        STEPS = 12,
        COUNT = 12,
        LEN = 60000
    };

    static uint8_t data[LEN];

    for (unsigned steps = 0; steps < STEPS; steps++) {
        struct suite_world *w = suite_world(3, false);
        struct suite_node *a = &w->node[0];
        struct suite_node *b = &w->node[1];
        struct suite_node *c = &w->node[2];

        suite_warm_up(w);
        c->hook = swallow;

        for (unsigned k = 0; k < COUNT; k++)
            for (unsigned i = 0; i < 2; i++) {
                struct amph_cx *cx = w->node[i].cx;
                struct amph_am am = { .kind = AMPH_AM_MEDIUM, .payload = data, .nbytes = LEN };

                cx->ops->am_send(cx, 2, AMPH_LANE_REQUEST, &am, NULL);
                cx->ops->flush(cx);
            }

        for (unsigned k = 0; k < steps; k++) {
            c->cx->ops->progress(c->cx, 3, 1);
            if (k % 3 == 2)
                suite_pump_node(a);
        }

        suite_close_node(c);
        CHECK(a->errors[2] <= 1 && b->errors[2] <= 1);
        exchange(w, 20);
        suite_world_close(w);
    }
}

static void flooding_victim(void *arg)
{
    struct job *j = arg;
    struct suite_world *w = suite_world_open(1, false);
    struct suite_node *n = &w->node[0];

    n->index = 2;
    job_publish(j, n);
    CHECK(suite_add(n, 0, j->addr[0], j->addr_len[0]) == AMPH_OK);
    __atomic_add_fetch(&j->here, 1, __ATOMIC_SEQ_CST);

    for (;;)
        if (n->sent[0][AMPH_LANE_REQUEST] == SUITE_STREAM ||
            suite_stream_try(n, 0, AMPH_LANE_REQUEST) != AMPH_OK)
            suite_pump(w);
}

/* Senders are killed at any instruction of a send, one after the other under one number.  Nothing
 * that was not sent whole is heard, the others go on, and the next process under that number begins
 * well. */
static void killed_senders(void)
{
    enum {
        ROUNDS = 12
    };

    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    uint64_t state = 29;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct job *j = suite_shared(sizeof *j);
        uint64_t heard = 1 + suite_random(&state) % 400;

        job_publish(j, a);

        pid_t dead = suite_fork(flooding_victim, j);

        job_meet(j, w, &j->here, 2);
        CHECK(suite_add(a, 2, j->addr[2], j->addr_len[2]) == AMPH_OK);
        SUITE_UNTIL(w, suite_got(a, 2, AMPH_LANE_REQUEST) >= heard);
        kill(dead, SIGKILL);
        waitpid(dead, NULL, 0);

        exchange(w, 50);
        a->cx->ops->del_peer(a->cx, 2);
        exchange(w, 50);
        forget_streams(a, 2);
    }

    suite_world_close(w);
}

/* clang-format off */
const struct suite_case suite_life_cases[] = {
    { "peer numbers and addresses are checked", numbers },
    { "messages before the receiver knows the sender", early_message },
    { "peers come and go under one number", come_and_go },
    { "peers forget each other and meet again", meet_again },
    { "an upcall forgets its peer", forget_in_upcall },
    { "more than forty peers", many_peers },
    { "close gives operations back", close_in_flight },
    { "nothing is left behind", nothing_left },
    { "four processes all to all", processes },
    { "a killed peer stops nobody", killed_peer },
    { "a peer killed before it is added stops nobody", killed_before_added },
    { "sends to an instance that has just closed", send_after_close },
    { "an instance closes before all has been taken", close_before_taken },
    { "an instance closes in the middle of large messages", close_in_the_middle },
    { "senders killed in the middle of a send", killed_senders },
    { NULL, NULL },
};
/* clang-format on */
