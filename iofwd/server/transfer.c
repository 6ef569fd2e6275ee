/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetches the data of areas that are not mapped here before the file call, and stores it after the
 * call, through the server's staging buffers.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "am/am.h"
#include "base/platform.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "iofwd/server/flow.h"
#include "iofwd/wire/marshal.h"

/* Bytes of unused staging buffers that are kept: they count as no client's memory. */
#define STAGES_KEPT_BYTES ((size_t)16 << 20)

void amph_server_staging_put(struct amph_server *s, void *stage)
{
    amph_server_assert_owner(&s->progress.owner);

    if (!stage)
        return;

    if (s->progress.nstages_free * s->stage_bytes >= STAGES_KEPT_BYTES) {
        free(stage);
        return;
    }

    s->progress.nstages_free++;
    *(void **)stage = s->progress.stage_free;
    s->progress.stage_free = stage;
}

/* All buffers have the size of the largest piece that a client may send, so any free one fits. */
void *amph_server_staging_get(struct amph_server *s, size_t len)
{
    amph_server_assert_owner(&s->progress.owner);

    if (len > s->stage_bytes)
        return NULL;

    void *stage = s->progress.stage_free;

    if (stage) {
        s->progress.stage_free = *(void **)stage;
        s->progress.nstages_free--;
    }

    return stage ? stage : aligned_alloc(4096, (s->stage_bytes + 4095) / 4096 * 4096);
}

static void transfer_done(struct amph_op *op, enum amph_status st)
{
    struct amph_server_request *rq = AMPH_CONTAINER_OF(op, struct amph_server_request,
                                                       progress.transfer);

    rq->progress.transfer_st = st;
    if (rq->progress.storing)
        amph_server_flow_stored(rq);
    else
        rq->progress.transfer_ended = true;
}

/* Appends to the list: the pieces of a call are needed in their order. */
static void queue_transfer(struct amph_server *s, struct amph_server_request *rq)
{
    rq->progress.next_transfer = NULL;
    *s->progress.transfers_tail = rq;
    s->progress.transfers_tail = &rq->progress.next_transfer;
}

void amph_server_transfer_add(struct amph_server_request *rq, enum amph_server_request_state state)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    rq->progress.state = state;
    rq->progress.transfer_ended = rq->progress.transfer_begun = false;
    rq->progress.transfer.done = transfer_done;
    queue_transfer(rq->server, rq);
}

/* Does the reply to a read follow the put of its data at once, because it arrives after that? */
static bool reply_follows(const struct amph_server_request *rq)
{
    return amph_am_put_arrives_first(rq->server->ep, rq->peer->index);
}

/* Puts what a read has returned into the client's memory.  If the reply follows at once, the put ends here for
 * the list of transfers, and the request is kept until the staging buffer may be used again.  Otherwise it
 * ends when the data has arrived. */
static enum amph_status store(struct amph_server_request *rq)
{
    struct amph_op *op = &rq->progress.transfer;
    uint64_t at;
    const struct amph_rmem *memory = amph_server_memory_of(rq, &at);
    bool follows = reply_follows(rq);

    rq->progress.storing = follows;

    enum amph_status st = amph_am_put(rq->server->ep, rq->peer->index, memory, at, rq->stage,
                                      amph_server_request_moved(rq), AMPH_AM_IMMEDIATE,
                                      follows ? op : NULL, follows ? NULL : op);

    if (st != AMPH_OK)
        rq->progress.storing = false;
    else if (follows)
        rq->progress.transfer_ended = true;

    return st;
}

static enum amph_status fetch(struct amph_server_request *rq)
{
    uint64_t at;
    const struct amph_rmem *memory = amph_server_memory_of(rq, &at);

    return amph_am_get(rq->server->ep, rq->peer->index, memory, at, rq->stage, rq->bulk.len,
                       AMPH_AM_IMMEDIATE, &rq->progress.transfer);
}

static bool begin_transfer(struct amph_server_request *rq)
{
    enum amph_status st = AMPH_ERR_PEER;
    bool fetches = rq->progress.state == AMPH_SERVER_RQ_FETCHING;

    if (!fetches && rq->server->progress.unsent)
        return false; /* the reply would have no room */

    if (!rq->peer->gone)
        st = fetches ? fetch(rq) : store(rq);

    if (st == AMPH_AGAIN)
        return false;

    rq->progress.transfer_begun = true;
    if (st != AMPH_OK)
        transfer_done(&rq->progress.transfer, st);

    return true;
}

/* Is `next` data that is put to the client of rq now? */
static bool is_put_next(const struct amph_server_request *rq,
                        const struct amph_server_request *next)
{
    return next && next->peer == rq->peer && !next->progress.transfer_begun &&
           next->progress.state == AMPH_SERVER_RQ_STORING;
}

/*
 * Answers a read whose data has been put.  more: data for the client follows at once.  false: the reply has no room
 * now, and the put has to be made again.
 *
 * A message arrives after the puts before it over one connection.  If the network resets that, libfabric makes
 * another one, and a reply that came later would go by it and confirm data that was lost with the first.  So
 * the server does not poll between a put and its reply.
 */
static bool answer_stored(struct amph_server_request *rq, bool more)
{
    if (rq->progress.transfer_st == AMPH_OK && reply_follows(rq))
        return amph_server_flow_answer_now(rq, more);

    if (rq->progress.transfer_st != AMPH_OK) {
        rq->exec.error = EIO;
        rq->exec.reason = AMPH_SERVER_WHY_TRANSFER;
    }

    amph_server_flow_answer(rq);
    return true;
}

unsigned amph_server_transfers_move(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    unsigned n = 0;
    struct amph_server_request *list = s->progress.transfers;
    struct amph_server_request *rq;
    bool has_room = true;

    s->progress.transfers = NULL;
    s->progress.transfers_tail = &s->progress.transfers;

    while ((rq = list)) {
        list = rq->progress.next_transfer;
        if (!rq->progress.transfer_begun && !rq->progress.storing && has_room)
            has_room = begin_transfer(rq);

        if (!rq->progress.transfer_ended) {
            queue_transfer(s, rq);
            continue;
        }

        if (rq->progress.state == AMPH_SERVER_RQ_FETCHING) {
            rq->progress.since_ns += amph_now_ns() - rq->progress.arrived_ns;
            amph_server_flow_ready(rq);
            n++;
            continue;
        }

        if (answer_stored(rq, has_room && is_put_next(rq, list))) {
            n++;
            continue;
        }

        rq->progress.transfer_begun = rq->progress.transfer_ended = has_room = false;
        queue_transfer(s, rq);
    }

    return n;
}
