/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of a recorded file; see stream.h.
 *
 * Layer: iofwd (trace).  Thread rule: see stream.h.
 *
 * A slot begins with a mask, which says what follows; doc/trace-format.md has the order.
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
    EXTRA = 64, /* the call's extra follows */
    FLAGS = 128,
    BITS = 256, /* the side, and which members mean something */
    ERROR = 512,
    RAW = 1024,   /* alone: another slot, as it is */
    OPEN = 2048,  /* it has no end */
    EARLY = 4096, /* it began before the call before had ended */
    OTHER = 8192  /* more than the server's time has changed in its extra */
};

/* Of an extra: what has changed. */
enum {
    SERVER = 1,
    REQUESTS = 2,
    FD2 = 4,
    TARGET2 = 8
};

enum {
    RECENT = 64 /* paths that a byte stands for */
};

/* What is known of the last call of a name on a descriptor. */
struct context {
    uint64_t result, offset, length, file;
    uint32_t flags;
    uint16_t err;
    uint8_t side, has;
    uint32_t next_word; /* of the call after it */
    int32_t next_fd;
};

struct state {
    struct context of[AMPH_TRACE_CONTEXTS];
    uint64_t recent[RECENT];
    unsigned version;              /* of the file */
    uint64_t base_ns;              /* when the last call was over, as a reader sees it */
    uint64_t span_ns;              /* of the last call, as a reader sees it */
    struct context *last;          /* of the last call */
    struct amph_trace_extra extra; /* the last one */
};

static void begin(struct state *s, unsigned version)
{
    memset(s, 0, sizeof *s);
    s->version = version;
    s->last = &s->of[0];
}

static struct context *context_of(struct state *s, uint32_t word, int32_t fd)
{
    uint32_t mixed = word ^ word >> 6 ^ (uint32_t)fd * 5;

    return &s->of[mixed % AMPH_TRACE_CONTEXTS];
}

/* The offset that follows on the last call's. */
static uint64_t next_offset(const struct context *c)
{
    return c->has & AMPH_TRACE_HAS_OFFSET ? c->offset + c->length : c->offset;
}

/* The offset as a difference from the next one: in units of the length if it is a multiple of it. */
static uint64_t offset_code(const struct context *c, const struct amph_trace_call *call)
{
    int64_t moved = (int64_t)((uint64_t)call->offset - next_offset(c));
    bool in_lengths = call->length > 1 && call->length <= INT64_MAX &&
                      moved % (int64_t)call->length == 0;
    int64_t steps = in_lengths ? moved / (int64_t)call->length : moved;

    return amph_trace_folded((uint64_t)steps) << 1 | in_lengths;
}

static uint64_t offset_of(const struct context *c, uint64_t code, uint64_t length)
{
    uint64_t steps = amph_trace_unfolded(code >> 1);

    return next_offset(c) + (code & 1 ? steps * length : steps);
}

static void remember(struct state *s, struct context *to, const struct amph_trace_call *call,
                     uint32_t word)
{
    to->result = (uint64_t)call->result;
    to->offset = (uint64_t)call->offset;
    to->length = call->length;
    to->file = call->file;
    to->flags = call->flags;
    to->err = call->err;
    to->side = call->side;
    to->has = call->has;
    s->last->next_word = word;
    s->last->next_fd = call->fd;
    s->last = to;
}

/* ---- writing ---- */

static uint8_t *put_target(struct state *s, uint8_t *at, uint64_t file)
{
    uint64_t *recent = &s->recent[file % RECENT];

    if (*recent == file) {
        *at++ = (uint8_t)(1 + file % RECENT);
        return at;
    }

    *recent = file;
    *at++ = 0;
    return amph_trace_put_raw(at, &file, sizeof file);
}

static uint8_t *put_start(const struct state *s, uint8_t *at, uint64_t ns)
{
    return amph_trace_put(at, ns < s->base_ns ? s->base_ns - ns : ns - s->base_ns);
}

/* A call of another kind than a forwarded one may contain others, and is as long as it was. */
static uint8_t *put_end(struct state *s, uint8_t *at, const struct amph_trace_call *call)
{
    bool is_cut = call->side == AMPH_TRACE_FORWARDED;
    uint64_t span_ns = call->end_ns - call->start_ns;
    uint64_t code = is_cut ? amph_trace_span_code(span_ns) : span_ns;

    s->base_ns = call->start_ns;
    s->span_ns = 0;
    if (!call->end_ns)
        return at;

    s->span_ns = is_cut ? amph_trace_span_ns(code) : span_ns;
    s->base_ns += s->span_ns;
    return amph_trace_put(at, code);
}

