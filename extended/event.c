/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: operations and their free lists, test and wait, implicit operations and access regions.
 * Layer: extended.  Thread rule: see event.h.
 */
#include "am/am.h"
#include "base/status.h"
#include "extended/event.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "extended/check.h"

/* A thread that only polls accumulates operations that other threads allocated; above this
 * number it frees them. */
enum {
    FREE_OPS_MAX = 4096
};

/* Checked builds reuse free operations in FIFO order, and only while more than this number are
 * free: a test of a consumed event is recognised for that long. */
enum {
    FREE_MIN = AMPH_CHECKS ? 256 : 0
};

/* ---- per-thread state ---- */

static __thread struct amph_gex_thread *self __attribute__((tls_model("initial-exec")));

static void region_init(struct amph_region *r)
{
    r->root = (struct amphora_event){ .kind = AMPH_EVENT_REGION };
    for (int i = 0; i < AMPH_NEC; i++)
        r->leaf[i] = (struct amphora_event){ .kind = AMPH_EVENT_LEAF };
}

static bool region_done(const struct amph_region *r, gex_EC_t mask)
{
    for (int i = 0; i < AMPH_NEC; i++)
        if ((mask >> i & 1) && !amph_event_done(&r->leaf[i]))
            return false;

    return true;
}

/* Called at the end of a thread.  Its region stays as long as operations in flight count in it. */
static void thread_end(void *arg)
{
    struct amph_gex_thread *t = arg;

    self = NULL;
    while (t->ops) {
        struct amph_gex_op *op = t->ops;

        t->ops = op->next;
        free(op);
    }

    while (t->regions) {
        struct amph_region *r = t->regions;

        t->regions = r->next;
        free(r);
    }

    amph_gex_prepare_thread_end(t);
    free(t->vis_answer);
    t->vis_answer = NULL;
    if (region_done(&t->implicit, GEX_EC_ALL))
        free(t);
}

static void make_key(void)
{
    if (pthread_key_create(&amph_gex_state.thread_key, thread_end))
        amph_fatal("no thread-specific key is left for the runtime");
}

static struct amph_gex_thread *thread_begin(void)
{
    struct amph_gex_thread *t = calloc(1, sizeof *t);

    if (!t)
        amph_fatal("no memory for a thread of the runtime");

    region_init(&t->implicit);
    t->current = &t->implicit;
    pthread_once(&amph_gex_state.key_made, make_key);
    pthread_setspecific(amph_gex_state.thread_key, t);

    return self = t;
}

struct amph_gex_thread *amph_gex_thread(void)
{
    return AMPH_LIKELY(self != NULL) ? self : thread_begin();
}

/* ---- operations ---- */

static void check_status(enum amph_status st)
{
    if (AMPH_UNLIKELY(st != AMPH_OK && !amph_job.exiting))
        amph_fatal("a transfer has failed: %s", amph_job_failure_text(st));
}

/* Completes one half of the operation. */
static void half_done(struct amph_gex_op *op, struct amphora_event *count)
{
    /* an explicit operation returns to the client when nothing is pending */
    bool detached = op->detached;

    if (amph_event_sub(&op->root) == 0 && detached)
        amph_gex_op_put(op);

    if (count)
        amph_event_sub(count);
}

static void rc_done(struct amph_op *op, enum amph_status st)
{
    struct amph_gex_op *o = AMPH_CONTAINER_OF(op, struct amph_gex_op, rc);

    check_status(st);
    half_done(o, o->rc_count);
}

static void lc_done(struct amph_op *op, enum amph_status st)
{
    struct amph_gex_op *o = AMPH_CONTAINER_OF(op, struct amph_gex_op, lc);
    struct amphora_event *count = o->lc_count;

    check_status(st);
    amph_event_sub(&o->leaf);
    half_done(o, count);
}

struct amph_gex_op *amph_gex_op_get(void)
{
    struct amph_gex_thread *t = amph_gex_thread();
    struct amph_gex_op *op = t->ops;

    if (AMPH_LIKELY(op != NULL) && AMPH_LIKELY(t->nops > FREE_MIN || !AMPH_CHECKS)) {
        t->ops = op->next;
        t->nops--;
    } else {
        op = calloc(1, sizeof *op);
        if (!op)
            amph_fatal("no memory for another operation");

        op->rc.done = rc_done;
        op->lc.done = lc_done;
        op->root.kind = AMPH_EVENT_OP;
        op->leaf.kind = AMPH_EVENT_LEAF;
    }

    if (AMPH_CHECKS) {
        op->root.kind = AMPH_EVENT_OP;
        op->leaf.kind = AMPH_EVENT_LEAF;
        op->no_leaf = false;
    }

    return op;
}

/* Uses the list of free operations as a queue. */
static void put_last(struct amph_gex_thread *t, struct amph_gex_op *op)
{
    op->root.kind = op->leaf.kind = AMPH_EVENT_GONE;
    op->next = NULL;

    if (t->ops)
        t->last_op->next = op;
    else
        t->ops = op;

    t->last_op = op;
    if (++t->nops > FREE_OPS_MAX) {
        op = t->ops;
        t->ops = op->next;
        t->nops--;
        free(op);
    }
}

