/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of am/: long messages, put and get. */
#include <criterion/criterion.h>

#include "tests/unit/unit_am_fake.h"
#include "tests/unit/unit_am.h"

/* ---- longs ---- */
enum amph_status send_long(uint64_t dest, const void *src, uint32_t nbytes, unsigned flags,
                           struct amph_op *lc)
{
    const struct amph_am am = {
        .kind = AMPH_AM_LONG, .handler = 20, .nbytes = nbytes, .dest = dest, .payload = src
    };
    return amph_am_request(a, 1, &am, flags, lc);
}

static unsigned ops_done;

static void op_done(struct amph_op *op, enum amph_status st)
{
    cr_assert_eq(st, AMPH_OK);
    ops_done++;
}

static void check_long(uint32_t nbytes, struct amph_op *lc)
{
    static uint8_t src[sizeof segment];

    memset(src, 0x5a, sizeof src);
    src[0] = 1;
    if (nbytes)
        src[nbytes - 1] = 2;

    memset(segment, 0, sizeof segment);
    memset(&seen, 0, sizeof seen);

    uint64_t dest = (uintptr_t)segment + sizeof segment - nbytes;

    cr_assert_eq(send_long(dest, src, nbytes, 0, lc), AMPH_OK);
    amph_am_poll(b);
    cr_assert_eq(seen.n, 1);
    cr_assert_eq(seen.nbytes, nbytes);
    cr_assert_eq((uintptr_t)seen.payload, dest);
    cr_assert_arr_eq(segment + sizeof segment - nbytes, src, nbytes);
}

Test(am, longs_packed_and_put)
{
    static struct amph_op op = { op_done };

    add(b, 20, count, 4, 1, 0);
    check_long(0, NULL);
    check_long(1, NULL);
    check_long(AMPH_AM_PACKED_BYTES, NULL);
    cr_assert_eq(fake.puts, 0);
    cr_assert_eq(fake.sent[AMPH_AM_LONG_PACKED], 2);
    check_long(AMPH_AM_PACKED_BYTES + 1, NULL);
    cr_assert_eq(fake.puts, 1);
    fake.put_late = true;
    check_long(100000, NULL);
    cr_assert_eq(fake.puts, 2);
    check_long(100000, &op);
    cr_assert_eq(ops_done, 0);
    amph_am_poll(a);
    cr_assert_eq(ops_done, 1);
    check_long(100, &op);
    check_long(0, &op);
    cr_assert_eq(ops_done, 3);
    fake.put_again = 3;
    check_long(sizeof segment, NULL);
}

