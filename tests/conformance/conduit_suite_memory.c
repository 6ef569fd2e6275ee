/* SPDX-License-Identifier: BSD-3-Clause */
/* The conduit conformance suite: registered memory, put and get.  See conduit_suite.h. */
#include <stdio.h>

#include "tests/conformance/conduit_suite.h"

#define SEG_BYTES (3u << 20)

struct pair {
    struct suite_world *w;
    struct suite_node *a, *b;
    struct suite_segment seg; /* b's */
    struct amph_rmem rmem;    /* as a sees it */
};

static void pair_open(struct pair *p)
{
    p->w = suite_world(2, false);
    p->a = &p->w->node[0];
    p->b = &p->w->node[1];
    suite_segment_open(p->b, SEG_BYTES, &p->seg);

    enum amph_status st = p->a->cx->ops->mem_import(p->a->cx, 1, p->seg.mem.key, p->seg.mem.key_len,
                                                    &p->rmem);

    CHECK_MSG(st == AMPH_OK, "mem_import: %s", amph_status_text(st));
    CHECK(p->rmem.base == (uint64_t)(uintptr_t)p->seg.base && p->rmem.len_bytes == SEG_BYTES);
    CHECK((p->rmem.local != NULL) == p->a->cx->caps.maps_memory);
}

static void pair_close(struct pair *p)
{
    suite_segment_close(p->b, &p->seg);
    suite_world_close(p->w);
}

static void put(struct pair *p, uint64_t offset, const void *src, size_t len, struct amph_op *lc,
                struct amph_op *rc)
{
    enum amph_status st = AMPH_AGAIN;

    SUITE_UNTIL(p->w, (st = p->a->cx->ops->put(p->a->cx, 1, &p->rmem, offset, src, len, lc, rc)) !=
                          AMPH_AGAIN);
    CHECK_MSG(st == AMPH_OK, "put of %zu bytes at %u: %s", len, (unsigned)offset,
              amph_status_text(st));
}

static void get(struct pair *p, uint64_t offset, void *dst, size_t len, struct amph_op *done)
{
    enum amph_status st = AMPH_AGAIN;

    SUITE_UNTIL(p->w, (st = p->a->cx->ops->get(p->a->cx, 1, &p->rmem, offset, dst, len, done)) !=
                          AMPH_AGAIN);
    CHECK_MSG(st == AMPH_OK, "get of %zu bytes at %u: %s", len, (unsigned)offset,
              amph_status_text(st));
}

static bool finished(const struct suite_op *o)
{
    return __atomic_load_n(&o->done, __ATOMIC_ACQUIRE) == 1;
}

static void puts_and_gets(void)
{
    static const size_t sizes[] = { 1,  2,  3,    4,    7,     8,     9,       63,
                                    64, 65, 1000, 4096, 65536, 65537, 1000003, SEG_BYTES };
    struct pair p;

    pair_open(&p);

    uint8_t *pages = aligned_alloc(4096, SEG_BYTES + 4096);
    uint8_t *dst = malloc(SEG_BYTES + 1);

    for (unsigned i = 0; i < 3 * AMPH_COUNTOF(sizes); i++) {
        size_t len = sizes[i % AMPH_COUNTOF(sizes)];
        uint8_t *src = pages + i * 8 % 56; /* libfabric's header depends on this */
        static const uint64_t places[] = { 0, 1, UINT64_MAX };
        uint64_t offset = places[i / AMPH_COUNTOF(sizes)];

        if (offset > SEG_BYTES - len)
            offset = SEG_BYTES - len; /* the very end */

        struct suite_op lc = SUITE_OP;
        struct suite_op rc = SUITE_OP;
        struct suite_op done = SUITE_OP;

        for (size_t k = 0; k < len; k++)
            src[k] = (uint8_t)(k * 13 + i + (k >> 8));

        memset(p.seg.base, 0x77, SEG_BYTES);
        put(&p, offset, src, len, i % 2 ? &lc.op : NULL, &rc.op);
        SUITE_UNTIL(p.w, finished(&rc));
        CHECK(rc.st == AMPH_OK && lc.st == AMPH_OK && (i % 2 == 0 || finished(&lc)));
        CHECK(memcmp(p.seg.base + offset, src, len) == 0);
        CHECK((offset == 0 || p.seg.base[offset - 1] == 0x77) &&
              (offset + len == SEG_BYTES || p.seg.base[offset + len] == 0x77));
        dst[len] = 0x55;
        get(&p, offset, dst, len, &done.op);
        SUITE_UNTIL(p.w, finished(&done));
        CHECK(done.st == AMPH_OK && memcmp(src, dst, len) == 0 && dst[len] == 0x55);
    }

    free(pages);
    free(dst);
    pair_close(&p);
}

