/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order of requests on an open file, and the choice between progress thread and worker.  A call in
 * pieces reserves its file from the first piece to the last.  A call whose predecessors on the file
 * took long goes to a worker.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/server/flow.h"
#include "iofwd/server/fs/exports.h"
#include "iofwd/wire/marshal.h"

/* ---- where a request runs ---- */

/* Large and small calls have separate averages.  With a common one, a single delayed small call
 * would send all large calls to workers, whose times would never bring the average down again. */
uint64_t amph_server_expected_ns(const struct amph_server_handle *h, uint64_t bytes)
{
    return bytes >= AMPH_SERVER_LARGE ? h->progress.kib_ns * (bytes >> 10) : h->progress.op_ns;
}

bool amph_server_wants_worker(const struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    const struct amph_server_handle *h = rq->handle;

    if (rq->exec.may_block || amph_server_lock_is(rq->id) || amph_server_collective_is(rq->id))
        return true;
    if (rq->desc->run == FWD_RUN_PROGRESS)
        return false;
    if (rq->desc->flags & FWD_CALL_BLOCKING)
        return true;
    if (amph_server_is_bulk(rq) && !rq->file->regular)
        return true; /* may block */
    if (amph_server_is_bulk(rq) && rq->bulk.where == FWD_PIPE && amph_server_pipes_busy(rq->server))
        return true;

    if (h) {
        if (amph_server_is_bulk(rq))
            return amph_server_expected_ns(h, rq->bulk.len) > AMPH_SERVER_SLOW_NS;

        return h->progress.op_ns > AMPH_SERVER_SLOW_NS;
    }

    for (size_t i = 0; i < rq->server->exports.n; i++)
        if (rq->server->exports.item[i].ns_ewma > AMPH_SERVER_SLOW_NS)
            return true;

    return false;
}

static uint64_t average(uint64_t old, uint64_t sample)
{
    return old - old / 8 + sample / 8;
}

void amph_server_record_time(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    struct amph_server_handle *h = rq->handle;

    /* Collective calls are recorded once for all parts.  Lock agents do not hold up the progress
     * thread. */
    if (amph_server_collective_is(rq->id) || amph_server_lock_is(rq->id))
        return;

    if (h && amph_server_is_bulk(rq) && amph_server_request_moved(rq) >= AMPH_SERVER_LARGE)
        h->progress.kib_ns = average(h->progress.kib_ns,
                                     rq->exec.ns / (amph_server_request_moved(rq) >> 10));
    else if (h && !(rq->desc->flags & FWD_CALL_BLOCKING))
        h->progress.op_ns = average(h->progress.op_ns, rq->exec.ns);
    else if (!h && !rq->exec.may_block)
        for (size_t i = 0; i < rq->server->exports.n; i++)
            if (&rq->server->exports.item[i] == rq->exec.export)
                rq->server->exports.item[i].ns_ewma = average(rq->server->exports.item[i].ns_ewma,
                                                              rq->exec.ns);
}

void amph_server_record_collective_time(struct amph_server_collective *j, uint64_t ns)
{
    if (j->bytes >= AMPH_SERVER_LARGE)
        j->file->progress.kib_ns = average(j->file->progress.kib_ns, ns / (j->bytes >> 10));
}

/* ---- calls in pieces reserve the file ---- */

static bool is_piece(const struct amph_server_request *rq)
{
    return amph_server_is_bulk(rq) && !amph_server_collective_is(rq->id);
}

bool amph_server_is_turn(const struct amph_server_handle *h, const struct amph_server_request *rq)
{
    return !h->progress.reserved ||
           (is_piece(rq) && rq->peer == h->progress.holder && rq->bulk.op == h->progress.holder_op);
}

bool amph_server_begin_piece(struct amph_server_handle *h, struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    if (!h || !is_piece(rq))
        return true;

    if (rq->bulk.flags & FWD_PIECE_FIRST) {
        h->progress.aborted = false;
        h->progress.reserved = !(rq->bulk.flags & FWD_PIECE_LAST);
        h->progress.holder = rq->peer;
        h->progress.holder_op = rq->bulk.op;
        amph_server_append_begin(h, rq);
        return true;
    }

    if (!h->progress.reserved)
        rq->exec.error = EPROTO;

    return h->progress.reserved && !h->progress.aborted;
}

uint64_t amph_server_piece_since(const struct amph_server_request *rq, uint64_t since_ns)
{
    const struct amph_server_handle *h = rq->handle;

    if (!h || !is_piece(rq) || (rq->bulk.flags & FWD_PIECE_FIRST))
        return since_ns;

    return h->progress.piece_end_ns > since_ns ? h->progress.piece_end_ns : since_ns;
}

void amph_server_end_piece(struct amph_server_handle *h, const struct amph_server_request *rq)
{
    if (!h || !is_piece(rq))
        return;

    if (rq->exec.error || amph_server_request_moved(rq) < rq->bulk.len)
        h->progress.aborted = true;

    h->progress.piece_end_ns = rq->exec.began_ns + rq->exec.ns;
    if ((rq->bulk.flags & FWD_PIECE_LAST) || h->progress.truncated)
        h->progress.reserved = h->progress.truncated = false;

    if (!h->progress.reserved)
        amph_server_append_end(h, rq->peer);
}

void amph_server_truncate_call(struct amph_server_handle *h,
                               const struct amph_server_request *refused)
{
    struct amph_server_request *last = NULL;

    if (amph_server_collective_is(refused->id))
        amph_server_collective_refused(refused, refused->exec.error);

    if (!h || !is_piece(refused) || (refused->bulk.flags & FWD_PIECE_FIRST))
        return;

    for (struct amph_server_request *q = h->progress.queue_head; q; q = q->next)
        if (amph_server_is_bulk(q) && q->peer == refused->peer && q->bulk.op == refused->bulk.op)
            last = q;

    if (last)
        last->bulk.flags |= FWD_PIECE_LAST;
    else if (h->progress.reserved && h->progress.holder == refused->peer &&
             h->progress.holder_op == refused->bulk.op) {
        h->progress.truncated = h->progress.busy; /* a worker still executes a piece */
        h->progress.reserved = h->progress.busy;
        if (!h->progress.reserved)
            amph_server_append_end(h, refused->peer);
    }
}
