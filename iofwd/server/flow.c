/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests flow, from their arrival to their answer: in order on each open file, quiet ones at
 * once in the progress thread, the others through workers (server/schedule.c says which), with
 * their data fetched before and stored after the file call (server/transfer.c). Layer: iofwd.
 * Thread rule: progress thread only.
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

/* Data for a client of this host that is read into a buffer first and then streamed into its area:
 * see amph_copy_stream. */
static bool is_staged(const struct amph_server_request *rq)
{
    return amph_server_is_bulk(rq) && rq->bulk.where == FWD_AREA && amph_server_is_mapped(rq) &&
           !amph_server_is_write(rq->id) && (rq->bulk.flags & FWD_PIECE_STAGED) &&
           !amph_server_collective_is(rq->id);
}

/* ---- ending a request ---- */

static void count_request(const struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    struct amph_server_peer *p = rq->peer;
    size_t n = rq->exec.error ? 0 : amph_server_request_moved(rq);

    /* A call in pieces is one call. */
    uint64_t one = !amph_server_is_bulk(rq) || (rq->bulk.flags & FWD_PIECE_FIRST) ? 1 : 0;

    p->calls += one;
    s->progress.all_calls += one;
    p->errors += rq->exec.error != 0;

    if (amph_server_is_bulk(rq) && amph_server_is_write(rq->id)) {
        p->bytes_out += n;
        s->progress.all_bytes_out += n;
    } else {
        p->bytes_in += n;
        s->progress.all_bytes_in += n;
    }
}

/* From here on its descriptor is seen among those in use, or there is none. */
static void end_opening(struct amph_server_request *rq)
{
    rq->server->progress.opening -= rq->progress.opening;
    rq->progress.opening = false;
}

/* What only the progress thread may do after the file call. */
static void settle(struct amph_server_request *rq)
{
    end_opening(rq);
    if (rq->exec.released_lock)
        rq->server->progress.locks_changed = true;

    if (rq->exec.newfd >= 0) {
        struct amph_server_handle *h = rq->peer->gone
                                           ? NULL
                                           : amph_server_handle_make(rq->server, rq->peer,
                                                                     rq->exec.newfd,
                                                                     !rq->exec.newfd_regular);

        if (h) {
            h->regular = rq->exec.newfd_regular;
            h->exec.nonblock = rq->exec.newfd_nonblock;
            h->exec.append = rq->u.open.flags & O_APPEND;
            if (rq->exec.newfd_fifo)
                amph_server_fifo_open(h);

            amph_server_direct_open(h, rq->u.open.flags);
            h->export = rq->exec.export;
            rq->u.open.file = h->number;
        } else {
            close(rq->exec.newfd);
            rq->exec.error = ENOMEM;
        }

        rq->exec.newfd = -1;
    }

    amph_server_record_time(rq);
    amph_server_end_piece(rq->handle, rq);
    count_request(rq);
}

/* What an open has opened, and nobody is to have. */
static void close_new(struct amph_server_request *rq)
{
    if (rq->exec.newfd >= 0)
        close(rq->exec.newfd);

    rq->exec.newfd = -1;
}

static void rq_free(struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    struct amph_server_peer *p = rq->peer;

    end_opening(rq);
    amph_server_refs_give(rq);
    amph_server_staging_put(s, rq->stage);
    close_new(rq);
    if (rq->client_fd >= 0)
        close(rq->client_fd);

    free(rq->out);
    p->memory -= rq->progress.room;
    s->progress.memory -= rq->progress.room;
    free(rq);
    if (--p->queued == 0 && p->gone)
        amph_server_peer_end(s, p);
}

/* Sends a finished reply; where there is no room now it waits in the list. */
static bool try_send(struct amph_server_request *rq)
{
    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = FWD_AM_REPLY,
                          .nbytes = (uint32_t)rq->progress.out_len,
                          .payload = rq->out };

    if (rq->peer->gone || !rq->peer->attached)
        return true;

    return amph_am_request(rq->server->ep, rq->peer->index, &am, AMPH_AM_IMMEDIATE, NULL) !=
           AMPH_AGAIN;
}

void amph_server_flow_answer(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    struct amph_server *s = rq->server;

    rq->progress.out_len = amph_server_request_reply(rq, rq->out);
    amph_server_refs_give(rq);

    /* A handler may send nothing but its own reply; the loop sends the others right after it. */
    if (!s->progress.in_handler && !s->progress.unsent && try_send(rq)) {
        rq_free(rq);
        return;
    }

    rq->next = NULL;
    *s->progress.unsent_tail = rq;
    s->progress.unsent_tail = &rq->next;
}

