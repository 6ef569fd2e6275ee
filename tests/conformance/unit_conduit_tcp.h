/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of unit_conduit_tcp share: nodes in one process.  Thread rule: as the test. */
#ifndef UNIT_CONDUIT_TCP_H
#define UNIT_CONDUIT_TCP_H

#include "conduits/ofi/ofi.h"
#include "tests/conformance/counted.h"

#define MAX_NODES 14
#define LIMIT_NS (20 * AMPH_NS_PER_S)
#define SEG_BYTES (4u << 20)

/* One instance, and what has come to it. */
struct node {
    struct amph_cx *cx;
    uint64_t got[AMPH_NLANES], from[MAX_NODES], errors, bad;
    enum amph_status error_st; /* of the last error */
    bool answer;
    struct amph_am last;
    int32_t last_args[AMPH_AM_MAX_ARGS];
    uint8_t last_payload[OFI_MAX_MEDIUM];
    uint32_t last_peer, order_next;
    uint8_t *seg;
    struct amph_mem mem;
    struct amph_rmem rmem[MAX_NODES];
};

#define PUMP_UNTIL(cond) \
    do { \
        uint64_t pump_end = amph_now_ns() + LIMIT_NS; \
        while (!(cond)) { \
            pump(); \
            cr_assert_lt(amph_now_ns(), pump_end, "%s did not come true in time", #cond); \
        } \
    } while (0)

extern const struct amph_conduit_ops *ops;
const struct amph_conduit_ops *tcp(void);
extern struct node node[MAX_NODES];
extern unsigned nnodes;
extern bool bursts;         /* of instances that are opened from now on */
extern unsigned threads_of; /* bit i: node i is threaded */
void pump(void);
uint64_t cookie(unsigned from, unsigned to);
void open_node(unsigned i, bool threaded);
/* n instances that all know each other (and themselves), each with a segment. */
void start(unsigned n, bool threaded);
void stop(void);
void send_am(unsigned from, unsigned to, enum amph_lane lane, const struct amph_am *am,
             struct amph_op *lc);
void send_short(unsigned from, unsigned to, enum amph_lane lane, int32_t arg);

/* unit_conduit_tcp_packs.c: nodes that keep small puts and gets back, connected; the first one of each case is sent by
 * itself.  The pusher does nothing. */
void start_packs(unsigned n, unsigned threaded_nodes);
/* Does node 0's pusher send packs? */
void let_push(bool on);
/* Packs that node 0 has sent to node 1, and answers of node 1. */
uint32_t packs_sent(void);
uint32_t answers_sent(void);
/* Sends a message of pack.c from node 0 to node 1. */
void send_forged(enum amph_lane lane, uint8_t handler, uint8_t nargs, const void *payload,
                 size_t len_bytes);
/* The same with one that node 1 drops; `answered` ones have an answer that node 0 does not know. */
void expect_dropped(enum amph_lane lane, uint8_t handler, uint8_t nargs, const void *payload,
                    size_t len_bytes, bool answered);

#endif
