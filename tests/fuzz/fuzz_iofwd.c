/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of iofwd's decoders (requests, replies, control frames, HELLO).  libFuzzer: compile with
 * clang -fsanitize=fuzzer; the same function is driven by tests/unit/unit_iofwd_wire.c with bytes
 * of a fixed sequence.
 */
#include "tests/fuzz/fuzz_iofwd.h"

#include <stdlib.h>
#include <string.h>

#include "iofwd/server/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct amph_server_handle handle = {
    .number = FUZZ_HANDLE, .progress.nholders = 1, .fd = -1, .regular = true
};

static struct amph_server_handle *handles[1] = { &handle };
static struct amph_server server = { .progress.handle = handles,
                                     .progress.nslots = 1,
                                     .client_files = 1 };
static uint8_t area[4096], segment[2048], received[2048];
static struct amph_server_peer peer = {
    .number = FUZZ_CLIENT,
    .receive_area = { .base = received, .len_bytes = sizeof received },
    .attached = true,
    .cookie_in = FUZZ_COOKIE,
    .has_area = true,
    .part_at = 1024,
    .part_len = 2048,
    .area = { .local = area, .len_bytes = sizeof area },
    .has_segment = true,
    .segment = { .local = segment, .len_bytes = sizeof segment }
};

static void touch_rows(const struct amph_server_request *rq)
{
    struct amph_fwd_view s;
    uint64_t sum = 0;
    uint64_t before = 0;

    if (!amph_fwd_get_view(rq->u.pwritej.shape, rq->u.pwritej.shape_len, &s))
        abort();

    for (uint32_t i = 0; i < s.nrows; i++) {
        struct amph_fwd_extent row = amph_fwd_view_extent(&s, i);
        uint64_t last = row.at + (uint64_t)(row.count - 1) * row.stride;

        if (row.count == 0 || row.at < before || last + row.len > rq->u.pwritej.len ||
            (row.count > 1 && row.stride < row.len))
            abort();

        before = last + row.len;
        sum += (uint64_t)row.len * row.count;
    }

    if (sum != rq->bulk.len)
        abort();
}

/* Every byte that the request claims must be readable. */
static unsigned touch(const struct amph_server_request *rq)
{
    unsigned sum = 0;
    const uint8_t *at = NULL;

    if (rq->id == AMPH_FWD_WRITE)
        at = rq->u.write.data;

    if (rq->id == AMPH_FWD_PWRITE)
        at = rq->u.pwrite.data;

    if (rq->id == AMPH_FWD_PWRITEJ)
        at = rq->u.pwritej.data;

    /* what has been taken must lie within its extent, row by row */
    if (amph_server_collective_is(rq->id))
        touch_rows(rq);

    if (rq->bulk.where == FWD_AREA)
        at = area + peer.part_at + rq->bulk.at;

    if (rq->bulk.where == FWD_SEGMENT)
        at = segment + rq->bulk.at;

    if (rq->bulk.where == FWD_RECEIVED && at != received + rq->bulk.at)
        abort();

    if ((rq->bulk.where == FWD_AREA &&
         (rq->bulk.at > peer.part_len || rq->bulk.len > peer.part_len - rq->bulk.at)) ||
        (rq->bulk.where == FWD_SEGMENT &&
         (rq->bulk.at > sizeof segment || rq->bulk.len > sizeof segment - rq->bulk.at)))
        abort();

    for (uint32_t i = 0; at && i < rq->bulk.len; i++)
        sum += at[i];

    for (unsigned i = 0; i < rq->desc->nargs; i++) {
        const char *const *text = (const char *const *)((const char *)&rq->u +
                                                        rq->desc->arg[i].server_at);
        if (rq->desc->arg[i].word == FWD_IN_TEXT)
            sum += (unsigned)strlen(*text);

        if (rq->desc->arg[i].word == FWD_IN_PATH)
            sum += (unsigned)strlen(text[1]);
    }

    return sum;
}

