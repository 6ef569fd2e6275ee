/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of the protocol: sessions, time-outs, failure, end.
 * Layer: conduits (udp).  Thread rule: see rdp.h.
 *
 * Each side chooses a nonce when it adds the peer.  A HELLO carries the sender's nonce, the
 * receiver's as far as it is known, and whether an answer is needed.  The session is up when a HELLO
 * echoes this side's nonce, which only the present peer can know, or when a packet arrives whose MAC
 * was made with both nonces.  Until then nothing else is sent.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/auth.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "conduits/udp/rdp.h"

#define HELLO_MIN_NS (4 * AMPH_NS_PER_MS)
#define HELLO_MAX_NS (200 * AMPH_NS_PER_MS) /* or BACKOFF_MAX_NS, if the time-out is long */
#define BACKOFF_MAX_NS (2 * AMPH_NS_PER_S)
/* Rounds of the guard without progress of the process after which time-outs wait no longer. */
#define GUARD_ROUNDS 12u
/* Time-outs allow for this many times the lateness of this process; it is kept for this many times its length. */
#define LATE_FACTOR 2u
#define LATE_KEEP 4u
#define KNOWN_PACKETS 32u /* sent to a peer whose round-trip times are known well */
/* Limit of this lateness, and of round-trip times as far as time-outs allow for them. */
#define PATIENCE_NS (10 * AMPH_NS_PER_S)
#define SCAN_NS AMPH_NS_PER_S
#define IDLE_NS AMPH_NS_PER_S /* idle time after which a peer's tables are freed */
#define REFUSED_NS \
    (50 * \
     AMPH_NS_PER_MS) /* time of refusals without a packet after which the peer counts as dead */
#define AWAY_NS (20 * AMPH_NS_PER_MS) /* time without progress after which the guard acts */
#define RTT_FIRST_NS (2 * AMPH_NS_PER_MS)
#define COMPLETE_BATCH 32u /* operations that are completed between two looks */

enum amph_status amph_rdp_open(const struct amph_rdp_config *cfg, struct amph_rdp **r_p)
{
    struct amph_rdp *r = calloc(1, sizeof *r);
    struct amph_rdp_conn **conn = calloc(cfg->max_peers, sizeof *conn);

    if (!r || !conn) {
        free(r);
        free(conn);
        return AMPH_ERR_NOMEM;
    }

    r->cfg = *cfg;
    r->conn = conn;
    r->timer_ns = RDP_NEVER;
    r->now = amph_rdp_now(r);
    pthread_mutex_init(&r->lock, NULL);
    *r_p = r;

    return AMPH_OK;
}

/* ---- operations that are finished ---- */

void amph_rdp_finish_op(struct amph_rdp *r, struct amph_op *op, enum amph_status st)
{
    if (!op)
        return;

    if (r->nfinished == r->finished_room) {
        uint32_t room = r->finished_room ? 2 * r->finished_room : 64;
        struct amph_rdp_finished *more = realloc(r->finished, room * sizeof *more);

        if (!more) { /* no memory: completed at once */
            amph_rdp_unlock(r);
            op->done(op, st);
            amph_rdp_lock(r);
            return;
        }

        r->finished = more;
        r->finished_room = room;
    }

    r->finished[r->nfinished++] = (struct amph_rdp_finished){ op, st };
}

unsigned amph_rdp_complete(struct amph_rdp *r)
{
    struct amph_rdp_finished some[COMPLETE_BATCH];
    unsigned n = 0;

    for (;;) {
        amph_rdp_lock(r);

        const unsigned k = r->nfinished < COMPLETE_BATCH ? r->nfinished : COMPLETE_BATCH;

        r->nfinished -= k;
        for (unsigned i = 0; i < k; i++)
            some[i] = r->finished[r->nfinished + i];

        amph_rdp_unlock(r);
        if (!k)
            return n;

        for (unsigned i = 0; i < k; i++)
            some[i].op->done(some[i].op, some[i].st);

        n += k;
    }
}

