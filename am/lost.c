/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of messages that a broken connection has lost.
 * Layer: am.  Thread rule: poll lock held, except amph_ep_lost_tick, which tries it.
 *
 * If a TCP connection is reset (a firewall, a cable, a rebooted switch), libfabric makes another one and
 * reports nothing: what had been sent over the first one may be lost, and whoever waits for it would
 * wait for ever.  So both sides of a peer whose conduit counts no lanes itself (`windowed`) count the
 * messages that they send and receive.  If a peer has been silent for a while and has not confirmed all
 * messages, a process that waits asks it for its numbers.  Questions travel in the lane of requests,
 * behind all earlier messages, so a number that stays too small means a loss.  Both sides compare.  A
 * peer that does not poll answers later, so a missing answer is no error.
 *
 * Providers may deliver a short message before an earlier long one.  Therefore a loss is reported only
 * after several answers with the same numbers.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "base/status.h"
#include "conduits/conduit.h"

#define LOOK_NS (100 * AMPH_NS_PER_MS) /* between two looks at all peers */
#define ASK_MIN_NS (1 * AMPH_NS_PER_S) /* silence before the first question */
#define ASK_MAX_NS (60 * AMPH_NS_PER_S)
#define BUSY_NS (10 * AMPH_NS_PER_S) /* before a question to a peer that is not silent */
#define DOUBTS_MAX 5u                /* equal reports of a loss that make it certain */

/* Messages that seem to be lost in one direction. */
struct doubt {
    uint32_t missing;
    unsigned times; /* the number of reports in a row that missed the same number */
};

/* What is known of one peer's numbers. */
struct amph_audit {
    uint64_t since_ns;  /* the first look that saw messages without confirmation, or 0 */
    uint64_t ask_at_ns; /* if the peer stays silent */
    uint64_t wait_ns;   /* before the next question, if no answer comes */
    uint32_t confirmed; /* messages sent that the peer has received */
    uint32_t received;  /* messages received at the last look */
    struct doubt here, there;
};

enum amph_status amph_ep_lost_open(struct amph_am_ep *ep)
{
    ep->audit = calloc(ep->max_peers, sizeof *ep->audit);
    return ep->audit ? AMPH_OK : AMPH_ERR_NOMEM;
}

void amph_ep_lost_close(struct amph_am_ep *ep)
{
    free(ep->audit);
}

void amph_ep_lost_forget(struct amph_am_ep *ep, uint32_t peer)
{
    if (ep->audit)
        ep->audit[peer] = (struct amph_audit){ 0 };
}

/* Messages of both lanes to and from peer, also those of emulated puts and gets. */
static struct amph_cx_counts counts_of(struct amph_am_ep *ep, uint32_t peer)
{
    struct amph_peer *p = &ep->peer[peer];
    struct amph_cx_counts counts = { 0 };

    if (p->cx)
        counts = p->cx->ops->counts(p->cx, peer);

    counts.sent += __atomic_load_n(&p->sent, __ATOMIC_RELAXED);
    counts.received += __atomic_load_n(&p->received, __ATOMIC_RELAXED);

    return counts;
}

/* Sends a question or an answer, outside of credits and counts, also to a peer that has been reported, so
 * that it finds the loss as well.  Without room it is not sent: the question is repeated. */
static bool send_numbers(struct amph_am_ep *ep, uint32_t peer, uint8_t code, uint32_t echo)
{
    struct amph_peer *p = &ep->peer[peer];
    enum amph_status st = AMPH_ERR_PEER;

    amph_ep_lock(ep);

    const struct amph_cx_counts counts = counts_of(ep, peer);
    const int32_t args[AMPH_EP_NUMBERS] = { (int32_t)counts.sent, (int32_t)counts.received,
                                            (int32_t)echo };
    const struct amph_am am = {
        .kind = AMPH_AM_INTERNAL, .handler = code, .nargs = AMPH_EP_NUMBERS, .args = args
    };

    if (p->cx)
        st = p->cx->ops->am_send(p->cx, peer, AMPH_LANE_REQUEST, &am, NULL);

    amph_ep_unlock(ep);
    return st == AMPH_OK;
}