int fuzz_iofwd_feed(const uint8_t *bytes, size_t len)
{
    static volatile unsigned sink;

    /* exactly as long, so that a sanitizer sees each byte too many */
    uint8_t *copy = malloc(len ? len : 1);
    int good = 0;
    bool answer;

    memcpy(copy, bytes, len);

    struct amph_server_request *rq = calloc(1, sizeof *rq);

    if (amph_server_request_parse(&server, &peer, copy, len, rq, &answer) == 0 && rq->desc) {
        sink += touch(rq);
        good++;
    }

    free(rq);

    struct amph_rd r;
    struct amph_fwd_rep_head head;

    amph_rd_init(&r, copy, len);
    if (amph_fwd_get_rep_head(&r, &head)) {
        struct stat st;
        struct amph_fwd_args_fstat args = { .st = &st };

        good += amph_fwd_get_results(&r, &amph_fwd_calls[AMPH_FWD_FSTAT], &args, 0);
    }

    char entries[256];
    size_t n;

    amph_rd_init(&r, copy, len);
    sink += amph_fwd_get_dirents(&r, entries, sizeof entries, &n);

    struct amph_fwd_frame_in in;
    struct amph_fwd_hello h;
    struct amph_fwd_welcome wc;
    static const uint8_t key[AMPH_KEY_BYTES], nonce[FWD_NONCE_BYTES];

    if (amph_fwd_frame_parse(copy, len, &in, &n) == AMPH_OK) {
        good += amph_fwd_hello_parse(in.body, in.len, &h, key, nonce) == AMPH_OK;
        good += amph_fwd_welcome_parse(in.body, in.len, &wc, key, nonce, nonce) == AMPH_OK;
    }

    free(copy);
    return good;
}

/* As every kind of result is laid out in a call's record: a pointer, and for those of any length
 * how much room there is. */
struct result {
    void *at;
    size_t cap;
    size_t *len;
};

static bool feed_reply(enum amph_fwd_id id, const uint8_t *bytes, size_t len)
{
    union amph_fwd_args args;
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];

    enum {
        ROOM = 512
    };

    uint8_t *room[6] = { NULL };
    size_t got[6] = { 0 };
    struct amph_rd r;

    memset(&args, 0, sizeof args);
    for (unsigned i = 0; i < desc->nargs; i++) {
        uint8_t word = desc->arg[i].word;
        struct result *out = (struct result *)((char *)&args + desc->arg[i].client_at);

        if (word < FWD_OUT_NEWFILE)
            continue;

        out->at = room[i] = malloc(ROOM);
        if (word == FWD_OUT_STRING || word == FWD_OUT_DIRENTS || word == FWD_OUT_BUF) {
            out->cap = 100;
            out->len = &got[i];
        }
    }

    amph_rd_init(&r, bytes, len);

    bool good = amph_fwd_get_results(&r, desc, &args, 0);

    for (unsigned i = 0; i < 6; i++)
        free(room[i]);

    return good;
}

int fuzz_iofwd_call(unsigned call, const uint8_t *bytes, size_t len)
{
    static volatile unsigned sink;
    enum amph_fwd_id id = (enum amph_fwd_id)(call % AMPH_FWD_NCALLS);
    size_t n = FWD_REQ_HEAD_BYTES + len;
    uint8_t *msg = malloc(n);
    struct amph_server_request *rq = calloc(1, sizeof *rq);
    struct amph_wr w;
    bool answer;
    int good = 0;

    amph_wr_init(&w, msg, n);
    amph_fwd_put_req_head(&w, &(struct amph_fwd_req_head){ .magic = FWD_MAGIC,
                                                           .version = FWD_VERSION,
                                                           .service = amph_fwd_calls[id].service,
                                                           .length = (uint32_t)n,
                                                           .client = FUZZ_CLIENT,
                                                           .seq = call,
                                                           .cookie = FUZZ_COOKIE });
    memcpy(msg + FWD_REQ_HEAD_BYTES, bytes, len);

    if (amph_server_request_parse(&server, &peer, msg, n, rq, &answer) == 0 && rq->desc) {
        sink += touch(rq);
        good = 1;
    }

    free(rq);
    free(msg);

    uint8_t *body = malloc(len ? len : 1);

    memcpy(body, bytes, len);
    good |= feed_reply(id, body, len) ? 2 : 0;
    free(body);

    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len > 1)
        fuzz_iofwd_call(bytes[0], bytes + 1, len - 1);

    fuzz_iofwd_feed(bytes, len);
    return 0;
}
