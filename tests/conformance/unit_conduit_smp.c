/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on shared memory, and what only shared memory promises: rings that may hold
 * anything, memory that is used sparingly, sessions that go on. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/counters.h"
#include "conduits/smp/smp.h"
#include "tests/conformance/conduit_suite.h"

static uint64_t dropped(void)
{
    return amph_counters[AMPH_COUNTER_DROP_MALFORMED];
}

/* a's own rings in b's region, as a hostile a may write them. */
static struct amph_smp_out *out_of(struct suite_node *a, uint32_t peer, enum amph_lane lane)
{
    return &amph_smp_of(a->cx)->peer[peer].out[lane];
}

static void take_anything(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                          const struct amph_am *am)
{
    volatile uint8_t sum = 0;

    for (unsigned i = 0; i < am->nargs; i++)
        sum ^= (uint8_t)am->args[i];

    /* all of it can be read */
    if (am->payload && am->kind != AMPH_AM_SHORT && am->kind != AMPH_AM_LONG)
        for (uint32_t i = 0; i < am->nbytes; i++)
            sum ^= ((const uint8_t *)am->payload)[i];
}

/* Slots of random bytes under the right word: nothing outside of the ring is touched, and others
 * are heard. */
static void garbage_in_slots(void)
{
    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    uint64_t state = 11;
    uint64_t before = dropped();
    uint64_t sent = 0;

    b->hook = take_anything;
    for (unsigned k = 0; k < 20000; k++) {
        struct amph_smp_peer *p = &amph_smp_of(a->cx)->peer[1];
        struct amph_smp_out *out = out_of(a, 1, k % 2);
        struct amph_smp_slot *slot = &out->ring->slot[out->produced % SMP_SLOTS];
        uint32_t word = amph_smp_word(p->seed_out, out->produced);

        for (size_t i = 4; i < sizeof *slot; i++)
            ((uint8_t *)slot)[i] = (uint8_t)suite_random(&state);

        if (k % 3 == 0) { /* nearly right */
            slot->kind = AMPH_AM_MEDIUM;
            slot->nargs = (uint8_t)(k % 20);
            slot->where = k % 2;
            slot->nbytes = (uint32_t)suite_random(&state) % (2 * SMP_MAX_MEDIUM);
            slot->bulk = k % 5 ? (uint32_t)suite_random(&state) & ~63u : slot->bulk;
            slot->bulk_end = slot->bulk + (uint32_t)amph_align_up(slot->nbytes, 64);
        }

        __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
        __atomic_fetch_or(p->watched_word, p->watched_bit, __ATOMIC_RELAXED);
        out->produced++;
        suite_pump_node(b);

        if (k % 100 == 0) {
            suite_stream(c, 1, AMPH_LANE_REQUEST);
            sent++;
            SUITE_UNTIL(w, suite_got(b, 2, AMPH_LANE_REQUEST) == sent);
        }
    }

    CHECK(dropped() > before);
    CHECK(b->errors[0] == 0);

    /* What is right again is heard again. */
    uint64_t had = suite_got(b, 0, AMPH_LANE_REPLY);
    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };

    suite_send(a, 1, AMPH_LANE_REPLY, &am, NULL);
    SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REPLY) == had + 1);
    suite_world_close(w);
}

/* The whole of a pair's bytes, the watch words and the receiver's lines filled with random bytes, while
 * both sides go on. */
static void garbage_everywhere(void)
{
    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    struct amph_smp_region *region = amph_smp_of(b->cx)->region;
    struct amph_smp_pair *pair = amph_smp_pair_of(region, SUITE_NODES, 0);
    uint64_t state = 13;
    uint64_t sent = 0;

    a->hook = b->hook = take_anything;
    for (unsigned k = 0; k < 300; k++) {
        uint8_t *at = (uint8_t *)pair->ring;
        uint8_t *lines = (uint8_t *)amph_smp_positions_of(region, SUITE_NODES, 0);

        for (unsigned i = 0; i < 3000; i++)
            at[suite_random(&state) % sizeof pair->ring] = (uint8_t)suite_random(&state);

        for (unsigned i = 0; i < 20; i++)
            lines[suite_random(&state) % sizeof(struct amph_smp_positions)] = (uint8_t)suite_random(
                &state);

        for (unsigned i = 0; i < amph_smp_watch_words(SUITE_NODES); i++)
            region->watched[i] = suite_random(&state);

        for (unsigned i = 0; i < 20; i++) {
            struct amph_am am = {
                .kind = AMPH_AM_MEDIUM, .handler = 1, .nbytes = 3000, .payload = pair->bulk
            };
            enum amph_status st = a->cx->ops->am_send(a->cx, 1, k % 2, &am, NULL);

            CHECK(st == AMPH_OK || st == AMPH_AGAIN);
        }

        b->cx->ops->progress(b->cx, 3, 64);
        amph_smp_has_work(amph_smp_of(b->cx));
        suite_stream(c, 1, AMPH_LANE_REQUEST);
        sent++;
    }

    /* Fifo of c is untouched; its watch bit may have been taken away, which the look at all peers
     * makes good. */
    SUITE_UNTIL(w, suite_got(b, 2, AMPH_LANE_REQUEST) == sent);
    suite_world_close(w);
}

