/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unit tests of collectives: operators, the table of algorithms, slots of shared memory, and what
 * is made of messages that do not fit (a job of one process that writes to itself).
 */
#include <criterion/criterion.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "extended/coll/coll.h"

/* ---- operators ---- */

Test(fold, every_pair)
{
    static const gex_OP_t ops[] = { GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX,
                                    GEX_OP_AND, GEX_OP_OR,   GEX_OP_XOR };
    static const size_t bytes[] = { 4, 4, 8, 8, 4, 8 };
    const int64_t x = -6;
    const int64_t y = 3;
    const int64_t want[] = { -3, -18, -6, 3, x & y, x | y, x ^ y };

    for (unsigned t = 0; t < 6; t++) {
        for (unsigned o = 0; o < AMPH_COUNTOF(ops); o++) {
            size_t size;
            amph_fold_fn fn = amph_coll_fold_builtin(1u << t, ops[o], &size);

            cr_assert_eq(size, bytes[t]);
            cr_assert_eq(fn != NULL, t < 4 || o < 4, "type %u, operation %u", t, o);
            if (!fn || t == 1 || t == 3)
                continue;

            int32_t l32 = (int32_t)x;
            int32_t r32[2] = { (int32_t)y, 77 };
            int64_t l64 = x;
            int64_t r64[2] = { y, 77 };
            float lf = (float)x;
            float rf[2] = { (float)y, 77 };
            double ld = (double)x;
            double rd[2] = { (double)y, 77 };
            const void *left[] = { &l32, NULL, &l64, NULL, &lf, &ld };
            void *right[] = { r32, NULL, r64, NULL, rf, rd };

            fn(left[t], right[t], 1, NULL);

            const int64_t got[] = { r32[0], 0, r64[0], 0, (int64_t)rf[0], (int64_t)rd[0] };

            cr_assert_eq(got[t], want[o], "type %u, operation %u", t, o);
            cr_assert(r32[1] == 77 && r64[1] == 77 && rf[1] == 77 && rd[1] == 77,
                      "only what is asked for is written");
        }
    }
}

Test(fold, limits)
{
    size_t size;
    uint32_t a = UINT32_MAX;
    uint32_t b = 1;

    amph_coll_fold_builtin(GEX_DT_U32, GEX_OP_MAX, &size)(&a, &b, 1, NULL);
    cr_assert_eq(b, UINT32_MAX, "unsigned numbers are compared as such");

    int32_t c = INT32_MAX;
    int32_t d = 1;

    amph_coll_fold_builtin(GEX_DT_I32, GEX_OP_ADD, &size)(&c, &d, 1, NULL);
    cr_assert_eq(d, INT32_MIN, "sums wrap around");
    cr_assert_null(amph_coll_fold_builtin(GEX_DT_USER, GEX_OP_ADD, &size));
    cr_assert_eq(size, 0);
    cr_assert_null(amph_coll_fold_builtin(GEX_DT_I32, GEX_OP_FADD, &size));
}

Test(choice, always_one)
{
    static const size_t len[] = { 0, 1, 8192, 8193, 32768, 65536, AMPH_COLL_SEGMENT, 100u << 20 };
    static const uint32_t count[] = { 2, 3, 1000, GASNET_MAXNODES };

    struct amph_coll star = { .star = true };
    struct amph_coll *const coll[] = { NULL, &star };

    for (int kind = 0; kind < AMPH_COLL_KINDS; kind++)
        for (size_t i = 0; i < AMPH_COUNTOF(len); i++)
            for (size_t j = 0; j < 2 * AMPH_COUNTOF(count); j++) {
                struct amph_coll_op op = { .kind = (enum amph_coll_kind)kind, .coll = coll[j % 2] };
                const uint32_t n = count[j / 2];
                const struct amph_coll_choice *row = amph_coll_choose(&op, n, len[i], 65408);

                cr_assert(row->kind == op.kind && row->begin, "kind %d, %zu bytes, %u participants",
                          kind, len[i], n);
                cr_assert(!row->star || op.coll, "only where participants outnumber cores");
                if (kind != AMPH_COLL_SYNC && len[i] <= AMPH_COLL_SEGMENT &&
                    row->scratch_blocks != AMPH_SCRATCH_PAIRS)
                    cr_assert_leq(amph_coll_scratch(row, n, len[i]), AMPH_COLL_SEGMENT,
                                  "scratch is bounded");
            }
}

