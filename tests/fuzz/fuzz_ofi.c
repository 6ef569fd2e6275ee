/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target of the messages of the libfabric conduits.  Run by tests/fuzz/fuzz.sh.  The first
 * byte says what is right in the input: 1, the cookie; 2, version and kind; 8, it is a message of pack.c;
 * 16, the key of its first put or get; 32: this process waits for gets, not for puts. */
#include "conduits/ofi/pack.c"
#include "conduits/ofi/rx.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    COOKIE = 77,
    KEY = 5,
    MEMORY_BYTES = 96
};

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    static volatile unsigned sum;
    const uint8_t *b = am->payload;

    for (unsigned i = 0; i < am->nargs; i++)
        sum += (unsigned)am->args[i];

    for (uint32_t i = 0; amph_ofi_kind_packs(am->kind) && i < am->nbytes; i++)
        sum += b[i];
}

static unsigned completed;

static void on_done(struct amph_op *op, enum amph_status st)
{
    completed++;
}

/* This process has a pack in flight, and memory which peers put to and get from. */
static void prepare(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg, struct amph_op *op, bool gets)
{
    static uint64_t dst;

    pthread_mutex_init(&cx->reg_lock, NULL);
    pthread_mutex_init(&cx->pack.lock, NULL);
    cx->regs = reg;
    reg->base = (uintptr_t)malloc(MEMORY_BYTES); /* whose end a sanitizer knows */
    cx->pack.answers_tail = &cx->pack.answers;

    struct amph_ofi_pack *pack = make_pack(cx, 0, gets ? GETS : PUTS);

    pack->piece[0].op = op;
    pack->piece[0].dst = &dst;
    pack->piece[0].len_bytes = sizeof dst;
    pack->answer_bytes = gets ? sizeof dst : 0;
    pack->count = 1;
    cx->pack.in_flight = pack;
    cx->pack.tail = &pack->next;
    completed = 0;
}

static void clean_up(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg)
{
    amph_ofi_pack_fail(cx, 0, AMPH_ERR_PEER);
    if (completed != 1 || cx->pack.nanswers || cx->pack.in_flight)
        abort();

    amph_ofi_pack_close(cx);
    free((void *)reg->base);
    pthread_mutex_destroy(&cx->pack.lock);
    pthread_mutex_destroy(&cx->reg_lock);
}

static void make_pack_message(struct amph_ofi_hdr *h, size_t len, bool right_key)
{
    h->kind = AMPH_AM_INTERNAL;
    h->handler = PUTS + h->handler % 4;

    const bool asks = h->handler == PUTS || h->handler == GETS;
    const size_t head = amph_ofi_head_len(asks ? PACK_ARGS : ANSWER_ARGS);

    h->nargs = asks ? PACK_ARGS : ANSWER_ARGS;
    h->lane = asks ? AMPH_LANE_REQUEST : AMPH_LANE_REPLY;
    if (asks && right_key && len >= head + sizeof(struct piece_head))
        ((struct piece_head *)(void *)((uint8_t *)h + head))->key = amph_le64(KEY);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct amph_upcalls upcalls = { on_am, NULL };
    static struct amph_ofi_peer peers[2] = { { .cookie_in = COOKIE, .state = OFI_PEER_UP } };
    struct amph_ofi_cx cx = { .base.cfg = { .name = "fuzz", .max_peers = 2, .upcalls = &upcalls },
                              .peer = peers };
    struct fid_mr mr = { .key = KEY };
    struct amph_ofi_reg reg = {
        .mr = &mr, .len_bytes = MEMORY_BYTES, .access = FI_REMOTE_WRITE, .refs = 1
    };
    struct amph_op op = { on_done };

    if (len < 1)
        return 0;

    uint8_t how = *bytes++;

    len--;

    uint8_t *msg = aligned_alloc(8, (len + 7 + 8) & ~(size_t)7);
    uint8_t *exact = msg;

    if (!(how & 4))
        exact = malloc(len ? len : 1); /* one whose end a sanitizer knows */

    memcpy(exact, bytes, len);

    struct amph_ofi_hdr *h = (struct amph_ofi_hdr *)(void *)exact;

    if (len >= sizeof *h && (how & 1)) {
        h->cookie = amph_le64(COOKIE);
        h->src = 0;
    }

    if (len >= sizeof *h && (how & 2)) {
        h->version = OFI_WIRE_VERSION;
        h->kind %= AMPH_AM_INTERNAL + 1;
        h->nargs %= AMPH_AM_MAX_ARGS + 1;
        if (how & 8)
            make_pack_message(h, len, how & 16);

        if (amph_ofi_kind_packs(h->kind) && len >= amph_ofi_head_len(h->nargs))
            h->nbytes = amph_le32((uint32_t)(len - amph_ofi_head_len(h->nargs)));
    }

    prepare(&cx, &reg, &op, how & 32);
    deliver(&cx, exact, len, 3);
    clean_up(&cx, &reg);
    if (exact != msg)
        free(exact);

    free(msg);
    return 0;
}
