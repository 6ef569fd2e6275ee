/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses a request, executes it and builds its reply.
 *
 * Layer: iofwd.
 * Thread rule: parsing and reply in the progress thread; amph_server_request_run in any thread, one
 * at a time for each request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/wire.h"
#include "conduits/conduit.h"
#include "iofwd/calls/calls.h"
#include "iofwd/server/flow.h"
#include "iofwd/server/internal.h"

static struct amph_server_handle *find(void *ctx, uint64_t number)
{
    struct amph_server_request *rq = ctx;
    struct amph_server_handle *h = amph_server_handle_find(rq->server, number);

    if (h && rq->nnamed == AMPH_COUNTOF(rq->named))
        return NULL; /* no call names that many files */

    if (h)
        rq->named[rq->nnamed++] = h;

    rq->stale_handle = rq->stale_handle || (!h && amph_server_handle_is_stale(rq->server, number));
    return h;
}

static bool is_inside(const struct amph_fwd_bulk *b, uint64_t len)
{
    return b->at <= len && b->len <= len - b->at;
}

/* Is it a write whose data may be in a pipe or in a receive area? */
static bool is_plain_write(const struct amph_server_request *rq)
{
    return (rq->desc->flags & FWD_CALL_WRITES) && rq->desc->run != FWD_RUN_COLLECTIVE && rq->peer;
}

/* The data of a write is at `data`, and stays there until the request is answered. */
static void set_data(struct amph_server_request *rq, const void *data)
{
    *(const void **)((char *)&rq->u + rq->desc->data_at) = data;
}

/* Finds the pipe that the data of a write is in. */
static int locate_pipe(struct amph_server_request *rq)
{
    const struct amph_fwd_bulk *b = &rq->bulk;
    const struct amph_server_peer *p = rq->peer;

    if (!is_plain_write(rq) || b->at >= p->npipes || b->len > p->pipe[b->at].size_bytes)
        return EPROTO;

    rq->pipe_fd = p->pipe[b->at].fd;
    return 0;
}

/* Finds the data of a write in the client's receive area. */
static int locate_received(struct amph_server_request *rq)
{
    const struct amph_server_peer *p = rq->peer;

    if (!is_plain_write(rq) || !p->receive_area.base ||
        !is_inside(&rq->bulk, p->receive_area.len_bytes))
        return EPROTO;

    set_data(rq, (const uint8_t *)p->receive_area.base + rq->bulk.at);
    return 0;
}

/* Locates the data of a bulk call: in the message, in a pipe, in the client's receive area, in its part of
 * its transfer area or in its segment. */
static int locate_data(struct amph_rd *r, struct amph_server_request *rq)
{
    struct amph_fwd_bulk *b = &rq->bulk;
    const struct amph_server_peer *p = rq->peer;

    if (!amph_fwd_get_bulk(r, b))
        return EPROTO;

    if (b->where == FWD_PIPE)
        return locate_pipe(rq);
    if (b->where == FWD_RECEIVED)
        return locate_received(rq);
    if (b->where == FWD_SEGMENT)
        return p && p->has_segment && is_inside(b, p->segment.len_bytes) ? 0 : EPROTO;
    if (b->where == FWD_AREA)
        return p && p->has_area && is_inside(b, p->part_len) ? 0 : EPROTO;

    if (rq->desc->flags & FWD_CALL_READS)
        return b->len <= AMPH_SERVER_INLINE_MAX ? 0 : EPROTO;

    const void *data = amph_rd_bytes(r, b->len);
    if (!data)
        return EPROTO;

    set_data(rq, data);
    return 0;
}

/* Returns whether the call keeps the order of its file.  Calls by path have no order.  Calls on a
 * FIFO run side by side, because a blocked one may be waiting for the next one; but the pieces of
 * one call stay in order. */
static bool keeps_order(const struct amph_server_request *rq)
{
    if (rq->file->regular || amph_server_collective_is(rq->id))
        return true;

    return (rq->desc->flags & FWD_CALL_BULK) && !amph_server_is_whole(rq);
}

/* Refuses an open that would exceed a limit, before anything is allocated.  0 or an errno value. */
static int admit_open(struct amph_server *s, struct amph_server_peer *peer,
                      struct amph_server_request *rq)
{
    if (!peer || !(rq->desc->flags & FWD_CALL_OPENS))
        return 0;

    if (peer->nheld >= s->client_files) {
        rq->exec.reason = "the client has as many open files as IOFWD_CLIENT_FILES allows";
        return EMFILE;
    }

