/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The barrier engine; see barrier.h.  Layer: extended.
 *
 * A word holds 30 bits of phase, 2 bits of kind, 32 bits of id.  There are two, used in turn: a process can be at phase p+1 while
 * another still reads p, but never at p+2.
 */
#include "extended/barrier.h"

#include <stdlib.h>

#include "base/counters.h"
#include "base/log.h"
#include "extended/event.h"

enum { IDLE, LOCAL, ROUNDS, RESULT, DONE };

#define PHASE_MASK ((1u << 30) - 1)
enum { SPINS = 256, SPINS_BETWEEN_POLLS = 16 };

static uint64_t word_of(uint32_t phase, struct amph_barrier_value v)
{
    return (uint64_t)(phase & PHASE_MASK) << 34 | (uint64_t)v.kind << 32 | (uint32_t)v.id;
}

/* The value in a word, if the word is of this phase. */
static bool value_in(const uint64_t *word, uint32_t phase, struct amph_barrier_value *v)
{
    uint64_t w = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (w >> 34 != (phase & PHASE_MASK))
        return false;
    *v = (struct amph_barrier_value){ .kind = (uint32_t)(w >> 32 & 3), .id = (int32_t)(uint32_t)w };
    return true;
}

struct amph_barrier_value amph_barrier_combine(struct amph_barrier_value a, struct amph_barrier_value b)
{
    const struct amph_barrier_value mismatch = { .kind = AMPH_BARRIER_MISMATCH };
    if (a.kind == AMPH_BARRIER_MISMATCH || b.kind == AMPH_BARRIER_MISMATCH)
        return mismatch;
    if (a.kind == AMPH_BARRIER_ANONYMOUS)
        return b;
    return b.kind == AMPH_BARRIER_ANONYMOUS || a.id == b.id ? a : mismatch;
}

/* How many are under way in this process. */
static void count_active(uint32_t change)
{
    struct amph_gex *g = amph_gex();
    if (g->threaded)
        __atomic_add_fetch(&g->barriers_active, change, __ATOMIC_RELAXED);
    else
        g->barriers_active += change;
}

/* ---- waking ---- */

/* Wakes a neighbour if it sleeps.  The fence orders what was written for it before the look at its mark. */
static void wake_one(struct amph_barrier *b, uint32_t i)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_WAKE };
    if (i != b->self && __atomic_load_n(&b->line[i].asleep, __ATOMIC_RELAXED)) {
        /* Without room in its lane it has messages to wake for. */
        amph_am_request(amph_gex()->ep.am, b->local[i].gex_jobrank, &am, AMPH_AM_IMMEDIATE, NULL);
        amph_count(WAKES_SENT);
    }
}

static void wake_all(struct amph_barrier *b)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < b->nlocal; i++)
        wake_one(b, i);
}