/* One side forgets and adds the other again, which does not know of it; the same with the other
 * side, and with both. */
static void one_sided(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint64_t sent = 0;

    for (unsigned cycle = 0; cycle < 60; cycle++) {
        for (unsigned k = 0; k < cycle % 50 + 1; k++, sent++)
            suite_stream(a, 1, AMPH_LANE_REQUEST);

        SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == sent);
        if (cycle % 3 != 0) {
            a->cx->ops->del_peer(a->cx, 1);
            suite_link(a, b);
        }

        if (cycle % 3 != 1) {
            b->cx->ops->del_peer(b->cx, 0);
            suite_link(b, a);
        }

        for (unsigned k = 0; k < 5; k++, sent++)
            suite_stream(a, 1, AMPH_LANE_REQUEST);

        SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == sent);
    }

    suite_world_close(w);
}

/* An instance of other memory under the same number and the same cookies: nothing of the first is
 * taken for its own. */
static void same_cookies(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];

    for (unsigned cycle = 0; cycle < 40; cycle++) {
        for (unsigned k = 0; k < 1 + 7 * cycle % 60; k++)
            suite_stream(b, 0, AMPH_LANE_REQUEST);

        SUITE_UNTIL(w, suite_got(a, 1, AMPH_LANE_REQUEST) == b->sent[0][AMPH_LANE_REQUEST]);
        for (unsigned k = 0; k < cycle % 9; k++)
            suite_stream_try(b, 0, AMPH_LANE_REQUEST); /* left behind */

        suite_close_node(b);
        a->cx->ops->del_peer(a->cx, 1);
        free(a->seen[1][0]);
        a->seen[1][0] = NULL;
        a->got[1][0] = 0;
        b->world = NULL; /* no next incarnation: the cookies stay */
        suite_open_node(w, 1);
        suite_link(b, a);
        suite_stream(b, 0, AMPH_LANE_REQUEST); /* before a knows of it */
        suite_link(a, b);
    }

    suite_world_close(w);
}

/* Peers are added and forgotten by a thread of the send side while another makes progress. */
struct churn {
    struct suite_world *w;
    bool stop;
};

static void *poller(void *arg)
{
    struct churn *c = arg;

    while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE))
        if (suite_ops->progress(c->w->node[0].cx, 3, 16) == 0)
            sched_yield();

    return NULL;
}