static struct amph_server_request **tail_of(struct amph_server_request **head)
{
    while (*head)
        head = &(*head)->next;

    return head;
}

/* ---- running ---- */

static void finish(struct amph_server_request *rq);

/* A part of a joint call; the last one to come carries the call out. */
static void start_joint(struct amph_server_request *rq)
{
    struct amph_server_handle *h = rq->handle;

    rq->progress.state = AMPH_SERVER_RQ_RUNNING;
    rq->exec.error = amph_server_collective_join(rq);
    if (rq->exec.error == EINPROGRESS)
        return;

    if (rq->exec.error)
        finish(rq);
    else if (amph_server_expected_ns(h, rq->collective->bytes) > AMPH_CLIENT_SLOW_NS) {
        h->progress.busy = true;
        amph_server_work_give(rq->server, rq);
    } else {
        amph_server_request_run(rq);
        finish(rq);
    }
}

/* A call on a FIFO waits for its client's end, too, and needs that connection for itself.  false:
 * rq->error says why not. */
static bool watch_door(struct amph_server_request *rq)
{
    if (amph_server_limits_spare(rq->server))
        rq->client_fd = fcntl(rq->peer->conn->fd, F_DUPFD_CLOEXEC, 0);

    if (rq->client_fd >= 0)
        return true;

    rq->exec.error = ENFILE;
    rq->exec.reason = "the I/O server has no descriptor to wait with";
    amph_count_exact(IOFWD_REFUSED, 1);

    return false;
}

/* Starts a request whose turn it is. */
static void start(struct amph_server_request *rq)
{
    struct amph_server_handle *h = rq->handle;

    if (is_staged(rq) && !rq->stage)
        rq->stage = amph_server_staging_get(rq->server, rq->bulk.len);

    amph_server_request_set_buffers(rq);
    if (amph_server_collective_is(rq->id)) {
        start_joint(rq);
        return;
    }

    if (!rq->peer->gone && !amph_server_begin_piece(h, rq)) {
        settle(rq);
        amph_server_flow_answer(rq);
        return;
    }

    if (rq->peer->gone || rq->progress.transfer_st != AMPH_OK) {
        rq->exec.error = EIO;
        settle(rq);
        amph_server_flow_answer(rq);
        return;
    }

    if (amph_server_lock_is(rq->id)) { /* it may wait for long, and holds nobody up meanwhile */
        rq->progress.state = AMPH_SERVER_RQ_RUNNING;
        amph_server_lock_give(rq->server, rq);
        return;
    }

    if (amph_server_wants_worker(rq)) {
        rq->progress.state = AMPH_SERVER_RQ_RUNNING;
        if (amph_server_is_bulk(rq) && rq->file->fifo && !watch_door(rq)) {
            settle(rq);
            amph_server_flow_answer(rq);
            return;
        }

        if (h)
            h->progress.busy = true;

        amph_server_work_give(rq->server, rq);
        return;
    }

    amph_server_request_run(rq);
    if (rq->exec.may_block)
        amph_server_work_give(rq->server, rq);
    else
        finish(rq);
}

static void finish_one(struct amph_server_request *rq)
{
    settle(rq);
    if (amph_server_is_remote(rq) && !amph_server_is_write(rq->id) && !rq->exec.error &&
        amph_server_request_moved(rq) > 0)
        amph_server_transfer_add(rq, AMPH_SERVER_RQ_STORING);
    else
        amph_server_flow_answer(rq);
}

/* The request that carried a joint call out ends all its parts. */
static void finish_joint(struct amph_server_request *carrier)
{
    struct amph_server_collective *j = carrier->collective;
    struct amph_server_request *rq = j->part;
    struct amph_server_request *next;
    int err = carrier->exec.error;

    if (!err)
        amph_server_record_collective_time(j, carrier->exec.ns);

    for (; rq; rq = next) {
        next = rq->next;
        rq->collective = NULL;
        rq->exec.error = err;
        finish_one(rq);
    }

    free(j);
}

/* A process's locks are free when its parent hears of its end.  Who holds the lock may have ended,
 * and the word of it be under way. */
static void look_for_leavers(struct amph_server_request *rq)
{
    if (AMPH_LIKELY(rq->exec.error != EAGAIN))
        return;

    if (rq->id == AMPH_FWD_FLOCK || rq->id == AMPH_FWD_SETLOCK || rq->id == AMPH_FWD_PSETLOCK)
        rq->exec.retry = rq->exec.retry || amph_server_peer_disconnecting(rq->server) ||
                             amph_server_lock_agents_exiting(rq);
}