static void ask(struct amph_am_ep *ep, uint32_t peer, uint64_t now_ns)
{
    struct amph_audit *a = &ep->audit[peer];

    if (!send_numbers(ep, peer, AMPH_AM_INTERNAL_ASK, 0))
        return;

    a->wait_ns = a->wait_ns < ASK_MIN_NS ? ASK_MIN_NS : a->wait_ns * 2;
    if (a->wait_ns > ASK_MAX_NS)
        a->wait_ns = ASK_MAX_NS;

    a->ask_at_ns = now_ns + a->wait_ns;
}

static void look_at(struct amph_am_ep *ep, uint32_t peer, uint64_t now_ns)
{
    struct amph_peer *p = &ep->peer[peer];
    struct amph_audit *a = &ep->audit[peer];

    if (!p->windowed || !__atomic_load_n(&p->send, __ATOMIC_RELAXED))
        return;

    const struct amph_cx_counts counts = counts_of(ep, peer);

    if (counts.sent == a->confirmed)
        return;

    bool silent = a->since_ns && counts.received == a->received;

    a->received = counts.received;
    if (!a->since_ns)
        a->since_ns = now_ns;

    if (!silent && now_ns - a->since_ns < BUSY_NS)
        a->ask_at_ns = now_ns + ASK_MIN_NS;
    else if (now_ns >= a->ask_at_ns)
        ask(ep, peer, now_ns);
}

void amph_ep_lost_tick(struct amph_am_ep *ep)
{
    uint64_t now_ns = amph_now_ns();

    if (now_ns < __atomic_load_n(&ep->look_at_ns, __ATOMIC_RELAXED) || !amph_ep_enter(ep))
        return;

    __atomic_store_n(&ep->look_at_ns, now_ns + LOOK_NS, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < ep->peers_end; i++)
        look_at(ep, i, now_ns);

    for (unsigned i = 0; i < ep->nactive; i++)
        ep->active[i].cx->ops->tick(ep->active[i].cx, now_ns);

    amph_ep_leave(ep);
}

/* How many of `sent` messages have not been received.  The numbers wrap around, and the receiver may have
 * counted later messages already. */
static uint32_t missing_of(uint32_t sent, uint32_t received)
{
    return (int32_t)(sent - received) > 0 ? sent - received : 0;
}

/* Returns true if the loss is certain. */
static bool is_certain(struct doubt *d, uint32_t missing)
{
    d->times = missing && missing == d->missing ? d->times + 1 : 0;
    d->missing = missing;

    return d->times >= DOUBTS_MAX;
}

static void report(struct amph_am_ep *ep, uint32_t peer)
{
    const struct amph_audit *a = &ep->audit[peer];
    char why[128];

    snprintf(why, sizeof why,
             "the network connection to it broke; %u messages to it and %u from it were lost",
             a->there.missing, a->here.missing);
    amph_am_peer_failed(ep, peer, AMPH_ERR_LOST, why);
}

static void on_question(struct amph_am_ep *ep, uint32_t peer, const uint32_t *n)
{
    struct amph_audit *a = &ep->audit[peer];
    uint32_t received = counts_of(ep, peer).received;

    send_numbers(ep, peer, AMPH_AM_INTERNAL_ANSWER, n[0]);
    if (is_certain(&a->here, missing_of(n[0], received)))
        report(ep, peer);
}

static void on_answer(struct amph_am_ep *ep, uint32_t peer, const uint32_t *n)
{
    struct amph_audit *a = &ep->audit[peer];
    uint32_t received = counts_of(ep, peer).received;
    bool lost = is_certain(&a->here, missing_of(n[0], received));

    if (is_certain(&a->there, missing_of(n[2], n[1])) || lost) {
        report(ep, peer);
    } else if (a->here.missing || a->there.missing) {
        a->ask_at_ns = amph_now_ns() + LOOK_NS;
    } else {
        a->confirmed = n[2];
        a->since_ns = a->wait_ns = 0;
    }
}

bool amph_ep_lost_take(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am)
{
    if (am->handler != AMPH_AM_INTERNAL_ASK && am->handler != AMPH_AM_INTERNAL_ANSWER)
        return false;

    if (am->nargs != AMPH_EP_NUMBERS)
        return true;

    uint32_t n[AMPH_EP_NUMBERS];

    memcpy(n, am->args, sizeof n);
    if (am->handler == AMPH_AM_INTERNAL_ASK)
        on_question(ep, peer, n);
    else
        on_answer(ep, peer, n);

    return true;
}