/* Many transfers in flight at once, of both kinds, mixed with messages. */
static void many_at_once(void)
{
    enum {
        COUNT = 200,
        EACH = 10000
    };

    static struct suite_op op[2 * COUNT];
    struct pair p;

    pair_open(&p);

    uint8_t *src = malloc(COUNT * EACH);
    uint8_t *dst = malloc(COUNT * EACH);

    for (size_t i = 0; i < COUNT * EACH; i++) {
        src[i] = (uint8_t)(i * 31 + i / EACH);
        p.seg.base[i] = (uint8_t)(i * 17);
        dst[i] = 0;
    }

    for (unsigned i = 0; i < 2 * COUNT; i++)
        op[i] = (struct suite_op)SUITE_OP;

    for (unsigned i = 0; i < COUNT / 2; i++) {
        put(&p, i * EACH, src + i * EACH, EACH, NULL, &op[2 * i].op);
        get(&p, (COUNT / 2 + i) * EACH, dst + i * EACH, EACH, &op[2 * i + 1].op);
        suite_stream(p.a, 1, AMPH_LANE_REQUEST);
    }

    for (unsigned i = 0; i < COUNT; i++) {
        SUITE_UNTIL(p.w, finished(&op[i]));
        CHECK(op[i].st == AMPH_OK);
    }

    CHECK(memcmp(p.seg.base, src, COUNT / 2 * EACH) == 0);
    CHECK(memcmp(p.seg.base + COUNT / 2 * EACH, dst, COUNT / 2 * EACH) == 0);
    SUITE_UNTIL(p.w, suite_got(p.b, 0, AMPH_LANE_REQUEST) == COUNT / 2);
    free(src);
    free(dst);
    pair_close(&p);
}

/* After lc (or on return, where the conduit says so through it) the source may change, and the
 * target still gets what was there. */
static void local_completion(void)
{
    enum {
        ROUNDS = 60,
        EACH = 40000
    };

    struct pair p;

    pair_open(&p);

    uint8_t *src = malloc(EACH);
    static struct suite_op rc[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct suite_op lc = SUITE_OP;

        rc[i] = (struct suite_op)SUITE_OP;
        memset(src, (int)i, EACH);
        put(&p, i * EACH, src, EACH, &lc.op, &rc[i].op);
        SUITE_UNTIL(p.w, finished(&lc));
        memset(src, 0xff, EACH);
    }

    for (unsigned i = 0; i < ROUNDS; i++) {
        SUITE_UNTIL(p.w, finished(&rc[i]));
        for (unsigned k = 0; k < EACH; k += 999)
            CHECK(p.seg.base[i * EACH + k] == i);
    }

    free(src);
    pair_close(&p);
}

/* Two ops of a put, each in memory of its own, which its callback destroys: a conduit that still
 * looks at it then runs into garbage.  What both refer to is counted and goes with the second
 * callback, whichever that is. */
struct both {
    unsigned callbacks, *left_p;
};

struct half {
    struct amph_op op;
    struct both *both;
};

static struct half *make_half(struct both *both,
                              void (*done)(struct amph_op *op, enum amph_status st))
{
    struct half *h = malloc(sizeof *h);

    *h = (struct half){ { done }, both };
    both->callbacks++;
    return h;
}