/* What the call has cost at the servers; see numbers.h. */
static uint8_t *put_times(const struct state *s, uint8_t *at, const struct amph_trace_extra *x)
{
    uint64_t code = amph_trace_times_code(x->server_ns, x->queue_ns, s->span_ns);

    at = amph_trace_put(at, code);
    if (code != AMPH_TRACE_TIMES_ALONE)
        return at;

    at = amph_trace_put(at, amph_trace_span_code(x->server_ns));
    return amph_trace_put(at, amph_trace_span_code(x->queue_ns));
}

static uint8_t *put_extra(struct state *s, uint8_t *at, const struct amph_trace_extra *x,
                          unsigned changed)
{
    struct amph_trace_extra *last = &s->extra;

    at = put_times(s, at, x);
    if (changed)
        *at++ = (uint8_t)changed;
    if (changed & SERVER)
        at = amph_trace_put(at, x->server ^ last->server);
    if (changed & REQUESTS)
        at = amph_trace_put(at, x->requests);
    if (changed & FD2)
        at = amph_trace_put(at, amph_trace_folded((uint64_t)(int64_t)x->fd2));
    if (changed & TARGET2)
        at = put_target(s, at, x->file2);

    *last = *x;
    return at;
}

static unsigned changed_of(const struct state *s, const struct amph_trace_extra *x)
{
    unsigned changed = 0;

    changed |= x->server != s->extra.server ? SERVER : 0;
    changed |= x->requests != s->extra.requests ? REQUESTS : 0;
    changed |= x->fd2 != s->extra.fd2 ? FD2 : 0;
    changed |= x->file2 != s->extra.file2 ? TARGET2 : 0;
    return changed;
}

/* Is the call as predicted, except for its times? */
static bool is_predicted(const struct state *s, const struct context *c,
                         const struct amph_trace_call *call, uint32_t word)
{
    uint64_t differs = ((uint64_t)call->result ^ c->result) |
                       ((uint64_t)call->offset ^ next_offset(c)) | (call->length ^ c->length) |
                       (call->file ^ c->file);
    uint32_t differs_too = (word ^ s->last->next_word) | (uint32_t)(call->fd ^ s->last->next_fd) |
                           (call->flags ^ c->flags) | (uint32_t)(call->err ^ c->err) |
                           (uint32_t)(call->side ^ c->side) | (uint32_t)(call->has ^ c->has);

    return !(differs | differs_too) && call->end_ns && call->start_ns >= s->base_ns;
}

/* Writes such a call, which leaves only its offset to remember. */
static uint8_t *put_predicted(struct state *s, uint8_t *at, struct context *c,
                              const struct amph_trace_call *call,
                              const struct amph_trace_extra *extra)
{
    unsigned changed = extra ? changed_of(s, extra) : 0;

    at = amph_trace_put(at, (extra ? EXTRA : 0) | (changed ? OTHER : 0));
    at = put_start(s, at, call->start_ns);
    at = put_end(s, at, call);
    if (extra)
        at = put_extra(s, at, extra, changed);

    c->offset = (uint64_t)call->offset;
    s->last = c;
    return at;
}

