/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests flow, from their arrival to their answer: in order on each open file, quiet ones at once in the progress thread, the
 * others through workers (server/schedule.c says which), with their data fetched before and stored after the file call (server/transfer.c).
 * Layer: iofwd.  Thread rule: progress thread only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "iofwd/server/flow.h"

#define LOCK_TRY_NS (5 * AMPH_NS_PER_MS)

/* Data for a client of this host that is read into a buffer first and then streamed into its area: see amph_copy_stream. */
static bool is_staged(const struct fwd_request *rq)
{
    return fwd_is_bulk(rq) && rq->bulk.where == FWD_AREA && fwd_is_mapped(rq) && !fwd_is_write(rq->id) &&
        (rq->bulk.flags & FWD_PIECE_STAGED) && !fwd_joint_is(rq->id);
}

/* ---- ending a request ---- */

static void count_request(const struct fwd_request *rq)
{
    struct fwd_server *s = rq->server;
    struct fwd_peer *p = rq->peer;
    size_t n = rq->error ? 0 : fwd_request_moved(rq);
    /* A call in pieces is one call. */
    uint64_t one = !fwd_is_bulk(rq) || (rq->bulk.flags & FWD_PIECE_FIRST) ? 1 : 0;
    p->calls += one;
    s->all_calls += one;
    p->errors += rq->error != 0;
    if (fwd_is_bulk(rq) && fwd_is_write(rq->id)) {
        p->bytes_out += n;
        s->all_bytes_out += n;
    } else {
        p->bytes_in += n;
        s->all_bytes_in += n;
    }
}

/* From here on its descriptor is seen among those in use, or there is none. */
static void end_opening(struct fwd_request *rq)
{
    rq->server->opening -= rq->opening;
    rq->opening = false;
}

/* What only the progress thread may do after the file call. */
static void settle(struct fwd_request *rq)
{
    end_opening(rq);
    if (rq->newfd >= 0) {
        struct fwd_handle *h = rq->peer->gone ? NULL : fwd_handle_make(rq->server, rq->peer, rq->newfd, !rq->newfd_regular);
        if (h) {
            h->regular = rq->newfd_regular;
            h->nonblock = rq->newfd_nonblock;
            h->append = rq->u.open.flags & O_APPEND;
            if (rq->newfd_fifo)
                fwd_fifo_open(h);
            fwd_direct_open(h, rq->u.open.flags);
            h->export = rq->export;
            rq->u.open.file = h->number;
        } else {
            close(rq->newfd);
            rq->error = ENOMEM;
        }
        rq->newfd = -1;
    }
    fwd_learn(rq);
    fwd_end_piece(rq->handle, rq);
    count_request(rq);
}

/* What an open has opened, and nobody is to have. */
static void close_new(struct fwd_request *rq)
{
    if (rq->newfd >= 0)
        close(rq->newfd);
    rq->newfd = -1;
}

static void rq_free(struct fwd_request *rq)
{
    struct fwd_server *s = rq->server;
    struct fwd_peer *p = rq->peer;

    end_opening(rq);
    fwd_refs_give(rq);
    fwd_stage_put(s, rq->stage);
    close_new(rq);
    if (rq->door >= 0)
        close(rq->door);
    free(rq->out);
    p->memory -= rq->room;
    s->memory -= rq->room;
    free(rq);
    if (--p->queued == 0 && p->gone)
        fwd_peer_end(s, p);
}

/* Sends a finished reply; where there is no room now it waits in the list. */
static bool try_send(struct fwd_request *rq)
{
    struct amph_am am = { .kind = AMPH_AM_MEDIUM, .handler = FWD_AM_REPLY, .nbytes = (uint32_t)rq->out_len, .payload = rq->out };
    if (rq->peer->gone || !rq->peer->attached)
        return true;
    return amph_am_request(rq->server->ep, rq->peer->index, &am, AMPH_AM_IMMEDIATE, NULL) != AMPH_AGAIN;
}

