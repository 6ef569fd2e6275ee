/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The barrier engine; see barrier.h.  Layer: extended.
 *
 * A word holds 30 bits of phase, 2 bits of kind, 32 bits of id.  There are two, used in turn: a
 * process can be at phase p+1 while another still reads p, but never at p+2.
 */
#include <stdlib.h>

#include "am/am.h"
#include "conduits/conduit.h"
#include "extended/coll/barrier.h"

#include "base/settings/counters.h"
#include "base/log.h"
#include "extended/coll/coll.h"

enum {
    IDLE,
    LOCAL,
    ROUNDS,
    RESULT,
    DONE
};

#define PHASE_MASK ((1u << 30) - 1)
enum {
    SPINS = 256
};

static uint64_t word_of(uint32_t phase, struct amph_barrier_value v)
{
    return (uint64_t)(phase & PHASE_MASK) << 34 | (uint64_t)v.kind << 32 | (uint32_t)v.id;
}

/* Reads a word's value into *v.  false: the word is of another phase. */
static bool value_in(const uint64_t *word, uint32_t phase, struct amph_barrier_value *v)
{
    uint64_t w = __atomic_load_n(word, __ATOMIC_ACQUIRE);

    if (w >> 34 != (phase & PHASE_MASK))
        return false;

    *v = (struct amph_barrier_value){ .kind = (uint32_t)(w >> 32 & 3), .id = (int32_t)(uint32_t)w };
    return true;
}

struct amph_barrier_value amph_coll_barrier_combine(struct amph_barrier_value a,
                                                    struct amph_barrier_value b)
{
    const struct amph_barrier_value mismatch = { .kind = AMPH_BARRIER_MISMATCH };

    if (a.kind == AMPH_BARRIER_MISMATCH || b.kind == AMPH_BARRIER_MISMATCH)
        return mismatch;
    if (a.kind == AMPH_BARRIER_ANONYMOUS)
        return b;

    return b.kind == AMPH_BARRIER_ANONYMOUS || a.id == b.id ? a : mismatch;
}

/* ---- waking ---- */

static bool anyone_sleeps(void)
{
    return amph_coll_share_anyone_sleeps(&amph_colls()->share);
}

static void wake_all(struct amph_barrier *b)
{
    bool woke = false;

    if (!anyone_sleeps())
        return;

    for (uint32_t i = 0; i < b->coll->nlocal; i++)
        woke |= amph_coll_wake(b->coll, i);

    __atomic_store_n(&b->woke, woke, __ATOMIC_RELAXED);
}

/* ---- the stages; locked ---- */

static void finish(struct amph_barrier *b)
{
    struct amph_gex *g = amph_gex();
    struct amph_gex_op *op = b->head;

    amph_coll_count(b->coll, -1u);
    __atomic_store_n(&b->state, DONE, __ATOMIC_RELEASE);

    if (op) {
        b->head = op->next;
        amph_event_sub(&op->root);
    }

    if (g->threaded)
        amph_am_kick(g->ep.am); /* the waiting thread may be another */
}

/* Reads the neighbours' lines.  true: all have arrived, and `combined` is their value. */
static bool local_stage(struct amph_barrier *b)
{
    struct amph_barrier_value v;
    const uint32_t nlocal = b->coll->nlocal;
    const uint32_t self = b->coll->self;

    while (b->seen < nlocal) {
        if (b->seen == self)
            v = b->own;
        else if (!value_in(&b->line[b->seen].word[b->phase & 1], b->phase, &v))
            return false;

        b->combined = b->seen ? amph_coll_barrier_combine(b->combined, v) : v;
        b->seen++;
    }

    return true;
}

/* Sends the combined value to slot `slot` of the inbox of neighbourhood `to`. */
static bool send_value(struct amph_barrier *b, uint32_t to, uint32_t slot)
{
    const struct amph_coll *c = b->coll;
    uint32_t peer = amph_coll_peer(c, c->first[to]);
    const uint64_t id = amph_gex_team_id_at(c->team, c->first[to]);
    const int32_t args[] = { (int32_t)(id >> 32), (int32_t)id,   (int32_t)b->number,
                             (int32_t)b->phase,   (int32_t)slot, (int32_t)b->combined.kind,
                             b->combined.id };
    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_BARRIER, .nargs = 7, .args = args
    };
    enum amph_status st = amph_am_request(amph_gex()->ep.am, peer, &am, AMPH_AM_IMMEDIATE, NULL);

    if (st == AMPH_AGAIN)
        amph_colls()->no_room = true;
    else if (st != AMPH_OK && !amph_job.exiting)
        amph_fatal("a barrier cannot reach process %u: %s", peer, amph_job_failure_text(st));

    return st == AMPH_OK;
}

/* Dissemination among leaders.  true: the result is known. */
static bool rounds_stage(struct amph_barrier *b)
{
    const struct amph_coll *c = b->coll;
    struct amph_barrier_value v;

    for (; (UINT64_C(1) << b->round) < c->count; b->round++, b->sent = false) {
        const uint32_t to = (uint32_t)(((uint64_t)c->mine + (1u << b->round)) % c->count);

        if (!b->sent && !(b->sent = send_value(b, to, b->round)))
            return false;
        if (!value_in(&b->inbox[b->phase & 1][b->round], b->phase, &v))
            return false;

        b->combined = amph_coll_barrier_combine(b->combined, v);
    }

    return true;
}