static void churn(void)
{
    struct churn c = { suite_world(3, true), false };
    struct suite_node *a = &c.w->node[0];
    struct suite_node *b = &c.w->node[1];
    struct suite_node *d = &c.w->node[2];
    pthread_t t;

    a->hook = b->hook = take_anything;
    CHECK(pthread_create(&t, NULL, poller, &c) == 0);

    for (unsigned cycle = 0; cycle < 3000; cycle++) {
        for (unsigned k = 0; k < 5; k++) {
            suite_stream_try(b, 0, k % 2);
            suite_stream_try(a, 1, k % 2);
        }

        b->cx->ops->progress(b->cx, 3, 16);
        a->cx->ops->del_peer(a->cx, 1);
        suite_link(a, b);
    }

    uint64_t end = amph_now_ns() + SUITE_LIMIT_NS;
    uint64_t had = suite_got(a, 2, AMPH_LANE_REQUEST);

    while (suite_stream_try(d, 0, AMPH_LANE_REQUEST) != AMPH_OK ||
           suite_got(a, 2, AMPH_LANE_REQUEST) == had)
        CHECK(amph_now_ns() < end);

    __atomic_store_n(&c.stop, true, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
    suite_world_close(c.w);
}

/* KiB of the region that are there, by whoever touched them. */
static unsigned resident_kib(const struct suite_node *n)
{
    const struct amph_smp_cx *s = amph_smp_of(n->cx);
    size_t bytes = amph_smp_region_bytes(SUITE_NODES);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *map = malloc(bytes / page + 1);
    unsigned pages = 0;

    CHECK(mincore(s->region, bytes, map) == 0);
    for (size_t i = 0; i < bytes / page; i++)
        pages += map[i] & 1;

    free(map);
    return (unsigned)(pages * page / 1024);
}

/* Quiet peers cost next to nothing, talkative ones a few pages. */
static void few_pages(void)
{
    enum {
        N = 32
    };

    struct suite_world *w = suite_world(N, false);
    static uint8_t payload[4000];
    struct amph_am shortest = { .kind = AMPH_AM_SHORT, .handler = 1 };
    struct amph_am medium = {
        .kind = AMPH_AM_MEDIUM, .handler = 1, .nbytes = sizeof payload, .payload = payload
    };

    w->node[0].keep_last = true;
    for (unsigned k = 0; k < 2000; k++)
        suite_pump_node(&w->node[0]);

    amph_smp_has_work(amph_smp_of(w->node[0].cx));
    CHECK_MSG(resident_kib(&w->node[0]) <= 12, "%u KiB before the first message",
              resident_kib(&w->node[0]));

    for (unsigned k = 0; k < 1000; k++)
        for (unsigned i = 0; i < N; i++)
            suite_send(&w->node[i], 0, k % 2, &shortest, NULL);

    SUITE_UNTIL(w, suite_got(&w->node[0], N - 1, 0) + suite_got(&w->node[0], N - 1, 1) == 1000);
    CHECK_MSG(resident_kib(&w->node[0]) <= 12 + N * 16, "%u KiB for shorts of %u peers",
              resident_kib(&w->node[0]), N);

    for (unsigned k = 0; k < 1000; k++)
        for (unsigned i = 0; i < N; i++) {
            suite_send(&w->node[i], 0, AMPH_LANE_REQUEST, &medium, NULL);
            suite_pump_node(&w->node[0]);
        }

    CHECK_MSG(resident_kib(&w->node[0]) <= 12 + N * 40, "%u KiB for mediums of %u peers",
              resident_kib(&w->node[0]), N);
    suite_world_close(w);
}

/* A key of memory that is not registered (any more), or of a descriptor that means something else
 * by now, is refused. */
static void stale_keys(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_segment seg;
    struct amph_rmem rmem;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES];

    suite_segment_open(b, 65536, &seg);

    size_t len = seg.mem.key_len;

    memcpy(key, seg.mem.key, len);
    CHECK(b->cx->ops->mem_import(b->cx, 1, key, len, &rmem) == AMPH_OK && rmem.local == seg.base);

    int fd = seg.fd;

    suite_segment_close(b, &seg);
    CHECK(b->cx->ops->mem_import(b->cx, 1, key, len, &rmem) != AMPH_OK);
    CHECK(a->cx->ops->mem_import(a->cx, 1, key, len, &rmem) != AMPH_OK);

    FILE *f = tmpfile();

    CHECK(f && ftruncate(fileno(f), 65536) == 0 && (fileno(f) == fd || dup2(fileno(f), fd) == fd));
    CHECK(a->cx->ops->mem_import(a->cx, 1, key, len, &rmem) != AMPH_OK);
    fclose(f);
    suite_world_close(w);
}

/* ---- payloads that are put together in the ring ---- */

struct prepared {
    uint8_t *buf;
    size_t len_bytes;
};

static uint64_t right_ones;

/* Each medium is filled with its first word's low byte behind that word, which is the number of
 * bytes. */
static void check_filled(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                         const struct amph_am *am)
{
    if (am->kind == AMPH_AM_MEDIUM) {
        CHECK(am->nbytes == (uint32_t)am->args[0]);
        for (uint32_t i = 0; i < am->nbytes; i++)
            CHECK(((const uint8_t *)am->payload)[i] == (uint8_t)am->args[0]);
    }

    right_ones++;
}

static enum amph_status send_filled(struct suite_node *a, uint32_t nbytes, uint8_t *buf,
                                    bool commit)
{
    const int32_t arg = (int32_t)nbytes;
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = 1,
                                .nargs = 1,
                                .args = &arg,
                                .nbytes = nbytes,
                                .payload = buf };

    if (!commit)
        memset(buf, (uint8_t)nbytes, nbytes);

    return commit ? a->cx->ops->am_commit(a->cx, 1, AMPH_LANE_REQUEST, &am)
                  : a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &am, NULL);
}