Test(am, longs_out_of_bounds)
{
    static uint8_t src[64];
    uint64_t base = (uintptr_t)segment;

    cr_assert_eq(send_long(base - 1, src, 64, 0, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(send_long(base + sizeof segment - 63, src, 64, 0, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(send_long(UINT64_MAX - 3, src, 64, 0, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(send_long(base, src, UINT32_MAX, 0, NULL), AMPH_ERR_RANGE);
}

Test(am, longs_without_order_are_packed)
{
    teardown();
    fake_reset();
    fake.put_then_am = false;
    start();
    add(b, 20, count, 4, 1, 0);
    check_long(65408, NULL);
    cr_assert_eq(fake.puts, 0);
    cr_assert_eq(amph_am_max_long(a, 1), 65408);
    cr_assert_eq(amph_am_max_medium(a, UINT32_MAX), 65408);
}

static uint32_t long_reply_bytes;
static uint8_t long_src[sizeof segment];
static struct amph_op *long_lc;

static void answer_long(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = { .kind = AMPH_AM_LONG,
                                   .handler = 21,
                                   .nbytes = long_reply_bytes,
                                   .dest = (uintptr_t)segment,
                                   .payload = long_src };

    seen.n++;
    cr_assert_eq(amph_am_reply(token, &reply, 0, long_lc), AMPH_OK);
    if (!long_lc)
        memset(long_src, 0xee, sizeof long_src); /* the source may be reused on return */
}

static void check_long_reply(uint32_t nbytes)
{
    memset(long_src, 0x33, sizeof long_src);
    memset(segment, 0, sizeof segment);
    memset(&seen, 0, sizeof seen);
    long_reply_bytes = nbytes;
    cr_assert_eq(send_short(22, 0, 0), AMPH_OK);

    for (unsigned i = 0; i < 20 && !seen.nbytes; i++) {
        amph_am_poll(b);
        if (i > 2)
            fake.room[AMPH_LANE_REPLY] = 10;

        amph_am_poll(a);
    }

    cr_assert_eq(seen.nbytes, nbytes);
    cr_assert_eq(seen.first, 0x33);
    cr_assert_eq(seen.last, 0x33);
}

Test(am, long_replies_in_every_way)
{
    static struct amph_op op = { op_done };

    add(b, 22, answer_long, 1, 1, 0);
    add(a, 21, count, 4, 2, 0);

    for (unsigned room = 0; room <= 10; room += 10)
        for (unsigned again = 0; again < 3; again++)
            for (int with_op = 0; with_op < 2; with_op++) {
                fake.put_late = again == 1;
                long_lc = with_op ? &op : NULL;
                ops_done = 0;
                fake.room[AMPH_LANE_REPLY] = room;
                check_long_reply(100);
                fake.put_again = again;
                fake.room[AMPH_LANE_REPLY] = room;
                check_long_reply(200000);
                amph_am_poll(b);
                cr_assert_eq(ops_done, with_op ? 2 : 0);
            }
}

/* ---- one-sided ---- */

Test(am, put_get_and_their_bounds)
{
    struct amph_am_mem mem;
    struct amph_rmem rmem;
    struct amph_op op = { op_done };
    uint8_t back[16];

    cr_assert_eq(amph_am_mem_reg(b, segment, sizeof segment, -1, 0, &mem), AMPH_OK);
    cr_assert_eq(amph_am_mem_import(a, 1, mem.key, mem.key_len, &rmem), AMPH_OK);
    ops_done = 0;
    cr_assert_eq(amph_am_put(a, 1, &rmem, 1000, "fifteen letters", 16, 0, &op, &op), AMPH_OK);
    cr_assert_eq(amph_am_get(a, 1, &rmem, 1000, back, 16, 0, &op), AMPH_OK);
    cr_assert_eq(ops_done, 3);
    cr_assert_str_eq((char *)back, "fifteen letters");
    cr_assert_eq(amph_am_put(a, 1, &rmem, sizeof segment - 15, back, 16, 0, NULL, NULL),
                 AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_put(a, 1, &rmem, UINT64_MAX - 7, back, 16, 0, NULL, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_get(a, 1, &rmem, UINT64_MAX - 7, back, 16, 0, &op), AMPH_ERR_RANGE);
    cr_assert_eq(amph_am_get(a, 1, &rmem, 0, back, SIZE_MAX, 0, &op), AMPH_ERR_RANGE);
    fake.put_again = 1;
    cr_assert_eq(amph_am_put(a, 1, &rmem, 0, back, 16, AMPH_AM_IMMEDIATE, NULL, NULL), AMPH_AGAIN);
    fake.put_again = 5;
    cr_assert_eq(amph_am_put(a, 1, &rmem, 0, back, 16, 0, NULL, NULL), AMPH_OK);
    rmem.local = segment;
    ops_done = 0;
    cr_assert_eq(amph_am_put(a, 1, &rmem, 8, "mapped", 7, 0, &op, &op), AMPH_OK);
    cr_assert_eq(ops_done, 2);
    cr_assert_str_eq((char *)segment + 8, "mapped");

    for (size_t cut = 0; cut < mem.key_len; cut++)
        cr_assert_eq(amph_am_mem_import(a, 1, mem.key, cut, &rmem), AMPH_ERR_PROTO, "%zu bytes",
                     cut);

    amph_am_mem_dereg(b, &mem);
}