/* ---- timers ---- */

void amph_rdp_activate(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (c->active)
        return;

    c->active = true;
    c->prev_active = NULL;
    c->next_active = r->active;
    if (r->active)
        r->active->prev_active = c;

    r->active = c;
}

static void deactivate(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (!c->active)
        return;

    c->active = false;
    if (c->prev_active)
        c->prev_active->next_active = c->next_active;
    else
        r->active = c->next_active;

    if (c->next_active)
        c->next_active->prev_active = c->prev_active;
}

void amph_rdp_note_deadline(struct amph_rdp *r, uint64_t at_ns)
{
    if (at_ns < r->timer_ns)
        r->timer_ns = at_ns;
}

static void set_timer(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t at_ns)
{
    c->timer_ns = at_ns;
    amph_rdp_note_deadline(r, at_ns);

    if (at_ns != RDP_NEVER)
        amph_rdp_activate(r, c);
    else if (!c->rx[0].ready && !c->rx[1].ready && c->state != RDP_CONN_FAILED)
        deactivate(r, c);
}

/* ---- sessions ---- */

void amph_rdp_send_hello(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    if (r->nout == RDP_OUT_BATCH)
        amph_rdp_flush(r);

    unsigned n = r->nout++;
    struct amph_mac_key key;
    struct amph_rdp_hello hello = { .nonce = c->nonce,
                                    .echo = c->peer_nonce,
                                    .want = c->state == RDP_CONN_HELLO,
                                    .auth = r->cfg.auth,
                                    .queue = r->cfg.queue_bytes };
    struct amph_rdp_hdr h = { .src = c->remote_index,
                              .type = RDP_HELLO | RDP_VERSION << 4,
                              .body_len = sizeof hello,
                              .split = sizeof hello };

    amph_rdp_put_hello(r->hello[n], &hello);
    amph_rdp_put_hdr(r->head[n], &h);

    struct amph_mac_part body = { r->hello[n], sizeof hello };

    amph_rdp_keys_hello(c->cookie_out, &key);
    h.mac = amph_rdp_hello_mac(&key, (uint8_t *)r->head[n], sizeof h, &body);
    amph_rdp_put_hdr(r->head[n], &h);
    r->out_from[n].c = c;
    r->out_from[n].pn = 0;
    r->out[n] = (struct amph_port_out){ .peer = c->peer,
                                        .nparts = 2,
                                        .len_bytes = sizeof h + sizeof hello,
                                        .part = { { r->head[n], sizeof h },
                                                  { r->hello[n], sizeof hello } } };
    if (c->hellos++ == 0)
        c->hello_ns = now;

    c->last_sent_ns = now;
}

static void session_up(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    c->state = RDP_CONN_UP;
    c->last_heard_ns = now;
    c->waiting_since_ns = now;
    c->pto_count = 0;

    if (c->hellos == 1 && now > c->hello_ns) {
        c->srtt_ns = now - c->hello_ns;
        c->rttvar_ns = c->srtt_ns / 2;
    }

    amph_rdp_pump(r, c, now);
}

/* auth: what both peers accept. */
static void set_nonce(struct amph_rdp_conn *c, uint64_t nonce, uint32_t auth)
{
    if (c->peer_nonce == nonce)
        return;

    c->peer_nonce = nonce;
    amph_rdp_keys_fini(&c->in);
    amph_rdp_keys_fini(&c->out);
    amph_rdp_keys_session(c->cookie_out, c->nonce, nonce, &c->out);
    amph_rdp_keys_session(c->cookie_in, nonce, c->nonce, &c->in);
    c->in.trusted = c->out.trusted = auth == RDP_AUTH_NONE;
    c->in.clmul = c->out.clmul = (auth & RDP_AUTH_CLMUL) != 0;
}