/* The star's centre receives the values of all others, then sends them the result.  b->round counts
 * both. */
static bool centre_stage(struct amph_barrier *b)
{
    const uint32_t others = b->coll->count - 1;
    struct amph_barrier_value v;

    for (; b->round < others; b->round++) {
        if (!value_in(&b->inbox[b->phase & 1][b->round], b->phase, &v))
            return false;

        b->combined = amph_coll_barrier_combine(b->combined, v);
    }

    for (; b->round < 2 * others; b->round++)
        if (!send_value(b, b->round - others + 1, 0))
            return false;

    return true;
}

/* Where members outnumber cores, each round of dissemination needs a turn of every member: through a
 * centre, one turn of each is enough.  true: the result is known. */
static bool star_stage(struct amph_barrier *b)
{
    const uint32_t mine = b->coll->mine;

    if (mine == 0)
        return centre_stage(b);
    if (!b->sent && !(b->sent = send_value(b, 0, mine - 1)))
        return false;

    return value_in(&b->inbox[b->phase & 1][0], b->phase, &b->combined);
}

static void publish_result(struct amph_barrier *b)
{
    if (b->coll->nlocal == 1)
        return;

    __atomic_store_n(&b->line[b->coll->nlocal].word[b->phase & 1], word_of(b->phase, b->combined),
                     __ATOMIC_RELEASE);
    wake_all(b);
}

/* The neighbourhood is complete.  The member that detects this at its own arrival may be the last
 * one, and wakes the sleepers. */
static void after_local(struct amph_barrier *b, bool arriving)
{
    if (b->coll->count == 1) {
        finish(b);
        if (arriving && b->coll->nlocal > 1)
            wake_all(b);

        return;
    }

    if (b->coll->self == 0) {
        __atomic_store_n(&b->state, ROUNDS, __ATOMIC_RELAXED);
        return;
    }

    __atomic_store_n(&b->state, RESULT, __ATOMIC_RELAXED);
    if (arriving && anyone_sleeps())
        __atomic_store_n(&b->woke, amph_coll_wake(b->coll, 0), __ATOMIC_RELAXED);
}