void amph_barrier_doze(struct amph_barrier *b)
{
    if (b->nlocal > 1 && !__atomic_load_n(&b->line[b->self].asleep, __ATOMIC_RELAXED)) {
        __atomic_store_n(&b->line[b->self].asleep, 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* ---- the stages; locked ---- */

static void finish(struct amph_barrier *b)
{
    struct amph_gex *g = amph_gex();
    struct amph_gex_op *op = b->head;
    if (b->nlocal > 1)
        __atomic_store_n(&b->line[b->self].asleep, 0, __ATOMIC_RELAXED);
    count_active(-1u);
    __atomic_store_n(&b->state, DONE, __ATOMIC_RELEASE);
    if (op) {
        b->head = op->next;
        amph_event_sub(&op->root);
    }
    if (g->threaded)
        amph_am_kick(g->ep.am); /* the thread that waits may be another */
}

/* Looks at the neighbours' lines; true: all have arrived, and combined is their value. */
static bool local_stage(struct amph_barrier *b)
{
    struct amph_barrier_value v;
    while (b->seen < b->nlocal) {
        if (b->seen == b->self)
            v = b->own;
        else if (!value_in(&b->line[b->seen].word[b->phase & 1], b->phase, &v))
            return false;
        b->combined = b->seen ? amph_barrier_combine(b->combined, v) : v;
        b->seen++;
    }
    return true;
}

static bool send_round(struct amph_barrier *b)
{
    uint32_t to = b->leader[(b->my_leader + (1u << b->round)) % b->nleaders];
    const int32_t args[] = { (int32_t)b->number, (int32_t)b->phase, (int32_t)b->round, (int32_t)b->combined.kind, b->combined.id };
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_BARRIER, .nargs = 5, .args = args };
    enum amph_status st = amph_am_request(amph_gex()->ep.am, to, &am, AMPH_AM_IMMEDIATE, NULL);
    if (st != AMPH_OK && st != AMPH_AGAIN && !amph_job.exiting)
        amph_fatal("a barrier cannot reach process %u: %s", to, amph_status_text(st));
    return st == AMPH_OK;
}

/* Dissemination among leaders; true: the result is known. */
static bool rounds_stage(struct amph_barrier *b)
{
    struct amph_barrier_value v;
    for (; (1u << b->round) < b->nleaders; b->round++, b->sent = false) {
        if (!b->sent && !(b->sent = send_round(b)))
            return false;
        if (!value_in(&b->inbox[b->phase & 1][b->round], b->phase, &v))
            return false;
        b->combined = amph_barrier_combine(b->combined, v);
    }
    return true;
}

static void publish_result(struct amph_barrier *b)
{
    if (b->nlocal == 1)
        return;
    __atomic_store_n(&b->line[b->nlocal].word[b->phase & 1], word_of(b->phase, b->combined), __ATOMIC_RELEASE);
    wake_all(b);
}

/* The neighbourhood is complete.  Who finds that at its own arrival may have come last, and wakes those that sleep. */
static void after_local(struct amph_barrier *b, bool arriving)
{
    if (b->nleaders == 1) {
        finish(b);
        if (arriving && b->nlocal > 1)
            wake_all(b);
        return;
    }
    if (b->self == 0) {
        __atomic_store_n(&b->state, ROUNDS, __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&b->state, RESULT, __ATOMIC_RELAXED);
    if (arriving) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        wake_one(b, 0);
    }
}

static void start(struct amph_barrier *b, struct amph_barrier_value value)
{
    b->phase++;
    if ((b->phase & PHASE_MASK) == 0)
        b->phase += 2; /* 0 is "never"; the turn of the words is kept */
    b->own = value;
    b->seen = 0;
    b->round = 0;
    b->sent = false;
    count_active(1);
    __atomic_store_n(&b->state, LOCAL, __ATOMIC_RELAXED);
    if (b->nlocal > 1) {
        __atomic_store_n(&b->line[b->self].word[b->phase & 1], word_of(b->phase, value), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* of two that arrive together at least one sees both */
    } else {
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
}

static void advance(struct amph_barrier *b, bool arriving)
{
    static const struct amph_barrier_value anonymous = { .kind = AMPH_BARRIER_ANONYMOUS };
    for (;;) {
        if (b->state == LOCAL && local_stage(b))
            after_local(b, arriving);
        if (b->state == ROUNDS && rounds_stage(b)) {
            publish_result(b);
            finish(b);
        }
        if (b->state == RESULT && value_in(&b->line[b->nlocal].word[b->phase & 1], b->phase, &b->combined))
            finish(b);
        if (b->state != DONE || !b->head)
            return;
        start(b, anonymous);
        arriving = true;
    }
}

/* ---- the calls ---- */

static bool try_lock(struct amph_barrier *b)
{
    return !amph_gex()->threaded || !__atomic_exchange_n(&b->locked, 1, __ATOMIC_ACQUIRE);
}

static void unlock(struct amph_barrier *b)
{
    if (amph_gex()->threaded)
        __atomic_store_n(&b->locked, 0, __ATOMIC_RELEASE);
}

void amph_barrier_notify(struct amph_barrier *b, struct amph_barrier_value value)
{
    while (!try_lock(b))
        amph_cpu_relax();
    start(b, value);
    advance(b, true);
    unlock(b);
}

void amph_barrier_enqueue(struct amph_barrier *b, struct amph_gex_op *op)
{
    static const struct amph_barrier_value anonymous = { .kind = AMPH_BARRIER_ANONYMOUS };
    op->root.pending = 1;
    op->next = NULL;
    while (!try_lock(b))
        amph_cpu_relax();
    if (b->head) {
        b->tail->next = op;
        b->tail = op;
    } else {
        b->head = b->tail = op;
        start(b, anonymous);
    }
    advance(b, true);
    unlock(b);
}

bool amph_barrier_progress(struct amph_barrier *b)
{
    uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
    if (state != IDLE && state != DONE && try_lock(b)) {
        advance(b, false);
        unlock(b);
        state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
    }
    return state == DONE;
}

bool amph_barrier_busy(const struct amph_barrier *b)
{
    return __atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != IDLE;
}

void amph_barrier_reset(struct amph_barrier *b)
{
    __atomic_store_n(&b->state, IDLE, __ATOMIC_RELAXED);
}

void amph_barrier_wait(struct amph_barrier *b)
{
    struct amph_gex *g = amph_gex();
    struct amph_waiter w = AMPH_WAITER_INIT;
    bool spins = !amph_job.crowded && amph_job.wait_mode != AMPH_WAIT_BLOCK;
    for (unsigned i = 0; spins && i < SPINS; i++) {
        if (amph_barrier_progress(b))
            return;
        if (i % SPINS_BETWEEN_POLLS == 0 || b->nleaders > 1)
            amph_am_poll(g->ep.am);
        amph_cpu_relax();
    }
    while (!amph_barrier_progress(b))
        amph_gex_wait_step(&w);
}

void amph_gex_progress(void)
{
    struct amph_gex *g = amph_gex();
    if (!g || AMPH_LIKELY(!__atomic_load_n(&g->barriers_active, __ATOMIC_RELAXED)))
        return;
    for (int i = 0; i < AMPH_BARRIERS; i++)
        amph_barrier_progress(&g->barriers->b[i]);
}

void amph_gex_wait_step(struct amph_waiter *w)
{
    struct amph_gex *g = amph_gex();
    if (AMPH_UNLIKELY(__atomic_load_n(&g->barriers_active, __ATOMIC_RELAXED))) {
        for (int i = 0; i < AMPH_BARRIERS; i++) {
            struct amph_barrier *b = &g->barriers->b[i];
            uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
            if (state == IDLE || state == DONE)
                continue;
            amph_barrier_doze(b);
            if (amph_barrier_progress(b))
                return; /* what the caller waits for may have come */
        }
    }
    amph_am_wait_step(g->ep.am, w);
}

/* ---- messages ---- */

static void on_barrier(struct amph_token *token, const struct amph_am *am)
{
    struct amph_barriers *all = amph_gex() ? amph_gex()->barriers : NULL;
    uint32_t number = (uint32_t)am->args[0], phase = (uint32_t)am->args[1], round = (uint32_t)am->args[2], kind = (uint32_t)am->args[3];
    if (!all || number >= AMPH_BARRIERS || round >= AMPH_BARRIER_ROUNDS || kind >= AMPH_BARRIER_KINDS) {
        amph_count(DROP_MALFORMED);
        return;
    }
    const struct amph_barrier_value v = { .kind = kind, .id = am->args[4] };
    __atomic_store_n(&all->b[number].inbox[phase & 1][round], word_of(phase, v), __ATOMIC_RELEASE);
}

static void on_wake(struct amph_token *token, const struct amph_am *am)
{
    /* Its coming is all. */
}

/* ---- set-up ---- */

size_t amph_barrier_bytes(uint32_t n)
{
    return (size_t)AMPH_BARRIERS * (n + 1) * sizeof(struct amph_barrier_line);
}

/* The ranks of all leaders; the own one's place among them. */
static enum amph_status list_leaders(struct amph_gex *g, struct amph_barrier *b)
{
    b->leader = calloc(g->nbrhds, sizeof *b->leader);
    if (!b->leader)
        return AMPH_ERR_NOMEM;
    for (uint32_t i = 0; i < g->team.pub.size; i++)
        if (g->leader[i] == i) {
            if (i == g->leader[g->team.pub.rank])
                b->my_leader = b->nleaders;
            b->leader[b->nleaders++] = i;
        }
    return AMPH_OK;
}

enum amph_status amph_barriers_open(struct amph_gex *g)
{
    static const struct amph_am_entry on_barrier_entry = { (void *)on_barrier, false, 1, 1, 5, NULL, "barrier" };
    static const struct amph_am_entry on_wake_entry = { (void *)on_wake, false, 1, 1, 0, NULL, "wake" };
    g->barriers = calloc(1, sizeof *g->barriers);
    if (!g->barriers)
        return AMPH_ERR_NOMEM;
    for (uint32_t i = 0; i < AMPH_BARRIERS; i++)
        g->barriers->b[i].number = i;
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_BARRIER, &on_barrier_entry);
    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_WAKE, &on_wake_entry) : st;
}

enum amph_status amph_barriers_join(struct amph_gex *g, void *shared)
{
    enum amph_status st = AMPH_OK;
    for (uint32_t i = 0; i < AMPH_BARRIERS && st == AMPH_OK; i++) {
        struct amph_barrier *b = &g->barriers->b[i];
        if (shared)
            b->line = (struct amph_barrier_line *)shared + (size_t)i * (g->nbrhd.count + 1);
        b->nlocal = g->nbrhd.count;
        b->self = g->nbrhd.self;
        b->local = g->nbrhd.info;
        st = list_leaders(g, b);
    }
    g->team.barrier = &g->barriers->b[AMPH_BARRIER_TEAM];
    return st;
}
