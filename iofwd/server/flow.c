/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of a request from its arrival to its reply.  Requests on one open file keep their order.
 * Those that are expected to be quick run in the progress thread, the others in workers (schedule.c
 * decides).  Data that crosses a network is fetched before the file call and stored after it
 * (transfer.c).
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "base/platform.h"
#include "base/settings/counters.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/flow.h"
#include "iofwd/wire/watch.h"

#define LOCK_TRY_NS (5 * AMPH_NS_PER_MS)
#define BUSY_GAP_NS 10000u /* between two requests that were taken without a pause */

/* Is the data read into a buffer first and then streamed into the client's mapped area?  See
 * amph_copy_stream. */
static bool is_staged(const struct amph_server_request *rq)
{
    return amph_server_is_bulk(rq) && rq->bulk.where == FWD_AREA && amph_server_is_mapped(rq) &&
           !amph_server_is_write(rq->id) && (rq->bulk.flags & FWD_PIECE_STAGED) &&
           !amph_server_collective_is(rq->id);
}

/* ---- ending a request ---- */

/* The open's descriptor now exists, and limits.c sees it among those in use; or the open failed. */
static void end_opening(struct amph_server_request *rq)
{
    rq->server->progress.opening -= rq->progress.opening;
    rq->progress.opening = false;
}

/* Closes the descriptor of an open whose result is not used. */
static void close_opened(struct amph_server_request *rq)
{
    if (rq->exec.newfd >= 0)
        close(rq->exec.newfd);

    rq->exec.newfd = -1;
}

/* Completes the call after its execution: makes a handle of an opened file and updates averages,
 * counters and reservations. */
static void complete_call(struct amph_server_request *rq)
{
    end_opening(rq);
    if (rq->exec.released_lock)
        rq->server->progress.locks_changed = true;

    if (rq->exec.error)
        close_opened(rq); /* cancelled before it could wait for the FIFO's other end */

    if (rq->exec.newfd >= 0) {
        struct amph_server_handle *h = rq->peer->gone
                                           ? NULL
                                           : amph_server_handle_make(rq->server, rq->peer,
                                                                     rq->exec.newfd,
                                                                     rq->exec.newfd_type);

        if (h) {
            h->regular = S_ISREG(rq->exec.newfd_type) || S_ISDIR(rq->exec.newfd_type);
            h->exec.nonblock = rq->u.open.flags & O_NONBLOCK;
            h->exec.append = rq->u.open.flags & O_APPEND;
            if (S_ISFIFO(rq->exec.newfd_type) && !(rq->u.open.flags & O_PATH))
                amph_server_fifo_open(h);

            amph_server_direct_open(h, rq->u.open.flags);
            h->export = rq->exec.export;
            h->line = rq->exec.line;
            rq->u.open.file = h->number;
        } else {
            close(rq->exec.newfd);
            rq->exec.error = ENOMEM;
        }

        rq->exec.newfd = -1;
    }

    amph_server_record_time(rq);
    amph_server_end_piece(rq->handle, rq);
    amph_server_count_request(rq);
    amph_server_report_call(rq);
}

static void request_free(struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    struct amph_server_peer *p = rq->peer;

    end_opening(rq);
    amph_server_refs_give(rq);
    amph_server_staging_put(s, rq->stage);
    close_opened(rq);
    if (rq->client_fd >= 0)
        close(rq->client_fd);

    free(rq->out);
    p->memory -= rq->progress.room;
    s->progress.memory -= rq->progress.room;
    amph_count_n(AMPH_COUNTER_SERVER_QUEUED, UINT64_MAX);
    amph_count_level(AMPH_COUNTER_SERVER_MEMORY, s->progress.memory);
    free(rq);
    if (--p->queued == 0 && p->gone)
        amph_server_peer_end(s, p);
}

/* Sends a finished reply.  more: data for the client follows at once.  false: the ring has no room now. */
static bool try_send(struct amph_server_request *rq, bool more)
{
    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = FWD_AM_REPLY,
                          .nbytes = (uint32_t)rq->progress.out_len,
                          .payload = rq->out,
                          .more = more };

    if (rq->peer->gone || !rq->peer->attached)
        return true;

    return amph_am_request(rq->server->ep, rq->peer->index, &am, AMPH_AM_IMMEDIATE, NULL) !=
           AMPH_AGAIN;
}