/* word: the call's without its lap; extra: the call's, or NULL. */
static uint8_t *put_call(struct state *s, uint8_t *at, const struct amph_trace_call *call,
                         uint32_t word, const struct amph_trace_extra *extra)
{
    struct context *c = context_of(s, word, call->fd);

    if (is_predicted(s, c, call, word))
        return put_predicted(s, at, c, call, extra);

    unsigned changed = extra ? changed_of(s, extra) : 0;
    bool same_bits = call->side == c->side && call->has == c->has;
    unsigned mask = 0;

    mask |= (uint64_t)call->result != c->result ? RESULT : 0;
    mask |= (uint64_t)call->offset != next_offset(c) ? OFFSET : 0;
    mask |= call->length != c->length ? LENGTH : 0;
    mask |= call->file != c->file ? TARGET : 0;
    mask |= word != s->last->next_word ? WORD : 0;
    mask |= call->fd != s->last->next_fd ? FD : 0;
    mask |= extra ? EXTRA : 0;
    mask |= call->flags != c->flags ? FLAGS : 0;
    mask |= same_bits ? 0 : BITS;
    mask |= call->err != c->err ? ERROR : 0;
    mask |= call->end_ns ? 0 : OPEN;
    mask |= call->start_ns < s->base_ns ? EARLY : 0;
    mask |= changed ? OTHER : 0;

    at = amph_trace_put(at, mask);
    at = put_start(s, at, call->start_ns);
    if (mask & WORD)
        at = amph_trace_put(at, amph_trace_folded((uint64_t)word - s->last->next_word));
    if (mask & FD)
        at = amph_trace_put(at, amph_trace_folded((uint64_t)(int64_t)call->fd -
                                                  (uint64_t)(int64_t)s->last->next_fd));
    if (mask & RESULT)
        at = amph_trace_put(at, amph_trace_folded((uint64_t)call->result - c->result));
    if (mask & LENGTH)
        at = amph_trace_put(at, amph_trace_folded(call->length - c->length));
    if (mask & OFFSET)
        at = amph_trace_put(at, offset_code(c, call));
    if (mask & TARGET)
        at = put_target(s, at, call->file);
    if (mask & FLAGS)
        at = amph_trace_put(at, call->flags);
    if (mask & BITS) {
        *at++ = call->side;
        *at++ = call->has;
    }

    if (mask & ERROR)
        at = amph_trace_put(at, call->err);

    at = put_end(s, at, call);
    if (extra)
        at = put_extra(s, at, extra, changed);

    remember(s, c, call, word);
    return at;
}

/* Can the call be written as differences?  A damaged one may not. */
static bool can_differ(const struct amph_trace_call *call)
{
    return (!call->end_ns || call->end_ns >= call->start_ns) && call->offset > INT64_MIN / 16 &&
           call->offset < INT64_MAX / 16 && call->length < UINT64_MAX / 16;
}

static bool is_written(uint32_t word, uint32_t lap)
{
    return word >> 24 && (word & AMPH_TRACE_LAP) == lap;
}

/* The extra that follows on the call, or NULL. */
static const struct amph_trace_extra *extra_of(const struct amph_trace_call *call,
                                               const union amph_trace_slot *next, uint32_t lap)
{
    uint32_t word = AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0) | lap;

    return next->commit == word && next->extra.start_ns == call->start_ns ? &next->extra : NULL;
}

static uint8_t *put_as_it_is(uint8_t *at, const union amph_trace_slot *slot, uint32_t word)
{
    union amph_trace_slot copy = *slot;

    copy.commit = word;
    return amph_trace_put_raw(amph_trace_put(at, RAW), &copy, sizeof copy);
}

size_t amph_trace_encode(const union amph_trace_slot *slots, size_t n, uint32_t lap, uint8_t *out,
                         uint32_t *slots_p)
{
    struct state s;
    uint8_t *at = out;
    uint32_t written = 0;

    begin(&s, AMPH_TRACE_VERSION);
    for (size_t i = 0; i < n; i++) {
        const union amph_trace_slot *slot = &slots[i];
        uint32_t word = slot->commit & ~(uint32_t)AMPH_TRACE_LAP;

        if (!is_written(slot->commit, lap))
            continue;

        written++;
        if (word >> 24 == AMPH_TRACE_CALL && can_differ(&slot->call)) {
            const struct amph_trace_extra *extra = i + 1 < n
                                                       ? extra_of(&slot->call, &slots[i + 1], lap)
                                                       : NULL;

            at = put_call(&s, at, &slot->call, word, extra);
            written += extra != NULL;
            i += extra != NULL;
        } else
            at = put_as_it_is(at, slot, word);
    }

    *slots_p = written;
    return (size_t)(at - out);
}

/* ---- reading ---- */

static int32_t moved(int32_t from, uint64_t folded)
{
    return (int32_t)((uint32_t)from + (uint32_t)amph_trace_unfolded(folded));
}

static uint64_t get_target(struct state *s, struct amph_trace_input *in)
{
    uint8_t which = 0;
    uint64_t file;

    amph_trace_get_raw(in, &which, 1);
    if (which > RECENT) {
        in->ok = false;
        return 0;
    }

    if (which)
        return s->recent[which - 1];

    amph_trace_get_raw(in, &file, sizeof file);
    s->recent[file % RECENT] = file;
    return file;
}

static void get_end(struct state *s, struct amph_trace_input *in, unsigned mask,
                    struct amph_trace_call *call)
{
    s->base_ns = call->start_ns;
    s->span_ns = 0;
    if (mask & OPEN)
        return;

    uint64_t code = amph_trace_get(in);

    s->span_ns = call->side == AMPH_TRACE_FORWARDED ? amph_trace_span_ns(code) : code;
    s->base_ns += s->span_ns;
    call->end_ns = s->base_ns;
}