void amph_gex_op_put(struct amph_gex_op *op)
{
    struct amph_gex_thread *t = amph_gex_thread();

    op->detached = op->neighbours = false;
    op->rc_count = op->lc_count = NULL;

    if (AMPH_CHECKS) {
        put_last(t, op);
        return;
    }

    if (t->nops >= FREE_OPS_MAX) {
        free(op);
        return;
    }

    op->next = t->ops;
    t->ops = op;
    t->nops++;
}

void amph_gex_op_detach(struct amph_gex_op *op, int ec)
{
    op->detached = true;
    op->rc_count = &amph_gex_thread()->current->leaf[ec];
    amph_event_add(op->rc_count, 1);
}

void amph_gex_op_count_lc(struct amph_gex_op *op)
{
    op->lc_count = &amph_gex_thread()->current->leaf[AMPH_EC_LC];
    amph_event_add(op->lc_count, 1);
}

void amph_gex_op_retract(struct amph_gex_op *op)
{
    if (op->rc_count)
        amph_event_sub(op->rc_count);

    if (op->lc_count)
        amph_event_sub(op->lc_count);

    op->root.pending = op->leaf.pending = 0;
    amph_gex_op_put(op);
}

gex_Event_t amph_gex_op_event(struct amph_gex_op *op)
{
    if (!amph_event_done(&op->root))
        return &op->root;

    amph_gex_op_put(op);
    return GEX_EVENT_INVALID;
}

static void stack_done(struct amph_op *op, enum amph_status st)
{
    check_status(st);
    __atomic_store_n(&AMPH_CONTAINER_OF(op, struct amph_stack_op, op)->done, 1, __ATOMIC_RELEASE);
}

void amph_gex_stack_op_init(struct amph_stack_op *op)
{
    op->op.done = stack_done;
    op->done = 0;
}

void amph_gex_stack_op_wait(struct amph_stack_op *op)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    while (!__atomic_load_n(&op->done, __ATOMIC_ACQUIRE))
        amph_gex_wait_step(&w);
}

/* ---- test and wait ---- */

static void region_put(struct amph_region *r)
{
    struct amph_gex_thread *t = amph_gex_thread();

    t->nregions++;
    if (!AMPH_CHECKS) {
        r->next = t->regions;
        t->regions = r;
        return;
    }

    r->root.kind = AMPH_EVENT_GONE;
    for (int i = 0; i < AMPH_NEC; i++)
        r->leaf[i].kind = AMPH_EVENT_GONE;

    r->next = NULL;
    if (t->regions)
        t->last_region->next = r;
    else
        t->regions = r;

    t->last_region = r;
}

static struct amph_region *region_get(void)
{
    struct amph_gex_thread *t = amph_gex_thread();
    struct amph_region *r = t->regions;

    if (r && t->nregions > FREE_MIN) {
        t->regions = r->next;
        t->nregions--;
    } else if (!(r = malloc(sizeof *r))) {
        amph_fatal("no memory for an access region");
    }

    region_init(r);
    return r;
}

/* Is the event complete?  If it is a root, releases it. */
static bool take(gex_Event_t event)
{
    if (event->kind == AMPH_EVENT_REGION) {
        struct amph_region *r = AMPH_CONTAINER_OF(event, struct amph_region, root);

        if (!region_done(r, GEX_EC_ALL))
            return false;

        region_put(r);
        return true;
    }

    if (!amph_event_done(event))
        return false;

    if (event->kind == AMPH_EVENT_OP)
        amph_gex_op_put(AMPH_CONTAINER_OF(event, struct amph_gex_op, root));
    else if (AMPH_CHECKS)
        event->kind = AMPH_EVENT_GONE;

    return true;
}

/* Fails on events that cannot be tested. */
static void refuse(gex_Event_t event)
{
    if (AMPH_UNLIKELY(event == GEX_EVENT_NO_OP))
        amph_fatal("GEX_EVENT_NO_OP cannot be tested or waited for: nothing was started");

    if (AMPH_CHECKS && event->kind >= AMPH_EVENT_GONE)
        amph_fatal("the event %p has been consumed: a successful test or wait is the last use of "
                   "an event, and of the leaves of a "
                   "root",
                   (void *)event);
}

int amphora_event_test(gex_Event_t event)
{
    amph_check_call("gex_Event_Test");
    if (event == GEX_EVENT_INVALID)
        return GASNET_OK;

    refuse(event);
    if (take(event))
        return GASNET_OK;

    amph_gex_progress();
    return take(event) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void amphora_event_wait(gex_Event_t event)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    amph_check_call("gex_Event_Wait");
    if (event == GEX_EVENT_INVALID)
        return;

    refuse(event);
    if (take(event))
        return;

    w.neighbours = event->kind == AMPH_EVENT_OP &&
                   AMPH_CONTAINER_OF(event, struct amph_gex_op, root)->neighbours;
    do
        amph_gex_wait_step(&w);
    while (!take(event));
}

/* Consumes the complete events.  *left_p: the number of incomplete ones; returns the number
 * consumed. */
