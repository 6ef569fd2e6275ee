/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every member talks to every member, itself too, in every kind and many sizes, and all at once:
 * shorts with 0-16 arguments, mediums and longs that are echoed, floods without replies, floods of
 * large messages in both directions, put and get.
 */
#include "tests/am/am_common.h"

enum {
    SEGMENT = 4 << 20,
    SLOT = 256 << 10,
    FLOOD = 500,
    BIG_FLOOD = 40
};

enum {
    H_SHORT = 130,
    H_SHORT_BACK,
    H_MEDIUM,
    H_MEDIUM_BACK,
    H_LONG,
    H_LONG_BACK,
    H_FLOOD,
    H_BIG,
    H_BIG_BACK
};

static struct amph_rmem *rmem;
static uint8_t *segment, *payload;
static unsigned back, flooded, big_back;

static uint8_t pattern(uint32_t seed, uint32_t i)
{
    return (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void fill(uint8_t *p, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        p[i] = pattern(seed, i);
}

static void verify(const uint8_t *p, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        CHECK(p[i] == pattern(seed, i), "byte %u of %u is %u, not %u", i, n, p[i],
              pattern(seed, i));
}

static int32_t argument(unsigned i, unsigned n)
{
    return (int32_t)(0x80000001u * (i + 1) - n);
}

static void check_args(const struct amph_am *am)
{
    for (unsigned i = 0; i < am->nargs; i++)
        CHECK(am->args[i] == argument(i, am->nargs), "argument %u of %u: %d", i, am->nargs,
              am->args[i]);
}

static void on_short(struct amph_token *token, const struct amph_am *am)
{
    check_args(am);

    const struct amph_am reply = {
        .kind = AMPH_AM_SHORT, .handler = H_SHORT_BACK, .nargs = am->nargs, .args = am->args
    };

    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_short_back(struct amph_token *token, const struct amph_am *am)
{
    check_args(am);
    back++;
}

static void on_medium(struct amph_token *token, const struct amph_am *am)
{
    verify(am->payload, am->nbytes, (uint32_t)am->args[0]);

    const struct amph_am reply = { .kind = AMPH_AM_MEDIUM,
                                   .handler = H_MEDIUM_BACK,
                                   .nargs = am->nargs,
                                   .args = am->args,
                                   .nbytes = am->nbytes,
                                   .payload = am->payload };

    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_medium_back(struct amph_token *token, const struct amph_am *am)
{
    verify(am->payload, am->nbytes, (uint32_t)am->args[0]);
    back++;
}

/* args: seed, sender's rank.  Each sender has a slot in each segment; echoes come to the slots
 * behind. */
static void on_long(struct amph_token *token, const struct amph_am *am)
{
    uint32_t from = (uint32_t)am->args[1];

    CHECK(am->nbytes == 0 || (const uint8_t *)am->payload == segment + (uint64_t)from * SLOT,
          "place");
    verify(am->payload, am->nbytes, (uint32_t)am->args[0]);

    const struct amph_am reply = { .kind = AMPH_AM_LONG,
                                   .handler = H_LONG_BACK,
                                   .nargs = 2,
                                   .args = am->args,
                                   .nbytes = am->nbytes,
                                   .payload = am->payload,
                                   .dest = rmem[from].base + (uint64_t)(8 + amph_job.rank) * SLOT };

    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_long_back(struct amph_token *token, const struct amph_am *am)
{
    verify(am->payload, am->nbytes, (uint32_t)am->args[0]);
    back++;
}

static void on_flood(struct amph_token *token, const struct amph_am *am)
{
    flooded++;
}

static void on_big(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = {
        .kind = AMPH_AM_MEDIUM, .handler = H_BIG_BACK, .nbytes = am->nbytes, .payload = am->payload
    };

    flooded++;
    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_big_back(struct amph_token *token, const struct amph_am *am)
{
    verify(am->payload, am->nbytes, 77);
    big_back++;
}

static void request(uint32_t to, const struct amph_am *am)
{
    enum amph_status st = amph_am_request(amph_job.ep, to, am, 0, NULL);
    CHECK(st == AMPH_OK, "request to %u: status %d", to, st);
}

static void shorts(uint32_t to)
{
    int32_t args[AMPH_AM_MAX_ARGS];
    unsigned want = back;

    for (unsigned n = 0; n <= AMPH_AM_MAX_ARGS; n++, want++) {
        for (unsigned i = 0; i < n; i++)
            args[i] = argument(i, n);

        request(to,
                &(struct amph_am){
                    .kind = AMPH_AM_SHORT, .handler = H_SHORT, .nargs = (uint8_t)n, .args = args });
    }

    WAIT_UNTIL(back == want);
}

static void sizes(uint32_t to, int kind, int handler, uint64_t dest, const uint32_t *size,
                  unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const int32_t args[] = { (int32_t)(size[i] + amph_job.rank), (int32_t)amph_job.rank };
        unsigned want = back + 1;

        fill(payload, size[i], (uint32_t)args[0]);
        request(to, &(struct amph_am){ .kind = (uint8_t)kind,
                                       .handler = (uint8_t)handler,
                                       .nargs = 2,
                                       .args = args,
                                       .nbytes = size[i],
                                       .payload = payload,
                                       .dest = dest });
        memset(payload, 0xff, size[i]); /* ours again */
        WAIT_UNTIL(back == want);
    }
}

static void floods(void)
{
    uint32_t big = amph_am_max_medium(amph_job.ep, UINT32_MAX);

    flooded = 0;
    am_barrier();

    for (unsigned i = 0; i < FLOOD; i++)
        for (uint32_t to = 0; to < amph_job.size; to++)
            request((to + amph_job.rank) % amph_job.size,
                    &(struct amph_am){ .kind = AMPH_AM_SHORT, .handler = H_FLOOD });

    WAIT_UNTIL(flooded == FLOOD * amph_job.size);
    am_barrier();
    flooded = 0;
    am_barrier();
    fill(payload, big, 77);

    for (unsigned i = 0; i < BIG_FLOOD; i++)
        for (uint32_t to = 0; to < amph_job.size; to++)
            request((to + amph_job.rank) % amph_job.size, &(struct amph_am){ .kind = AMPH_AM_MEDIUM,
                                                                             .handler = H_BIG,
                                                                             .nbytes = big,
                                                                             .payload = payload });

    WAIT_UNTIL(big_back == BIG_FLOOD * amph_job.size && flooded == BIG_FLOOD * amph_job.size);
}

struct wait_op {
    struct amph_op op;
    int left;
};

static void op_done(struct amph_op *op, enum amph_status st)
{
    CHECK(st == AMPH_OK, "operation ended with status %d", st);
    AMPH_CONTAINER_OF(op, struct wait_op, op)->left--;
}

static void put_get(uint32_t to)
{
    static const uint32_t size[] = { 0, 1, 8, 1000, 65536, SLOT };
    uint8_t *copy = malloc(SLOT);

    CHECK(copy, "memory");
    for (unsigned i = 0; i < sizeof size / sizeof size[0]; i++) {
        struct wait_op rc = { { op_done }, 1 };
        struct wait_op got = { { op_done }, 1 };
        uint64_t offset = (uint64_t)amph_job.rank * SLOT + SLOT - size[i];

        fill(payload, size[i], 1000 + i);
        CHECK(amph_am_put(amph_job.ep, to, &rmem[to], offset, payload, size[i], 0, NULL, &rc.op) ==
                  AMPH_OK,
              "put");
        WAIT_UNTIL(rc.left == 0);
        memset(copy, 0, SLOT);
        CHECK(amph_am_get(amph_job.ep, to, &rmem[to], offset, copy, size[i], 0, &got.op) == AMPH_OK,
              "get");
        WAIT_UNTIL(got.left == 0);
        verify(copy, size[i], 1000 + i);
    }

    free(copy);
    CHECK(amph_am_put(amph_job.ep, to, &rmem[to], SEGMENT - 7, payload, 8, 0, NULL, NULL) ==
              AMPH_ERR_RANGE,
          "bounds");
}

int main(void)
{
    static const uint32_t medium[] = { 0, 1, 7, 64, 1000, 4096, 32768, 65408 };
    static const uint32_t longs[] = { 0, 1, 100, 16384, 16385, 65536, 200001, SLOT };

    am_start(false);
    am_handler(H_SHORT, on_short, 1, 1, -1);
    am_handler(H_SHORT_BACK, on_short_back, 1, 2, -1);
    am_handler(H_MEDIUM, on_medium, 2, 1, 2);
    am_handler(H_MEDIUM_BACK, on_medium_back, 2, 2, 2);
    am_handler(H_LONG, on_long, 4, 1, 2);
    am_handler(H_LONG_BACK, on_long_back, 4, 2, 2);
    am_handler(H_FLOOD, on_flood, 1, 1, 0);
    am_handler(H_BIG, on_big, 2, 1, 0);
    am_handler(H_BIG_BACK, on_big_back, 2, 2, 0);
    rmem = calloc(amph_job.size, sizeof *rmem);
    payload = malloc(SLOT);
    CHECK(rmem && payload && amph_job.size <= 8, "memory");
    am_segment(SEGMENT, rmem, &segment);

    unsigned most = sizeof longs / sizeof longs[0];

    for (uint32_t i = 0; i < amph_job.size; i++) {
        uint32_t to = (i + amph_job.rank) % amph_job.size;
        uint32_t limit = amph_am_max_long(amph_job.ep, to);
        unsigned n = most;

        while (longs[n - 1] > limit)
            n--;

        shorts(to);
        sizes(to, AMPH_AM_MEDIUM, H_MEDIUM, 0, medium, sizeof medium / sizeof medium[0]);
        sizes(to, AMPH_AM_LONG, H_LONG, rmem[to].base + (uint64_t)amph_job.rank * SLOT, longs, n);
    }

    am_barrier();
    floods();
    am_barrier();
    for (uint32_t i = 0; i < amph_job.size; i++)
        put_get((i + amph_job.rank) % amph_job.size);

    am_barrier();
    amph_job_exit(0);
}
