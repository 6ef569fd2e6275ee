/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Services that are not file calls: statistics, the program's segment, cancelling, notifications,
 * owners of locks, descriptors.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/settings/counters.h"
#include "base/wire.h"
#include "iofwd/server/flow.h"
#include "iofwd/wire/marshal.h"

/* Completes a reply with n bytes of body after its head.  The body is not described by the table of
 * calls. */
static size_t put_body(const struct amph_server_request *rq, uint8_t *out, size_t head_bytes,
                       size_t n)
{
    struct amph_wr w;

    amph_wr_init(&w, out, FWD_REP_HEAD_BYTES);
    amph_fwd_put_rep_head(&w, &(struct amph_fwd_rep_head){ .magic = FWD_MAGIC,
                                                           .version = FWD_VERSION,
                                                           .service = rq->service,
                                                           .length = (uint32_t)(head_bytes + n),
                                                           .seq = rq->seq });
    return head_bytes + n;
}

static size_t answer_stats(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_server *s = rq->server;
    const struct amph_server_peer *p = rq->peer;

    amph_server_passthrough_collect_all(s);

    uint64_t v[] = { s->self,
                     p->number,
                     p->calls,
                     p->errors,
                     p->bytes_out,
                     p->bytes_in,
                     amph_count_now(AMPH_COUNTER_SERVER_CALLS),
                     amph_count_now(AMPH_COUNTER_SERVER_BYTES_WRITTEN),
                     amph_count_now(AMPH_COUNTER_SERVER_BYTES_READ),
                     s->progress.npeers,
                     s->progress.nhandles };
    struct amph_wr w;
    size_t n = amph_server_request_reply(rq, out);

    amph_wr_init(&w, out + n, sizeof v);
    for (size_t i = 0; i < AMPH_COUNTOF(v); i++)
        amph_wr_u64(&w, v[i]);

    return put_body(rq, out, n, sizeof v);
}

static size_t answer_notifications(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_rd r;
    struct amph_wr w;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t notifier = amph_rd_u64(&r);
    uint64_t max = amph_rd_u64(&r);
    size_t n = amph_server_request_reply(rq, out);

    amph_wr_init(&w, out + n, FWD_MSG_MAX - n);
    rq->exec.error = r.bad ? EPROTO
                           : amph_server_notifier_collect(rq->server, rq->peer, notifier, max, &w);
    return rq->exec.error ? amph_server_request_reply(rq, out)
                          : put_body(rq, out, n, amph_wr_len(&w));
}

/* A client, perhaps of another server, has found a lock whose owner, to the kernel, is this process: returns
 * the client that holds it.  One that has ended is not known any more. */
static size_t answer_holder(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_rd r;
    struct amph_wr w;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t dev = amph_rd_u64(&r);
    uint64_t ino = amph_rd_u64(&r);
    uint64_t from = amph_rd_u64(&r);
    uint64_t len = amph_rd_u64(&r);
    uint64_t type = amph_rd_u64(&r);
    uint64_t pid = amph_rd_u64(&r);
    size_t n = amph_server_request_reply(rq, out);

    amph_wr_init(&w, out + n, FWD_MSG_MAX - n);

    bool mine = !r.bad && pid == (uint64_t)getpid();
    uint64_t holder = mine ? amph_server_lock_holder((dev_t)dev, (ino_t)ino, (off_t)from,
                                                     (off_t)len, (short)type)
                           : 0;

    if (holder && amph_server_peer_disconnecting(rq->server, (uint32_t)holder))
        holder = 0;

    amph_wr_u64(&w, mine && !holder ? FWD_HOLDER_UNKNOWN : holder);
    return put_body(rq, out, n, amph_wr_len(&w));
}

static size_t answer_segment(struct amph_server_request *rq, uint8_t *out)
{
    rq->exec.error = amph_server_peer_segment(rq->server, rq->peer, rq->msg + FWD_REQ_HEAD_BYTES,
                                              rq->msg_len - FWD_REQ_HEAD_BYTES);
    return amph_server_request_reply(rq, out);
}

/* The client asks for a receive area; the answer is its key. */
static size_t answer_receive_area(struct amph_server_request *rq, uint8_t *out)
{
    const struct amph_am_mem *area = &rq->peer->receive_area;
    struct amph_rd r;
    struct amph_wr w;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t len_bytes = amph_rd_u64(&r);

    rq->exec.error = r.bad || amph_rd_left(&r)
                         ? EPROTO
                         : amph_server_receive_area_open(rq->server, rq->peer, len_bytes);

    size_t n = amph_server_request_reply(rq, out);

    if (rq->exec.error)
        return n;

    amph_wr_init(&w, out + n, area->key_len);
    amph_wr_bytes(&w, area->key, area->key_len);

    return put_body(rq, out, n, area->key_len);
}