/* Up to four are prepared, among messages of other kinds, and committed or given up in any order:
 * all that is sent arrives as it was, and when all is quiet there is room for the largest again. */
static void prepared_in_any_order(void)
{
    enum {
        OPEN = 4
    };

    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct prepared open[OPEN] = { { NULL, 0 } };
    static uint8_t buf[SMP_MAX_MEDIUM];
    const struct amph_am shortest = { .kind = AMPH_AM_SHORT, .handler = 1 };
    uint64_t state = 4711;
    uint64_t sent = 0;

    right_ones = 0;
    b->hook = check_filled;

    for (unsigned step = 0; step < 60000; step++) {
        struct prepared *p = &open[suite_random(&state) % OPEN];
        uint32_t what = (uint32_t)suite_random(&state) % 8;
        uint32_t n = 1 + (uint32_t)suite_random(&state) % (step % 3 ? 300 : 60000);

        if (what < 2 && !p->buf) {
            p->len_bytes = n;
            if (a->cx->ops->am_prepare(a->cx, 1, AMPH_LANE_REQUEST, &p->len_bytes,
                                       (void **)&p->buf) != AMPH_OK)
                p->buf = NULL;
            else
                memset(p->buf, 0xee, p->len_bytes);
        } else if (what < 4 && p->buf) {
            const struct amph_am cancel = { .kind = AMPH_AM_CANCEL, .payload = p->buf };
            uint32_t less = (uint32_t)(suite_random(&state) % (p->len_bytes + 1));
            enum amph_status st = AMPH_OK;

            memset(p->buf, (uint8_t)less, less);
            if (what == 2)
                CHECK(a->cx->ops->am_commit(a->cx, 1, AMPH_LANE_REQUEST, &cancel) == AMPH_OK);
            else
                sent += (st = send_filled(a, less, p->buf, true)) == AMPH_OK;

            if (st == AMPH_OK)
                p->buf = NULL;
        } else if (what == 4) {
            sent += send_filled(a, n, buf, false) == AMPH_OK;
        } else if (what == 5) {
            sent += a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &shortest, NULL) == AMPH_OK;
        } else if (step % 5 == 0) {
            b->cx->ops->progress(b->cx, 3, 1 + step % 16);
        }

        if (step % 1000 != 999)
            continue;

        for (unsigned i = 0; i < OPEN; i++) {
            const struct amph_am cancel = { .kind = AMPH_AM_CANCEL, .payload = open[i].buf };

            if (open[i].buf)
                CHECK(a->cx->ops->am_commit(a->cx, 1, AMPH_LANE_REQUEST, &cancel) == AMPH_OK);

            open[i].buf = NULL;
        }

        SUITE_UNTIL(w, right_ones == sent);

        /* what the receiver has not said yet may be asked for */
        for (unsigned i = 0; i < 4 && step % 2000 == 999; i++) {
            SUITE_UNTIL(w, send_filled(a, SMP_MAX_MEDIUM, buf, false) == AMPH_OK);
            sent++;
            SUITE_UNTIL(w, right_ones == sent);
        }
    }

    suite_world_close(w);
}

/* After a pause all of the bulk is free, wherever the last payload ended: as many large mediums are
 * accepted as fit, before the receiver has handled one. */
static void full_bulk_after_a_pause(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    static uint8_t buf[SMP_MAX_MEDIUM];
    uint64_t state = 12;
    uint64_t sent = 0;

    right_ones = 0;
    w->node[1].hook = check_filled;
    for (unsigned round = 0; round < 200; round++) {
        uint32_t len = SMP_MAX_MEDIUM >> suite_random(&state) % 3;
        unsigned n = 0;

        while (send_filled(a, len, buf, false) == AMPH_OK)
            n++;

        CHECK_MSG(n == SMP_BULK_BYTES / len || n == SMP_PLAIN_SLOTS, "round %u: %u of %u bytes",
                  round, n, len);
        sent += n;
        SUITE_UNTIL(w, right_ones == sent);

        for (unsigned i = 0; i < round % 4; i++)
            sent += send_filled(a, 100 + 3000 * i, buf, false) == AMPH_OK;

        SUITE_UNTIL(w, right_ones == sent);
    }

    suite_world_close(w);
}

