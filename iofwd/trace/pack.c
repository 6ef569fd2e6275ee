/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The compressed form of a recorded file; see pack.h.
 *
 * Layer: iofwd (trace).  Thread rule: see pack.h.
 *
 * The file begins with the magic number, the bytes of the compressed header, and these.  Empty slots are
 * left out.  A block has up to BLOCK slots: three words of 32 bits (slots, bytes of the
 * columns, bytes compressed) and the compressed columns.  The columns are preceded by their lengths.
 */
#include "iofwd/trace/pack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/format.h"
#include "iofwd/trace/numbers.h"
#include "iofwd/trace/unroll.h"

bool amph_trace_is_packed(const void *bytes, size_t len)
{
    const char *magic = bytes;

    return len >= 8 && memcmp(magic, AMPH_TRACE_PACKED, 7) == 0 &&
           magic[7] >= '0' + AMPH_TRACE_OLDEST && magic[7] <= '0' + AMPH_TRACE_VERSION;
}

#ifdef HAVE_ZSTD
#include <zstd.h>

enum {
    BLOCK = 1 << 16, /* slots */
    RECENT = 64,     /* files that a number may refer back to */
    LEVEL = 9,
    BLOCK_HEAD = 12,
    HEAD = 12 /* magic number and length of the header */
};

enum column {
    WORDS,
    ERRORS,
    BITS,
    STARTS,
    LASTS,
    RESULTS,
    OFFSETS,
    LENGTHS,
    FDS,
    FLAGS,
    FILES,
    NEW_FILES,
    OTHERS,
    FORMER_COLUMNS, /* of version 2, which keeps extras as they are */
    EXTRA_STARTS = FORMER_COLUMNS,
    SERVER_TIMES,
    SERVERS,
    REQUESTS,
    FDS2,
    QUEUE_TIMES, /* from version 4 on */
    COLUMNS
};

enum {
    WIDEST = 64, /* bytes that one slot adds to one column, at most */
    COLUMN_HEAD = COLUMNS * 4,
    CONTEXTS = 64,
    EXTRA_WORD = AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0)
};

/* The values of the last call of a name on a descriptor. */
struct context {
    uint64_t offset, result, length;
    uint32_t flags;
};

/* The values of the previous slots. */
struct before {
    unsigned version; /* 2 has one context for all calls */
    struct context of[CONTEXTS];
    uint64_t start, base; /* of the last call, and its end */
    uint32_t fd, word;
    struct amph_trace_extra extra;
    uint64_t recent[RECENT]; /* the files, the oldest is overwritten first */
    unsigned nrecent;
};

static struct context *context_of(struct before *b, uint32_t word, uint32_t fd)
{
    return &b->of[b->version == AMPH_TRACE_OLDEST ? 0 : (word ^ word >> 6 ^ fd * 5) % CONTEXTS];
}

static void remember(struct before *b, struct context *to, const struct amph_trace_call *c)
{
    to->result = (uint64_t)c->result;
    /* the offset of the next call if the calls are consecutive */
    to->offset = (uint64_t)c->offset + (c->has & AMPH_TRACE_HAS_OFFSET ? c->length : 0);
    to->length = c->length;
    to->flags = c->flags;
    b->start = c->start_ns;
    b->base = c->end_ns;
    b->fd = (uint32_t)c->fd;
}

/* ---- writing ---- */

struct writer {
    uint8_t *at[COLUMNS], *from[COLUMNS];
};

static void put(struct writer *w, enum column c, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *w->at[c]++ = (uint8_t)(value | 128);

    *w->at[c]++ = (uint8_t)value;
}

static void put_bytes(struct writer *w, enum column c, const void *bytes, size_t len)
{
    memcpy(w->at[c], bytes, len);
    w->at[c] += len;
}