/* Ends a request that has run, in whichever thread. */
static void finish(struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;

    look_for_leavers(rq);
    if (rq->exec.retry && !rq->peer->gone) {
        rq->next = s->progress.locks;
        s->progress.locks = rq;
        return;
    }

    if (rq->collective)
        finish_joint(rq);
    else
        finish_one(rq);
}

/* Starts what may be started on a file, in order. */
static void pump(struct amph_server_handle *h)
{
    while (!h->progress.busy) {
        struct amph_server_request **at = &h->progress.queue_head;

        while (*at && !amph_server_is_turn(h, *at))
            at = &(*at)->next;

        struct amph_server_request *rq = *at;
        if (!rq || rq->progress.state != AMPH_SERVER_RQ_READY)
            return;

        *at = rq->next;
        if (!*at)
            h->progress.queue_tail = at;

        start(rq);
    }
}

/* The same with the handle kept alive meanwhile. */
static void pump_safely(struct amph_server *s, struct amph_server_handle *h)
{
    amph_server_handle_pin(s, h);
    pump(h);
    amph_server_handle_unpin(s, h);
}

void amph_server_flow_ready(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    rq->progress.state = AMPH_SERVER_RQ_READY;
    if (rq->handle)
        pump_safely(rq->server, rq->handle);
    else
        start(rq);
}

/* A request that cannot run inside its handler gets memory of its own, with references of its own;
 * first: as it was taken apart there, whose new descriptor goes over to it.  0, or an errno value:
 * nothing has been taken from first. */
static int keep(struct amph_server *s, struct amph_server_peer *peer, const uint8_t *msg,
                size_t len, struct amph_server_request *first)
{
    bool answer_it;
    size_t room = sizeof(struct amph_server_request) + len + AMPH_SERVER_OUT_BYTES +
                  (amph_server_is_remote(first) ? s->stage_bytes : 0);

    /* The only one of its client always fits: else a client whose pieces are larger than the limit
     * would never get anywhere. */
    bool fits = peer->queued == 0 ||
                (peer->queued < AMPH_SERVER_QUEUED_MAX && peer->memory + room <= s->client_memory &&
                 s->progress.memory + room <= s->memory_limit);
    struct amph_server_request *rq = fits ? calloc(1, sizeof *rq + len) : NULL;

    if (!rq)
        return ENOBUFS;

    uint8_t *copy = (uint8_t *)(rq + 1);

    memcpy(copy, msg, len);
    rq->out = malloc(AMPH_SERVER_OUT_BYTES);

    int err = rq->out ? amph_server_request_parse(s, peer, copy, len, rq, &answer_it) : ENOMEM;

    if (!err && amph_server_is_remote(rq) &&
        !(rq->stage = amph_server_staging_get(s, rq->bulk.len)))
        err = ENOMEM;

    if (err) {
        free(rq->out);
        free(rq);
        return err;
    }

    peer->queued++;
    peer->memory += rq->progress.room = room;
    s->progress.memory += room;
    amph_server_refs_take(rq);
    rq->progress.opening = rq->id == AMPH_FWD_OPEN;
    s->progress.opening += rq->progress.opening;
    rq->exec.may_block = first->exec.may_block;
    rq->exec.newfd = first->exec.newfd;
    first->exec.newfd = -1;
    rq->progress.state = AMPH_SERVER_RQ_READY;
    if (amph_server_is_remote(rq) && amph_server_is_write(rq->id))
        amph_server_transfer_add(rq, AMPH_SERVER_RQ_FETCHING);

    if (!rq->handle) {
        if (rq->progress.state == AMPH_SERVER_RQ_READY)
            start(rq);

        return 0;
    }

    *rq->handle->progress.queue_tail = rq;
    rq->handle->progress.queue_tail = &rq->next;
    pump_safely(s, rq->handle);

    return 0;
}

/* May it run right here, inside the handler of its message? */
static bool runs_here(const struct amph_server_request *rq)
{
    const struct amph_server_handle *h = rq->handle;

    if (amph_server_is_remote(rq) || amph_server_wants_worker(rq))
        return false;
    if (!h || !h->progress.queue_head)
        return !h || (!h->progress.busy && amph_server_is_turn(h, rq));

    for (const struct amph_server_request *q = h->progress.queue_head; q; q = q->next)
        if (amph_server_is_turn(h, q))
            return false; /* its turn is before */

    return !h->progress.busy && amph_server_is_turn(h, rq);
}