/* The reply has been sent. */
static void end_reply(struct amph_server_request *rq)
{
    rq->progress.replied = true;
    if (!rq->progress.storing)
        request_free(rq);
}

/* Appends a request whose reply is finished. */
static void queue_reply(struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;

    rq->next = NULL;
    *s->progress.unsent_tail = rq;
    s->progress.unsent_tail = &rq->next;
}

void amph_server_flow_stored(struct amph_server_request *rq)
{
    rq->progress.storing = false;
    if (!rq->progress.replied)
        return;

    if (rq->peer->gone) /* its end is for the main loop: this is a callback */
        queue_reply(rq);
    else
        request_free(rq);
}

static uint64_t *answered(const struct amph_server_request *rq)
{
    return &rq->peer->answered_ns[rq->seq % FWD_PENDING_MAX];
}

/* Says in a request that is answered now how long it has waited until its call began; if no call
 * began, or a lock agent has executed it, that is all its time but the call's. */
static void note_answer(struct amph_server_request *rq, uint64_t now_ns)
{
    uint64_t end_ns = rq->exec.began_ns ? rq->exec.began_ns : now_ns - rq->exec.ns;

    rq->exec.queue_ns = end_ns > rq->progress.since_ns ? end_ns - rq->progress.since_ns : 0;
    *answered(rq) = now_ns;
}

static void build_reply(struct amph_server_request *rq)
{
    uint64_t now_ns = amph_now_ns();

    note_answer(rq, now_ns);
    rq->progress.out_len = amph_server_request_reply(rq, rq->out);
    amph_server_count_latency(rq, now_ns - rq->progress.arrived_ns);
    amph_server_refs_give(rq);
}

void amph_server_flow_answer(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    struct amph_server *s = rq->server;

    build_reply(rq);

    /* A handler may send only the reply to its own message; the main loop sends the others
     * afterwards. */
    if (!s->progress.in_handler && !s->progress.unsent && try_send(rq, false))
        end_reply(rq);
    else
        queue_reply(rq);
}

bool amph_server_flow_answer_now(struct amph_server_request *rq, bool more)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    if (!rq->progress.out_len)
        build_reply(rq);

    if (rq->server->progress.unsent || !try_send(rq, more))
        return false;

    end_reply(rq);
    return true;
}

static struct amph_server_request **tail_of(struct amph_server_request **head)
{
    while (*head)
        head = &(*head)->next;

    return head;
}

/* ---- running ---- */

static void finish(struct amph_server_request *rq);

/* Executes a queued request in the progress thread, which is busy meanwhile. */
static void run_here(struct amph_server_request *rq)
{
    amph_server_request_run(rq);
    rq->server->progress.busy_until_ns = rq->exec.began_ns + rq->exec.ns;
}

/* Adds a part to its collective call.  The part that completes the call executes it. */
static void start_collective(struct amph_server_request *rq)
{
    struct amph_server_handle *h = rq->handle;

    rq->progress.state = AMPH_SERVER_RQ_RUNNING;
    rq->exec.error = amph_server_collective_join(rq);
    if (rq->exec.error == EINPROGRESS)
        return;

    if (rq->exec.error)
        finish(rq);
    else if (amph_server_expected_ns(h, rq->collective->bytes) > AMPH_SERVER_SLOW_NS) {
        h->progress.busy = true;
        amph_server_work_give(rq->server, rq);
    } else {
        run_here(rq);
        finish(rq);
    }
}

/* Duplicates the client's control connection, so that a blocking FIFO call notices the client's
 * end.  false: out of descriptors, and the request has the error. */
static bool dup_client_connection(struct amph_server_request *rq)
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

static void complete_and_answer(struct amph_server_request *rq)
{
    complete_call(rq);
    amph_server_flow_answer(rq);
}

