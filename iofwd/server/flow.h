/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the flow of requests share: server/flow.c (from arrival to answer),
 * server/schedule.c (whose turn it is, and which thread runs it), server/transfer.c (data that
 * crosses a network), server/services.c (services that are no file calls).  Layer: iofwd. Thread
 * rule: progress thread only.
 */
#ifndef AMPH_IOFWD_SERVER_FLOW_H
#define AMPH_IOFWD_SERVER_FLOW_H

#include "iofwd/server/internal.h"

static inline bool amph_server_is_write(enum amph_fwd_id id)
{
    return id == AMPH_FWD_WRITE || id == AMPH_FWD_PWRITE || id == AMPH_FWD_PWRITEJ;
}

static inline bool amph_server_is_bulk(const struct amph_server_request *rq)
{
    return rq->desc && (rq->desc->flags & FWD_CALL_BULK);
}

/* Data that has to cross a network before or after the file call. */
static inline bool amph_server_is_remote(const struct amph_server_request *rq)
{
    return amph_server_is_bulk(rq) && rq->bulk.where != FWD_INLINE && !amph_server_is_mapped(rq);
}

/* ---- server/flow.c ---- */

/* what it waited for is there: it runs when its turn comes */
void amph_server_flow_ready(struct amph_server_request *rq);
void amph_server_flow_answer(struct amph_server_request *rq); /* it is over */
/* what this request waits for is not wanted any more */
void amph_server_flow_cancel(struct amph_server *s, struct amph_server_peer *peer, uint64_t seq);

/* ---- server/schedule.c ---- */

/* of a call that moves so many bytes */
uint64_t amph_server_expected_ns(const struct amph_server_handle *h, uint64_t bytes);
bool amph_server_wants_worker(const struct amph_server_request *rq);
/* what this call took says what the next one will take */
void amph_server_record_time(struct amph_server_request *rq);
void amph_server_record_collective_time(struct amph_server_collective *j, uint64_t ns);

bool amph_server_is_turn(const struct amph_server_handle *h, const struct amph_server_request *rq);
/* Takes the file for a piece.  false: the piece does nothing (its call has ended early, or never
 * began). */
bool amph_server_begin_piece(struct amph_server_handle *h, struct amph_server_request *rq);
void amph_server_end_piece(struct amph_server_handle *h, const struct amph_server_request *rq);
/* A piece was refused for lack of room.  What comes after it must not be done, as if the piece had
 * never been missing: the call ends with the last piece that is here. */
void amph_server_truncate_call(struct amph_server_handle *h,
                               const struct amph_server_request *refused);

/* ---- server/transfer.c ---- */

/* A buffer for len bytes, of one size for all; NULL: no memory, or more than a client may have. */
void *amph_server_staging_get(struct amph_server *s, size_t len);
void amph_server_staging_put(struct amph_server *s, void *stage);
/* state: AMPH_SERVER_RQ_FETCHING before its file call, AMPH_SERVER_RQ_STORING after it. */
void amph_server_transfer_add(struct amph_server_request *rq, enum amph_server_request_state state);
unsigned amph_server_transfers_move(struct amph_server *s); /* begins some, ends some: how many */

/* ---- server/services.c ---- */

/* does it; gives the length of the reply, which is in out */
size_t amph_server_answer_special(struct amph_server_request *rq, uint8_t *out);

#endif