void amph_rdp_on_hello(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                       uint64_t now)
{
    struct amph_rdp_hello hello;
    struct amph_mac_key key;

    amph_rdp_keys_hello(c->cookie_in, &key);
    if (!amph_rdp_hello_ok(&key, p->body - p->head_len, p)) {
        amph_count(DROP_COOKIE);
        return;
    }

    if (!amph_rdp_get_hello(p, &hello)) {
        amph_count(DROP_MALFORMED);
        return;
    }

    if (c->state == RDP_CONN_HELLO && !(hello.auth & r->cfg.auth)) {
        if (hello.want)
            amph_rdp_send_hello(r, c, now); /* so that the peer fails, too */

        amph_rdp_fail(r, c, RDP_WHY_MAC);
        return;
    }

    if (c->state == RDP_CONN_HELLO)
        set_nonce(c, hello.nonce, hello.auth & r->cfg.auth);
    else if (hello.nonce != c->peer_nonce)
        return; /* of an earlier session, or of one whose peer has not been added here yet */

    bool proven = false; /* packets of the session tell the peer as much as a HELLO */

    c->queue_cap = hello.queue;
    if (c->state == RDP_CONN_HELLO && hello.echo == c->nonce) {
        session_up(r, c, now);
        proven = c->out_packets > 0;
    }

    if (hello.want && !proven)
        amph_rdp_send_hello(r, c, now);
}

/* ---- peers ---- */

enum amph_status amph_rdp_add_peer(struct amph_rdp *r, uint32_t peer, uint32_t remote_index,
                                   uint64_t cookie_out, uint64_t cookie_in, uint32_t datagram)
{
    if (peer >= r->cfg.max_peers)
        return AMPH_ERR_RANGE;
    if (datagram < RDP_DATAGRAM_MIN)
        return AMPH_ERR_ARG;

    struct amph_rdp_conn *c = calloc(1, sizeof *c);
    if (!c)
        return AMPH_ERR_NOMEM;

    *c = (struct amph_rdp_conn){ .peer = peer,
                                 .remote_index = remote_index,
                                 .cookie_in = cookie_in,
                                 .cookie_out = cookie_out,
                                 .timer_ns = RDP_NEVER,
                                 .loss_ns = RDP_NEVER,
                                 .send_ns = RDP_NEVER,
                                 .ack_ns = RDP_NEVER,
                                 .srtt_ns = RTT_FIRST_NS,
                                 .rttvar_ns = RTT_FIRST_NS / 2,
                                 .reorder = 3,
                                 .next_pn = 1,
                                 .oldest_pn = 1 };
    while (c->nonce == 0)
        amph_random(&c->nonce, sizeof c->nonce);

    c->datagram = (datagram < RDP_DATAGRAM_MAX ? datagram : RDP_DATAGRAM_MAX) & ~7u;
    c->body_max = c->datagram - (uint32_t)RDP_SEG_OVERHEAD;

    for (unsigned i = 0; i < RDP_NLANES; i++) {
        c->tx[i].xfers_tail = &c->tx[i].xfers;
        c->tx[i].limit = i < AMPH_NLANES ? RDP_WINDOW_INITIAL : UINT64_MAX;
    }

    for (unsigned i = 0; i < AMPH_NLANES; i++) {
        c->rx[i].limit = RDP_WINDOW_INITIAL;
        c->rx[i].window = RDP_WINDOW_INITIAL;
    }

    amph_rdp_cc_init(&c->cc, c->datagram);
    amph_rdp_lock(r);

    enum amph_status st = r->conn[peer] ? AMPH_ERR_STATE : AMPH_OK;

    if (st == AMPH_OK)
        r->conn[peer] = c;

    amph_rdp_unlock(r);
    if (st != AMPH_OK)
        free(c);

    return st;
}

/* Frees the memory that only traffic needs. */
static void trim(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (c->oldest_pn == c->next_pn) {
        free(c->rec);
        c->rec = NULL;
        c->nrec = 0;
    }

    for (unsigned i = 0; i < AMPH_NLANES; i++)
        if (c->rx[i].nheld == 0 && c->rx[i].ring) {
            free(c->rx[i].ring);
            c->rx[i].ring = NULL;
            c->rx[i].ring_size = 0;
        }

    amph_rdp_keys_fini(&c->in);
    amph_rdp_keys_fini(&c->out);
}

