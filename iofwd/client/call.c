/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends one request and handles its reply; contains the layer `forward`, the last in the list.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/data/stripe.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"
#include "iofwd/wire/request_name.h"

#define CHECK_NS (10 * AMPH_NS_PER_MS)
#define REASON_NS (60 * AMPH_NS_PER_S) /* between warnings that give a server's reason */

/* ---- signals and cancellation are blocked ---- */

void amph_fwd_set_inside(int (*swap)(int depth))
{
    amph_client_state.hooks.swap_inside = swap;
}

void amph_fwd_set_host_calls(const struct amph_fwd_host_calls *calls)
{
    amph_client_state.host = *calls;
}

void amph_fwd_set_log_sink(bool (*take)(const char *line, size_t len_bytes))
{
    amph_log_set_sink(take);
}

void amph_fwd_set_cancelled(bool (*fn)(void))
{
    amph_client_state.hooks.is_cancelled = fn;
}

bool amph_client_is_interposed(void)
{
    return amph_client_state.hooks.swap_inside != NULL;
}

void amph_fwd_set_program_mask(const sigset_t *mask)
{
    if (!mask)
        amph_client_thread.guarded.depth--;
    else if (amph_client_thread.guarded.depth++ == 0)
        amph_client_thread.guarded.program = *mask;
}

void amph_fwd_wait_begin(sigset_t *before_p)
{
    amph_thread_wait_begin(before_p);
}

void amph_fwd_wait_end(const sigset_t *before)
{
    amph_thread_wait_end(before);
}

void amph_client_sigguard_enter(struct amph_client_sigguard *g)
{
    /* these report faults of the program; its handlers must run */
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t max;

    sigfillset(&max);
    for (size_t i = 0; i < AMPH_COUNTOF(faults); i++)
        sigdelset(&max, faults[i]);

    pthread_sigmask(SIG_BLOCK, &max, &g->old);
    amph_fwd_set_program_mask(&g->old);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &g->cancel);
    g->inside = amph_client_state.hooks.swap_inside ? amph_client_state.hooks.swap_inside(1) : 0;
    g->ends_wait = false;
}

/* Returns whether one of these signals has a handler, and all such handlers have SA_RESTART, so
 * that the call continues. */
static bool all_restart(const sigset_t *set)
{
    struct sigaction sa;
    bool any = false;

    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(set, sig) == 1 && sigaction(sig, NULL, &sa) == 0 &&
            sa.sa_handler != SIG_IGN && sa.sa_handler != SIG_DFL) {
            any = true;
            if (!(sa.sa_flags & SA_RESTART))
                return false;
        }

    return any;
}

void amph_client_let_signals_in(struct amph_client_sigguard *g)
{
    amph_client_sigguard_leave(g);
    amph_client_sigguard_enter(g);
}

/* Delivers the signals that are pending.  Returns true if one of them ends the call. */
static bool let_signals_in(struct amph_client_sigguard *g)
{
    const struct timespec none = { 0, 0 };
    sigset_t pending;

    if (!g->ends_wait) {
        amph_client_let_signals_in(g);
        return false;
    }

    sigpending(&pending);
    if (amph_client_state.hooks.swap_inside)
        amph_client_state.hooks.swap_inside(g->inside);

    bool came = ppoll(NULL, 0, &none, &g->old) < 0 && errno == EINTR;

    if (amph_client_state.hooks.swap_inside)
        g->inside = amph_client_state.hooks.swap_inside(1);

    return (came && !all_restart(&pending)) ||
           (amph_client_state.hooks.is_cancelled && g->cancel == PTHREAD_CANCEL_ENABLE &&
            amph_client_state.hooks.is_cancelled());
}

void amph_client_sigguard_leave(struct amph_client_sigguard *g)
{
    if (amph_client_state.hooks.swap_inside)
        amph_client_state.hooks.swap_inside(g->inside);

    pthread_setcancelstate(g->cancel, NULL);
    amph_fwd_set_program_mask(NULL);
    pthread_sigmask(SIG_SETMASK, &g->old, NULL);
}

/* Does the signal have its default action, and does the program not block it?  It may end or stop the
 * program in the midst of a call, because no code of the program runs then. */
static bool has_default_action(int sig)
{
    struct sigaction sa;

    return sigismember(&amph_client_thread.guarded.program, sig) == 0 &&
           sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL;
}

void amph_client_wait_mask(sigset_t *mask_p)
{
    for (int sig = 1; amph_client_thread.guarded.depth && sig < NSIG; sig++)
        if (has_default_action(sig))
            sigdelset(mask_p, sig);
}