/* Starts a request whose turn it is: here, in a worker, or at a lock agent. */
static void start(struct amph_server_request *rq)
{
    struct amph_server_handle *h = rq->handle;

    if (is_staged(rq) && !rq->stage)
        rq->stage = amph_server_staging_get(rq->server, rq->bulk.len);

    amph_server_request_set_buffers(rq);
    if (amph_server_collective_is(rq->id)) {
        start_collective(rq);
        return;
    }

    if (!rq->peer->gone && !amph_server_begin_piece(h, rq)) {
        complete_and_answer(rq);
        return;
    }

    if (rq->peer->gone || rq->progress.transfer_st != AMPH_OK) {
        rq->exec.error = EIO;
        rq->exec.reason = AMPH_SERVER_WHY_TRANSFER;
        complete_and_answer(rq);
        return;
    }

    rq->progress.since_ns = amph_server_piece_since(rq, rq->progress.since_ns);

    if (amph_server_lock_is(rq->id)) { /* may block for long; the file stays free meanwhile */
        rq->progress.state = AMPH_SERVER_RQ_RUNNING;
        amph_server_lock_give(rq->server, rq);
        return;
    }

    if (amph_server_wants_worker(rq)) {
        rq->progress.state = AMPH_SERVER_RQ_RUNNING;
        if (amph_server_is_bulk(rq) && rq->file->fifo && !dup_client_connection(rq)) {
            complete_and_answer(rq);
            return;
        }

        if (h)
            h->progress.busy = true;

        amph_server_work_give(rq->server, rq);
        return;
    }

    run_here(rq);
    if (rq->exec.may_block)
        amph_server_work_give(rq->server, rq);
    else
        finish(rq);
}

static void finish_one(struct amph_server_request *rq)
{
    complete_call(rq);
    if (amph_server_is_remote(rq) && !amph_server_is_write(rq->id) && !rq->exec.error &&
        amph_server_request_moved(rq) > 0)
        amph_server_transfer_add(rq, AMPH_SERVER_RQ_STORING);
    else
        amph_server_flow_answer(rq);
}

/* Ends all parts of a collective call after its execution. */
static void finish_collective(struct amph_server_request *carrier)
{
    struct amph_server_collective *j = carrier->collective;
    struct amph_server_request *rq = j->part;
    struct amph_server_request *next;
    int err = carrier->exec.error;
    uint64_t began_ns = carrier->exec.began_ns;
    uint64_t ns = carrier->exec.ns;

    if (!err)
        amph_server_record_collective_time(j, ns);

    for (; rq; rq = next) {
        next = rq->next;
        rq->collective = NULL;
        rq->exec.error = err;
        rq->exec.began_ns = began_ns;
        rq->exec.carrier_ns = ns - rq->exec.ns;
        finish_one(rq);
    }

    free(j);
}

/* Has the request found a lock of another owner? */
static bool finds_lock(const struct amph_server_request *rq)
{
    if (rq->exec.error == EAGAIN)
        return rq->desc && (rq->desc->flags & FWD_CALL_TRYLOCK);
    if (rq->exec.error || !rq->desc)
        return false;

    const struct amph_fwd_arg_desc *arg = amph_fwd_find_arg(rq->desc, FWD_OUT_GOTLOCK);

    return arg &&
           ((const struct flock *)((const char *)&rq->u + arg->server_at))->l_type != F_UNLCK;
}

/* Marks a call that has found a lock for retry if the holder may have ended.  The locks of a process must be
 * free when its parent has waited for it, but its disconnect may still be in flight. */
static void mark_for_retry(struct amph_server_request *rq)
{
    if (AMPH_UNLIKELY(finds_lock(rq)))
        rq->exec.retry = rq->exec.retry || amph_server_peer_disconnecting(rq->server, 0) ||
                         amph_server_locks_releasing(rq);
}

/* Ends a request after its execution in any thread. */
static void finish(struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;

    mark_for_retry(rq);
    if (rq->exec.retry && !rq->peer->gone) {
        rq->next = s->progress.locks;
        s->progress.locks = rq;
        return;
    }

    if (rq->collective)
        finish_collective(rq);
    else
        finish_one(rq);
}

