/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers of both APIs: nobody passes before all have come; names, anonymous ones and mismatches;
 * try; several under way. */
#include <time.h>

#include "gasnet.h"

#include "tests/gex/gex_common.h"

static gex_TM_t tm;
static gex_Rank_t me, size;
static volatile uint32_t *mine; /* [size] what each process has written here */
static char **bases;
static uint64_t seed;

static void dawdle(void)
{
    volatile unsigned spin = 0;

    if (next_random(&seed) % 4 == 0)
        for (unsigned n = next_random(&seed) % 20000; n; n--)
            spin++;
}

/* Tells everyone that this process has come to step. */
static void tell(uint32_t step)
{
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_RMA_PutBlockingVal(tm, i, bases[i] + 4 * me, step, 4, 0) == 0);
}

/* All have come to step, and none can be beyond the next. */
static void check_step(uint32_t step)
{
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(mine[i] == step || mine[i] == step + 1);
}

static void test_order(uint32_t *step)
{
    for (int i = 0; i < 60; i++) {
        dawdle();
        tell(++*step);

        int id = i * 7 - 20;
        int flags = i % 3 ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;

        gasnet_barrier_notify(id, flags);
        dawdle();

        if (i % 2) {
            CHECK(gasnet_barrier_wait(id, flags) == GASNET_OK);
        } else {
            int err;

            while ((err = gasnet_barrier_try(id, flags)) == GASNET_ERR_NOT_READY)
                ;

            CHECK(err == GASNET_OK);
        }

        check_step(*step);
        dawdle();
        tell(++*step);
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        check_step(*step);
    }
}

static void test_one_named(gex_Rank_t who)
{
    /* Anonymous ones match any name, so one name among them is none too many. */
    int flags = me == who ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;

    gasnet_barrier_notify(41, flags);
    CHECK(gasnet_barrier_wait(41, flags) == GASNET_OK);
}

static void test_mismatch(gex_Rank_t who)
{
    int odd = me == who;
    int want = size == 1 ? GASNET_OK : GASNET_ERR_BARRIER_MISMATCH;
    int err;

    gasnet_barrier_notify(odd ? 8 : 7, 0);
    CHECK(gasnet_barrier_wait(odd ? 8 : 7, 0) == want);
    gasnet_barrier_notify(3, odd ? GASNET_BARRIERFLAG_MISMATCH : 0);
    CHECK(gasnet_barrier_wait(3, odd ? GASNET_BARRIERFLAG_MISMATCH : 0) ==
          GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(3, odd ? GASNET_BARRIERFLAG_MISMATCH : GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(
        gasnet_barrier_wait(3, odd ? GASNET_BARRIERFLAG_MISMATCH : GASNET_BARRIERFLAG_ANONYMOUS) ==
        GASNET_ERR_BARRIER_MISMATCH);

    /* What one process alone says wrong concerns only itself. */
    gasnet_barrier_notify(5, 0);
    CHECK(gasnet_barrier_wait(odd ? 6 : 5, 0) == (odd ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    gasnet_barrier_notify(5, 0);
    CHECK(gasnet_barrier_wait(5, odd ? GASNET_BARRIERFLAG_ANONYMOUS : 0) == GASNET_OK);

    /* Names decide: flags that differ between notify and wait are no mismatch. */
    gasnet_barrier_notify(5, odd ? GASNET_BARRIERFLAG_ANONYMOUS : 0);
    CHECK(gasnet_barrier_wait(5, odd ? 0 : GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(gasnet_barrier_wait(0, 0) == GASNET_OK);
    gasnet_barrier_notify(0, 0);
    while ((err = gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS)) == GASNET_ERR_NOT_READY)
        continue;

    CHECK(err == GASNET_OK);

    /* And all is well afterwards. */
    CHECK(gasnet_barrier(-1, 0) == GASNET_OK);
}

/* More than one team barrier at once; they complete in order, and none before all have asked for
 * it. */
static void test_pipelined(uint32_t *step)
{
    enum {
        N = 40
    };

    gex_Event_t ev[N];
    uint32_t first = *step;

    for (int i = 0; i < N; i++) {
        dawdle();
        tell(++*step);
        ev[i] = gex_Coll_BarrierNB(tm, 0);
    }

    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            while (gex_Event_Test(ev[i]) != GASNET_OK)
                gasnet_AMPoll();
        else
            gex_Event_Wait(ev[i]);

        for (gex_Rank_t r = 0; r < size; r++)
            CHECK(mine[r] >= first + (uint32_t)i + 1 && mine[r] <= *step + 1);
    }

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
}

/* One process comes 150 ms late: the others wait without using the processor. */
static void test_late(void)
{
    struct timespec a, b;
    struct timespec late = { 0, 150000000 };

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    if (me == 0)
        nanosleep(&late, NULL);

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);

    double used_ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;

    if (used_ms > 75)
        fprintf(stderr, "process %u used %.1f ms of processor time in a wait of 150 ms\n", me,
                used_ms);

    CHECK(used_ms <= 75);
}

int main(int argc, char **argv)
{
    uint32_t step = 0;
    gex_Segment_t seg;

    CHECK(gex_Client_Init(NULL, NULL, &tm, "TEST_BARRIER", &argc, &argv, GEX_FLAG_USES_GASNET1) ==
          GASNET_OK);
    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    seed = me + 77;
    CHECK(gex_Segment_Attach(&seg, tm, GASNET_PAGESIZE) == GASNET_OK);
    mine = gex_Segment_QueryAddr(seg);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    test_order(&step);
    for (gex_Rank_t who = 0; who < size; who++) {
        test_one_named(who);
        test_mismatch(who);
    }

    test_pipelined(&step);
    test_late();
    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    gasnet_exit(0);
}
