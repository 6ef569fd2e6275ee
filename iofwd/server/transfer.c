/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of areas that are not mapped here: it is fetched before the file call and stored after it,
 * through buffers of the server's. Layer: iofwd.  Thread rule: progress thread only.
 */
#include <errno.h>
#include <stdlib.h>

#include "iofwd/server/flow.h"

void amph_server_staging_put(struct amph_server *s, void *stage)
{
    if (!stage)
        return;

    *(void **)stage = s->stage_free;
    s->stage_free = stage;
}

/* Buffers are all as large as the largest piece a client may name; parts are bounded when the
 * client joins. */
void *amph_server_staging_get(struct amph_server *s, size_t len)
{
    if (len > s->stage_bytes)
        return NULL;

    void *stage = s->stage_free;

    if (stage)
        s->stage_free = *(void **)stage;

    return stage ? stage : aligned_alloc(4096, (s->stage_bytes + 4095) / 4096 * 4096);
}

static void transfer_done(struct amph_op *op, enum amph_status st)
{
    struct amph_server_request *rq = AMPH_CONTAINER_OF(op, struct amph_server_request, transfer);

    rq->transfer_st = st;
    rq->transferred = true;
}

/* At the end: a call's pieces are needed in their order. */
static void queue_transfer(struct amph_server *s, struct amph_server_request *rq)
{
    rq->next_transfer = NULL;
    *s->transfers_tail = rq;
    s->transfers_tail = &rq->next_transfer;
}

void amph_server_transfer_add(struct amph_server_request *rq, enum amph_server_request_state state)
{
    rq->state = state;
    rq->transferred = rq->transfer_begun = false;
    rq->transfer.done = transfer_done;
    queue_transfer(rq->server, rq);
}

static bool begin_transfer(struct amph_server_request *rq)
{
    struct amph_server_peer *p = rq->peer;
    uint64_t at;
    const struct amph_rmem *memory = amph_server_memory_of(rq, &at);
    enum amph_status st = AMPH_ERR_PEER;

    if (!p->gone)
        st = rq->state == AMPH_SERVER_RQ_FETCHING
                 ? amph_am_get(rq->server->ep, p->index, memory, at, rq->stage, rq->bulk.len,
                               AMPH_AM_IMMEDIATE, &rq->transfer)
                 : amph_am_put(rq->server->ep, p->index, memory, at, rq->stage,
                               amph_server_request_moved(rq), AMPH_AM_IMMEDIATE, NULL,
                               &rq->transfer);

    if (st == AMPH_AGAIN)
        return false;

    rq->transfer_begun = true;
    if (st != AMPH_OK)
        transfer_done(&rq->transfer, st);

    return true;
}

unsigned amph_server_transfers_move(struct amph_server *s)
{
    unsigned n = 0;
    struct amph_server_request *list = s->transfers;
    struct amph_server_request *rq;
    bool room = true;

    s->transfers = NULL;
    s->transfers_tail = &s->transfers;

    while ((rq = list)) {
        list = rq->next_transfer;
        if (!rq->transfer_begun && room)
            room = begin_transfer(rq);

        if (!rq->transferred) {
            queue_transfer(s, rq);
            continue;
        }

        n++;
        if (rq->state == AMPH_SERVER_RQ_FETCHING) {
            amph_server_flow_ready(rq);
        } else {
            if (rq->transfer_st != AMPH_OK)
                rq->error = EIO;

            amph_server_flow_answer(rq);
        }
    }

    return n;
}