static void put_file(struct writer *w, struct before *b, uint64_t file)
{
    for (unsigned back = 1; back <= RECENT && back <= b->nrecent; back++)
        if (b->recent[(b->nrecent - back) % RECENT] == file) {
            put(w, FILES, back);
            return;
        }

    put(w, FILES, 0);
    put_bytes(w, NEW_FILES, &file, sizeof file);
    b->recent[b->nrecent++ % RECENT] = file;
}

static void put_extra(struct writer *w, struct before *b, const struct amph_trace_extra *x)
{
    put(w, EXTRA_STARTS, amph_trace_folded(x->start_ns - b->start));
    put(w, SERVER_TIMES, x->server_ns);
    put(w, QUEUE_TIMES, x->queue_ns);
    put(w, SERVERS, x->server ^ b->extra.server);
    put(w, REQUESTS, x->requests);
    put(w, FDS2,
        amph_trace_folded((uint64_t)(int64_t)(int32_t)((uint32_t)x->fd2 - (uint32_t)b->extra.fd2)));
    put_file(w, b, x->file2);
    b->extra = *x;
}

static void put_slot(struct writer *w, struct before *b, const union amph_trace_slot *slot)
{
    const struct amph_trace_call *c = &slot->call;

    put(w, WORDS, amph_trace_folded((uint64_t)(int64_t)(int32_t)(c->commit - b->word)));
    b->word = c->commit;
    if (c->commit == EXTRA_WORD) {
        put_extra(w, b, &slot->extra);
        return;
    }

    if (c->commit >> 24 != AMPH_TRACE_CALL) {
        put_bytes(w, OTHERS, (const char *)slot + 4, sizeof *slot - 4);
        return;
    }

    struct context *of = context_of(b, c->commit, (uint32_t)c->fd);

    put(w, ERRORS, c->err);
    put_bytes(w, BITS, &c->side, 1);
    put_bytes(w, BITS, &c->has, 1);
    put(w, STARTS, amph_trace_folded(c->start_ns - b->base));
    put(w, LASTS, amph_trace_folded(c->end_ns - c->start_ns));
    put(w, RESULTS, amph_trace_folded((uint64_t)c->result - of->result));
    put(w, OFFSETS, amph_trace_folded((uint64_t)c->offset - of->offset));
    put(w, LENGTHS, amph_trace_folded(c->length - of->length));
    put(w, FDS, amph_trace_folded((uint64_t)(int64_t)(int32_t)((uint32_t)c->fd - b->fd)));
    put(w, FLAGS, c->flags ^ of->flags);
    put_file(w, b, c->file);
    remember(b, of, c);
}

struct output {
    uint8_t *bytes;
    size_t len, room;
};

static bool reserve(struct output *out, size_t more)
{
    if (out->len + more <= out->room)
        return true;

    size_t room = (out->len + more) * 2;
    uint8_t *longer = realloc(out->bytes, room);

    if (!longer)
        return false;

    out->bytes = longer;
    out->room = room;
    return true;
}

/* With a checksum.  0: there is not enough memory. */
static size_t compress(void *to, size_t room, const void *from, size_t len)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t n = 0;

    if (context && !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL)) &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)))
        n = ZSTD_compress2(context, to, room, from, len);

    ZSTD_freeCCtx(context);
    return ZSTD_isError(n) ? 0 : n;
}

static bool put_block(struct output *out, const union amph_trace_slot *slots, size_t n,
                      uint8_t *work, uint8_t *joined)
{
    struct writer w;
    struct before before = { 0 };
    uint32_t lengths[COLUMNS];
    size_t total = COLUMN_HEAD;

    for (int c = 0; c < COLUMNS; c++)
        w.at[c] = w.from[c] = work + (size_t)c * n * WIDEST;

    for (size_t i = 0; i < n; i++)
        put_slot(&w, &before, &slots[i]);

    for (int c = 0; c < COLUMNS; c++) {
        lengths[c] = (uint32_t)(w.at[c] - w.from[c]);
        memcpy(joined + total, w.from[c], lengths[c]);
        total += lengths[c];
    }

    memcpy(joined, lengths, COLUMN_HEAD);

    size_t bound = ZSTD_compressBound(total);

    if (!reserve(out, BLOCK_HEAD + bound))
        return false;

    size_t z = compress(out->bytes + out->len + BLOCK_HEAD, bound, joined, total);

    if (!z)
        return false;

    uint32_t head[3] = { (uint32_t)n, (uint32_t)total, (uint32_t)z };

    memcpy(out->bytes + out->len, head, BLOCK_HEAD);
    out->len += BLOCK_HEAD + z;
    return true;
}

