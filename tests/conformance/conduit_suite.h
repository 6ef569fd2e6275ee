/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conduit conformance suite: what conduits/conduit.h promises, as cases that run on any table
 * of operations.
 * Layer: tests.  Thread rule: a case runs in a process of its own; what threads
 * share is said where they start.
 *
 * A program for a conduit is a main of one line over conduit_suite_main.  It speaks TAP (--tap=FILE
 * as tests/lib/unit.sh asks, or standard output) and takes names of cases as arguments.  It is
 * plain C, so that it also runs under ThreadSanitizer.
 */
#ifndef AMPH_TESTS_CONDUIT_SUITE_H
#define AMPH_TESTS_CONDUIT_SUITE_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "conduits/conduit.h"

#define SUITE_NODES 48     /* instances in one case */
#define SUITE_WARM_UP 99   /* handler of suite_warm_up's messages */
#define SUITE_STREAM 65536 /* numbered messages from one node to another in one lane */
#define SUITE_LIMIT_NS (20 * AMPH_NS_PER_S) /* longest wait for something that must come */

/* What is tested. */
struct suite_target {
    const char *name;    /* in the names of the tests */
    const char *conduit; /* as amph_conduit_find takes it */
    bool emulate;        /* emulate.c laid over it */
    /* its wire loses datagrams: what was lost comes again, unasked */
    bool lossy;
};

struct suite_case {
    const char *name;
    void (*run)(void);
};

/* The target of this run; ops is that of target->conduit. */
extern const struct suite_target *suite_target;
extern const struct amph_conduit_ops *suite_ops;

/* Runs every case (each in a process of its own, with a limit of time), or those named; more may be
 * NULL.  Gives main's exit code.
 * */
int conduit_suite_main(int argc, char **argv, const struct suite_target *target,
                       const struct suite_case *more);

extern const struct suite_case suite_message_cases[], suite_memory_cases[], suite_sleep_cases[],
    suite_life_cases[];

/* Ends the case with a failure. */
void suite_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Ends the case: it does not apply here. */
void suite_skip(const char *why) __attribute__((noreturn));

#define CHECK(cond) \
    do { \
        if (!(cond)) \
            suite_fail(__FILE__, __LINE__, "%s", #cond); \
    } while (0)
#define CHECK_MSG(cond, ...) \
    do { \
        if (!(cond)) \
            suite_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

struct suite_world;

/* An instance, and what has come to it. */
struct suite_node {
    struct suite_world *world;
    uint32_t index;       /* its peer number everywhere */
    uint32_t incarnation; /* which instance under this number; part of the cookies */
    struct amph_cx *cx;
    unsigned warm; /* messages of suite_warm_up */
    bool reply;    /* answers each numbered request by a numbered reply */
    /* instead of the streams */
    void (*hook)(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                 const struct amph_am *am);
    void *user;
    uint64_t got[SUITE_NODES][AMPH_NLANES]; /* atomic: threads look at it */
    uint64_t errors[SUITE_NODES];           /* on_peer_error */
    uint32_t owed[SUITE_NODES];             /* replies that found no room */
    uint32_t sent[SUITE_NODES][AMPH_NLANES];
    uint8_t *seen[SUITE_NODES][AMPH_NLANES]; /* which numbers have come */
    /* what the last message was, where no hook is set and keep_last is */
    bool keep_last;
    struct amph_am last;
    int32_t last_args[AMPH_AM_MAX_ARGS];
    uint8_t *last_payload;
    /* a payload to compare with (progress side), one to send (send side) */
    uint8_t *want, *out;
    uint32_t last_peer;
    enum amph_lane last_lane;
};

struct suite_world {
    unsigned n;
    bool threaded;
    uint32_t max_peers;
    struct suite_node node[SUITE_NODES];
};

/* n instances, not yet linked; or linked all to all, themselves included. */
struct suite_world *suite_world_open(unsigned n, bool threaded);
struct suite_world *suite_world(unsigned n, bool threaded);
void suite_world_close(struct suite_world *w);
void suite_open_node(struct suite_world *w, unsigned index);
void suite_close_node(struct suite_node *n);
/* Makes `to` a peer of `from`, by its address. */
void suite_link(struct suite_node *from, const struct suite_node *to);
enum amph_status suite_add(struct suite_node *from, uint32_t peer, const void *addr,
                           size_t addr_len);
uint64_t suite_cookie(uint32_t from, uint32_t to); /* in their first lives */

/* One round of progress of every instance, and of what is owed; returns what was done. */
unsigned suite_pump(struct suite_world *w);
unsigned suite_pump_node(struct suite_node *n);

#define SUITE_UNTIL(w, cond) \
    do { \
        uint64_t until_end = amph_now_ns() + SUITE_LIMIT_NS; \
        while (!(cond)) { \
            if (suite_pump(w) == 0) \
                sched_yield(); \
            CHECK_MSG(amph_now_ns() < until_end, "this did not come true in time: %s", #cond); \
        } \
    } while (0)

/* Sends am, pumping while there is no room. */
void suite_send(struct suite_node *from, uint32_t peer, enum amph_lane lane,
                const struct amph_am *am, struct amph_op *lc);
/* Sends the next numbered message to peer: kind, size, arguments and contents follow from who,
 * whom, lane and number, and are checked on arrival, once each, in any order. */
enum amph_status suite_stream_try(struct suite_node *from, uint32_t peer, enum amph_lane lane);
void suite_stream(struct suite_node *from, uint32_t peer, enum amph_lane lane);
/* The same with the sender alone making progress; false: there is no room, and none will come
 * without the receiver. */
bool suite_stream_alone(struct suite_node *from, uint32_t peer, enum amph_lane lane);
/* Sends and receives one message between each two linked nodes, so that what a conduit does lazily
 * has been done. */
void suite_warm_up(struct suite_world *w);
/* Message number seq of a stream; args and payload have room for 16 words and max_medium bytes. */
void suite_message(const struct amph_cx *cx, uint32_t from, uint32_t to, enum amph_lane lane,
                   uint32_t seq, struct amph_am *am, int32_t *args, uint8_t *payload);
uint64_t suite_random(uint64_t *state);

static inline uint64_t suite_got(const struct suite_node *n, uint32_t peer, enum amph_lane lane)
{
    return __atomic_load_n(&n->got[peer][lane], __ATOMIC_ACQUIRE);
}

/* An operation that counts how often it was given back. */
struct suite_op {
    struct amph_op op;
    unsigned done;
    enum amph_status st;
};

void suite_op_done(struct amph_op *op, enum amph_status st);
#define SUITE_OP \
    { \
        { suite_op_done }, 0, AMPH_OK \
    }

/* Memory that peers may reach, registered. */
struct suite_segment {
    uint8_t *base;
    size_t len_bytes;
    int fd;
    struct amph_mem mem;
};

void suite_segment_open(struct suite_node *n, size_t len_bytes, struct suite_segment *seg);
void suite_segment_close(struct suite_node *n, struct suite_segment *seg);

/* A forked child that runs fn and must end well; suite_join waits for it.  It dies with its
 * parent. */
pid_t suite_fork(void (*fn)(void *arg), void *arg);
void suite_join(pid_t pid);
/* Memory shared with forked children, filled with 0. */
void *suite_shared(size_t len_bytes);

#endif