static void free_conn(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    amph_rdp_rx_fini(r, c);
    for (unsigned i = 0; i < 2; i++)
        free(c->seen[i].bits);

    free(c->rec);
    amph_rdp_keys_fini(&c->in);
    amph_rdp_keys_fini(&c->out);
    free(c);
}

void amph_rdp_release_conn(struct amph_rdp *r, struct amph_rdp_conn *c)
{
    if (--c->users == 0 && c->gone)
        free_conn(r, c);
}

static void forget(struct amph_rdp *r, struct amph_rdp_conn *c, enum amph_status st)
{
    amph_rdp_drop_all(r, c, st);
    amph_rdp_gets_fail(r, c->peer, st);
    deactivate(r, c);
    if (c->state == RDP_CONN_FAILED)
        r->nfailed--;

    r->conn[c->peer] = NULL;
    c->gone = true;
    if (c->users == 0)
        free_conn(r, c);
}

void amph_rdp_del_peer(struct amph_rdp *r, uint32_t peer)
{
    if (peer >= r->cfg.max_peers)
        return;

    amph_rdp_lock(r);

    struct amph_rdp_conn *c = r->conn[peer];

    if (c) {
        if (c->state == RDP_CONN_UP)
            amph_rdp_send_bye(r, c, amph_rdp_now(r));

        amph_rdp_flush(r);
        forget(r, c, AMPH_ERR_PEER);
    }

    amph_rdp_unlock(r);
    amph_rdp_complete(r);
}

/* ---- failure ---- */

void amph_rdp_fail(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned reason)
{
    if (c->state == RDP_CONN_FAILED || c->state == RDP_CONN_DEAD)
        return;

    c->state = RDP_CONN_FAILED;
    c->reason = (uint8_t)reason;
    r->nfailed++;
    amph_rdp_drop_all(r, c, AMPH_ERR_PEER);
    amph_rdp_gets_fail(r, c->peer, AMPH_ERR_PEER);
    set_timer(r, c, amph_rdp_now(r));
}

static unsigned why_refused(const struct amph_rdp_conn *c)
{
    if (c->state == RDP_CONN_LEFT)
        return RDP_WHY_LEFT;

    return c->state == RDP_CONN_HELLO ? RDP_WHY_UNREACHED : RDP_WHY_REFUSED;
}

void amph_rdp_refused(struct amph_rdp *r, uint32_t peer)
{
    amph_rdp_lock(r);

    struct amph_rdp_conn *c = peer < r->cfg.max_peers ? r->conn[peer] : NULL;
    uint64_t now = amph_rdp_now(r);

    if (c && c->state <= RDP_CONN_LEFT) {
        if (!c->refused_ns || c->last_heard_ns >= c->refused_ns)
            c->refused_ns = now;
        else if (now - c->refused_ns >= REFUSED_NS)
            amph_rdp_fail(r, c, why_refused(c));
    }

    amph_rdp_unlock(r);
}

/* ---- deadlines ---- */

/* A time up to max_ns, and an eighth of the time-out, so that there are several attempts before it. */
static uint64_t share_of_timeout(const struct amph_rdp *r, uint64_t max_ns)
{
    uint64_t most = r->cfg.timeout_ns ? r->cfg.timeout_ns / 8 : max_ns;

    if (most < HELLO_MAX_NS)
        return HELLO_MAX_NS;

    return most < max_ns ? most : max_ns;
}

/* The longest interval between attempts.  A host that cannot keep up with many peers, each of which tries
 * again at short intervals, would never catch up. */
static uint64_t backoff_max(const struct amph_rdp *r)
{
    return share_of_timeout(r, BACKOFF_MAX_NS);
}

static uint64_t bounded(uint64_t interval, uint64_t most)
{
    return interval < most ? interval : most;
}

