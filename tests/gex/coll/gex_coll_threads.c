/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of a client with threads: each thread has a team of its own, with a barrier,
 * broadcasts and reductions under way on it while the other threads are at theirs; one thread only
 * polls.  Arguments: seed, rounds.
 */
#include <pthread.h>

#include "tests/gex/coll/gex_coll_common.h"

enum {
    THREADS = 4,
    MANY = 5
};

static gex_TM_t world, teams[THREADS];
static int rounds, finished;

/* Sums of one length; every member gets the result. */
struct sum {
    size_t count;
    uint64_t serial, *src, *dst;
    gex_Event_t event;
};

static void start(struct sum *s, gex_TM_t tm, uint64_t *common, uint64_t serial)
{
    static const size_t most[] = { 1, 10, 600, 2000, 10000, 200000 };
    size_t limit = most[next_random(common) % (next_random(common) % 8 ? 5 : 6)];

    *s = (struct sum){ .count = 1 + next_random(common) % limit, .serial = serial };
    s->src = malloc(s->count * 8);
    s->dst = malloc(s->count * 8);
    for (size_t i = 0; i < s->count; i++)
        coll_fill_element(GEX_DT_U64, 8, GEX_OP_ADD, serial, gex_TM_QueryRank(tm), i, &s->src[i]);

    s->event = gex_Coll_ReduceToAllNB(tm, s->dst, s->src, GEX_DT_U64, 8, s->count, GEX_OP_ADD, NULL,
                                      NULL, 0);
}

static void end(struct sum *s, gex_TM_t tm)
{
    gex_Event_Wait(s->event);
    for (size_t i = 0; i < s->count; i += 1 + s->count / 100)
        COLL_CHECK(coll_right(GEX_DT_U64, 8, GEX_OP_ADD, s->serial, gex_TM_QuerySize(tm) - 1, i,
                              &s->dst[i]),
                   "sum %zu of %zu", i, s->count);

    free(s->src);
    free(s->dst);
}

static void round_of(gex_TM_t tm, uint64_t *common, uint64_t *serial)
{
    struct sum sums[MANY];
    unsigned char text[3000];
    unsigned char n = (unsigned char)(1 + next_random(common) % MANY);
    gex_Rank_t me = gex_TM_QueryRank(tm);
    gex_Rank_t root = next_random(common) % gex_TM_QuerySize(tm);
    uint32_t step = (uint32_t)*serial;

    for (unsigned i = 0; i < n; i++)
        start(&sums[i], tm, common, ++*serial);

    gex_Event_t barrier = gex_Coll_BarrierNB(tm, 0);

    if (me == root)
        fill(text, sizeof text, root, step);

    gex_Event_t text_event = gex_Coll_BroadcastNB(tm, root, text, text, sizeof text, 0);

    for (unsigned i = n; i-- > 0;)
        end(&sums[i], tm);

    gex_Event_Wait(text_event);
    COLL_CHECK(right(text, sizeof text, root, step) == sizeof text, "broadcast from %u", root);
    gex_Event_Wait(barrier);
}

static void *work(void *arg)
{
    gex_TM_t tm = teams[(intptr_t)arg];
    uint64_t common = coll_seed + (uint64_t)(intptr_t)arg * 1000;
    uint64_t serial = (uint64_t)(intptr_t)arg << 32;

    for (int i = 0; i < rounds; i++)
        round_of(tm, &common, &serial);

    __atomic_add_fetch(&finished, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *poll(void *arg)
{
    while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < THREADS)
        gasnet_AMPoll();

    return NULL;
}

int main(int argc, char **argv)
{
    gex_Segment_t segment;
    pthread_t thread[THREADS], poller;

    CHECK(gex_Client_Init(NULL, NULL, &world, "TEST_COLL_THREADS", &argc, &argv, 0) == GASNET_OK);
    CHECK(gex_Segment_Attach(&segment, world, GASNET_PAGESIZE) == GASNET_OK);
    coll_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 12;

    gex_Rank_t me = gex_TM_QueryRank(world);

    if (me == 0)
        printf("seed %llu\n", (unsigned long long)coll_seed);

    for (int i = 0; i < THREADS; i++)
        CHECK(gex_TM_Split(&teams[i], world, i == 3 ? (int)me % 2 : 0, i % 2 ? -(int)me : (int)me,
                           NULL, 0, GEX_FLAG_TM_NO_SCRATCH) == 0);

    CHECK(pthread_create(&poller, NULL, poll, NULL) == 0);
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)i) == 0);

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);

    CHECK(pthread_join(poller, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(gex_TM_Destroy(teams[i], NULL, 0) == 0);

    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    gasnet_exit(0);
}
