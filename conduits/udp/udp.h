/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp conduit's instances.  Layer: conduits (udp).  Thread rule: that of conduit.h. */
#ifndef AMPH_CONDUITS_UDP_UDP_H
#define AMPH_CONDUITS_UDP_UDP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "conduits/udp/rdp.h"

#define UDP_DEPTH 4 /* levels of progress called inside upcalls of progress */

enum amph_udp_guarded {
    UDP_GUARD_NONE, /* there is no thread */
    UDP_GUARD_IDLE, /* the thread waits */
    UDP_GUARD_SET   /* its timer is set */
};

struct amph_udp_cx {
    struct amph_cx base;
    struct amph_rdp *rdp;
    struct amph_port *port;
    /* progress side */
    /* received datagrams, one set for each level of progress */
    struct amph_port_set *set[UDP_DEPTH];
    unsigned depth;
    /* waiting */
    int wait_fd, timer_fd;
    int armed;         /* atomic */
    uint64_t alarm_ns; /* expiry time of the timer; atomic */
    /* the guard */
    pthread_t guard;
    bool has_guard, guard_complained;
    int guard_fd;
    int guarded;             /* an enum amph_udp_guarded; atomic */
    int guard_stop;          /* atomic */
    bool guard_soon;         /* its timer is set for messages that wait for more; atomic */
    uint32_t guard_soon_ns;  /* how soon; atomic */
    uint64_t guard_retry_ns; /* the thread could not be started: no attempt before; atomic */
    /* a lossy wire, for tests */
    uint32_t loss; /* of 10,000 */
    uint64_t loss_state;
    uint8_t lose_handler; /* first transmissions of messages for this handler are lost; 0: none */
    bool losing;
};

static inline struct amph_udp_cx *amph_udp_of(struct amph_cx *cx)
{
    return (struct amph_udp_cx *)cx;
}

/* port.c: chooses the port that AMPHORA_UDP_PORT names or, for auto, the faster one.  why (why_len
 * bytes) gets a sentence. */
enum amph_status amph_udp_choose_port(const struct amph_port_ops **ops_p, char *why,
                                      size_t why_len);

/* wait.c */
enum amph_status amph_udp_wait_open(struct amph_udp_cx *u);
void amph_udp_wait_close(struct amph_udp_cx *u);
int amph_udp_wait_fd(struct amph_cx *cx);
enum amph_status amph_udp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
/* After a send-side call: sets the timer of a sleeper earlier if the call needs it. */
void amph_udp_sent(struct amph_udp_cx *u);

/* guard.c */
enum amph_status amph_udp_guard_open(struct amph_udp_cx *u);
void amph_udp_guard_close(struct amph_udp_cx *u); /* before amph_rdp_close */
void amph_udp_guard_wake(struct amph_udp_cx *u);  /* after a send */
void amph_udp_guard_hurry(struct amph_udp_cx *u); /* after one whose message waits for more */

#endif