/* Peers that share this process's cores have to wait for a turn as long as it had to.  That counts for peers whose
 * own times are hardly known. */
static uint64_t expected_lateness(const struct amph_rdp *r, const struct amph_rdp_conn *c)
{
    return c->next_pn < KNOWN_PACKETS ? LATE_FACTOR * r->late_ns : 0;
}

/* A time-out was due at due_ns: notes how long this process has not run since.  The longest time of a recent
 * period counts.  While it computes the guard runs, and this is no lateness. */
static void note_lateness(struct amph_rdp *r, uint64_t due_ns, uint64_t now)
{
    uint64_t late = now - due_ns;
    uint64_t ran = r->guard_rounds * RDP_GUARD_NS;

    late = late > ran ? late - ran : 0;
    late = bounded(late, share_of_timeout(r, PATIENCE_NS));

    if (late < r->late_ns && now - r->late_at_ns < LATE_KEEP * r->late_ns)
        return;

    r->late_ns = late;
    r->late_at_ns = now;
}

static uint64_t hello_interval(const struct amph_rdp *r, const struct amph_rdp_conn *c)
{
    uint64_t gap = HELLO_MIN_NS << (c->hellos < 16 ? c->hellos : 16);

    return bounded(gap, backoff_max(r)) + expected_lateness(r, c);
}

/* How long an acknowledgement may take. */
static uint64_t ack_timeout(const struct amph_rdp *r, const struct amph_rdp_conn *c)
{
    uint64_t spread = 4 * c->rttvar_ns > 200 * AMPH_NS_PER_US ? 4 * c->rttvar_ns
                                                              : 200 * AMPH_NS_PER_US;
    uint64_t least = bounded(c->srtt_ns + spread, share_of_timeout(r, PATIENCE_NS));
    uint64_t pto = bounded(least << (c->pto_count < 10 ? c->pto_count : 10), backoff_max(r));

    return (pto > least ? pto : least) + expected_lateness(r, c);
}

/* Sets the timer to the earliest deadline. */
void amph_rdp_rearm(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    uint64_t at = c->ack_ns;
    bool waits = amph_rdp_has_outgoing(c) || c->ngets;

    if (c->state == RDP_CONN_HELLO && waits) {
        at = c->hellos ? c->last_sent_ns + hello_interval(r, c) : now;
    } else if (c->state == RDP_CONN_UP && waits) {
        /* Acknowledgements that this side sends do not postpone it. */
        uint64_t due = c->last_wanted_ns + ack_timeout(r, c);

        at = due < at ? due : at;
        at = c->loss_ns < at ? c->loss_ns : at;
        at = c->send_ns < at ? c->send_ns : at;
    }

    if (!waits)
        c->waiting_since_ns = 0;
    else if (!c->waiting_since_ns)
        c->waiting_since_ns = now;

    set_timer(r, c, at);
}

static uint64_t silent_since(const struct amph_rdp_conn *c)
{
    return c->last_heard_ns > c->waiting_since_ns ? c->last_heard_ns : c->waiting_since_ns;
}

/* By the clock of the progress side, because the guard does not read what has arrived. */
static bool is_silent(const struct amph_rdp *r, const struct amph_rdp_conn *c)
{
    uint64_t since = silent_since(c);

    return r->cfg.timeout_ns && c->waiting_since_ns && r->now > since &&
           r->now - since >= r->cfg.timeout_ns;
}

uint64_t amph_rdp_read_clock(struct amph_rdp *r)
{
    uint64_t now = amph_rdp_now(r);
    uint64_t away = now > r->now ? now - r->now : 0;
    uint64_t counted = r->cfg.timeout_ns / 4;

    r->now = now;
    if (AMPH_LIKELY(!counted || away <= counted))
        return now;

    for (struct amph_rdp_conn *c = r->active; c; c = c->next_active)
        if (c->waiting_since_ns)
            c->waiting_since_ns = silent_since(c) + away - counted;

    return now;
}

