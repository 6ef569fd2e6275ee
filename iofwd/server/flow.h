/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the flow of requests share: server/flow.c (from arrival to answer), server/schedule.c (whose turn it is, and which thread
 * runs it), server/transfer.c (data that crosses a network), server/services.c (services that are no file calls).  Layer: iofwd.
 * Thread rule: progress thread only.
 */
#ifndef AMPH_IOFWD_SERVER_FLOW_H
#define AMPH_IOFWD_SERVER_FLOW_H

#include "iofwd/server/internal.h"

static inline bool fwd_is_write(enum amph_fwd_id id)
{
    return id == AMPH_FWD_WRITE || id == AMPH_FWD_PWRITE || id == AMPH_FWD_PWRITEJ;
}

static inline bool fwd_is_bulk(const struct fwd_request *rq)
{
    return rq->desc && (rq->desc->flags & FWD_CALL_BULK);
}

/* Data that has to cross a network before or after the file call. */
static inline bool fwd_is_remote(const struct fwd_request *rq)
{
    return fwd_is_bulk(rq) && rq->bulk.where != FWD_INLINE && !fwd_is_mapped(rq);
}

/* ---- server/flow.c ---- */

void fwd_exec_ready(struct fwd_request *rq);  /* what it waited for is there: it runs when its turn comes */
void fwd_exec_answer(struct fwd_request *rq); /* it is over */
void fwd_exec_cancel(struct fwd_server *s, struct fwd_peer *peer, uint64_t seq); /* what this request waits for is not wanted any more */

/* ---- server/schedule.c ---- */

uint64_t fwd_expected_ns(const struct fwd_handle *h, uint64_t bytes); /* of a call that moves so many bytes */
bool fwd_wants_worker(const struct fwd_request *rq);
void fwd_learn(struct fwd_request *rq); /* what this call took says what the next one will take */
void fwd_learn_joint(struct fwd_joint *j, uint64_t ns);

bool fwd_is_turn(const struct fwd_handle *h, const struct fwd_request *rq);
/* Takes the file for a piece.  false: the piece does nothing (its call has ended early, or never began). */
bool fwd_begin_piece(struct fwd_handle *h, struct fwd_request *rq);
void fwd_end_piece(struct fwd_handle *h, const struct fwd_request *rq);
/* A piece was refused for lack of room.  What comes after it must not be done, as if the piece had never been missing: the call ends with
 * the last piece that is here. */
void fwd_cut_off(struct fwd_handle *h, const struct fwd_request *refused);

/* ---- server/transfer.c ---- */

/* A buffer for len bytes, of one size for all; NULL: no memory, or more than a client may have. */
void *fwd_stage_get(struct fwd_server *s, size_t len);
void fwd_stage_put(struct fwd_server *s, void *stage);
/* state: FWD_RQ_FETCHING before its file call, FWD_RQ_STORING after it. */
void fwd_transfer_add(struct fwd_request *rq, enum fwd_rq_state state);
unsigned fwd_transfers_move(struct fwd_server *s); /* begins some, ends some: how many */

/* ---- server/services.c ---- */

size_t fwd_answer_special(struct fwd_request *rq, uint8_t *out); /* does it; gives the length of the reply, which is in out */

#endif