void amph_client_let_default_actions_in(void)
{
    sigset_t pending, let_in, before;
    bool any = false;

    if (!amph_client_thread.guarded.depth)
        return;

    sigemptyset(&let_in);
    sigpending(&pending);

    for (int sig = 1; sig < NSIG; sig++)
        if (sigismember(&pending, sig) == 1 && has_default_action(sig)) {
            sigaddset(&let_in, sig);
            any = true;
        }

    if (!any)
        return;

    pthread_sigmask(SIG_UNBLOCK, &let_in, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- pending records ---- */

bool amph_client_pending_is_done(const struct amph_client_pending *p)
{
    return atomic_load_explicit(&p->state, memory_order_acquire) ==
           AMPH_CLIENT_PENDING_WORD(p->seq, AMPH_CLIENT_PENDING_DONE);
}

struct amph_client_pending *amph_client_pending_try(struct amph_fwd_client *cl)
{
    uint64_t bits = atomic_load_explicit(&cl->pends, memory_order_relaxed);

    while (bits) {
        unsigned i = (unsigned)__builtin_ctzll(bits);

        if (atomic_compare_exchange_weak_explicit(&cl->pends, &bits, bits & ~(UINT64_C(1) << i),
                                                  memory_order_acquire, memory_order_relaxed)) {
            struct amph_client_pending *p = &cl->pend[i];

            p->error = 0;
            p->got = 0;
            p->whole = AMPH_CLIENT_WHOLE_NONE;
            p->moves = 0;
            p->file_ns = p->queue_ns = 0;
            p->data = NULL;
            p->yields_early = p->sleeps_early = p->busy = p->unawaited = p->more_follows = false;
            p->seq = atomic_fetch_add_explicit(&cl->counter, 1, memory_order_relaxed) *
                         AMPH_CLIENT_PENDING_MAX +
                     i;
            amph_client_thread.last_seq = p->seq;
            return p;
        }
    }

    return NULL;
}

struct amph_client_pending *amph_client_pending_acquire(struct amph_fwd_client *cl)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    struct amph_client_pending *p;

    while (!(p = amph_client_pending_try(cl)))
        amph_am_wait_step(cl->ep, &w);

    return p;
}

void amph_client_pending_release(struct amph_fwd_client *cl, struct amph_client_pending *p)
{
    if (AMPH_UNLIKELY(amph_client_thread.trace_sum != NULL))
        amph_client_trace_request(cl, p);

    atomic_store_explicit(&p->state, AMPH_CLIENT_PENDING_WORD(p->seq, AMPH_CLIENT_PENDING_FREE),
                          memory_order_relaxed);
    atomic_fetch_or_explicit(&cl->pends, UINT64_C(1) << (p - cl->pend), memory_order_release);
}

static void put_head(const struct amph_fwd_client *cl, const struct amph_client_link *link,
                     const struct amph_client_pending *p, uint16_t service, size_t length)
{
    struct amph_wr w;

    amph_wr_init(&w, p->buf, FWD_REQ_HEAD_BYTES);
    amph_fwd_put_req_head(&w, &(struct amph_fwd_req_head){ .magic = FWD_MAGIC,
                                                           .version = FWD_VERSION,
                                                           .service = service,
                                                           .length = (uint32_t)length,
                                                           .client = cl->number,
                                                           .seq = p->seq,
                                                           .cookie = link->cookie });
}

static int send_built(struct amph_fwd_client *cl, struct amph_client_link *link,
                      struct amph_client_pending *p, size_t length)
{
    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = FWD_AM_REQUEST,
                          .nbytes = (uint32_t)length,
                          .payload = p->buf,
                          .more = p->more_follows };

    if (atomic_load_explicit(&link->state, memory_order_acquire) != AMPH_CLIENT_LINK_READY)
        return EIO;

    p->peer = link->server - cl->first;
    atomic_store_explicit(&p->state, AMPH_CLIENT_PENDING_WORD(p->seq, AMPH_CLIENT_PENDING_WAITING),
                          memory_order_release);

    enum amph_status st = amph_am_request(cl->ep, p->peer, &am, 0, NULL);
    if (st == AMPH_OK)
        return 0;

    amph_client_link_dead(cl, link, amph_status_text(st));
    return EIO;
}

