/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of version 2 of the format: only read, for runs that were recorded before version 3.
 *
 * Layer: iofwd (trace).  Thread rule: see stream.h.
 */
#include "iofwd/trace/stream.h"

#include <string.h>

#include "iofwd/trace/numbers.h"

/* Of a call: what is not as predicted.  The usual ones are in the first byte of the mask. */
enum {
    RESULT = 1,
    OFFSET = 2,
    LENGTH = 4,
    TARGET = 8, /* the number of the path */
    WORD = 16,
    FD = 32,
    EXTRA = 64, /* alone: an extra of the call before */
    FLAGS = 128,
    BITS = 256, /* side, and which members mean something */
    ERROR = 512,
    RAW = 1024 /* alone: another slot, as it is */
};

/* What is known of the last call of a name. */
struct context {
    uint32_t word;
    int32_t fd;
    uint64_t result, offset, length, file;
    uint32_t flags;
    uint16_t err;
    uint8_t side, has;
};

struct state {
    struct context of[AMPH_TRACE_CONTEXTS];
    uint64_t start_ns, end_ns; /* of the last call */
    uint32_t word;
    struct amph_trace_extra extra; /* the last one */
};

static struct context *context_of(struct state *s, uint32_t word)
{
    return &s->of[(word ^ word >> 6) % AMPH_TRACE_CONTEXTS];
}

/* The offset that follows on the last call's. */
static uint64_t next_offset(const struct context *c)
{
    return c->has & AMPH_TRACE_HAS_OFFSET ? c->offset + c->length : c->offset;
}

static void remember(struct state *s, struct context *to, const struct amph_trace_call *call)
{
    to->word = call->commit;
    to->fd = call->fd;
    to->result = (uint64_t)call->result;
    to->offset = (uint64_t)call->offset;
    to->length = call->length;
    to->file = call->file;
    to->flags = call->flags;
    to->err = call->err;
    to->side = call->side;
    to->has = call->has;
    s->word = call->commit;
    s->start_ns = call->start_ns;
    s->end_ns = call->end_ns;
}

static void get_call(struct state *s, struct amph_trace_input *in, unsigned mask,
                     struct amph_trace_call *call)
{
    uint64_t start = amph_trace_get(in);
    uint64_t lasts = amph_trace_get(in);

    call->start_ns = s->end_ns + amph_trace_unfolded(start);
    call->end_ns = call->start_ns + amph_trace_unfolded(lasts);
    call->commit = s->word + (mask & WORD ? (uint32_t)amph_trace_unfolded(amph_trace_get(in)) : 0);

    struct context *c = context_of(s, call->commit);

    call->result = (int64_t)(c->result +
                             (mask & RESULT ? amph_trace_unfolded(amph_trace_get(in)) : 0));
    call->offset = (int64_t)(next_offset(c) +
                             (mask & OFFSET ? amph_trace_unfolded(amph_trace_get(in)) : 0));
    call->length = c->length + (mask & LENGTH ? amph_trace_unfolded(amph_trace_get(in)) : 0);
    call->file = c->file;
    if (mask & TARGET)
        amph_trace_get_raw(in, &call->file, sizeof call->file);

    call->fd = (int32_t)((uint32_t)c->fd +
                         (mask & FD ? (uint32_t)amph_trace_unfolded(amph_trace_get(in)) : 0));
    call->flags = mask & FLAGS ? (uint32_t)amph_trace_get(in) : c->flags;
    call->side = c->side;
    call->has = c->has;
    if (mask & BITS) {
        amph_trace_get_raw(in, &call->side, 1);
        amph_trace_get_raw(in, &call->has, 1);
    }

    call->err = mask & ERROR ? (uint16_t)amph_trace_get(in) : c->err;
    remember(s, c, call);
}

static void get_extra(struct state *s, struct amph_trace_input *in, struct amph_trace_extra *x)
{
    uint8_t other = 0;

    x->commit = AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
    x->start_ns = s->start_ns + amph_trace_unfolded(amph_trace_get(in));
    x->server_ns = amph_trace_get(in);
    x->server = (uint32_t)amph_trace_get(in) ^ s->extra.server;
    x->requests = (uint32_t)amph_trace_get(in);
    x->fd2 = (int32_t)((uint32_t)s->extra.fd2 + (uint32_t)amph_trace_unfolded(amph_trace_get(in)));
    x->file2 = s->extra.file2;
    amph_trace_get_raw(in, &other, 1);
    if (other)
        amph_trace_get_raw(in, &x->file2, sizeof x->file2);

    s->extra = *x;
}

bool amph_trace_decode_former(const uint8_t *bytes, size_t len, union amph_trace_slot *slots,
                              size_t n)
{
    struct amph_trace_input in = { bytes, bytes + len, true };
    struct state s;

    memset(&s, 0, sizeof s);
    for (size_t i = 0; in.ok && i < n; i++) {
        uint64_t mask = amph_trace_get(&in);

        memset(&slots[i], 0, sizeof slots[i]);
        if (mask & RAW)
            amph_trace_get_raw(&in, &slots[i], sizeof slots[i]);
        else if (mask & EXTRA)
            get_extra(&s, &in, &slots[i].extra);
        else
            get_call(&s, &in, (unsigned)mask, &slots[i].call);
    }

    return in.ok && in.at == in.end;
}
