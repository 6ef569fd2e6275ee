/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated network for the udp conduit's protocol: virtual time, links that lose, repeat,
 * reorder, delay and damage.  Layer: tests.
 * Thread rule: one thread.  All that happens follows from
 * the seed.
 */
#ifndef AMPH_TESTS_UDP_SIM_H
#define AMPH_TESTS_UDP_SIM_H

#include "conduits/udp/rdp.h"

#define SIM_NODES 48

/* A link, the same in every direction. */
struct sim_link {
    uint64_t delay_ns;            /* one way */
    uint64_t jitter_ns;           /* up to this much more, so that packets overtake each other */
    double rate;                  /* bytes a second; 0: unlimited */
    uint64_t queue_bytes;         /* before the bottleneck; what does not fit is lost */
    uint32_t loss, twice, damage; /* of 10,000 packets */
    uint32_t datagram;
};

struct sim;
struct sim_packet;
struct sim_node {
    struct sim *sim;
    uint32_t index;
    struct amph_rdp *rdp;
    uint64_t asleep_until; /* does not look before */
    /* where sim.budget counts: wait for the node's turn */
    struct sim_packet *kernel, **kernel_tail;
    struct sim_packet *next; /* that the node may receive in place */
    uint64_t failures;
    void *user;
};

struct sim {
    struct sim_link link;
    unsigned n;
    uint64_t now, random;
    struct sim_node node[SIM_NODES];
    uint64_t free_at[SIM_NODES][SIM_NODES]; /* when the bottleneck has sent all that waits */
    struct sim_packet **heap;
    size_t nheap, room;
    uint64_t order;
    uint64_t packets, lost, bytes;
    uint64_t placed;    /* packets whose bulk was received in place */
    uint64_t refused;   /* of these, packets whose bulk had the wrong code */
    uint64_t most_held; /* bytes of received messages that waited in one node */
    bool napping;       /* nodes do not always look */
    unsigned budget;    /* messages that a node takes in one turn, as am/ does; 0: unlimited */
    /* where sim_run_shared runs the nodes */
    uint64_t packet_ns; /* processor time for each packet that is sent or received */
    uint64_t slice_ns;  /* longest time for which a node runs */
    uint64_t away_ns;   /* time that other work gets after each of these */
    uint64_t unchecked; /* steps until the windows are checked again */
};

uint64_t sim_random(struct sim *s);
/* n nodes that know each other. */
struct sim *sim_open(unsigned n, const struct sim_link *link, uint64_t seed,
                     const struct amph_upcalls *upcalls, uint64_t memory);
void sim_close(struct sim *s);
/* One event: a packet arrives, or a timer is due.  false: nothing will ever happen again. */
bool sim_step(struct sim *s);
/* Nodes that share one core, in the place of sim_step: any of those that have something to do runs until it has
 * nothing more to do, or for slice_ns.  It receives, and goes to sleep, as the conduit does.  false: nothing
 * will ever happen again. */
bool sim_run_shared(struct sim *s);

/* Checks the accounts of all lanes between two steps.  What a sender has charged to a window must
 * equal what its receiver has consumed, plus what the receiver holds, plus what is in flight; then
 * the bytes granted are the bytes held, in flight and free.  The bytes of a queue must be those of
 * its segments.  Returns NULL, or which account is wrong.
 *
 * A check looks at every segment.  If there are many, the next calls return NULL without looking,
 * so that a step costs a bounded number of looks on average. */
const char *sim_wrong_account(struct sim *s);

#endif