int amph_client_pending_send(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, const struct amph_fwd_bulk *bulk,
                             const void *data)
{
    struct amph_wr w;

    amph_wr_init(&w, p->buf, AMPH_CLIENT_PENDING_BYTES);
    w.at += FWD_REQ_HEAD_BYTES;

    int err = amph_fwd_put_args(&w, p->desc, p->args, link->server);
    if (err)
        return err;

    if (bulk)
        amph_fwd_put_bulk(&w, bulk);

    if (data)
        amph_wr_bytes(&w, data, bulk->len);

    if (w.bad)
        return ENAMETOOLONG;

    put_head(cl, link, p, p->desc->service, amph_wr_len(&w));
    return send_built(cl, link, p, amph_wr_len(&w));
}

/* Abandons a request.  If its reply is being processed, waits until that is done, because it writes
 * to the caller's memory. */
static int leave_pend(struct amph_client_pending *p)
{
    for (;;) {
        uint64_t expected = AMPH_CLIENT_PENDING_WORD(p->seq, AMPH_CLIENT_PENDING_WAITING);

        if (atomic_compare_exchange_strong(
                &p->state, &expected,
                AMPH_CLIENT_PENDING_WORD(p->seq, AMPH_CLIENT_PENDING_ABANDONED)))
            return EIO;

        if (amph_client_pending_is_done(p))
            return p->error;

        amph_cpu_relax();
    }
}

/* The server has died: processes its last replies, which may not have been read yet, so that a call
 * it has executed does not count as failed.  In a child of fork the replies are the parent's. */
static int leave_dead(struct amph_fwd_client *cl, struct amph_client_pending *p)
{
    while (!amph_client_pending_is_done(p) && !atomic_load(&cl->left) && amph_am_poll(cl->ep) > 0)
        ;

    return leave_pend(p);
}

/* Asks the server to cancel request seq.  The request's own reply says whether it was executed. */
static void cancel(struct amph_fwd_client *cl, struct amph_client_link *link, uint64_t seq)
{
    uint64_t body;
    struct amph_wr w;
    size_t got;

    amph_wr_init(&w, (uint8_t *)&body, sizeof body);
    amph_wr_u64(&w, seq);
    amph_client_special(cl, link, FWD_SERVICE_CANCEL, &body, sizeof body, NULL, 0, &got);
}

bool amph_client_wait_step(struct amph_fwd_client *cl, struct amph_client_wait *wait)
{
    if (AMPH_UNLIKELY(atomic_load_explicit(&cl->left, memory_order_relaxed)))
        return true;

    amph_am_wait_step(cl->ep, &wait->w);
    if (wait->rounds < 64 && wait->w.phase != AMPH_WAITER_SLEEPS) {
        /* a quick reply costs no call of the clock; a sleep is none */
        wait->rounds++;
        return false;
    }

    uint64_t now = amph_now_ns();

    if (wait->next_ns == 0)
        wait->next_ns = now + CHECK_NS;

    if (now < wait->next_ns)
        return false;

    wait->next_ns = now + CHECK_NS;
    amph_client_check(cl);
    amph_client_let_default_actions_in();
    return true;
}

int amph_client_pending_wait(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, struct amph_client_sigguard *let_in)
{
    struct amph_client_wait wait = { .w = { .soon = true, .yields_early = p->yields_early } };
    bool unwanted = false;

    if (p->sleeps_early)
        wait.w.phase = AMPH_WAITER_SLEEPS;

    while (!amph_client_pending_is_done(p)) {
        bool late = amph_client_wait_step(cl, &wait);

        if (atomic_load_explicit(&link->state, memory_order_acquire) == AMPH_CLIENT_LINK_DEAD)
            return leave_dead(cl, p);
        if (!late || !let_in)
            continue;

        unwanted = let_signals_in(let_in) || unwanted;

        /* Sent again in every round: a cancellation has no effect if it reaches the server before the
         * request blocks there. */
        if (unwanted)
            cancel(cl, link, p->seq);
    }

    return p->error;
}

/* ---- replies ---- */

static const char *call_name(const struct amph_client_pending *p)
{
    return p->desc ? p->desc->name : "call";
}

/* Logs the reason that a server has sent with an error.  EIO does not say what went wrong, so
 * its reason is a warning, at most one in REASON_NS; all other reasons are logged at level info. */