/* Cancels a request, because a signal handler has run in the client. */
static size_t answer_cancel(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_rd r;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t seq = amph_rd_u64(&r);

    if (!r.bad && !amph_rd_left(&r))
        amph_server_flow_cancel(rq->server, rq->peer, seq);

    return amph_server_request_reply(rq, out);
}

static size_t answer_hold_only(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_rd r;
    uint64_t numbers[FWD_MSG_MAX / sizeof(uint64_t)];

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    size_t n = amph_rd_left(&r) / sizeof(uint64_t);

    for (size_t i = 0; i < n; i++)
        numbers[i] = amph_rd_u64(&r);

    amph_server_peer_keep_only(rq->server, rq->peer, numbers, n);
    return amph_server_request_reply(rq, out);
}

static size_t answer_passthrough(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_fwd_passed passed;
    struct amph_rd r;
    struct amph_wr w;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t handle = amph_rd_u64(&r);

    rq->exec.error = r.bad ? EPROTO
                           : amph_server_passthrough_give(rq->server, rq->peer, handle, &passed);

    size_t n = amph_server_request_reply(rq, out);

    if (rq->exec.error)
        return n;

    amph_wr_init(&w, out + n, FWD_PASSED_BYTES);
    amph_wr_u32(&w, passed.slot);
    amph_wr_u32(&w, passed.line);
    amph_wr_u64(&w, passed.versions);

    return put_body(rq, out, n, FWD_PASSED_BYTES);
}

static size_t answer_map(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_rd r;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t handle = amph_rd_u64(&r);

    rq->exec.error = r.bad ? EPROTO
                           : amph_server_passthrough_give_map(rq->server, rq->peer, handle);
    return amph_server_request_reply(rq, out);
}

static size_t answer_directory(struct amph_server_request *rq, uint8_t *out)
{
    char path[FWD_PATH_MAX];
    uint32_t name_bytes = 0;
    struct amph_rd r;
    struct amph_wr w;

    amph_rd_init(&r, rq->msg + FWD_REQ_HEAD_BYTES, rq->msg_len - FWD_REQ_HEAD_BYTES);

    uint64_t handle = amph_rd_u64(&r);
    size_t len = amph_rd_left(&r);

    if (r.bad || len >= sizeof path) {
        rq->exec.error = EPROTO;
    } else {
        memcpy(path, amph_rd_bytes(&r, len), len);
        path[len] = 0;
        rq->exec.error = amph_server_passthrough_give_directory(rq->server, rq->peer, handle, path,
                                                                &name_bytes);
    }

    size_t n = amph_server_request_reply(rq, out);

    if (rq->exec.error)
        return n;

    amph_wr_init(&w, out + n, FWD_DIRECTORY_BYTES);
    amph_wr_u32(&w, name_bytes);

    return put_body(rq, out, n, FWD_DIRECTORY_BYTES);
}

size_t amph_server_answer_special(struct amph_server_request *rq, uint8_t *out)
{
    static size_t (*const answers[])(struct amph_server_request *, uint8_t *) = {
        [FWD_SERVICE_STATS - FWD_SERVICE_FIRST] = answer_stats,
        [FWD_SERVICE_HOLD_ONLY - FWD_SERVICE_FIRST] = answer_hold_only,
        [FWD_SERVICE_SEGMENT - FWD_SERVICE_FIRST] = answer_segment,
        [FWD_SERVICE_CANCEL - FWD_SERVICE_FIRST] = answer_cancel,
        [FWD_SERVICE_NOTIFICATIONS - FWD_SERVICE_FIRST] = answer_notifications,
        [FWD_SERVICE_HOLDER - FWD_SERVICE_FIRST] = answer_holder,
        [FWD_SERVICE_PASSTHROUGH - FWD_SERVICE_FIRST] = answer_passthrough,
        [FWD_SERVICE_DIRECTORY - FWD_SERVICE_FIRST] = answer_directory,
        [FWD_SERVICE_RECEIVE_AREA - FWD_SERVICE_FIRST] = answer_receive_area,
        [FWD_SERVICE_MAP - FWD_SERVICE_FIRST] = answer_map,
    };
    _Static_assert(AMPH_COUNTOF(answers) == FWD_SERVICE_END - FWD_SERVICE_FIRST,
                   "each service has a function");
    return answers[rq->service - FWD_SERVICE_FIRST](rq, out);
}