/* bytes: a header and slots.  The compressed header says how many of them follow, and how many were
 * missing. */
static bool put_header(struct output *out, const void *bytes, size_t len)
{
    struct amph_trace_header h;
    char whole[AMPH_TRACE_HEADER];
    uint64_t slots = (len - AMPH_TRACE_HEADER) / AMPH_TRACE_SLOT;
    uint64_t used = 0;
    uint32_t word;

    for (uint64_t i = 0; i < slots; i++) {
        memcpy(&word, (const char *)bytes + AMPH_TRACE_HEADER + i * AMPH_TRACE_SLOT, sizeof word);
        used += word != 0;
    }

    memcpy(&h, bytes, sizeof h);
    h.flushed = used + (h.flushed > slots ? h.flushed - slots : 0);
    memcpy(whole, bytes, sizeof whole);
    memcpy(whole, &h, sizeof h);

    size_t z = compress(out->bytes + HEAD, out->room - HEAD, whole, sizeof whole);
    uint32_t z_len = (uint32_t)z;

    if (!z)
        return false;

    memcpy(out->bytes, AMPH_TRACE_PACKED, 8);
    memcpy(out->bytes + 8, &z_len, sizeof z_len);
    out->len = HEAD + z;
    return true;
}

/* bytes: a header and slots. */
static bool pack_row(const void *bytes, size_t len, void **packed_p, size_t *packed_len_p,
                     char *why, size_t why_len)
{
    struct output out = { 0 };
    size_t slots = len / AMPH_TRACE_SLOT < BLOCK ? len / AMPH_TRACE_SLOT + 1 : (size_t)BLOCK;
    union amph_trace_slot *block = malloc(slots * sizeof *block);
    uint8_t *work = malloc(COLUMNS * slots * WIDEST);
    uint8_t *joined = malloc(COLUMNS * slots * WIDEST + COLUMN_HEAD);
    bool ok = block && work && joined && reserve(&out, len / 8 + 65536);
    size_t n = 0;

    if (ok)
        ok = put_header(&out, bytes, len);

    for (size_t at = AMPH_TRACE_HEADER; ok && at + sizeof *block <= len; at += sizeof *block) {
        memcpy(&block[n], (const char *)bytes + at, sizeof *block);
        n += block[n].commit != 0;
        if (n == BLOCK) {
            ok = put_block(&out, block, n, work, joined);
            n = 0;
        }
    }

    if (ok && n)
        ok = put_block(&out, block, n, work, joined);

    free(block);
    free(work);
    free(joined);
    if (!ok) {
        free(out.bytes);
        snprintf(why, why_len, "there is not enough memory");
        return false;
    }

    *packed_p = out.bytes;
    *packed_len_p = out.len;
    return true;
}

bool amph_trace_pack(const void *bytes, size_t len, void **packed_p, size_t *packed_len_p,
                     char *why, size_t why_len)
{
    struct amph_trace_header h = { 0 };
    void *row;
    size_t row_len;

    if (len >= AMPH_TRACE_HEADER)
        memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, AMPH_TRACE_MAGIC, sizeof h.magic) != 0) {
        snprintf(why, why_len, "it is no file of recorded calls");
        return false;
    }

    if (!h.ring_slots)
        return pack_row(bytes, len, packed_p, packed_len_p, why, why_len);
    if (!amph_trace_unroll(bytes, len, &row, &row_len)) {
        snprintf(why, why_len, "there is not enough memory");
        return false;
    }

    bool ok = pack_row(row, row_len, packed_p, packed_len_p, why, why_len);

    free(row);
    return ok;
}