void amph_rdp_due(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now)
{
    if (c->state == RDP_CONN_FAILED)
        return;

    if (is_silent(r, c)) {
        amph_rdp_fail(r, c, RDP_WHY_SILENT);
        return;
    }

    if (c->state == RDP_CONN_HELLO) {
        uint64_t at = c->hellos ? c->last_sent_ns + hello_interval(r, c) : 0;

        if ((amph_rdp_has_outgoing(c) || c->ngets) && now >= at &&
            (!at || !amph_rdp_postpones(r, c, at, now)))
            amph_rdp_send_hello(r, c, now);

        amph_rdp_rearm(r, c, now);
        return;
    }

    if (now >= c->ack_ns)
        amph_rdp_send_ack(r, c, now);

    if (c->state == RDP_CONN_UP)
        amph_rdp_on_timer(r, c, now);
    else
        amph_rdp_rearm(r, c, now);
}

/* Once a second: frees memory of idle peers, and pings those that have been silent for a quarter of
 * the time-out. */
void amph_rdp_scan(struct amph_rdp *r, uint64_t now)
{
    r->scan_ns = now + SCAN_NS;
    for (uint32_t i = 0; i < r->cfg.max_peers; i++) {
        struct amph_rdp_conn *c = r->conn[i];

        if (!c || c->active || c->state != RDP_CONN_UP || c->users)
            continue;

        if (now - c->last_sent_ns > IDLE_NS && now - c->last_heard_ns > IDLE_NS)
            trim(r, c);

        if (r->cfg.timeout_ns && now - c->last_heard_ns > r->cfg.timeout_ns / 4)
            amph_rdp_send_ping(r, c, now);
    }

    amph_rdp_flush(r);
}

/* The guard does not receive, so it waits for the process to do so.  Its rounds, unlike the time, show that the
 * process would have had a turn. */
static bool guard_postpones(const struct amph_rdp *r)
{
    return r->guard_rounds < GUARD_ROUNDS && r->cfg.env.queued && r->cfg.env.queued(r->cfg.env.ctx);
}

static uint64_t queue_bytes(const struct amph_rdp *r)
{
    return r->cfg.queue_bytes ? r->cfg.queue_bytes : RDP_QUEUE_UNKNOWN;
}

/* A process that has not run for a while finds many time-outs passed, and the answers in its queue.  If it
 * sent everything again, its peers, which share its cores, would be kept from running in turn. */
bool amph_rdp_postpones(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t due_ns, uint64_t now)
{
    if (r->guarding)
        return guard_postpones(r);

    if (!amph_rdp_wants_drain(r))
        note_lateness(r, due_ns, now);

    if (r->drained_ns >= due_ns)
        return false;

    if (c->postponed_due_ns != due_ns) {
        c->postponed_due_ns = due_ns;
        c->postponed_cost = r->handled_cost;
    }

    /* A peer that sends without end keeps the queue from becoming empty.  The answer was in front of what it has
     * sent since. */
    if (r->handled_cost - c->postponed_cost > 2 * queue_bytes(r))
        return false;

    __atomic_store_n(&r->drain_wanted, true, __ATOMIC_RELAXED);
    return true;
}

void amph_rdp_drained(struct amph_rdp *r, uint64_t since_ns)
{
    amph_rdp_lock(r);
    r->drained_ns = since_ns;
    __atomic_store_n(&r->drain_wanted, false, __ATOMIC_RELAXED);
    amph_rdp_unlock(r);
}

void amph_rdp_do_due(struct amph_rdp *r, uint64_t now)
{
    if (now < r->timer_ns)
        return;

    r->timer_ns = RDP_NEVER;
    for (struct amph_rdp_conn *c = r->active, *next; c; c = next) {
        next = c->next_active;
        if (c->timer_ns <= now)
            amph_rdp_due(r, c, now);

        amph_rdp_note_deadline(r, c->timer_ns);
    }

    amph_rdp_flush(r);
}