/* Starts the requests of a file whose turn it is, in order. */
static void start_ready(struct amph_server_handle *h)
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

/* Does the same and keeps the handle alive meanwhile. */
static void start_ready_pinned(struct amph_server *s, struct amph_server_handle *h)
{
    amph_server_handle_pin(s, h);
    start_ready(h);
    amph_server_handle_unpin(s, h);
}

void amph_server_flow_ready(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    rq->progress.state = AMPH_SERVER_RQ_READY;
    if (rq->handle)
        start_ready_pinned(rq->server, rq->handle);
    else
        start(rq);
}

/* Returns the memory that a queued request of `len` bytes takes. */
static size_t room_of(const struct amph_server_request *rq, size_t len)
{
    bool stage = amph_server_is_remote(rq) || is_staged(rq);
    bool collective = rq->desc && amph_server_collective_is(rq->id);

    return sizeof *rq + len + AMPH_SERVER_OUT_BYTES + (stage ? rq->server->stage_bytes : 0) +
           (collective ? amph_server_collective_room(rq) : 0);
}

/* Since when a request that the progress thread takes now may have waited: since the thread has
 * taken requests without a pause, but not longer than since the client could send it. */
static uint64_t waiting_since(const struct amph_server_request *rq, uint64_t now_ns)
{
    struct amph_server *s = rq->server;
    uint64_t answered_ns = *answered(rq);

    /* after a longer gap the thread had no processor, or waited for the network */
    if (!s->progress.busy_since_ns || now_ns - s->progress.busy_until_ns > BUSY_GAP_NS)
        s->progress.busy_since_ns = now_ns;

    s->progress.busy_until_ns = now_ns;
    return answered_ns > s->progress.busy_since_ns ? answered_ns : s->progress.busy_since_ns;
}

/* Copies a request of len bytes, which takes `room` of the memory for waiting requests.  0, ENOMEM, or the errno value
 * of a message that cannot be parsed. */
static int copy_request(struct amph_server *s, struct amph_server_peer *peer, const uint8_t *msg,
                        size_t len, size_t room, struct amph_server_request **copy_p)
{
    bool can_reply;

    /* A client's only request always fits; otherwise a client whose pieces exceed the limit would
     * never make progress. */
    bool fits = peer->queued == 0 ||
                (peer->queued < AMPH_SERVER_QUEUED_MAX && peer->memory + room <= s->client_memory &&
                 s->progress.memory + room <= s->memory_limit);
    struct amph_server_request *rq = fits ? calloc(1, sizeof *rq + len) : NULL;

    if (!rq)
        return ENOMEM;

    uint8_t *copy = (uint8_t *)(rq + 1);

    memcpy(copy, msg, len);
    rq->out = malloc(AMPH_SERVER_OUT_BYTES);

    int err = rq->out ? amph_server_request_parse(s, peer, copy, len, rq, &can_reply) : ENOMEM;

    if (!err && amph_server_is_remote(rq) &&
        !(rq->stage = amph_server_staging_get(s, rq->bulk.len)))
        err = ENOMEM;

    if (err) {
        free(rq->out);
        free(rq);
        return err;
    }

    *copy_p = rq;
    return 0;
}

/* Copies a request that cannot run inside its handler, with references of its own, and queues or
 * starts it.  A descriptor that `first` has opened moves to the copy.  0, or an errno value: then
 * `first` is unchanged. */
static int enqueue_copy(struct amph_server *s, struct amph_server_peer *peer, const uint8_t *msg,
                        size_t len, struct amph_server_request *first)
{
    struct amph_server_request *rq;
    size_t room = room_of(first, len);
    int err = copy_request(s, peer, msg, len, room, &rq);

    if (err)
        return err;

    peer->queued++;
    peer->memory += rq->progress.room = room;
    s->progress.memory += room;
    rq->progress.arrived_ns = amph_now_ns();
    rq->progress.since_ns = waiting_since(rq, rq->progress.arrived_ns);
    amph_count(SERVER_QUEUED);
    amph_count_level(AMPH_COUNTER_SERVER_MEMORY, s->progress.memory);
    amph_server_refs_take(rq);
    rq->progress.opening = rq->desc && (rq->desc->flags & FWD_CALL_OPENS);
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
    start_ready_pinned(s, rq->handle);

    return 0;
}