/* An element that is longer than a message is not split, but the centre of a star is to receive small data only. */
Test(choice, long_elements_through_no_centre)
{
    struct amph_coll star = { .star = true };
    struct amph_coll_op op = { .kind = AMPH_COLL_REDUCE, .coll = &star, .fold.elem_bytes = 8 };

    cr_assert(amph_coll_choose(&op, 7, 8, 65408)->star);
    op.fold.elem_bytes = 1u << 20;
    cr_assert(!amph_coll_choose(&op, 7, 1u << 20, 65408)->star);
}

/* ---- shared memory ---- */

Test(share, slots)
{
    struct amph_share s;
    struct amph_share_slot a, b, c;
    int fd;

    amph_job.page_bytes = 65536;
    cr_assert_eq(amph_shm_create("unit", amph_coll_share_bytes(3), &fd), AMPH_OK);
    cr_assert_eq(amph_coll_share_map(&s, 3, 0, 0, fd, true), AMPH_OK);
    cr_assert_eq(amph_coll_share_open(&s, 256, 0, 2, &a), AMPH_OK);
    cr_assert_eq(amph_coll_share_open(&s, 256, 0, 2, &b), AMPH_OK);
    cr_assert(a.base != b.base && a.entry == b.entry, "two members, one slot");
    a.done[0].done = 5;
    cr_assert_eq(b.done[0].done, 5);
    amph_share_cell(&a, 1, 9, AMPH_SHARE_LARGE)->posted = 9;
    cr_assert_eq(amph_share_cell(&b, 1, 9 + AMPH_SHARE_RING, AMPH_SHARE_LARGE)->posted, 9,
                 "the ring comes round");
    cr_assert_eq(amph_coll_share_open(&s, 512, 0, 2, &c), AMPH_OK);
    cr_assert_neq(c.entry, a.entry, "another team");
    amph_coll_share_close(&s, &a);
    cr_assert_eq(b.done[0].done, 5, "still in use by the other member");
    amph_coll_share_close(&s, &b);
    cr_assert_eq(amph_coll_share_open(&s, 768, 0, 2, &a), AMPH_OK);
    cr_assert_eq(a.entry, 0, "a slot that was closed is used again");
    cr_assert(a.done[0].done == 0 && amph_share_cell(&a, 1, 9, AMPH_SHARE_LARGE)->posted == 0,
              "as if it were new");
    amph_coll_share_close(&s, &a);
    amph_coll_share_close(&s, &c);
}

/* A nap ends when the neighbour has yielded and another process of the same core notices that. */
Test(share, naps)
{
    struct amph_share s;
    int fd;
    int status;

    amph_job.page_bytes = 65536;
    cr_assert_eq(amph_shm_create("unit", amph_coll_share_bytes(2), &fd), AMPH_OK);
    cr_assert_eq(amph_coll_share_map(&s, 2, 0, 0, fd, true), AMPH_OK);
    amph_coll_share_set_core(&s, 3);

    pid_t pid = fork();

    if (pid == 0) {
        const uint64_t start_ns = amph_now_ns();

        amph_coll_share_nap(&s, 1, 60 * AMPH_NS_PER_S);
        _exit(amph_now_ns() - start_ns < 30 * AMPH_NS_PER_S ? 0 : 1);
    }

    s.self = 1;
    while (!amph_coll_share_naps(&s))
        sched_yield();

    amph_coll_share_end_naps(&s, 3);
    cr_assert(amph_coll_share_napping(&s, 0), "the neighbour has not yielded yet");
    amph_coll_share_yields(&s);
    amph_coll_share_end_naps(&s, 4);
    cr_assert(amph_coll_share_napping(&s, 0), "another core");
    amph_coll_share_end_naps(&s, 3);
    cr_assert_not(amph_coll_share_napping(&s, 0));

    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "woken, not by the time");
    cr_assert_not(amph_coll_share_naps(&s));
}

/* ---- messages ---- */

static struct amph_coll *start_alone(void)
{
    gex_TM_t tm;

    unsetenv("AMPHORA_JOB");
    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    setenv("AMPHORA_CONDUIT", "smp", 1);
    cr_assert_eq(amphora_client_init(NULL, NULL, &tm, "UNIT", NULL, NULL, 0, 1), GASNET_OK);

    return amph_gex()->team.coll;
}