void fwd_exec_answer(struct fwd_request *rq)
{
    struct fwd_server *s = rq->server;
    rq->out_len = fwd_request_reply(rq, rq->out);
    fwd_refs_give(rq);
    /* A handler may send nothing but its own reply; the loop sends the others right after it. */
    if (!s->in_handler && !s->unsent && try_send(rq)) {
        rq_free(rq);
        return;
    }
    rq->next = NULL;
    *s->unsent_tail = rq;
    s->unsent_tail = &rq->next;
}

static struct fwd_request **tail_of(struct fwd_request **head)
{
    while (*head)
        head = &(*head)->next;
    return head;
}

/* ---- running ---- */

static void finish(struct fwd_request *rq);

/* A part of a joint call; the last one to come carries the call out. */
static void start_joint(struct fwd_request *rq)
{
    struct fwd_handle *h = rq->handle;
    rq->state = FWD_RQ_RUNNING;
    rq->error = fwd_joint_join(rq);
    if (rq->error == EINPROGRESS)
        return;
    if (rq->error)
        finish(rq);
    else if (fwd_expected_ns(h, rq->joint->bytes) > FWD_SLOW_NS) {
        h->busy = true;
        fwd_work_give(rq->server, rq);
    } else {
        fwd_request_run(rq);
        finish(rq);
    }
}

/* A call on a FIFO waits for its client's end, too, and needs that connection for itself.  false: rq->error says why not. */
static bool watch_door(struct fwd_request *rq)
{
    if (fwd_limits_spare(rq->server))
        rq->door = fcntl(rq->peer->conn->fd, F_DUPFD_CLOEXEC, 0);
    if (rq->door >= 0)
        return true;
    rq->error = ENFILE;
    rq->reason = "the I/O server has no descriptor to wait with";
    amph_count_exact(IOFWD_REFUSED, 1);
    return false;
}

/* Starts a request whose turn it is. */
static void start(struct fwd_request *rq)
{
    struct fwd_handle *h = rq->handle;
    if (is_staged(rq) && !rq->stage)
        rq->stage = fwd_stage_get(rq->server, rq->bulk.len);
    fwd_request_place(rq);
    if (fwd_joint_is(rq->id)) {
        start_joint(rq);
        return;
    }
    if (!rq->peer->gone && !fwd_begin_piece(h, rq)) {
        settle(rq);
        fwd_exec_answer(rq);
        return;
    }
    if (rq->peer->gone || rq->transfer_st != AMPH_OK) {
        rq->error = EIO;
        settle(rq);
        fwd_exec_answer(rq);
        return;
    }
    if (fwd_lock_is(rq->id)) { /* it may wait for long, and holds nobody up meanwhile */
        rq->state = FWD_RQ_RUNNING;
        fwd_lock_give(rq->server, rq);
        return;
    }
    if (fwd_wants_worker(rq)) {
        rq->state = FWD_RQ_RUNNING;
        if (fwd_is_bulk(rq) && rq->file->fifo && !watch_door(rq)) {
            settle(rq);
            fwd_exec_answer(rq);
            return;
        }
        if (h)
            h->busy = true;
        fwd_work_give(rq->server, rq);
        return;
    }
    fwd_request_run(rq);
    if (rq->worker)
        fwd_work_give(rq->server, rq);
    else
        finish(rq);
}

static void finish_one(struct fwd_request *rq)
{
    settle(rq);
    if (fwd_is_remote(rq) && !fwd_is_write(rq->id) && !rq->error && fwd_request_moved(rq) > 0)
        fwd_transfer_add(rq, FWD_RQ_STORING);
    else
        fwd_exec_answer(rq);
}

/* The request that carried a joint call out ends all its parts. */
static void finish_joint(struct fwd_request *carrier)
{
    struct fwd_joint *j = carrier->joint;
    struct fwd_request *rq = j->part, *next;
    int err = carrier->error;
    if (!err)
        fwd_learn_joint(j, carrier->ns);
    for (; rq; rq = next) {
        next = rq->next;
        rq->joint = NULL;
        rq->error = err;
        finish_one(rq);
    }
    free(j);
}

/* A process's locks are free when its parent hears of its end.  Who holds the lock may have ended, and the word of it be under way. */
static void look_for_leavers(struct fwd_request *rq)
{
    if (AMPH_LIKELY(rq->error != EAGAIN))
        return;
    if (rq->id == AMPH_FWD_FLOCK || rq->id == AMPH_FWD_SETLOCK || rq->id == AMPH_FWD_PSETLOCK)
        rq->again = rq->again || fwd_peers_leave(rq->server) || fwd_lock_agents_leave(rq);
}