/* May the request run inside the handler of its message? */
static bool runs_here(const struct amph_server_request *rq)
{
    const struct amph_server_handle *h = rq->handle;

    if (amph_server_is_remote(rq) || amph_server_wants_worker(rq))
        return false;
    if (!h || !h->progress.queue_head)
        return !h || (!h->progress.busy && amph_server_is_turn(h, rq));

    for (const struct amph_server_request *q = h->progress.queue_head; q; q = q->next)
        if (amph_server_is_turn(h, q))
            return false; /* a queued request comes first */

    return !h->progress.busy && amph_server_is_turn(h, rq);
}

static struct amph_server_request *list_remove(struct amph_server_request **at,
                                               const struct amph_server_peer *peer, uint64_t seq)
{
    while (*at && ((*at)->peer != peer || (*at)->seq != seq))
        at = &(*at)->next;

    struct amph_server_request *rq = *at;

    if (rq)
        *at = rq->next;

    return rq;
}

/* Cancels a call on a FIFO or device that is queued behind a blocked one. */
static void cancel_queued(struct amph_server_handle *h, const struct amph_server_peer *peer,
                          uint64_t seq)
{
    struct amph_server_request *rq = h->progress.queue_head;

    while (rq && (rq->peer != peer || rq->seq != seq))
        rq = rq->next;

    if (!rq || h->regular || rq->progress.state != AMPH_SERVER_RQ_READY ||
        !amph_server_is_bulk(rq) || !amph_server_is_whole(rq))
        return;

    list_remove(&h->progress.queue_head, peer, seq);
    h->progress.queue_tail = tail_of(&h->progress.queue_head);
    rq->exec.error = EINTR;
    amph_server_count_request(rq);
    amph_server_flow_answer(rq);
}

void amph_server_flow_cancel(struct amph_server *s, struct amph_server_peer *peer, uint64_t seq)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_request *rq = list_remove(&s->progress.locks, peer, seq);

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

/* Executes a call in the handler of its message.  true: it was queued; the reply comes later. */
static bool execute_here(struct amph_server_request *rq, const struct amph_am *am)
{
    struct amph_server *s = rq->server;

    if (rq->bulk.where == FWD_PIPE)
        amph_server_pipe_note(s, rq->peer);

    if (!runs_here(rq)) {
        rq->exec.error = enqueue_copy(s, rq->peer, am->payload, am->nbytes, rq);
        if (rq->exec.error)
            amph_server_truncate_call(rq->handle, rq);

        return !rq->exec.error;
    }

    rq->out = s->progress.reply;
    rq->stage = is_staged(rq) ? amph_server_staging_get(s, rq->bulk.len) : NULL;
    amph_server_request_set_buffers(rq);
    if (amph_server_begin_piece(rq->handle, rq)) {
        amph_server_request_run(rq);
        rq->progress.since_ns = waiting_since(rq, rq->exec.began_ns);
        rq->progress.since_ns = amph_server_piece_since(rq, rq->progress.since_ns);
        s->progress.busy_until_ns += rq->exec.ns;
    }

    mark_for_retry(rq);
    amph_server_staging_put(s, rq->stage);

    if (rq->exec.retry || rq->exec.may_block) { /* it may block: start again as a queued request */
        rq->exec.error = enqueue_copy(s, rq->peer, am->payload, am->nbytes, rq);
        close_opened(rq);
        return !rq->exec.error;
    }

    complete_call(rq);
    note_answer(rq, rq->exec.began_ns + rq->exec.ns);
    amph_server_count_latency(rq, rq->exec.ns);
    return false;
}

static void reply_here(struct amph_token *token, struct amph_server_request *rq)
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
        start_ready(rq->handle);
}