static void half_done(struct amph_op *op, enum amph_status st)
{
    struct half *h = AMPH_CONTAINER_OF(op, struct half, op);
    struct both *both = h->both;

    CHECK_MSG(st == AMPH_OK || st == AMPH_ERR_STATE, "a put ended with %s", amph_status_text(st));
    memset(h, 0xdd, sizeof *h);
    free(h);

    if (--both->callbacks == 0) {
        --*both->left_p;
        memset(both, 0xdd, sizeof *both);
        free(both);
    }
}

static void put_both(struct pair *p, const void *src, size_t len, unsigned *left_p)
{
    struct both *both = calloc(1, sizeof *both);
    struct half *lc = make_half(both, half_done);
    struct half *rc = make_half(both, half_done);

    both->left_p = left_p;
    ++*left_p;
    put(p, 0, src, len, &lc->op, &rc->op);
}

/* Each of lc and rc is called exactly once, also where the instance is closed with puts in
 * flight. */
static void two_completions(void)
{
    static const size_t sizes[] = { 0, 1, 100, 4096, 4097, 20000, 70000, 1 << 20 };
    uint8_t *src = calloc(1, 1 << 20);
    unsigned left = 0;
    struct pair p;

    pair_open(&p);
    for (unsigned i = 0; i < 40 * AMPH_COUNTOF(sizes); i++)
        put_both(&p, src, sizes[i % AMPH_COUNTOF(sizes)], &left);

    SUITE_UNTIL(p.w, left == 0);

    for (unsigned i = 0; i < AMPH_COUNTOF(sizes); i++)
        put_both(&p, src, sizes[i], &left);

    suite_close_node(p.a);
    CHECK_MSG(left == 0, "%u puts in flight did not end with their instance", left);

    free(src);
    pair_close(&p);
}

static void look_at_data(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                         const struct amph_am *am)
{
    const uint8_t *base = n->user;

    for (unsigned k = 0; k < (unsigned)am->args[1]; k += 61)
        CHECK_MSG(base[k] == (uint8_t)am->args[0],
                  "the message is here and byte %u of the put before it is not", k);

    CHECK(base[am->args[1] - 1] == (uint8_t)am->args[0]);
}

static void put_then_message(void)
{
    static const int32_t sizes[] = { 1, 8, 1000, 70000, 1 << 20 };
    struct pair p;

    pair_open(&p);
    if (!p.a->cx->caps.put_then_am)
        suite_skip("this conduit keeps no order between puts and messages");

    uint8_t *src = malloc(SEG_BYTES);

    p.b->hook = look_at_data;
    p.b->user = p.seg.base;

    for (int32_t i = 0; i < 100; i++) {
        struct suite_op lc = SUITE_OP;
        int32_t args[] = { i, sizes[(size_t)i % AMPH_COUNTOF(sizes)] };
        struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1, .nargs = 2, .args = args };

        memset(src, i, (size_t)args[1]);
        put(&p, 0, src, (size_t)args[1], &lc.op, NULL);
        suite_send(p.a, 1, AMPH_LANE_REQUEST, &am, NULL);
        SUITE_UNTIL(p.w, finished(&lc) && suite_got(p.b, 0, AMPH_LANE_REQUEST) == (uint64_t)i + 1);
    }

    free(src);
    pair_close(&p);
}

/* Keys are not trusted: cut, lengthened, of random bytes and with single bits turned. */
static void keys(void)
{
    struct pair p;
    struct amph_rmem rmem;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES + 8];
    uint64_t state = 7;

    pair_open(&p);

    struct amph_cx *a = p.a->cx;

    for (size_t len = 0; len < p.seg.mem.key_len; len++)
        CHECK(a->ops->mem_import(a, 1, p.seg.mem.key, len, &rmem) != AMPH_OK);

    memcpy(key, p.seg.mem.key, p.seg.mem.key_len);
    key[p.seg.mem.key_len] = 0;
    CHECK(a->ops->mem_import(a, 1, key, p.seg.mem.key_len + 1, &rmem) != AMPH_OK);

    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof key; i++)
            key[i] = (uint8_t)suite_random(&state);

        CHECK(a->ops->mem_import(a, 1, key, 1 + suite_random(&state) % sizeof key, &rmem) !=
              AMPH_OK);
    }

    /* A changed key may be refused here or be harmless there; it must not bring this process
     * down. */
    for (size_t bit = 0; bit < 8 * p.seg.mem.key_len; bit++) {
        memcpy(key, p.seg.mem.key, p.seg.mem.key_len);
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (a->ops->mem_import(a, 1, key, p.seg.mem.key_len, &rmem) == AMPH_OK && rmem.local)
            CHECK(rmem.len_bytes > 0 && rmem.len_bytes <= SEG_BYTES);
    }

    CHECK(a->ops->mem_import(a, 1, p.seg.mem.key, p.seg.mem.key_len, &rmem) == AMPH_OK);
    pair_close(&p);
}

