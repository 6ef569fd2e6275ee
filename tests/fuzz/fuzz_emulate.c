/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of put and get over messages: a peer's requests and answers, while transfers of ours
 * are under way.  Run by tests/fuzz/fuzz.sh. An input is a row of messages: code, length, and the
 * bytes of each; the key of our memory is put in where the first byte asks for it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "conduits/emulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    FRAGMENT = 256,
    PEERS = 2
};

/* The conduit below: takes everything, sends nothing. */
static struct amph_upcalls below_up;
static void *below_ctx;
static unsigned sends;

static enum amph_status below_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                   const struct amph_am *am, struct amph_op *lc)
{
    static volatile uint8_t sink;

    for (uint32_t i = 0; i < am->nbytes; i++)
        sink ^= ((const uint8_t *)am->payload)[i];

    return ++sends % 5 == 0 ? AMPH_AGAIN : AMPH_OK;
}

static enum amph_status below_add_peer(struct amph_cx *cx, uint32_t peer,
                                       const struct amph_peer_spec *spec)
{
    return AMPH_OK;
}

static void below_del_peer(struct amph_cx *cx, uint32_t peer)
{
}

static unsigned below_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    return 0;
}

static void below_close(struct amph_cx *cx)
{
    free(cx);
}

static enum amph_status below_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p);
static const struct amph_conduit_ops below = { .name = "below",
                                               .open = below_open,
                                               .close = below_close,
                                               .add_peer = below_add_peer,
                                               .del_peer = below_del_peer,
                                               .peer_gone = amph_conduit_no_peer_gone,
                                               .am_send = below_send,
                                               .progress = below_progress,
                                               .tick = amph_conduit_no_tick,
                                               .flush = amph_conduit_no_flush,
                                               .counts = amph_conduit_no_counts };
static enum amph_status below_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    struct amph_cx *cx = calloc(1, sizeof *cx);

    cx->ops = &below;
    cx->cfg = *cfg;
    cx->caps.max_medium = FRAGMENT;
    below_up = *cfg->upcalls;
    below_ctx = cfg->up;
    *cx_p = cx;

    return AMPH_OK;
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
}

static void on_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
}

static void op_done(struct amph_op *op, enum amph_status st)
{
}

static const struct amph_upcalls upcalls = { on_am, on_error };
static struct amph_op op = { op_done };

static void message(struct amph_cx *cx, bool beside, const uint8_t *at, size_t len, unsigned code,
                    uint32_t peer, uint64_t key)
{
    /* exactly as long, so that a sanitizer sees each byte too many */
    uint8_t *copy = malloc(len ? len : 1);

    memcpy(copy, at, len);
    if ((code & 128) && len >= 8) {
        key = amph_le64(key);
        memcpy(copy, &key, sizeof key);
    }

    struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                          .handler = (uint8_t)(AMPH_EMULATE_FIRST + code % 8),
                          .nbytes = (uint32_t)len,
                          .payload = copy };
    enum amph_lane lane = code & 64 ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST;

    if (beside)
        amph_conduit_emulate_take(cx, peer, lane, &am);
    else
        below_up.on_am(below_ctx, peer, lane, &am);

    free(copy);
}

/* beside: put beside the conduit instead of laid over it. */
static void run(const uint8_t *bytes, size_t len, bool beside)
{
    static const struct amph_cx_config cfg = { .name = "fuzz",
                                               .max_peers = PEERS,
                                               .upcalls = &upcalls };
    struct amph_cx *cx;
    struct amph_cx *inner = NULL;
    struct amph_mem mem = { 0 };
    struct amph_rmem rmem;
    uint8_t *memory = malloc(600);
    uint8_t *local = malloc(1000);

    memset(local, 1, 1000);
    memset(memory, 2, 600);
    if (beside && below_open(&cfg, &inner) != AMPH_OK)
        abort();

    enum amph_status st = beside ? amph_conduit_emulate_beside(inner, NULL, &cx)
                                 : amph_conduit_emulate_open(&below, &cfg, &cx);

    if (st != AMPH_OK || cx->ops->mem_reg(cx, memory, 600, -1, 0, &mem) != AMPH_OK)
        abort();

    uint64_t key = 0;

    if (cx->ops->mem_import(cx, 0, mem.key, mem.key_len, &rmem) == AMPH_OK)
        key = rmem.rkey;

    cx->ops->get(cx, 0, &rmem, 0, local, 1000, &op);
    cx->ops->put(cx, 1, &rmem, 0, local, 1000, NULL, &op);
    if (len > 0 && len <= sizeof mem.key)
        cx->ops->mem_import(cx, 0, bytes, len, &rmem);

    while (len >= 3) {
        size_t n = bytes[1] | (size_t)(bytes[2] & 3) << 8;

        n = n < len - 3 ? n : len - 3;
        message(cx, beside, bytes + 3, n, bytes[0], bytes[2] >> 7, key);
        if (bytes[2] & 64)
            cx->ops->progress(cx, 3, 16);

        bytes += 3 + n;
        len -= 3 + n;
    }

    if (beside)
        amph_conduit_emulate_peer_gone(cx, 1);

    cx->ops->mem_dereg(cx, &mem);
    cx->ops->close(cx);
    if (beside)
        below_close(inner);

    free(memory);
    free(local);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    run(bytes, len, false);
    run(bytes, len, true);
    return 0;
}