bool amph_rdp_guard(struct amph_rdp *r, bool asleep)
{
    bool waits = false;

    amph_rdp_lock(r);

    uint64_t now = amph_rdp_now(r);

    r->guard_rounds = r->guard_seen == r->now ? r->guard_rounds + 1 : 1;
    r->guard_seen = r->now;
    r->guarding = true;
    r->corks_often = r->corks > 1;
    r->corks = 0;
    if (now - r->now > AWAY_NS && !asleep) /* otherwise the process handles them itself */
        amph_rdp_do_due(r, now);
    else if (r->corked)
        amph_rdp_uncork(r, now);

    r->guarding = false;
    for (const struct amph_rdp_conn *c = r->active; !waits && c; c = c->next_active)
        waits = c->state <= RDP_CONN_UP && (amph_rdp_has_outgoing(c) || c->ack_ns != RDP_NEVER);

    amph_rdp_unlock(r);
    return waits;
}

bool amph_rdp_keep_alive(struct amph_rdp *r)
{
    bool connected = false;

    amph_rdp_lock(r);

    uint64_t now = amph_rdp_now(r);
    uint64_t interval = r->cfg.timeout_ns / 8;
    bool away = interval && now - r->now > interval;

    for (uint32_t i = 0; i < r->cfg.max_peers; i++) {
        struct amph_rdp_conn *c = r->conn[i];

        if (!c || c->state != RDP_CONN_UP)
            continue;

        connected = true;
        if (!away)
            break;

        if (now - c->last_sent_ns > interval)
            amph_rdp_send_ack(r, c, now);
    }

    amph_rdp_flush(r);
    amph_rdp_unlock(r);

    return connected;
}

bool amph_rdp_quiesce(struct amph_rdp *r, uint64_t *deadline_p)
{
    amph_rdp_lock(r);

    uint64_t now = amph_rdp_now(r);

    for (struct amph_rdp_conn *c = r->active, *next; c; c = next) {
        next = c->next_active;
        if (c->ack_ns == RDP_NEVER)
            continue;

        amph_rdp_send_ack(r, c, now);
        amph_rdp_rearm(r, c, now);
    }

    amph_rdp_flush(r);

    /* Computes the earliest deadline again, because the lower bound may be outdated. */
    r->timer_ns = RDP_NEVER;
    for (struct amph_rdp_conn *c = r->active; c; c = c->next_active)
        amph_rdp_note_deadline(r, c->timer_ns);

    *deadline_p = r->timer_ns;
    r->slept = true;

    bool idle = !r->nready && !r->nfailed && !r->nfinished && r->timer_ns > now;

    amph_rdp_unlock(r);
    return idle;
}

/* ---- end ---- */

bool amph_rdp_finish(struct amph_rdp *r)
{
    bool idle = true;

    amph_rdp_lock(r);
    r->closing = true;
    for (struct amph_rdp_conn *c = r->active; idle && c; c = c->next_active)
        idle = c->state > RDP_CONN_UP || !amph_rdp_has_outgoing(c);

    amph_rdp_unlock(r);
    return idle;
}

void amph_rdp_send_goodbye(struct amph_rdp *r)
{
    amph_rdp_lock(r);
    for (uint32_t i = 0; i < r->cfg.max_peers; i++)
        if (r->conn[i] && r->conn[i]->state == RDP_CONN_UP)
            amph_rdp_send_bye(r, r->conn[i], amph_rdp_now(r));

    amph_rdp_flush(r);
    amph_rdp_unlock(r);
}

void amph_rdp_close(struct amph_rdp *r)
{
    amph_rdp_lock(r);
    for (uint32_t i = 0; i < r->cfg.max_peers; i++)
        if (r->conn[i])
            forget(r, r->conn[i], AMPH_ERR_STATE);

    amph_rdp_unlock(r);
    amph_rdp_complete(r);

    amph_conduit_regions_free(&r->regions);
    amph_rdp_pool_fini(&r->pool);
    pthread_mutex_destroy(&r->lock);
    free(r->finished);
    free(r->conn);
    free(r);
}