static struct amph_server_request *take_from(struct amph_server_request **at,
                                             const struct amph_server_peer *peer, uint64_t seq)
{
    while (*at && ((*at)->peer != peer || (*at)->seq != seq))
        at = &(*at)->next;

    struct amph_server_request *rq = *at;

    if (rq)
        *at = rq->next;

    return rq;
}

/* A whole call on a pipe that stands behind one that waits. */
static void cancel_queued(struct amph_server_handle *h, const struct amph_server_peer *peer,
                          uint64_t seq)
{
    struct amph_server_request *rq = h->progress.queue_head;

    while (rq && (rq->peer != peer || rq->seq != seq))
        rq = rq->next;

    if (!rq || h->regular || rq->progress.state != AMPH_SERVER_RQ_READY ||
        !amph_server_is_bulk(rq) || !amph_server_is_whole(rq))
        return;

    take_from(&h->progress.queue_head, peer, seq);
    h->progress.queue_tail = tail_of(&h->progress.queue_head);
    rq->exec.error = EINTR;
    count_request(rq);
    amph_server_flow_answer(rq);
}

void amph_server_flow_cancel(struct amph_server *s, struct amph_server_peer *peer, uint64_t seq)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_request *rq = take_from(&s->progress.locks, peer, seq);

    if (rq) {
        rq->exec.retry = false;
        rq->exec.error = EINTR;
        finish(rq);
    }

    amph_server_lock_cancel(peer, seq);
    amph_server_work_wake(s, peer, seq);

    for (uint32_t i = 0; i < s->progress.nslots; i++)
        if (s->progress.handle[i] && s->progress.handle[i]->progress.queue_head)
            cancel_queued(s->progress.handle[i], peer, seq);
}

/* ---- the handler ---- */

/* A call, in the handler of its message: done here, or kept to be done later (true: no answer
 * yet). */
static bool carry_out(struct amph_server_request *rq, const struct amph_am *am)
{
    struct amph_server *s = rq->server;

    if (!runs_here(rq)) {
        rq->exec.error = keep(s, rq->peer, am->payload, am->nbytes, rq);
        if (rq->exec.error)
            amph_server_truncate_call(rq->handle, rq);

        return !rq->exec.error;
    }

    rq->out = s->progress.reply;
    rq->stage = is_staged(rq) ? amph_server_staging_get(s, rq->bulk.len) : NULL;
    amph_server_request_set_buffers(rq);
    if (amph_server_begin_piece(rq->handle, rq))
        amph_server_request_run(rq);

    look_for_leavers(rq);
    amph_server_staging_put(s, rq->stage);

    if (rq->exec.retry ||
        rq->exec.may_block) { /* it has to wait: start again as a request of its own */
        rq->exec.error = keep(s, rq->peer, am->payload, am->nbytes, rq);
        close_new(rq);
        return !rq->exec.error;
    }

    settle(rq);
    return false;
}

static void answer_here(struct amph_token *token, struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    size_t n = !rq->exec.error && !rq->desc ? amph_server_answer_special(rq, s->progress.reply)
                                            : amph_server_request_reply(rq, s->progress.reply);
    struct amph_am reply = { .kind = AMPH_AM_MEDIUM,
                             .handler = FWD_AM_REPLY,
                             .nbytes = (uint32_t)n,
                             .payload = s->progress.reply };

    amph_am_reply(token, &reply, 0, NULL);
    if (rq->handle && rq->handle->progress.queue_head)
        pump(rq->handle);
}

static void on_request(struct amph_token *token, const struct amph_am *am)
{
    struct amph_server *s = amph_am_user(token->ep);
    struct amph_server_peer *peer = token->peer < s->max_peers ? s->progress.peer[token->peer]
                                                               : NULL;
    struct amph_server_request rq = { .server = s };
    bool answer_it;

    if (!peer || peer->gone || !peer->attached)
        return;

    rq.exec.error = amph_server_request_parse(s, peer, (uint8_t *)am->payload, am->nbytes, &rq,
                                              &answer_it);
    if (!answer_it) {
        amph_count(DROP_MALFORMED);
        s->progress.refused++;
        return;
    }

    bool kept = false;

    if (!rq.exec.error && rq.desc) {
        amph_server_refs_take(&rq);
        kept = carry_out(&rq, am);
    }

    if (!kept)
        answer_here(token, &rq);

    amph_server_refs_give(&rq);
}