/* Numbered messages of every kind that a slot holds, and every seventh with a payload in the bulk. */
static struct {
    uint32_t next;       /* the number that must come next */
    uint32_t removed_at; /* the handler of this one removes the sender; 0: none does */
} numbered;

static uint8_t numbered_byte(uint32_t n, uint32_t i)
{
    return (uint8_t)(n * 31 + i);
}

static enum amph_status send_numbered(struct suite_node *a, uint32_t n, bool with_bulk)
{
    static const uint8_t kinds[] = { AMPH_AM_SHORT, AMPH_AM_LONG, AMPH_AM_MEDIUM };
    int32_t args[] = { (int32_t)n, (int32_t)~n };
    uint8_t payload[3000];
    struct amph_am am = { .kind = kinds[n % 3], .handler = 1, .nargs = 2, .args = args };

    if (am.kind == AMPH_AM_MEDIUM) {
        am.nbytes = with_bulk && n % 7 == 0 ? sizeof payload : 1 + n % 40;
        am.payload = payload;
        for (uint32_t i = 0; i < am.nbytes; i++)
            payload[i] = numbered_byte(n, i);
    } else if (am.kind == AMPH_AM_LONG) {
        am.nbytes = n;
        am.dest = UINT64_C(1) << 40 | n;
    }

    return a->cx->ops->am_send(a->cx, 1, AMPH_LANE_REQUEST, &am, NULL);
}

static void check_numbered(struct suite_node *b, uint32_t peer, enum amph_lane lane,
                           const struct amph_am *am)
{
    uint32_t n = numbered.next++;

    CHECK(peer == 0 && lane == AMPH_LANE_REQUEST);
    CHECK_MSG(am->nargs == 2 && am->args[0] == (int32_t)n && am->args[1] == (int32_t)~n,
              "message %d came in place of %u", am->args[0], n);

    if (am->kind == AMPH_AM_LONG)
        CHECK(am->nbytes == n && am->dest == (UINT64_C(1) << 40 | n));
    if (am->kind == AMPH_AM_MEDIUM)
        for (uint32_t i = 0; i < am->nbytes; i++)
            CHECK(((const uint8_t *)am->payload)[i] == numbered_byte(n, i));

    if (n && n == numbered.removed_at)
        b->cx->ops->del_peer(b->cx, 0);
}

/* Sends until there is no room; returns the number of the next message. */
static uint32_t send_all_that_fits(struct suite_node *a, uint32_t n, bool with_bulk)
{
    for (unsigned tries = 0; tries < 100; tries++)
        while (send_numbered(a, n, with_bulk) == AMPH_OK) {
            n++;
            tries = 0;
        }

    return n;
}

/* A receiver that does not poll holds some 2,000 messages, and they come in order. */
static void seldom_receiver(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    uint32_t n = 0;

    numbered.next = 0;
    w->node[1].hook = check_numbered;
    for (unsigned round = 0; round < 20; round++) {
        uint32_t before = n;

        n = send_all_that_fits(a, n, false);
        CHECK_MSG(n - before ==
                      SMP_PLAIN_SLOTS + (SMP_SLOTS - SMP_PLAIN_SLOTS) * SMP_BATCH_MESSAGES,
                  "round %u: room for %u messages", round, n - before);
        SUITE_UNTIL(w, numbered.next == n);
    }

    suite_world_close(w);
}

/* The receiver takes a few messages at a time, while more are added, with and without bulk. */
static void batches_in_small_parts(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint64_t state = 99;
    uint32_t n = 0;

    numbered.next = 0;
    b->hook = check_numbered;
    for (unsigned step = 0; step < 30000; step++) {
        bool with_bulk = step / 3000 % 2;

        if (suite_random(&state) % 40 == 0)
            n = send_all_that_fits(a, n, with_bulk);
        else
            n += send_numbered(a, n, with_bulk) == AMPH_OK;

        b->cx->ops->progress(b->cx, 3, 1 + (uint32_t)suite_random(&state) % 40);
    }

    SUITE_UNTIL(w, numbered.next == n);
    suite_world_close(w);
}

/* The handler of a message in a batch removes the sender: the rest is not delivered, and what is sent after
 * the sender was added again is. */