static void report_reason(const struct amph_fwd_rep_head *head, const struct amph_client_pending *p,
                          const char *text, int len)
{
    uint64_t last = __atomic_load_n(&amph_client_state.reason_ns, __ATOMIC_RELAXED);
    uint64_t now = amph_now_ns();
    bool warns = amph_fwd_errno_from_wire(head->error) == EIO &&
                 (!last || now - last >= REASON_NS) &&
                 __atomic_compare_exchange_n(&amph_client_state.reason_ns, &last, now, false,
                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED);

    if (warns)
        amph_warn("%s fails with EIO: %.*s", call_name(p), len, text);
    else
        amph_info("%s: the I/O server says: %.*s", call_name(p), len, text);
}

static void take_tags(struct amph_rd *r, const struct amph_fwd_rep_head *head,
                      struct amph_client_pending *p)
{
    struct amph_rd tags;
    const void *at = amph_rd_bytes(r, head->tags_len);

    amph_rd_init(&tags, at, at ? head->tags_len : 0);
    while (amph_rd_left(&tags) > 0 && !tags.bad) {
        uint16_t tag = amph_rd_u16(&tags);
        uint16_t len = amph_rd_u16(&tags);

        if (tag == FWD_TAG_WHOLE && len == sizeof p->whole) {
            p->whole = amph_rd_u64(&tags);
            continue;
        }

        if (tag == FWD_TAG_MOVES && len == sizeof p->moves) {
            p->moves = amph_rd_u32(&tags);
            continue;
        }

        p->busy = p->busy || tag == FWD_TAG_BUSY;

        const char *text = amph_rd_bytes(&tags, len);

        if (tag == FWD_TAG_REASON && text)
            report_reason(head, p, text, (int)len);
    }
}

/* Decodes the results of a reply; returns an errno value. */
static int take_results(struct amph_rd *r, struct amph_client_pending *p, uint32_t server)
{
    if (!p->desc) { /* raw */
        size_t n = amph_rd_left(r);
        if (n > p->want)
            return EPROTO;
        if (n)
            memcpy(p->data, amph_rd_bytes(r, n), n);
        p->got = n;
        return 0;
    }

    if (!amph_fwd_get_results(r, p->desc, p->args, server))
        return EPROTO;
    if (p->desc->arg[p->desc->nargs - 1].word != FWD_OUT_BUF)
        return 0;

    size_t n = amph_rd_u32(r);
    if (r->bad || n > p->want)
        return EPROTO;

    if (p->data) {
        const void *at = amph_rd_bytes(r, n);
        if (!at)
            return EPROTO;

        memcpy(p->data, at, n);
    }

    p->got = n;
    return 0;
}

/* Takes what a reply says; messages about it name the request.  Returns an errno value. */
static int take_outcome(const struct amph_fwd_client *cl, struct amph_rd *r,
                        const struct amph_fwd_rep_head *head, struct amph_client_pending *p)
{
    uint32_t server = cl->first + p->peer;

    if (AMPH_LIKELY(head->error == 0)) {
        take_tags(r, head, p);
        return take_results(r, p, server);
    }

    struct amph_log_request before = amph_log_request_set(
        (struct amph_log_request){ amph_fwd_request_name, cl->number, p->seq });
    int err = amph_fwd_errno_from_wire(head->error);

    take_tags(r, head, p);
    if (amph_fwd_errno_is_storage(err))
        amph_info("%s: the storage of I/O server %" PRIu32 " gives an error: %s; its log has more",
                  call_name(p), p->peer, strerror(err));

    amph_log_request_set(before);
    return err;
}

void amph_client_on_reply(struct amph_token *token, const struct amph_am *am)
{
    struct amph_fwd_client *cl = amph_am_user(token->ep);
    struct amph_fwd_rep_head head;
    struct amph_rd r;

    amph_rd_init(&r, am->payload, am->nbytes);
    if (!amph_fwd_get_rep_head(&r, &head)) {
        amph_count(DROP_MALFORMED);
        return;
    }

    struct amph_client_pending *p = &cl->pend[head.seq % AMPH_CLIENT_PENDING_MAX];
    uint64_t waiting = AMPH_CLIENT_PENDING_WORD(head.seq, AMPH_CLIENT_PENDING_WAITING);
    uint64_t expected = waiting;

    if (!atomic_compare_exchange_strong_explicit(
            &p->state, &expected, AMPH_CLIENT_PENDING_WORD(head.seq, AMPH_CLIENT_PENDING_FILLING),
            memory_order_acq_rel, memory_order_relaxed))
        return; /* the call was abandoned */

    if (p->peer != token->peer) { /* from a server that did not get the request */
        atomic_store_explicit(&p->state, waiting, memory_order_release);
        return;
    }

    p->file_ns = head.file_ns;
    p->queue_ns = head.queue_ns;
    p->error = take_outcome(cl, &r, &head, p);
    atomic_store_explicit(&p->state, AMPH_CLIENT_PENDING_WORD(head.seq, AMPH_CLIENT_PENDING_DONE),
                          memory_order_release);
}