    struct amph_log_request before = amph_server_report_begin(rq);
    int err = amph_server_limits_file(s, peer);

    amph_log_request_set(before);
    if (err)
        rq->exec.reason =
            "the I/O server has nearly as many descriptors in use as it may have (ulimit -Hn)";

    return err;
}

/* Decodes the arguments and the location of the data.  0 or an errno value. */
static int parse_args(struct amph_rd *r, struct amph_server_request *rq)
{
    struct amph_fwd_resolver resolver = { .find = find, .ctx = rq };
    int err = amph_fwd_get_args(r, rq->desc, &rq->u, &resolver);

    if (err == EBADF && rq->stale_handle) {
        rq->exec.reason = AMPH_SERVER_WHY_STALE;
        return EIO;
    }

    if (err)
        return err;

    if (rq->desc->flags & FWD_CALL_BULK)
        err = locate_data(r, rq);

    if (!err && amph_server_collective_is(rq->id))
        err = amph_server_collective_check(rq);

    if (!err && amph_rd_left(r) > 0)
        err = EPROTO;

    return err;
}

int amph_server_request_parse(struct amph_server *s, struct amph_server_peer *peer, uint8_t *msg,
                              size_t len, struct amph_server_request *rq, bool *answer_p)
{
    struct amph_rd r;
    struct amph_fwd_req_head head;

    *answer_p = false;
    rq->server = s;
    rq->peer = peer;
    rq->msg = msg;
    rq->msg_len = len;
    rq->exec.newfd = rq->client_fd = -1;
    rq->exec.line = FWD_VERSIONS_LINE_NONE;
    rq->exec.began_ns = rq->exec.ns = rq->exec.carrier_ns = rq->exec.queue_ns = 0;
    amph_rd_init(&r, msg, len);
    if (!amph_fwd_get_req_head(&r, &head) ||
        (peer && (head.client != peer->number || head.cookie != peer->cookie_in)))
        return EPROTO;

    *answer_p = true;
    rq->seq = head.seq;
    rq->service = head.service;
    rq->id = amph_fwd_call_of_service(head.service);
    if (rq->id == AMPH_FWD_NCALLS)
        return head.service >= FWD_SERVICE_FIRST && head.service < FWD_SERVICE_END ? 0 : ENOSYS;

    rq->desc = &amph_fwd_calls[rq->id];

    int err = admit_open(s, peer, rq);

    if (!err)
        err = parse_args(&r, rq);

    if (!err && rq->desc->nargs > 0 && rq->desc->arg[0].word == FWD_IN_FILE) {
        rq->file = rq->named[0];
        rq->handle = keeps_order(rq) ? rq->file : NULL;
    }

    return err;
}

/* Layout of an out-buffer in the records of calls_server.h. */
struct out_buffer {
    void *at;
    size_t cap, len;
};

static uint8_t *area_memory(const struct amph_server_request *rq)
{
    uint64_t at;
    const struct amph_rmem *memory = amph_server_memory_of(rq, &at);

    return (uint8_t *)memory->local + at;
}

#define MOVES_TAG_BYTES (4 + sizeof(uint32_t))

static void *bulk_memory(const struct amph_server_request *rq)
{
    /* Offset of the data in the reply.  Of the tags before it, only this one occurs in a reply with
     * data. */
    bool has_moves_tag = (rq->desc->flags & FWD_CALL_OFFSET) && (rq->bulk.flags & FWD_PIECE_TELL);
    size_t tags = has_moves_tag ? MOVES_TAG_BYTES : 0;

    if (rq->bulk.where == FWD_INLINE)
        return rq->out + FWD_REP_HEAD_BYTES + tags + sizeof(uint32_t);

    return rq->stage ? rq->stage : area_memory(rq);
}

void amph_server_request_set_buffers(struct amph_server_request *rq)
{
    for (unsigned i = 0; i < rq->desc->nargs; i++) {
        uint8_t word = rq->desc->arg[i].word;
        struct out_buffer *b = (struct out_buffer *)((char *)&rq->u + rq->desc->arg[i].server_at);

        if (word == FWD_OUT_STRING || word == FWD_OUT_DIRENTS) {
            b->at = rq->out + FWD_MSG_MAX;
            b->cap = b->cap < AMPH_SERVER_SCRATCH_BYTES ? b->cap : AMPH_SERVER_SCRATCH_BYTES;
        } else if (word == FWD_OUT_BUF) {
            b->at = bulk_memory(rq);
            b->cap = rq->bulk.len;
        } else if (word == FWD_IN_DATA) {
            if (rq->bulk.where == FWD_PIPE)
                b->at = NULL;
            else if (rq->bulk.where != FWD_INLINE && rq->bulk.where != FWD_RECEIVED)
                b->at = bulk_memory(rq);

            b->cap = rq->bulk.len; /* data_len */
        }
    }
}

