/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of a recorded file; see stream.h.
 *
 * Layer: iofwd (trace).  Thread rule: see stream.h.
 *
 * A slot begins with a mask, which says what follows.  Numbers have 7 bits a byte, the lowest first;
 * differences have their sign in the lowest bit.
 */
#include "iofwd/trace/stream.h"

#include <string.h>

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
    BITS = 256, /* forwarded, and which members mean something */
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
    uint8_t forwarded, has;
};

struct state {
    struct context of[AMPH_TRACE_CONTEXTS];
    uint64_t start_ns, end_ns; /* of the last call */
    uint32_t word;
    struct amph_trace_extra extra; /* the last one */
};

static uint64_t folded(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unfolded(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

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
    to->forwarded = call->forwarded;
    to->has = call->has;
    s->word = call->commit;
    s->start_ns = call->start_ns;
    s->end_ns = call->end_ns;
}

/* ---- writing ---- */

static uint8_t *put(uint8_t *at, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *at++ = (uint8_t)(value | 128);

    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_raw(uint8_t *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_call(struct state *s, uint8_t *at, const struct amph_trace_call *call)
{
    struct context *c = context_of(s, call->commit);
    bool same_bits = call->forwarded == c->forwarded && call->has == c->has;
    unsigned mask = 0;

    mask |= (uint64_t)call->result != c->result ? RESULT : 0;
    mask |= (uint64_t)call->offset != next_offset(c) ? OFFSET : 0;
    mask |= call->length != c->length ? LENGTH : 0;
    mask |= call->file != c->file ? TARGET : 0;
    mask |= call->commit != s->word ? WORD : 0;
    mask |= call->fd != c->fd ? FD : 0;
    mask |= call->flags != c->flags ? FLAGS : 0;
    mask |= same_bits ? 0 : BITS;
    mask |= call->err != c->err ? ERROR : 0;

    at = put(at, mask);
    at = put(at, folded(call->start_ns - s->end_ns));
    at = put(at, folded(call->end_ns - call->start_ns));
    if (mask & WORD)
        at = put(at, folded((uint64_t)call->commit - s->word));
    if (mask & RESULT)
        at = put(at, folded((uint64_t)call->result - c->result));
    if (mask & OFFSET)
        at = put(at, folded((uint64_t)call->offset - next_offset(c)));
    if (mask & LENGTH)
        at = put(at, folded(call->length - c->length));
    if (mask & TARGET)
        at = put_raw(at, &call->file, sizeof call->file);
    if (mask & FD)
        at = put(at, folded((uint64_t)(int64_t)call->fd - (uint64_t)(int64_t)c->fd));
    if (mask & FLAGS)
        at = put(at, call->flags);
    if (mask & BITS) {
        *at++ = call->forwarded;
        *at++ = call->has;
    }

    if (mask & ERROR)
        at = put(at, call->err);

    remember(s, c, call);
    return at;
}

static uint8_t *put_extra(struct state *s, uint8_t *at, const struct amph_trace_extra *x)
{
    at = put(at, EXTRA);
    at = put(at, folded(x->start_ns - s->start_ns));
    at = put(at, x->server_ns);
    at = put(at, x->server ^ s->extra.server);
    at = put(at, x->requests);
    at = put(at, folded((uint64_t)(int64_t)x->fd2 - (uint64_t)(int64_t)s->extra.fd2));
    *at++ = x->file2 != s->extra.file2;
    if (x->file2 != s->extra.file2)
        at = put_raw(at, &x->file2, sizeof x->file2);

    s->extra = *x;
    return at;
}

size_t amph_trace_encode(const union amph_trace_slot *slots, size_t n, uint32_t lap, uint8_t *out,
                         uint32_t *slots_p)
{
    struct state s;
    uint8_t *at = out;
    uint32_t written = 0;

    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < n; i++) {
        union amph_trace_slot slot = slots[i];

        if (!(slot.commit >> 24) || (slot.commit & AMPH_TRACE_LAP) != lap)
            continue;

        slot.commit &= ~(uint32_t)AMPH_TRACE_LAP;
        written++;
        if (slot.commit >> 24 == AMPH_TRACE_CALL)
            at = put_call(&s, at, &slot.call);
        else if (slot.commit == AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0))
            at = put_extra(&s, at, &slot.extra);
        else
            at = put_raw(put(at, RAW), &slot, sizeof slot);
    }

    *slots_p = written;
    return (size_t)(at - out);
}

/* ---- reading ---- */

struct input {
    const uint8_t *at, *end;
    bool ok;
};

static uint64_t get(struct input *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;

        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }

    in->ok = false;
    return 0;
}

static void get_raw(struct input *in, void *bytes, size_t len)
{
    if ((size_t)(in->end - in->at) < len) {
        in->ok = false;
        memset(bytes, 0, len);
        return;
    }

    memcpy(bytes, in->at, len);
    in->at += len;
}

static void get_call(struct state *s, struct input *in, unsigned mask, struct amph_trace_call *call)
{
    uint64_t start = get(in);
    uint64_t lasts = get(in);

    call->start_ns = s->end_ns + unfolded(start);
    call->end_ns = call->start_ns + unfolded(lasts);
    call->commit = s->word + (mask & WORD ? (uint32_t)unfolded(get(in)) : 0);

    struct context *c = context_of(s, call->commit);

    call->result = (int64_t)(c->result + (mask & RESULT ? unfolded(get(in)) : 0));
    call->offset = (int64_t)(next_offset(c) + (mask & OFFSET ? unfolded(get(in)) : 0));
    call->length = c->length + (mask & LENGTH ? unfolded(get(in)) : 0);
    call->file = c->file;
    if (mask & TARGET)
        get_raw(in, &call->file, sizeof call->file);

    call->fd = (int32_t)((uint32_t)c->fd + (mask & FD ? (uint32_t)unfolded(get(in)) : 0));
    call->flags = mask & FLAGS ? (uint32_t)get(in) : c->flags;
    call->forwarded = c->forwarded;
    call->has = c->has;
    if (mask & BITS) {
        get_raw(in, &call->forwarded, 1);
        get_raw(in, &call->has, 1);
    }

    call->err = mask & ERROR ? (uint16_t)get(in) : c->err;
    remember(s, c, call);
}

static void get_extra(struct state *s, struct input *in, struct amph_trace_extra *x)
{
    uint8_t other = 0;

    x->commit = AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
    x->start_ns = s->start_ns + unfolded(get(in));
    x->server_ns = get(in);
    x->server = (uint32_t)get(in) ^ s->extra.server;
    x->requests = (uint32_t)get(in);
    x->fd2 = (int32_t)((uint32_t)s->extra.fd2 + (uint32_t)unfolded(get(in)));
    x->file2 = s->extra.file2;
    get_raw(in, &other, 1);
    if (other)
        get_raw(in, &x->file2, sizeof x->file2);

    s->extra = *x;
}

bool amph_trace_decode(const uint8_t *bytes, size_t len, union amph_trace_slot *slots, size_t n)
{
    struct input in = { bytes, bytes + len, true };
    struct state s;

    memset(&s, 0, sizeof s);
    for (size_t i = 0; in.ok && i < n; i++) {
        uint64_t mask = get(&in);

        memset(&slots[i], 0, sizeof slots[i]);
        if (mask & RAW)
            get_raw(&in, &slots[i], sizeof slots[i]);
        else if (mask & EXTRA)
            get_extra(&s, &in, &slots[i].extra);
        else
            get_call(&s, &in, (unsigned)mask, &slots[i].call);
    }

    return in.ok && in.at == in.end;
}