static void get_times(const struct state *s, struct amph_trace_input *in,
                      struct amph_trace_extra *x)
{
    uint64_t code = amph_trace_get(in);

    x->queue_ns = 0;
    if (s->version < AMPH_TRACE_WITH_QUEUES) {
        x->server_ns = amph_trace_span_ns(code);
        return;
    }

    if (!(code & 1)) {
        x->server_ns = amph_trace_span_ns_of(code >> 1, AMPH_TRACE_TIMES_BITS);
        return;
    }

    if (code == AMPH_TRACE_TIMES_ALONE) {
        x->server_ns = amph_trace_span_ns(amph_trace_get(in));
        x->queue_ns = amph_trace_span_ns(amph_trace_get(in));
        return;
    }

    if (code > AMPH_TRACE_TIMES_ALONE) {
        in->ok = false;
        return;
    }

    uint64_t parts = code >> 1;

    x->server_ns = amph_trace_of_parts(parts / (AMPH_TRACE_TIMES_PARTS + 1), s->span_ns);
    x->queue_ns = amph_trace_of_parts(parts % (AMPH_TRACE_TIMES_PARTS + 1), s->span_ns);
}

static void get_extra(struct state *s, struct amph_trace_input *in, bool other,
                      const struct amph_trace_call *call, struct amph_trace_extra *x)
{
    uint8_t changed = 0;

    *x = s->extra;
    x->commit = AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
    x->start_ns = call->start_ns;
    get_times(s, in, x);
    if (other)
        amph_trace_get_raw(in, &changed, 1);
    if (changed & SERVER)
        x->server ^= (uint32_t)amph_trace_get(in);
    if (changed & REQUESTS)
        x->requests = (uint32_t)amph_trace_get(in);
    if (changed & FD2)
        x->fd2 = moved(0, amph_trace_get(in));
    if (changed & TARGET2)
        x->file2 = get_target(s, in);

    s->extra = *x;
}

static void get_call(struct state *s, struct amph_trace_input *in, unsigned mask,
                     struct amph_trace_call *call)
{
    uint64_t gap_ns = amph_trace_get(in);

    call->start_ns = mask & EARLY ? s->base_ns - gap_ns : s->base_ns + gap_ns;
    call->commit = s->last->next_word +
                   (mask & WORD ? (uint32_t)amph_trace_unfolded(amph_trace_get(in)) : 0);
    call->fd = s->last->next_fd;
    if (mask & FD)
        call->fd = moved(call->fd, amph_trace_get(in));

    struct context *c = context_of(s, call->commit, call->fd);
    uint64_t result = mask & RESULT ? amph_trace_unfolded(amph_trace_get(in)) : 0;

    call->result = (int64_t)(c->result + result);
    call->length = c->length + (mask & LENGTH ? amph_trace_unfolded(amph_trace_get(in)) : 0);
    call->offset = (int64_t)(mask & OFFSET ? offset_of(c, amph_trace_get(in), call->length)
                                           : next_offset(c));
    call->file = mask & TARGET ? get_target(s, in) : c->file;
    call->flags = mask & FLAGS ? (uint32_t)amph_trace_get(in) : c->flags;
    call->side = c->side;
    call->has = c->has;
    if (mask & BITS) {
        amph_trace_get_raw(in, &call->side, 1);
        amph_trace_get_raw(in, &call->has, 1);
    }

    call->err = mask & ERROR ? (uint16_t)amph_trace_get(in) : c->err;
    get_end(s, in, mask, call);
    remember(s, c, call, call->commit);
}

bool amph_trace_decode(const uint8_t *bytes, size_t len, unsigned version,
                       union amph_trace_slot *slots, size_t n)
{
    struct amph_trace_input in = { bytes, bytes + len, true };
    struct state s;

    begin(&s, version);
    for (size_t i = 0; in.ok && i < n; i++) {
        unsigned mask = (unsigned)amph_trace_get(&in);

        memset(&slots[i], 0, sizeof slots[i]);
        if (mask & RAW) {
            amph_trace_get_raw(&in, &slots[i], sizeof slots[i]);
            continue;
        }

        get_call(&s, &in, mask, &slots[i].call);
        if (mask & EXTRA && i + 1 == n)
            return false;
        if (mask & EXTRA) {
            get_extra(&s, &in, mask & OTHER, &slots[i].call, &slots[i + 1].extra);
            i++;
        }
    }

    return in.ok && in.at == in.end;
}
