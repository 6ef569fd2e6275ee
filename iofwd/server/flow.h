/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that flow.c (arrival to reply), counts.c, schedule.c (order and threads), transfer.c (data
 * that crosses a network) and services.c (requests that are not file calls) share.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#ifndef AMPH_IOFWD_SERVER_FLOW_H
#define AMPH_IOFWD_SERVER_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/server/internal.h"

static inline bool amph_server_is_write(enum amph_fwd_id id)
{
    return id != AMPH_FWD_NCALLS && (amph_fwd_calls[id].flags & FWD_CALL_WRITES);
}

static inline bool amph_server_is_bulk(const struct amph_server_request *rq)
{
    return rq->desc && (rq->desc->flags & FWD_CALL_BULK);
}

/* Must the data cross a network before or after the file call? */
static inline bool amph_server_is_remote(const struct amph_server_request *rq)
{
    return amph_server_is_bulk(rq) &&
           (rq->bulk.where == FWD_AREA || rq->bulk.where == FWD_SEGMENT) &&
           !amph_server_is_mapped(rq);
}

/* ---- server/flow.c ---- */

/* The request's data has arrived: it runs when its turn comes. */
void amph_server_flow_ready(struct amph_server_request *rq);
/* Builds the reply, sends it or queues it, and frees the request. */
void amph_server_flow_answer(struct amph_server_request *rq);
/* The same, but queues nothing.  more: data for the client follows at once.  false: the reply was not sent,
 * because there is no room for it now. */
bool amph_server_flow_answer_now(struct amph_server_request *rq, bool more);
/* The put of a read's data needs the request's staging buffer no more; frees an answered request. */
void amph_server_flow_stored(struct amph_server_request *rq);
/* Cancels a request of the client: it ends with EINTR if it has to wait. */
void amph_server_flow_cancel(struct amph_server *s, struct amph_server_peer *peer, uint64_t seq);

/* ---- server/counts.c ---- */

/* Counts a request whose call has ended. */
void amph_server_count_request(const struct amph_server_request *rq);
/* Records the time from a request's arrival to its answer. */
void amph_server_count_latency(const struct amph_server_request *rq, uint64_t ns);

/* ---- server/schedule.c ---- */

/* Returns the expected duration of a call that moves this many bytes. */
uint64_t amph_server_expected_ns(const struct amph_server_handle *h, uint64_t bytes);
bool amph_server_wants_worker(const struct amph_server_request *rq);
/* Updates the file's averages with the duration of this call. */
void amph_server_record_time(struct amph_server_request *rq);
void amph_server_record_collective_time(struct amph_server_collective *j, uint64_t ns);

bool amph_server_is_turn(const struct amph_server_handle *h, const struct amph_server_request *rq);
/* Reserves the file for the piece's call.  false: the piece does nothing, because its call has
 * ended early or never began. */
bool amph_server_begin_piece(struct amph_server_handle *h, struct amph_server_request *rq);
void amph_server_end_piece(struct amph_server_handle *h, const struct amph_server_request *rq);
/* Since when a request has waited for others, if it may have arrived at since_ns: a piece does not
 * wait for the pieces of its own call. */
uint64_t amph_server_piece_since(const struct amph_server_request *rq, uint64_t since_ns);
/* A piece was refused for lack of memory.  The pieces after it must not be executed, or the file
 * would have a gap: the call ends with the last piece that has arrived. */
void amph_server_truncate_call(struct amph_server_handle *h,
                               const struct amph_server_request *refused);

/* ---- server/transfer.c ---- */

/* Returns a staging buffer, all of which have the same size; NULL: no memory, or len exceeds what a
 * client may send. */
void *amph_server_staging_get(struct amph_server *s, size_t len);
void amph_server_staging_put(struct amph_server *s, void *stage);
/* state: AMPH_SERVER_RQ_FETCHING before its file call, AMPH_SERVER_RQ_STORING after it. */
void amph_server_transfer_add(struct amph_server_request *rq, enum amph_server_request_state state);
unsigned amph_server_transfers_move(
    struct amph_server *s); /* Starts and completes transfers.  Returns how many have completed. */

/* ---- server/services.c ---- */

/* Executes the service and writes the reply to out.  Returns the reply's length. */
size_t amph_server_answer_special(struct amph_server_request *rq, uint8_t *out);

/* Reasons of EIO that the file system does not know; a reply takes them to the client, which prints
 * them. */
#define AMPH_SERVER_WHY_COLLECTIVE \
    "a process that takes part in the collective call has ended or does not have the file open; " \
    "each of " \
    "them must keep it open until its part has returned"
#define AMPH_SERVER_WHY_TRANSFER \
    "the data could not be moved between the program's memory and the I/O server; the network " \
    "between them may be broken"
#define AMPH_SERVER_WHY_STALE \
    "the file was opened before the I/O server was started again; open it again"

#endif