/* Ends a request that has run, in whichever thread. */
static void finish(struct fwd_request *rq)
{
    struct fwd_server *s = rq->server;
    look_for_leavers(rq);
    if (rq->again && !rq->peer->gone) {
        rq->next = s->locks;
        s->locks = rq;
        return;
    }
    if (rq->joint)
        finish_joint(rq);
    else
        finish_one(rq);
}

/* Starts what may be started on a file, in order. */
static void pump(struct fwd_handle *h)
{
    while (!h->busy) {
        struct fwd_request **at = &h->queue_head;
        while (*at && !fwd_is_turn(h, *at))
            at = &(*at)->next;
        struct fwd_request *rq = *at;
        if (!rq || rq->state != FWD_RQ_READY)
            return;
        *at = rq->next;
        if (!*at)
            h->queue_tail = at;
        start(rq);
    }
}

/* The same with the handle kept alive meanwhile. */
static void pump_safely(struct fwd_server *s, struct fwd_handle *h)
{
    fwd_handle_pin(s, h);
    pump(h);
    fwd_handle_unpin(s, h);
}

void fwd_exec_ready(struct fwd_request *rq)
{
    rq->state = FWD_RQ_READY;
    if (rq->handle)
        pump_safely(rq->server, rq->handle);
    else
        start(rq);
}

/* A request that cannot run inside its handler gets memory of its own, with references of its own; first: as it was taken apart there,
 * whose new descriptor goes over to it.  0, or an errno value: nothing has been taken from first. */
static int keep(struct fwd_server *s, struct fwd_peer *peer, const uint8_t *msg, size_t len, struct fwd_request *first)
{
    bool answer_it;
    size_t room = sizeof(struct fwd_request) + len + FWD_OUT_BYTES + (fwd_is_remote(first) ? s->stage_bytes : 0);
    /* The only one of its client always fits: else a client whose pieces are larger than the limit would never get anywhere. */
    bool fits = peer->queued == 0 || (peer->queued < FWD_QUEUED_MOST && peer->memory + room <= s->client_memory &&
                                      s->memory + room <= s->memory_limit);
    struct fwd_request *rq = fits ? calloc(1, sizeof *rq + len) : NULL;
    if (!rq)
        return ENOBUFS;
    uint8_t *copy = (uint8_t *)(rq + 1);
    memcpy(copy, msg, len);
    rq->out = malloc(FWD_OUT_BYTES);
    int err = rq->out ? fwd_request_parse(s, peer, copy, len, rq, &answer_it) : ENOMEM;
    if (!err && fwd_is_remote(rq) && !(rq->stage = fwd_stage_get(s, rq->bulk.len)))
        err = ENOMEM;
    if (err) {
        free(rq->out);
        free(rq);
        return err;
    }
    peer->queued++;
    peer->memory += rq->room = room;
    s->memory += room;
    fwd_refs_take(rq);
    rq->opening = rq->id == AMPH_FWD_OPEN;
    s->opening += rq->opening;
    rq->worker = first->worker;
    rq->newfd = first->newfd;
    first->newfd = -1;
    rq->state = FWD_RQ_READY;
    if (fwd_is_remote(rq) && fwd_is_write(rq->id))
        fwd_transfer_add(rq, FWD_RQ_FETCHING);
    if (!rq->handle) {
        if (rq->state == FWD_RQ_READY)
            start(rq);
        return 0;
    }
    *rq->handle->queue_tail = rq;
    rq->handle->queue_tail = &rq->next;
    pump_safely(s, rq->handle);
    return 0;
}

/* May it run right here, inside the handler of its message? */
static bool runs_here(const struct fwd_request *rq)
{
    const struct fwd_handle *h = rq->handle;
    if (fwd_is_remote(rq) || fwd_wants_worker(rq))
        return false;
    if (!h || !h->queue_head)
        return !h || (!h->busy && fwd_is_turn(h, rq));
    for (const struct fwd_request *q = h->queue_head; q; q = q->next)
        if (fwd_is_turn(h, q))
            return false; /* its turn is before */
    return !h->busy && fwd_is_turn(h, rq);
}