static void write_self(uint8_t handler, const int32_t *args, const void *bytes, uint32_t nbytes)
{
    const struct amph_am am = { .kind = nbytes ? AMPH_AM_MEDIUM : AMPH_AM_SHORT,
                                .handler = handler,
                                .nargs = handler == AMPH_GEX_COLL_PUT ? 6 : 5,
                                .nbytes = nbytes,
                                .args = args,
                                .payload = bytes };

    cr_assert_eq(amph_am_request(amph_job.ep, 0, &am, 0, NULL), AMPH_OK);
    while (!amph_am_poll(amph_job.ep))
        ;
}

static uint64_t dropped(void)
{
    return amph_counters[AMPH_COUNTER_DROP_MALFORMED];
}

/* Sends bytes to (segment, port) at offset; returns whether they were dropped. */
static bool drops(int32_t seq, int32_t port, int32_t offset, uint32_t nbytes)
{
    static const uint8_t bytes[1000] = { 1, 2, 3 };
    uint64_t before = dropped();

    write_self(AMPH_GEX_COLL_DATA, (int32_t[]){ 0, 0, seq, port, offset }, bytes, nbytes);
    return dropped() != before;
}

Test(mail, what_does_not_fit)
{
    struct amph_coll *c = start_alone();
    uint8_t buf[102];

    memset(buf, 9, sizeof buf);
    amph_coll_mail_begin(c, 7, 2, 2, 1000);
    amph_coll_mail_in(c, 0, 0, buf + 1, 100);
    cr_assert(drops(6, 0, 0, 100), "a segment that is over");
    cr_assert(drops(7, 2, 0, 100), "a port beyond the last");
    cr_assert(drops(7, -1, 0, 100));
    cr_assert(drops(7, 0, 1, 100), "beyond the end of the port");
    cr_assert(drops(7, 0, 101, 1));
    cr_assert(drops(7, 0, -1, 2));
    cr_assert(drops(7, 0, 0, 0), "an empty message where bytes are due");
    cr_assert(!amph_coll_mail_got(c, 0) && amph_coll_mail_prefix(c, 0) == 0);
    for (size_t i = 0; i < sizeof buf; i++)
        cr_assert_eq(buf[i], 9, "nothing was written");

    cr_assert(!drops(7, 0, 0, 60));
    cr_assert(!amph_coll_mail_got(c, 0));
    cr_assert(drops(7, 0, 0, 60), "more bytes than are still due");
    cr_assert(!drops(7, 0, 60, 40));
    cr_assert(amph_coll_mail_got(c, 0) && buf[1] == 1 && buf[0] == 9 && buf[101] == 9);
    cr_assert(drops(7, 0, 0, 1), "the port has all");
    amph_coll_mail_end(c);
    cr_assert(drops(7, 1, 0, 1), "the segment has ended");
}

/* Announces a put of nbytes to (segment, port) at offset; returns whether that was dropped. */
static bool drops_put(int32_t seq, int32_t port, int32_t offset, int32_t nbytes)
{
    uint64_t before = dropped();

    write_self(AMPH_GEX_COLL_PUT, (int32_t[]){ 0, 0, seq, port, offset, nbytes }, NULL, 0);
    return dropped() != before;
}

Test(mail, what_was_put_and_does_not_fit)
{
    struct amph_coll *c = start_alone();
    uint8_t buf[5000];

    amph_coll_mail_begin(c, 7, 2, 2, 1000);
    amph_coll_mail_in(c, 0, 0, buf, sizeof buf);
    cr_assert(drops_put(7, 0, 0, 5000), "this process has asked for no puts");
    c->mail.in[0].max_put = 3000;
    cr_assert(drops_put(6, 0, 0, 5000), "a segment that is over");
    cr_assert(drops_put(7, 1, 0, 5000), "a port that is not open");
    cr_assert(drops_put(7, 2, 0, 5000), "a port beyond the last");
    cr_assert(drops_put(7, 0, 1, 5000), "beyond the end of the port");
    cr_assert(drops_put(7, 0, 0, -1));
    cr_assert(drops_put(7, 0, 0, 0), "nothing");
    cr_assert(!amph_coll_mail_got(c, 0) && amph_coll_mail_prefix(c, 0) == 0);

    cr_assert(!drops_put(7, 0, 3000, 2000));
    cr_assert_eq(amph_coll_mail_prefix(c, 0), 0, "the first pieces have not come");
    cr_assert(!drops_put(7, 0, 0, 2000), "two pieces");
    cr_assert_eq(amph_coll_mail_prefix(c, 0), 2000);
    cr_assert(drops_put(7, 0, 0, 2000), "more bytes than are still due");
    cr_assert(!drops_put(7, 0, 2000, 1000));
    cr_assert(amph_coll_mail_got(c, 0) && amph_coll_mail_prefix(c, 0) == 5000);
    amph_coll_mail_end(c);
}