void amph_server_on_request(struct amph_token *token, const struct amph_am *am)
{
    struct amph_server *s = amph_am_user(token->ep);

    s->progress.in_handler = true;
    on_request(token, am);
    s->progress.in_handler = false;
}

/* ---- the loop's part ---- */

static unsigned take_done(struct amph_server *s)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->shared.lock);

    struct amph_server_request *rq = s->shared.done;
    struct amph_server_request *next;

    s->shared.done = NULL;
    s->shared.done_tail = &s->shared.done;
    pthread_mutex_unlock(&s->shared.lock);

    for (; rq; rq = next, n++) {
        struct amph_server_handle *h = rq->handle;

        next = rq->next;
        if (h) {
            h->progress.busy = h->progress.busy && !rq->shared.in_worker;
            amph_server_handle_pin(s, h);
        }

        finish(rq);
        if (h) {
            pump(h);
            amph_server_handle_unpin(s, h);
        }
    }

    return n;
}

static void try_locks(struct amph_server *s)
{
    struct amph_server_request *list = s->progress.locks;
    struct amph_server_request *rq;
    uint64_t now = amph_now_ns();

    if (!list || (!s->progress.locks_changed && now - s->progress.locks_tried_ns < LOCK_TRY_NS))
        return;

    s->progress.locks_changed = false;
    s->progress.locks_tried_ns = now;
    s->progress.locks = NULL;

    while ((rq = list)) {
        list = rq->next;
        rq->exec.retry = false;

        if (amph_server_lock_is(rq->id)) {
            amph_server_lock_give(s, rq);
            continue;
        }

        amph_server_request_run(rq);
        finish(rq);
    }
}

/* What workers do for clients that have gone is nobody's any more. */
static void hurry_leavers(struct amph_server *s)
{
    uint64_t now = amph_now_ns();

    if (now - s->progress.leaving_woken_ns < LOCK_TRY_NS)
        return;

    s->progress.leaving_woken_ns = now;
    for (uint32_t i = 0; i < s->max_peers; i++)
        if (s->progress.peer[i] && s->progress.peer[i]->gone)
            amph_server_work_wake_all(s, s->progress.peer[i]);
}

static unsigned send_waiting(struct amph_server *s)
{
    unsigned n = 0;

    while (s->progress.unsent && try_send(s->progress.unsent)) {
        struct amph_server_request *rq = s->progress.unsent;

        s->progress.unsent = rq->next;
        if (!s->progress.unsent)
            s->progress.unsent_tail = &s->progress.unsent;

        rq_free(rq);
        n++;
    }

    return n;
}

unsigned amph_server_flow_progress(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    unsigned n = 0;

    if (s->progress.unsent)
        n += send_waiting(s);

    n += take_done(s);
    if (s->progress.transfers)
        n += amph_server_transfers_move(s);

    try_locks(s);
    if (s->progress.nleaving)
        hurry_leavers(s);

    return n;
}

/* Takes what matches out of a list and ends it without an answer.  only_ready: not what a transfer
 * still uses. */
static void drop_from(struct amph_server_request **head, const struct amph_server_peer *peer,
                      bool only_ready)
{
    while (*head) {
        struct amph_server_request *rq = *head;

        if (rq->peer == peer && (!only_ready || rq->progress.state == AMPH_SERVER_RQ_READY)) {
            *head = rq->next;
            rq_free(rq);
        } else
            head = &rq->next;
    }
}

void amph_server_flow_drop_peer(struct amph_server *s, struct amph_server_peer *peer)
{
    amph_server_assert_owner(&s->progress.owner);

    peer->queued++; /* keeps it alive until the end of this function */

    /* one that were tried again would give the client a new agent, which nobody ends */
    drop_from(&s->progress.locks, peer, false);
    amph_server_lock_drop_peer(peer);
    amph_server_work_wake_all(s, peer);

    for (uint32_t i = 0; i < s->progress.nslots; i++) {
        struct amph_server_handle *h = s->progress.handle[i];

        if (!h)
            continue;

        amph_server_handle_pin(s, h);
        amph_server_collective_fail(s, h, peer, EIO);
        drop_from(&h->progress.queue_head, peer, true);
        h->progress.queue_tail = tail_of(&h->progress.queue_head);

        if (h->progress.reserved && h->progress.holder == peer) {
            h->progress.reserved = false;
            if (!h->progress.busy)
                amph_server_append_end(h, peer);
        }

        pump(h);
        amph_server_handle_unpin(s, h);
    }

    peer->queued--;
}