/* ---- reading: nothing of the bytes is trusted ---- */

struct reader {
    const uint8_t *at[COLUMNS], *end[COLUMNS];
    bool ok;
};

static uint64_t get(struct reader *r, enum column c)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at[c] == r->end[c])
            break;

        uint8_t byte = *r->at[c]++;

        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }

    r->ok = false;
    return 0;
}

static void get_bytes(struct reader *r, enum column c, void *bytes, size_t len)
{
    if ((size_t)(r->end[c] - r->at[c]) < len) {
        r->ok = false;
        memset(bytes, 0, len);
        return;
    }

    memcpy(bytes, r->at[c], len);
    r->at[c] += len;
}

static uint64_t get_file(struct reader *r, struct before *b)
{
    uint64_t back = get(r, FILES), file;

    if (back > RECENT || back > b->nrecent) {
        r->ok = false;
        return 0;
    }

    if (back)
        return b->recent[(b->nrecent - back) % RECENT];

    get_bytes(r, NEW_FILES, &file, sizeof file);
    b->recent[b->nrecent++ % RECENT] = file;
    return file;
}

static void get_extra(struct reader *r, struct before *b, struct amph_trace_extra *x)
{
    x->start_ns = b->start + amph_trace_unfolded(get(r, EXTRA_STARTS));
    x->server_ns = get(r, SERVER_TIMES);
    if (b->version >= AMPH_TRACE_WITH_QUEUES)
        x->queue_ns = get(r, QUEUE_TIMES);

    x->server = b->extra.server ^ (uint32_t)get(r, SERVERS);
    x->requests = (uint32_t)get(r, REQUESTS);
    x->fd2 = (int32_t)((uint32_t)b->extra.fd2 + (uint32_t)amph_trace_unfolded(get(r, FDS2)));
    x->file2 = get_file(r, b);
    b->extra = *x;
}

static void get_slot(struct reader *r, struct before *b, union amph_trace_slot *slot)
{
    struct amph_trace_call *c = &slot->call;

    memset(slot, 0, sizeof *slot);
    c->commit = b->word + (uint32_t)amph_trace_unfolded(get(r, WORDS));
    b->word = c->commit;
    if (c->commit == EXTRA_WORD && b->version != AMPH_TRACE_OLDEST) {
        get_extra(r, b, &slot->extra);
        return;
    }

    if (c->commit >> 24 != AMPH_TRACE_CALL) {
        get_bytes(r, OTHERS, (char *)slot + 4, sizeof *slot - 4);
        return;
    }

    c->fd = (int32_t)(b->fd + (uint32_t)amph_trace_unfolded(get(r, FDS)));

    struct context *of = context_of(b, c->commit, (uint32_t)c->fd);

    c->err = (uint16_t)get(r, ERRORS);
    get_bytes(r, BITS, &c->side, 1);
    get_bytes(r, BITS, &c->has, 1);
    c->start_ns = b->base + amph_trace_unfolded(get(r, STARTS));
    c->end_ns = c->start_ns + amph_trace_unfolded(get(r, LASTS));
    c->result = (int64_t)(of->result + amph_trace_unfolded(get(r, RESULTS)));
    c->offset = (int64_t)(of->offset + amph_trace_unfolded(get(r, OFFSETS)));
    c->length = of->length + amph_trace_unfolded(get(r, LENGTHS));
    c->flags = of->flags ^ (uint32_t)get(r, FLAGS);
    c->file = get_file(r, b);
    remember(b, of, c);
}

/* Bytes before the columns. */
static size_t column_head(unsigned version)
{
    unsigned columns = COLUMNS;

    if (version < AMPH_TRACE_WITH_QUEUES)
        columns = version == AMPH_TRACE_OLDEST ? (unsigned)FORMER_COLUMNS : (unsigned)QUEUE_TIMES;

    return columns * sizeof(uint32_t);
}

