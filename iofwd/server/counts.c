/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What requests count when they end: calls, bytes, errors and times of the server, of its clients and files.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <stdint.h>

#include "base/settings/counters.h"
#include "iofwd/server/flow.h"

/* Counts n bytes that were written to the file, which may be NULL, or read from it. */
static void count_bytes(struct amph_server_peer *p, struct amph_server_handle *file, bool writes,
                        size_t n)
{
    *(writes ? &p->bytes_out : &p->bytes_in) += n;
    amph_count_n(writes ? AMPH_COUNTER_SERVER_BYTES_WRITTEN : AMPH_COUNTER_SERVER_BYTES_READ, n);
    if (file)
        *(writes ? &file->progress.bytes_out : &file->progress.bytes_in) += n;
}

void amph_server_count_request(const struct amph_server_request *rq)
{
    struct amph_server_peer *p = rq->peer;
    size_t n = rq->exec.error ? 0 : amph_server_request_moved(rq);

    /* The pieces of a call count as one call. */
    uint64_t one = !amph_server_is_bulk(rq) || (rq->bulk.flags & FWD_PIECE_FIRST) ? 1 : 0;

    p->calls += one;
    amph_count_n(AMPH_COUNTER_SERVER_CALLS, one);
    amph_count_n(AMPH_COUNTER_SERVER_FILE_NS, rq->exec.ns);

    if (rq->exec.error) {
        p->errors++;
        amph_count(SERVER_ERRORS);
    }

    bool writes = amph_server_is_bulk(rq) && amph_server_is_write(rq->id);

    if (rq->file)
        rq->file->progress.calls += one;

    if (rq->exec.copied_bytes) {
        count_bytes(p, rq->exec.copied_from, false, rq->exec.copied_bytes);
        count_bytes(p, rq->file, true, rq->exec.copied_bytes);
    }

    if (n == 0)
        return;

    amph_count_n(AMPH_COUNTER_SERVER_BYTES_PIPED, rq->exec.piped_bytes);
    if (rq->bulk.where == FWD_RECEIVED)
        amph_count_n(AMPH_COUNTER_SERVER_BYTES_RECEIVED, n);

    count_bytes(p, rq->file, writes, n);
}

void amph_server_count_latency(const struct amph_server_request *rq, uint64_t ns)
{
    amph_fwd_latency_add(&rq->server->latency, ns);
    amph_fwd_latency_add(&rq->peer->latency, ns);
}