static void on_request(struct amph_token *token, const struct amph_am *am)
{
    struct amph_server *s = amph_am_user(token->ep);
    struct amph_server_peer *peer = token->peer < s->max_peers ? s->progress.peer[token->peer]
                                                               : NULL;
    struct amph_server_request rq = { .server = s };
    bool can_reply;

    if (!peer || peer->gone || !peer->attached)
        return;

    rq.exec.error = amph_server_request_parse(s, peer, (uint8_t *)am->payload, am->nbytes, &rq,
                                              &can_reply);
    if (!can_reply) {
        amph_count(DROP_MALFORMED);
        amph_count(SERVER_MALFORMED);
        return;
    }

    bool kept = false;

    if (!rq.exec.error && rq.desc) {
        amph_server_refs_take(&rq);
        kept = execute_here(&rq, am);
    }

    if (!kept)
        reply_here(token, &rq);

    amph_server_refs_give(&rq);
}

void amph_server_on_request(struct amph_token *token, const struct amph_am *am)
{
    struct amph_server *s = amph_am_user(token->ep);

    s->progress.in_handler = true;
    on_request(token, am);
    s->progress.in_handler = false;
}

/* ---- called from the main loop ---- */

static unsigned handle_done(struct amph_server *s)
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
            start_ready(h);
            amph_server_handle_unpin(s, h);
        }
    }

    return n;
}

static void retry_locks(struct amph_server *s)
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

        run_here(rq);
        finish(rq);
    }
}

/* Interrupts workers that execute requests of clients that have gone. */
static void wake_leaving(struct amph_server *s)
{
    uint64_t now = amph_now_ns();

    if (now - s->progress.leaving_woken_ns < LOCK_TRY_NS)
        return;

    s->progress.leaving_woken_ns = now;
    for (uint32_t i = 0; i < s->max_peers; i++)
        if (s->progress.peer[i] && s->progress.peer[i]->gone)
            amph_server_work_wake_all(s, s->progress.peer[i]);
}

static unsigned send_unsent(struct amph_server *s)
{
    unsigned n = 0;

    while (s->progress.unsent && try_send(s->progress.unsent, false)) {
        struct amph_server_request *rq = s->progress.unsent;

        s->progress.unsent = rq->next;
        if (!s->progress.unsent)
            s->progress.unsent_tail = &s->progress.unsent;

        end_reply(rq);
        n++;
    }

    return n;
}

unsigned amph_server_flow_progress(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    unsigned n = 0;

    if (s->progress.unsent)
        n += send_unsent(s);

    n += handle_done(s);
    if (s->progress.transfers)
        n += amph_server_transfers_move(s);

    retry_locks(s);
    if (s->progress.nleaving)
        wake_leaving(s);

    return n;
}

/* Frees the client's requests in a list without a reply.  only_ready: not those that a transfer
 * still uses. */
static void list_drop_peer(struct amph_server_request **head, const struct amph_server_peer *peer,
                           bool only_ready)
{
    while (*head) {
        struct amph_server_request *rq = *head;

        if (rq->peer == peer && (!only_ready || rq->progress.state == AMPH_SERVER_RQ_READY)) {
            *head = rq->next;
            request_free(rq);
        } else
            head = &rq->next;
    }
}

void amph_server_flow_drop_peer(struct amph_server *s, struct amph_server_peer *peer)
{
    amph_server_assert_owner(&s->progress.owner);

    peer->queued++; /* keeps the client alive until the end of this function */

    /* a retried lock request would give the client a new lock agent that nobody ends */
    list_drop_peer(&s->progress.locks, peer, false);
    amph_server_lock_drop_peer(peer);
    amph_server_work_wake_all(s, peer);

    for (uint32_t i = 0; i < s->progress.nslots; i++) {
        struct amph_server_handle *h = s->progress.handle[i];

        if (!h)
            continue;

        amph_server_handle_pin(s, h);
        amph_server_collective_fail(s, h, peer, EIO);
        list_drop_peer(&h->progress.queue_head, peer, true);
        h->progress.queue_tail = tail_of(&h->progress.queue_head);

        if (h->progress.reserved && h->progress.holder == peer) {
            h->progress.reserved = false;
            if (!h->progress.busy)
                amph_server_append_end(h, peer);
        }

        start_ready(h);
        amph_server_handle_unpin(s, h);
    }

    peer->queued--;
}