static void start(struct amph_barrier *b, struct amph_barrier_value value)
{
    b->phase++;
    if ((b->phase & PHASE_MASK) == 0)
        b->phase += 2; /* 0 means "never"; the parity of the phase is kept */

    b->own = value;
    b->seen = 0;
    b->round = 0;
    b->sent = false;
    __atomic_store_n(&b->woke, false, __ATOMIC_RELAXED);
    amph_coll_count(b->coll, 1);
    __atomic_store_n(&b->state, LOCAL, __ATOMIC_RELAXED);

    if (b->coll->nlocal > 1) {
        amph_coll_note_post();
        __atomic_store_n(&b->line[b->coll->self].word[b->phase & 1], word_of(b->phase, value),
                         __ATOMIC_RELEASE);

        /* with this fence, of two members that arrive together at least one sees both lines, and wakes others */
        if (anyone_sleeps())
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } else {
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

/* Callers hold the lock, but a completed barrier returns to IDLE without it. */
static uint32_t state_of(const struct amph_barrier *b)
{
    return __atomic_load_n(&b->state, __ATOMIC_RELAXED);
}

static void advance(struct amph_barrier *b, bool arriving)
{
    static const struct amph_barrier_value anonymous = { .kind = AMPH_BARRIER_ANONYMOUS };

    for (;;) {
        if (state_of(b) == LOCAL && local_stage(b))
            after_local(b, arriving);

        if (state_of(b) == ROUNDS && (b->coll->star ? star_stage(b) : rounds_stage(b))) {
            publish_result(b);
            finish(b);
        }

        if (state_of(b) == RESULT &&
            value_in(&b->line[b->coll->nlocal].word[b->phase & 1], b->phase, &b->combined))
            finish(b);

        if (state_of(b) != DONE || !b->head)
            return;

        start(b, anonymous);
        arriving = true;
    }
}

/* ---- the calls ---- */

bool amph_coll_barrier_open(struct amph_coll *c, uint32_t number)
{
    struct amph_barrier *b = &c->barrier[number];
    const bool centre = c->star && c->mine == 0;

    b->coll = c;
    b->number = number;
    b->slots = centre && c->count - 1 > AMPH_BARRIER_ROUNDS ? c->count - 1 : AMPH_BARRIER_ROUNDS;
    b->inbox[0] = calloc(2 * (size_t)b->slots, sizeof *b->inbox[0]);
    if (!b->inbox[0])
        return false;

    b->inbox[1] = b->inbox[0] + b->slots;
    return true;
}

void amph_coll_barrier_close(struct amph_barrier *b)
{
    free(b->inbox[0]);
}

void amph_coll_barrier_notify(struct amph_barrier *b, struct amph_barrier_value value)
{
    amph_coll_spin_lock(&b->locked);
    start(b, value);
    advance(b, true);
    amph_coll_spin_unlock(&b->locked);
}

void amph_coll_barrier_enqueue(struct amph_barrier *b, struct amph_gex_op *op)
{
    static const struct amph_barrier_value anonymous = { .kind = AMPH_BARRIER_ANONYMOUS };

    op->root.pending = 1;
    op->neighbours = b->coll->nlocal > 1;
    op->next = NULL;
    amph_coll_spin_lock(&b->locked);

    if (b->head) {
        b->tail->next = op;
        b->tail = op;
    } else {
        b->head = b->tail = op;
        start(b, anonymous);
    }

    advance(b, true);
    amph_coll_spin_unlock(&b->locked);
}

bool amph_coll_barrier_progress(struct amph_barrier *b)
{
    uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);

    if (state != IDLE && state != DONE && amph_coll_spin_try(&b->locked)) {
        advance(b, false);
        amph_coll_spin_unlock(&b->locked);
        state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
    }

    return state == DONE;
}

bool amph_coll_barrier_awaits(struct amph_barrier *b, uint32_t member)
{
    struct amph_barrier_value v;

    if (state_of(b) != LOCAL)
        return false;
    if (!amph_coll_spin_try(&b->locked))
        return true;

    bool yes = state_of(b) == LOCAL && !value_in(&b->line[member].word[b->phase & 1], b->phase, &v);

    amph_coll_spin_unlock(&b->locked);
    return yes;
}

bool amph_coll_barrier_busy(const struct amph_barrier *b)
{
    return __atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != IDLE;
}

void amph_coll_barrier_reset(struct amph_barrier *b)
{
    __atomic_store_n(&b->state, IDLE, __ATOMIC_RELAXED);
}

/* Looks for the others' arrival and answers messages.  Returns false if it takes long. */
static bool spin(struct amph_barrier *b)
{
    struct amph_gex *g = amph_gex();

    for (unsigned i = 0; i < SPINS; i++) {
        if (amph_coll_barrier_progress(b))
            return true;

        amph_am_poll(g->ep.am);
        amph_cpu_relax();
    }

    return false;
}

void amph_coll_barrier_wait(struct amph_barrier *b)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    w.neighbours = b->coll->nlocal > 1;
    /* The last one to arrive does not wait, and learns nothing about spinning. */
    if (amph_coll_barrier_progress(b)) {
        amph_gex_found_done(amph_gex(), amph_coll_barrier_woke(b));
        return;
    }

    bool spins = amph_am_may_spin();

    if (spins && spin(b))
        w.rounds = 1;
    else
        amph_am_wait_after_spin(&w, spins);

    while (!amph_coll_barrier_progress(b))
        amph_gex_wait_step(&w);

    amph_am_wait_found(&w);
    amph_gex_has_polled(amph_gex());
}

/* ---- messages ---- */

enum {
    ARG_ID_HIGH,
    ARG_ID_LOW,
    ARG_NUMBER,
    ARG_PHASE,
    ARG_ROUND,
    ARG_KIND,
    ARG_NAME,
    NARGS
};

void amph_coll_barrier_deliver(struct amph_coll *c, const int32_t *args)
{
    uint32_t number = (uint32_t)args[ARG_NUMBER];
    uint32_t phase = (uint32_t)args[ARG_PHASE];
    uint32_t round = (uint32_t)args[ARG_ROUND];

    if (number >= AMPH_BARRIERS || round >= c->barrier[number].slots ||
        (uint32_t)args[ARG_KIND] >= AMPH_BARRIER_KINDS) {
        amph_count(DROP_MALFORMED);
        return;
    }

    const struct amph_barrier_value v = { .kind = (uint32_t)args[ARG_KIND], .id = args[ARG_NAME] };

    __atomic_store_n(&c->barrier[number].inbox[phase & 1][round], word_of(phase, v),
                     __ATOMIC_RELEASE);
}

static void on_barrier(struct amph_token *token, const struct amph_am *am)
{
    if (!amph_gex() || !amph_colls())
        return;

    amph_coll_spin_lock(&amph_colls()->mail_lock);

    struct amph_coll *c = amph_coll_mail_team((uint64_t)(uint32_t)am->args[ARG_ID_HIGH] << 32 |
                                              (uint32_t)am->args[ARG_ID_LOW]);

    if (c)
        amph_coll_barrier_deliver(c, am->args);
    else
        amph_coll_mail_keep(token, am);

    amph_coll_spin_unlock(&amph_colls()->mail_lock);
}

static void on_wake(struct amph_token *token, const struct amph_am *am)
{
    /* the message only wakes the process */
}

enum amph_status amph_coll_barriers_open(struct amph_gex *g)
{
    static const struct amph_am_entry on_barrier_entry = {
        (void *)on_barrier, false, 1, 1, NARGS, NULL, "barrier"
    };
    static const struct amph_am_entry on_wake_entry = { (void *)on_wake, false, 1, 1, 0, NULL,
                                                        "wake" };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_BARRIER, &on_barrier_entry);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_WAKE, &on_wake_entry) : st;
}