static struct fwd_request *take_from(struct fwd_request **at, const struct fwd_peer *peer, uint64_t seq)
{
    while (*at && ((*at)->peer != peer || (*at)->seq != seq))
        at = &(*at)->next;
    struct fwd_request *rq = *at;
    if (rq)
        *at = rq->next;
    return rq;
}

/* A whole call on a pipe that stands behind one that waits. */
static void cancel_queued(struct fwd_handle *h, const struct fwd_peer *peer, uint64_t seq)
{
    struct fwd_request *rq = h->queue_head;
    while (rq && (rq->peer != peer || rq->seq != seq))
        rq = rq->next;
    if (!rq || h->regular || rq->state != FWD_RQ_READY || !fwd_is_bulk(rq) || !fwd_is_whole(rq))
        return;
    take_from(&h->queue_head, peer, seq);
    h->queue_tail = tail_of(&h->queue_head);
    rq->error = EINTR;
    count_request(rq);
    fwd_exec_answer(rq);
}

void fwd_exec_cancel(struct fwd_server *s, struct fwd_peer *peer, uint64_t seq)
{
    struct fwd_request *rq = take_from(&s->locks, peer, seq);
    if (rq) {
        rq->again = false;
        rq->error = EINTR;
        finish(rq);
    }
    fwd_lock_cancel(peer, seq);
    fwd_work_wake(s, peer, seq);
    for (uint32_t i = 0; i < s->nslots; i++)
        if (s->handle[i] && s->handle[i]->queue_head)
            cancel_queued(s->handle[i], peer, seq);
}

/* ---- the handler ---- */

/* A call, in the handler of its message: done here, or kept to be done later (true: no answer yet). */
static bool carry_out(struct fwd_request *rq, const struct amph_am *am)
{
    struct fwd_server *s = rq->server;

    if (!runs_here(rq)) {
        rq->error = keep(s, rq->peer, am->payload, am->nbytes, rq);
        if (rq->error)
            fwd_cut_off(rq->handle, rq);
        return !rq->error;
    }

    rq->out = s->reply;
    rq->stage = is_staged(rq) ? fwd_stage_get(s, rq->bulk.len) : NULL;
    fwd_request_place(rq);
    if (fwd_begin_piece(rq->handle, rq))
        fwd_request_run(rq);
    look_for_leavers(rq);
    fwd_stage_put(s, rq->stage);

    if (rq->again || rq->worker) { /* it has to wait: start again as a request of its own */
        rq->error = keep(s, rq->peer, am->payload, am->nbytes, rq);
        close_new(rq);
        return !rq->error;
    }
    settle(rq);
    return false;
}

static void answer_here(struct amph_token *token, struct fwd_request *rq)
{
    struct fwd_server *s = rq->server;
    size_t n = !rq->error && !rq->desc ? fwd_answer_special(rq, s->reply) : fwd_request_reply(rq, s->reply);
    struct amph_am reply = { .kind = AMPH_AM_MEDIUM, .handler = FWD_AM_REPLY, .nbytes = (uint32_t)n, .payload = s->reply };

    amph_am_reply(token, &reply, 0, NULL);
    if (rq->handle && rq->handle->queue_head)
        pump(rq->handle);
}

static void on_request(struct amph_token *token, const struct amph_am *am)
{
    struct fwd_server *s = amph_am_user(token->ep);
    struct fwd_peer *peer = token->peer < s->max_peers ? s->peer[token->peer] : NULL;
    struct fwd_request rq = { .server = s };
    bool answer_it;

    if (!peer || peer->gone || !peer->attached)
        return;

    rq.error = fwd_request_parse(s, peer, (uint8_t *)am->payload, am->nbytes, &rq, &answer_it);
    if (!answer_it) {
        amph_count(DROP_MALFORMED);
        s->refused++;
        return;
    }

    bool kept = false;
    if (!rq.error && rq.desc) {
        fwd_refs_take(&rq);
        kept = carry_out(&rq, am);
    }
    if (!kept)
        answer_here(token, &rq);
    fwd_refs_give(&rq);
}