size_t amph_server_request_moved(const struct amph_server_request *rq)
{
    uint16_t at = rq->desc ? rq->desc->result_at : 0;

    return at ? *(const size_t *)((const char *)&rq->u + at) : 0;
}

const char amph_server_readonly_text[] = "the server exports this read-only (IOFWD_READONLY)";

/* Is this a changing call on a file of a read-only export?  Calls by path check it themselves once
 * they know the export. */
static bool is_readonly(struct amph_server_request *rq)
{
    const struct amph_server_handle *h = rq->file;

    if (!h || !(rq->desc->flags & FWD_CALL_CHANGE) || !h->export || !h->export->readonly)
        return false;

    rq->exec.reason = amph_server_readonly_text;
    return true;
}

void amph_server_request_run(struct amph_server_request *rq)
{
    struct amph_log_request before = amph_server_report_begin(rq);
    uint64_t start = amph_now_ns();
    unsigned moves = amph_server_versions_begin(rq);

    rq->exec.began_ns = start;
    rq->exec.error = is_readonly(rq) ? EROFS : amph_server_call_table[rq->id](rq);
    amph_server_versions_end(rq, moves);
    free(rq->exec.pipe_data);
    rq->exec.pipe_data = NULL;
    if (rq->stage && amph_server_is_mapped(rq) && !rq->exec.error)
        amph_copy_stream(area_memory(rq), rq->stage, amph_server_request_moved(rq));

    rq->exec.ns = amph_now_ns() - start;
    amph_log_request_set(before);
}

/* Puts what a tag begins with: its number and the length of what follows. */
static void put_tag(struct amph_wr *w, uint16_t tag, size_t len_bytes)
{
    amph_wr_u16(w, tag);
    amph_wr_u16(w, (uint16_t)len_bytes);
}

/* Puts the tags of a reply.  Returns how many bytes they have. */
static uint16_t put_tags(struct amph_wr *w, const struct amph_server_request *rq)
{
    size_t before = amph_wr_len(w);

    if (rq->exec.error && rq->exec.reason) {
        size_t n = strlen(rq->exec.reason);

        put_tag(w, FWD_TAG_REASON, n);
        amph_wr_bytes(w, rq->exec.reason, n);
    }

    if (rq->exec.report_moves) {
        put_tag(w, FWD_TAG_MOVES, sizeof rq->exec.offset_moves);
        amph_wr_u32(w, rq->exec.offset_moves);
    }

    if (rq->exec.report_whole) {
        put_tag(w, FWD_TAG_WHOLE, sizeof rq->exec.whole);
        amph_wr_u64(w, rq->exec.whole);
    }

    if (rq->bulk.where == FWD_PIPE && amph_server_pipes_busy(rq->server))
        put_tag(w, FWD_TAG_BUSY, 0);

    return (uint16_t)(amph_wr_len(w) - before);
}

size_t amph_server_request_reply(struct amph_server_request *rq, uint8_t *out)
{
    struct amph_wr w;
    struct amph_fwd_rep_head head = { .magic = FWD_MAGIC,
                                      .version = FWD_VERSION,
                                      .service = rq->service,
                                      .seq = rq->seq,
                                      .file_ns = rq->exec.ns + rq->exec.carrier_ns,
                                      .queue_ns = rq->exec.queue_ns,
                                      .error = (uint16_t)amph_fwd_errno_to_wire(rq->exec.error) };

    amph_wr_init(&w, out, FWD_MSG_MAX);
    amph_fwd_put_rep_head(&w, &head);
    head.tags_len = put_tags(&w, rq);

    if (!rq->exec.error && rq->desc) {
        amph_fwd_put_results(&w, rq->desc, &rq->u);
        if (rq->desc->flags & FWD_CALL_READS) {
            size_t n = amph_server_request_moved(rq);

            amph_wr_u32(&w, (uint32_t)n);
            if (rq->bulk.where == FWD_INLINE)
                w.at += n; /* the call has written the data there */
        }
    }

    head.length = (uint32_t)amph_wr_len(&w);
    amph_wr_init(&w, out, FWD_REP_HEAD_BYTES);
    amph_fwd_put_rep_head(&w, &head);

    return head.length;
}