static void removed_in_a_batch(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    uint32_t n = 0;

    b->hook = check_numbered;
    for (unsigned round = 0; round < 30; round++) {
        numbered.next = n;
        numbered.removed_at = n + SMP_PLAIN_SLOTS + 100 * round + 1;
        n = send_all_that_fits(a, n, false);
        if (numbered.removed_at >= n)
            numbered.removed_at = n - 1;

        SUITE_UNTIL(w, numbered.next == numbered.removed_at + 1);
        suite_pump_node(b);
        CHECK(numbered.next == numbered.removed_at + 1);

        numbered.removed_at = 0;
        numbered.next = n;
        suite_link(b, a);
        SUITE_UNTIL(w, send_numbered(a, n, false) == AMPH_OK);
        n++;
        SUITE_UNTIL(w, numbered.next == n);
    }

    suite_world_close(w);
}

/* What was prepared and given up takes no room from a peer that is removed and added again. */
static void given_up_before_a_removal(void)
{
    enum {
        LARGE = SMP_BULK_BYTES / SMP_MAX_MEDIUM - 1,
        OPEN = LARGE + 2
    };

    static uint8_t buf[SMP_MAX_MEDIUM];
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct prepared open[OPEN];

    right_ones = 0;
    w->node[1].hook = check_filled;

    for (unsigned i = 0; i < OPEN; i++) {
        open[i].len_bytes = i == 0 || i == OPEN - 1 ? AMPH_CACHE_LINE : SMP_MAX_MEDIUM;
        CHECK(a->cx->ops->am_prepare(a->cx, 1, AMPH_LANE_REQUEST, &open[i].len_bytes,
                                     (void **)&open[i].buf) == AMPH_OK);
    }

    for (unsigned i = 0; i < OPEN; i++) {
        const struct amph_am cancel = { .kind = AMPH_AM_CANCEL, .payload = open[i].buf };

        CHECK(a->cx->ops->am_commit(a->cx, 1, AMPH_LANE_REQUEST, &cancel) == AMPH_OK);
    }

    a->cx->ops->del_peer(a->cx, 1);
    suite_link(a, &w->node[1]);
    SUITE_UNTIL(w, send_filled(a, sizeof buf, buf, false) == AMPH_OK);
    SUITE_UNTIL(w, right_ones == 1);
    suite_world_close(w);
}

static int send_from_child(void *arg)
{
    struct suite_node *a = arg;

    suite_stream(a, 1, AMPH_LANE_REQUEST);
    a->cx->ops->flush(a->cx);
    return 0;
}

/* A child that shares our memory and not our descriptors wakes a sleeper; afterwards so do we. */
static void child_in_our_memory(void)
{
    enum {
        STACK_BYTES = 256 << 10
    };

    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];

    for (uint64_t i = 1; i <= 2; i++) {
        CHECK(b->cx->ops->arm(b->cx, AMPH_ARM_FD, 0) == AMPH_OK);
        if (i == 1) {
            char *stack = aligned_alloc(16, STACK_BYTES);
            pid_t pid = clone(send_from_child, stack + STACK_BYTES,
                              CLONE_VM | CLONE_VFORK | SIGCHLD, a);

            CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
            free(stack);
        } else {
            send_from_child(a);
        }

        struct pollfd p = { .fd = b->cx->ops->wait_fd(b->cx), .events = POLLIN };

        CHECK_MSG(poll(&p, 1, 5000) == 1, "message %u wakes nobody", (unsigned)i);
        CHECK(b->cx->ops->arm(b->cx, AMPH_ARM_OFF, 0) == AMPH_OK);
        SUITE_UNTIL(w, suite_got(b, 0, AMPH_LANE_REQUEST) == i);
    }

    suite_world_close(w);
}

int main(int argc, char **argv)
{
    static const struct suite_target target = { "smp", "smp", false, false };

    /* clang-format off */
    static const struct suite_case own[] = {
        { "garbage in slots", garbage_in_slots },
        { "garbage everywhere", garbage_everywhere },
        { "one side forgets the other", one_sided },
        { "a successor with the same cookies", same_cookies },
        { "peers come and go beside a poller", churn },
        { "few pages", few_pages },
        { "stale keys", stale_keys },
        { "prepared in any order", prepared_in_any_order },
        { "all of the bulk after a pause", full_bulk_after_a_pause },
        { "given up before a removal", given_up_before_a_removal },
        { "a receiver that does not poll", seldom_receiver },
        { "batches in small parts", batches_in_small_parts },
        { "removed in a batch", removed_in_a_batch },
        { "a child in our memory", child_in_our_memory },
        { NULL, NULL },
    };

    /* clang-format on */
    return conduit_suite_main(argc, argv, &target, own);
}