static size_t take_array(gex_Event_t *pevent, size_t numevents, size_t *left_p)
{
    size_t taken = 0;
    size_t left = 0;

    for (size_t i = 0; i < numevents; i++) {
        if (pevent[i] == GEX_EVENT_INVALID)
            continue;

        refuse(pevent[i]);
        if (take(pevent[i])) {
            pevent[i] = GEX_EVENT_INVALID;
            taken++;
        } else {
            left++;
        }
    }

    *left_p = left;
    return taken;
}

int gex_Event_TestSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)
{
    size_t left;

    amph_check_call("gex_Event_TestSome");
    amph_check_zero(flags, "gex_Event_TestSome");
    amph_gex_progress();

    return take_array(pevent, numevents, &left) || !left ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void gex_Event_WaitSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    size_t left;

    amph_check_call("gex_Event_WaitSome");
    amph_check_zero(flags, "gex_Event_WaitSome");
    while (!take_array(pevent, numevents, &left) && left)
        amph_gex_wait_step(&w);
}

int gex_Event_TestAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)
{
    size_t left;

    amph_check_call("gex_Event_TestAll");
    amph_check_zero(flags, "gex_Event_TestAll");
    amph_gex_progress();
    take_array(pevent, numevents, &left);

    return left ? GASNET_ERR_NOT_READY : GASNET_OK;
}

void gex_Event_WaitAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)
{
    amph_check_call("gex_Event_WaitAll");
    amph_check_zero(flags, "gex_Event_WaitAll");

    for (size_t i = 0; i < numevents; i++) {
        gex_Event_Wait(pevent[i]);
        pevent[i] = GEX_EVENT_INVALID;
    }
}

/* Returns NULL for a leaf that was not requested when the operation was started. */
static void check_leaf(gex_Event_t root, gex_EC_t event_category)
{
    if (root->kind == AMPH_EVENT_LEAF)
        amph_fatal("gex_Event_QueryLeaf: the event %p is a leaf itself, not a root", (void *)root);

    if (root->kind == AMPH_EVENT_OP &&
        (event_category != GEX_EC_LC || AMPH_CONTAINER_OF(root, struct amph_gex_op, root)->no_leaf))
        amph_fatal("gex_Event_QueryLeaf: the operation has no leaf of category %#x: it was started "
                   "with GEX_EVENT_NOW or _DEFER, "
                   "or is none that has one",
                   (unsigned)event_category);
}

gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t event_category)
{
    struct amphora_event *leaf = NULL;

    amph_check_call("gex_Event_QueryLeaf");
    if (root == GEX_EVENT_INVALID)
        return GEX_EVENT_INVALID;

    refuse(root);
    if (!event_category || (event_category & (event_category - 1)) || event_category > GEX_EC_ALL)
        amph_fatal("gex_Event_QueryLeaf: %#x is not one event category", (unsigned)event_category);

    if (AMPH_CHECKS)
        check_leaf(root, event_category);

    if (root->kind == AMPH_EVENT_REGION)
        leaf =
            &AMPH_CONTAINER_OF(root, struct amph_region, root)->leaf[__builtin_ctz(event_category)];
    else if (root->kind == AMPH_EVENT_OP && event_category == GEX_EC_LC)
        leaf = &AMPH_CONTAINER_OF(root, struct amph_gex_op, root)->leaf;

    return leaf && !amph_event_done(leaf) ? leaf : GEX_EVENT_INVALID;
}

/* ---- implicit operations ---- */

static bool implicit_done(gex_EC_t event_mask)
{
    struct amph_gex_thread *t = amph_gex_thread();

    if (t->current != &t->implicit)
        amph_fatal("gex_NBI_Test and gex_NBI_Wait are not allowed inside an access region");

    return region_done(&t->implicit, event_mask);
}

int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags)
{
    amph_check_call("gex_NBI_Test");
    amph_check_zero(flags, "gex_NBI_Test");
    amph_gex_handle_own();
    return implicit_done(event_mask) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    amph_check_call("gex_NBI_Wait");
    amph_check_zero(flags, "gex_NBI_Wait");
    amph_gex_handle_own();
    while (!implicit_done(event_mask))
        amph_gex_wait_step(&w);
}

void gex_NBI_BeginAccessRegion(gex_Flags_t flags)
{
    struct amph_gex_thread *t = amph_gex_thread();

    amph_check_call("gex_NBI_BeginAccessRegion");
    amph_check_zero(flags, "gex_NBI_BeginAccessRegion");
    if (t->current != &t->implicit)
        amph_fatal("gex_NBI_BeginAccessRegion inside an access region; regions do not nest");

    t->current = region_get();
}

gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags)
{
    struct amph_gex_thread *t = amph_gex_thread();
    struct amph_region *r = t->current;

    amph_check_call("gex_NBI_EndAccessRegion");
    amph_check_zero(flags, "gex_NBI_EndAccessRegion");
    amph_gex_handle_own();
    if (r == &t->implicit)
        amph_fatal("gex_NBI_EndAccessRegion outside an access region");

    t->current = &t->implicit;
    return take(&r->root) ? GEX_EVENT_INVALID : &r->root;
}