/* ---- calls ---- */

int amph_client_special(struct amph_fwd_client *cl, struct amph_client_link *link, uint16_t service,
                        const void *body, size_t len, void *out, size_t cap, size_t *got_p)
{
    struct amph_client_sigguard g;

    if (len > AMPH_CLIENT_PENDING_BYTES - FWD_REQ_HEAD_BYTES)
        return ENOBUFS;

    amph_client_sigguard_enter(&g);

    struct amph_client_pending *p = amph_client_pending_acquire(cl);

    p->desc = NULL;
    p->data = out;
    p->want = cap;
    put_head(cl, link, p, service, FWD_REQ_HEAD_BYTES + len);
    if (len)
        memcpy(p->buf + FWD_REQ_HEAD_BYTES, body, len);

    int err = send_built(cl, link, p, FWD_REQ_HEAD_BYTES + len);

    if (!err)
        err = amph_client_pending_wait(cl, link, p, &g);

    *got_p = p->got;
    amph_client_pending_release(cl, p);
    amph_client_sigguard_leave(&g);

    return err;
}

int amph_client_simple(struct amph_fwd_client *cl, struct amph_client_link *link,
                       enum amph_fwd_id id, void *args)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    g.ends_wait = amph_fwd_calls[id].flags & FWD_CALL_INTERRUPTIBLE;

    struct amph_client_pending *p = amph_client_pending_acquire(cl);

    p->desc = &amph_fwd_calls[id];
    p->args = args;

    int err = amph_client_pending_send(cl, link, p, NULL, NULL);

    if (!err)
        err = amph_client_pending_wait(cl, link, p, &g);

    if (!err && p->moves)
        amph_client_thread.offset_moves = (struct amph_client_moves){
            .calls = amph_client_thread.offset_moves.calls + 1, .moves = p->moves
        };

    amph_client_pending_release(cl, p);
    amph_client_sigguard_leave(&g);
    return err;
}

int amph_client_send_only(struct amph_fwd_client *cl, uint32_t server, enum amph_fwd_id id,
                          void *args)
{
    struct amph_client_sigguard g;
    struct amph_client_link *link;
    int err = amph_client_link_to(cl, server, &link);

    if (err)
        return err;

    amph_count(IOFWD_CALLS);
    amph_client_sigguard_enter(&g);

    struct amph_client_pending *p = amph_client_pending_acquire(cl);

    p->desc = &amph_fwd_calls[id];
    p->args = args;
    p->unawaited = true;
    err = amph_client_pending_send(cl, link, p, NULL, NULL);
    if (!err)
        (void)leave_pend(p);

    amph_client_pending_release(cl, p);
    amph_client_sigguard_leave(&g);
    return err;
}

int amph_client_once(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];
    const struct amph_fwd_file *file = amph_fwd_call_file(desc, args);
    struct amph_client_link *link;
    struct amph_client_data data;

    if (file && file->nparts == 0)
        return EBADF;

    int err = amph_client_link_to(cl, file ? file->part[0].server : cl->servers[0], &link);
    if (err)
        return err;

    amph_count(IOFWD_CALLS);
    if (amph_client_data_of(id, args, &data))
        return file->nparts > 1 ? amph_client_spread(cl, link, &data)
                                : amph_client_bulk(cl, link, &data);

    err = amph_client_simple(cl, link, id, args);
    if (AMPH_UNLIKELY(err == EXDEV))
        err = amph_client_pair(cl, link, id, args);

    struct flock *found_lock = amph_fwd_client_pointer(desc, args, FWD_OUT_GOTLOCK);

    if (!err && cl->nlinks > 1 && found_lock)
        amph_client_lock_holder(cl, file, found_lock, false);

    if (!err && desc->stripe == FWD_STRIPE_OPEN)
        amph_client_stripe_open(cl, args);
    else if (file && file->nparts > 1) {
        int other = amph_client_stripe_rest(cl, id, file, args);
        err = err ? err : other;
    }

    return err;
}

int amph_client_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    return AMPH_UNLIKELY(cl->failover) ? amph_client_failover_call(cl, id, args)
                                       : amph_client_once(cl, id, args);
}