/* Tells message 0 of segment 3 that its receiver is ready; returns whether that was dropped. */
static bool drops_ready(const void *offer, uint32_t nbytes)
{
    uint64_t before = dropped();

    write_self(AMPH_GEX_COLL_READY, (int32_t[]){ 0, 0, 3, 0, 0 }, offer, nbytes);
    return dropped() != before;
}

Test(mail, malformed_offers)
{
    struct amph_coll *c = start_alone();
    static uint8_t large[AMPH_COLL_EAGER_MAX + 2];
    static _Alignas(64) uint8_t landing[AMPH_COLL_EAGER_MAX + 2];
    uint8_t offer[AMPH_COLL_OFFER_BYTES] = { 0 };

    amph_coll_mail_begin(c, 3, 1, 1, 1000);
    amph_coll_mail_out(c, 0, 0, large, sizeof large - 1, 0);
    cr_assert(drops_ready(offer, 1), "too short");
    cr_assert(drops_ready(offer, 16), "a put of no bytes");
    offer[8] = 1;
    cr_assert(drops_ready(offer, 16), "no key");
    offer[12] = 255;
    cr_assert(drops_ready(offer, sizeof offer), "a key that is longer than the message");

    /* its address ends in neither 0 nor 255, so that one byte of the offer changes it by 1 */
    const struct amph_mail_in in = { .buf = landing + 1,
                                     .len = sizeof landing - 1,
                                     .max_put = 1000 };

    cr_assert_eq(amph_coll_direct_offer(c, &in, offer), 0, "this memory is in no area");
    amph_coll_direct_area(c, landing + 1, sizeof landing - 1);

    const size_t bytes = amph_coll_direct_offer(c, &in, offer);

    cr_assert_gt(bytes, 16);
    cr_assert(drops_ready(offer, (uint32_t)bytes - 1), "the key ends early");
    offer[0]++;
    cr_assert(drops_ready(offer, (uint32_t)bytes), "the data would not end in the area");
    offer[0] -= 2;
    cr_assert(drops_ready(offer, (uint32_t)bytes), "it would not begin there");
    cr_assert_not(c->mail.out[0].ready_seen || c->mail.out[0].max_put);

    offer[0]++;
    cr_assert_not(drops_ready(offer, (uint32_t)bytes));
    cr_assert(c->mail.out[0].ready_seen && c->mail.out[0].max_put == 1000);
    cr_assert(drops_ready(offer, (uint32_t)bytes), "it was ready before");
    amph_coll_mail_end(c);
    cr_assert_eq(c->mail.nareas, 0, "nothing is put any more");
}

Test(mail, what_comes_early)
{
    struct amph_coll *c = start_alone();
    uint8_t buf[100] = { 0 };
    static uint8_t large[AMPH_COLL_EAGER_MAX + 1];

    amph_coll_mail_begin(c, 0, 1, 1, 1000);
    cr_assert(!drops(1, 1, 0, 100), "for the next segment");
    cr_assert(!drops(1, 9, 0, 100), "for a port that it will not have");
    write_self(AMPH_GEX_COLL_READY, (int32_t[]){ 0, 0, 1, 0, 0 }, NULL, 0);
    cr_assert_gt(amph_colls()->early_bytes, 200);
    amph_coll_mail_end(c);

    uint64_t before = dropped();

    amph_coll_mail_begin(c, 1, 2, 1, 1000);
    amph_coll_mail_in(c, 1, 0, buf, sizeof buf);
    cr_assert(amph_coll_mail_got(c, 1) && buf[1] == 2, "it has been kept");
    cr_assert_eq(dropped(), before + 1, "what fits nowhere is dropped at its time");
    amph_coll_mail_out(c, 0, 0, large, sizeof large, sizeof large);
    cr_assert(c->mail.out[0].ready_seen, "the word that the receiver is ready has been kept too");
    cr_assert_eq(amph_colls()->early_bytes, 0);
}

Test(mail, unknown_team)
{
    start_alone();
    size_t before = amph_colls()->early_bytes;

    write_self(AMPH_GEX_COLL_DATA, (int32_t[]){ 5, 6, 0, 0, 0 }, "x", 1);
    cr_assert_gt(amph_colls()->early_bytes, before, "the team may still be made");
}