void fwd_on_request(struct amph_token *token, const struct amph_am *am)
{
    struct fwd_server *s = amph_am_user(token->ep);
    s->in_handler = true;
    on_request(token, am);
    s->in_handler = false;
}

/* ---- the loop's part ---- */

static unsigned take_done(struct fwd_server *s)
{
    unsigned n = 0;
    pthread_mutex_lock(&s->lock);
    struct fwd_request *rq = s->done, *next;
    s->done = NULL;
    s->done_tail = &s->done;
    pthread_mutex_unlock(&s->lock);
    for (; rq; rq = next, n++) {
        struct fwd_handle *h = rq->handle;
        next = rq->next;
        if (h) {
            h->busy = h->busy && !rq->in_worker;
            fwd_handle_pin(s, h);
        }
        finish(rq);
        if (h) {
            pump(h);
            fwd_handle_unpin(s, h);
        }
    }
    return n;
}

static void try_locks(struct fwd_server *s)
{
    struct fwd_request *list = s->locks, *rq;
    uint64_t now = amph_now_ns();
    if (!list || (!s->locks_changed && now - s->locks_tried_ns < LOCK_TRY_NS))
        return;
    s->locks_changed = false;
    s->locks_tried_ns = now;
    s->locks = NULL;
    while ((rq = list)) {
        list = rq->next;
        rq->again = false;
        if (fwd_lock_is(rq->id)) {
            fwd_lock_give(s, rq);
            continue;
        }
        fwd_request_run(rq);
        finish(rq);
    }
}

/* What workers do for clients that have gone is nobody's any more. */
static void hurry_leavers(struct fwd_server *s)
{
    uint64_t now = amph_now_ns();
    if (now - s->hurried_ns < LOCK_TRY_NS)
        return;
    s->hurried_ns = now;
    for (uint32_t i = 0; i < s->max_peers; i++)
        if (s->peer[i] && s->peer[i]->gone)
            fwd_work_wake_all(s, s->peer[i]);
}

static unsigned send_waiting(struct fwd_server *s)
{
    unsigned n = 0;
    while (s->unsent && try_send(s->unsent)) {
        struct fwd_request *rq = s->unsent;
        s->unsent = rq->next;
        if (!s->unsent)
            s->unsent_tail = &s->unsent;
        rq_free(rq);
        n++;
    }
    return n;
}

unsigned fwd_exec_progress(struct fwd_server *s)
{
    unsigned n = 0;
    if (s->unsent)
        n += send_waiting(s);
    n += take_done(s);
    if (s->transfers)
        n += fwd_transfers_move(s);
    try_locks(s);
    if (s->leaving)
        hurry_leavers(s);
    return n;
}

/* Takes what matches out of a list and ends it without an answer.  only_ready: not what a transfer still uses. */
static void drop_from(struct fwd_request **head, const struct fwd_peer *peer, bool only_ready)
{
    while (*head) {
        struct fwd_request *rq = *head;

        if (rq->peer == peer && (!only_ready || rq->state == FWD_RQ_READY)) {
            *head = rq->next;
            rq_free(rq);
        } else
            head = &rq->next;
    }
}

void fwd_exec_drop_peer(struct fwd_server *s, struct fwd_peer *peer)
{
    peer->queued++; /* keeps it alive until the end of this function */
    drop_from(&s->locks, peer, false); /* one that were tried again would give the client a new agent, which nobody ends */
    fwd_lock_drop_peer(peer);
    fwd_work_wake_all(s, peer);
    for (uint32_t i = 0; i < s->nslots; i++) {
        struct fwd_handle *h = s->handle[i];
        if (!h)
            continue;
        fwd_handle_pin(s, h);
        fwd_joint_fail(s, h, peer, EIO);
        drop_from(&h->queue_head, peer, true);
        h->queue_tail = tail_of(&h->queue_head);
        if (h->held && h->holder == peer) {
            h->held = false;
            if (!h->busy)
                fwd_append_end(h, peer);
        }
        pump(h);
        fwd_handle_unpin(s, h);
    }
    peer->queued--;
}