/* Each node reaches the memory of each, its own too. */
static void everyones_memory(void)
{
    enum {
        N = 4
    };

    struct suite_world *w = suite_world(N, false);
    struct suite_segment seg[N];

    for (unsigned i = 0; i < N; i++)
        suite_segment_open(&w->node[i], 65536, &seg[i]);

    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++) {
            struct amph_cx *cx = w->node[i].cx;
            struct amph_rmem rmem;
            struct suite_op rc = SUITE_OP;
            struct suite_op done = SUITE_OP;
            uint64_t value = 1000 * i + j;
            uint64_t back = 0;
            enum amph_status st = AMPH_AGAIN;

            CHECK(cx->ops->mem_import(cx, j, seg[j].mem.key, seg[j].mem.key_len, &rmem) == AMPH_OK);
            SUITE_UNTIL(w, (st = cx->ops->put(cx, j, &rmem, 8 * i, &value, 8, NULL, &rc.op)) !=
                               AMPH_AGAIN);
            CHECK(st == AMPH_OK);
            SUITE_UNTIL(w, finished(&rc));
            SUITE_UNTIL(w,
                        (st = cx->ops->get(cx, j, &rmem, 8 * i, &back, 8, &done.op)) != AMPH_AGAIN);
            CHECK(st == AMPH_OK);
            SUITE_UNTIL(w, finished(&done));
            CHECK(back == value && memcmp(seg[j].base + 8 * i, &value, 8) == 0);
        }

    for (unsigned i = 0; i < N; i++)
        suite_segment_close(&w->node[i], &seg[i]);

    suite_world_close(w);
}

/* Bursts of small puts by a process that does not call for a while then; a conduit may end them by itself. */
static void bursts_and_pauses(void)
{
    enum {
        PUTS = 24,
        ROUNDS = 300,
        PAUSE_NS = 80 * AMPH_NS_PER_US
    };
    struct pair p;

    pair_open(&p);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        struct suite_op rc[PUTS];
        uint64_t src[PUTS];

        for (unsigned i = 0; i < PUTS; i++) {
            src[i] = (uint64_t)round << 32 | i;
            rc[i] = (struct suite_op)SUITE_OP;
            put(&p, 8 * i, &src[i], 8, NULL, &rc[i].op);
        }

        const uint64_t until = amph_now_ns() + round % 6 * PAUSE_NS;

        do {
            suite_pump_node(p.b);
        } while (amph_now_ns() < until);

        if (round % 2)
            suite_stream(p.a, 1, AMPH_LANE_REQUEST);

        for (unsigned i = 0; i < PUTS; i++)
            SUITE_UNTIL(p.w, finished(&rc[i]));

        for (unsigned i = 0; i < PUTS; i++)
            CHECK(rc[i].st == AMPH_OK);

        CHECK(memcmp(p.seg.base, src, sizeof src) == 0);
    }

    pair_close(&p);
}

/* clang-format off */
const struct suite_case suite_memory_cases[] = {
    { "puts and gets of every size at every place", puts_and_gets },
    { "many transfers at once", many_at_once },
    { "a source may change after local completion", local_completion },
    { "both completions of a put come, each once", two_completions },
    { "a put arrives before a later message", put_then_message },
    { "bursts of small puts and pauses", bursts_and_pauses },
    { "keys are not trusted", keys },
    { "everybody's memory", everyones_memory },
    { NULL, NULL },
};
/* clang-format on */