static bool get_block(struct output *out, const uint8_t *bytes, const uint32_t head[3],
                      unsigned version)
{
    size_t room = (size_t)head[1];
    size_t before_columns = column_head(version);
    uint32_t lengths[COLUMNS] = { 0 };
    struct reader r = { .ok = true };
    struct before before = { .version = version };
    uint8_t *joined = malloc(room + 1);

    if (!joined || ZSTD_decompress(joined, room, bytes, head[2]) != room) {
        free(joined);
        return false;
    }

    memcpy(lengths, joined, before_columns);

    const uint8_t *at = joined + before_columns;
    size_t left = room - before_columns;

    for (int c = 0; c < COLUMNS && r.ok; c++) {
        r.ok = lengths[c] <= left;
        if (!r.ok)
            break;

        r.at[c] = at;
        r.end[c] = at += lengths[c];
        left -= lengths[c];
    }

    for (uint32_t i = 0; i < head[0] && r.ok; i++) {
        union amph_trace_slot slot;

        get_slot(&r, &before, &slot);
        memcpy(out->bytes + out->len, &slot, sizeof slot);
        out->len += sizeof slot;
    }

    free(joined);
    return r.ok;
}

static bool says_slots(const void *header)
{
    struct amph_trace_header h;

    memcpy(&h, header, sizeof h);
    return h.flushed > 0;
}

bool amph_trace_unpack(const void *bytes, size_t len, void **plain_p, size_t *plain_len_p,
                       char *why, size_t why_len)
{
    const uint8_t *in = bytes;
    struct output out = { 0 };
    uint32_t header_len = 0;
    bool ok = len >= HEAD && reserve(&out, AMPH_TRACE_HEADER);
    unsigned version = ok ? (unsigned)in[7] - '0' : 0;
    size_t whole = 0; /* of out, up to the last block that is not damaged */

    if (ok) {
        memcpy(&header_len, in + 8, sizeof header_len);
        ok = header_len <= len - HEAD && ZSTD_decompress(out.bytes, AMPH_TRACE_HEADER, in + HEAD,
                                                         header_len) == AMPH_TRACE_HEADER;
        out.len = AMPH_TRACE_HEADER;
    }

    for (size_t at = HEAD + header_len; ok && at < len;) {
        uint32_t head[3];

        ok = len - at >= BLOCK_HEAD;
        if (!ok)
            break;

        memcpy(head, in + at, BLOCK_HEAD);
        at += BLOCK_HEAD;
        ok = head[0] <= BLOCK && head[1] >= column_head(version) &&
             head[1] <= (size_t)COLUMNS * BLOCK * WIDEST + COLUMN_HEAD && head[2] <= len - at &&
             reserve(&out, (size_t)head[0] * AMPH_TRACE_SLOT) &&
             get_block(&out, in + at, head, version);
        at += head[2];
        whole = ok ? out.len : whole;
    }

    /* the header may say how many slots are missing then */
    if (!ok && whole && says_slots(out.bytes)) {
        out.len = whole;
        ok = true;
    }

    if (!ok) {
        free(out.bytes);
        snprintf(why, why_len, "its compressed part is damaged, or there is not enough memory");
        return false;
    }

    *plain_p = out.bytes;
    *plain_len_p = out.len;
    return true;
}

#else

bool amph_trace_pack(const void *bytes, size_t len, void **packed_p, size_t *packed_len_p,
                     char *why, size_t why_len)
{
    snprintf(why, why_len, "this iofwd-trace was built without libzstd (libzstd-dev)");
    return false;
}

bool amph_trace_unpack(const void *bytes, size_t len, void **plain_p, size_t *plain_len_p,
                       char *why, size_t why_len)
{
    snprintf(why, why_len,
             "it is compressed, and this iofwd-trace was built without libzstd (libzstd-dev)");
    return false;
}

#endif
