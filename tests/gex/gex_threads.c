/* SPDX-License-Identifier: BSD-3-Clause */
/* A client with threads (PAR): all of them send, put, get, wait and lock at once; threads come and
 * go. */
#include <pthread.h>

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    THREADS = 4,
    STEPS = 150,
    H_ADD = 200,
    H_ADDED,
    H_LONG
};
#define PART 16384

static gex_TM_t tm;
static gex_EP_t ep;
static gex_Rank_t me, size;
static char **bases;
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static uint64_t sum;            /* guarded by lock */
static uint32_t added[THREADS]; /* replies to each thread */

static void add(gex_Token_t token, gex_AM_Arg_t value, gex_AM_Arg_t thread)
{
    gex_HSL_Lock(&lock);
    sum += (uint32_t)value;
    gex_HSL_Unlock(&lock);
    CHECK(gex_AM_ReplyShort1(token, H_ADDED, 0, thread) == 0);
}

static void was_added(gex_Token_t token, gex_AM_Arg_t thread)
{
    (void)token;
    __atomic_fetch_add(&added[thread], 1, __ATOMIC_RELEASE);
}

static void long_one(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t value,
                     gex_AM_Arg_t thread)
{
    CHECK(nbytes == 1000 && ((unsigned char *)buf)[0] == ((unsigned char *)buf)[999]);
    add(token, value, thread);
}

static char *place(gex_Rank_t to, int thread)
{
    return bases[to] + ((size_t)me * THREADS + (size_t)thread) * PART;
}

static void transfer(gex_Rank_t to, int thread, uint32_t step)
{
    char out[2000], in[2000];
    gex_Event_t lc;
    size_t n = 1 + step % sizeof out;

    fill(out, n, me * THREADS + (uint32_t)thread, step);
    if (step % 4 == 0)
        CHECK(gex_RMA_PutBlocking(tm, to, place(to, thread), out, n, 0) == 0);

    if (step % 4 == 1)
        gex_Event_Wait(gex_RMA_PutNB(tm, to, place(to, thread), out, n, GEX_EVENT_DEFER, 0));

    if (step % 4 == 2) {
        CHECK(gex_RMA_PutNBI(tm, to, place(to, thread), out, n, GEX_EVENT_GROUP, 0) == 0);
        gex_NBI_Wait(GEX_EC_LC, 0);
        gex_NBI_Wait(GEX_EC_PUT, 0);
    }

    if (step % 4 == 3) {
        gex_Event_t ev = gex_RMA_PutNB(tm, to, place(to, thread), out, n, &lc, 0);

        gex_Event_Wait(lc);
        gex_Event_Wait(ev);
    }

    memset(in, 0, sizeof in);
    gex_Event_Wait(gex_RMA_GetNB(tm, in, to, place(to, thread), n, 0));
    CHECK(right(in, n, me * THREADS + (uint32_t)thread, step) == n);
}

static void *work(void *arg)
{
    int thread = (int)(intptr_t)arg;
    uint64_t seed = me * 100 + (unsigned)thread;
    char big[1000];
    uint32_t sent = 0;

    memset(big, thread + 1, sizeof big);
    for (uint32_t step = 0; step < STEPS; step++) {
        gex_Rank_t to = next_random(&seed) % size;

        CHECK(gex_AM_RequestShort2(tm, to, H_ADD, 0, 3, thread) == 0);
        sent++;

        if (step % 5 == 0) { /* the one before may not have been read yet */
            char *there = place(to, thread) + 8000 + step / 5 % 2 * sizeof big;
            CHECK(gex_AM_RequestLong2(tm, to, H_LONG, big, sizeof big, there, GEX_EVENT_NOW, 0, 5,
                                      thread) == 0);
            sent++;
        }

        transfer(to, thread, step);
        if (step % 10 == 0)
            GASNET_BLOCKUNTIL(__atomic_load_n(&added[thread], __ATOMIC_ACQUIRE) == sent);
    }

    GASNET_BLOCKUNTIL(__atomic_load_n(&added[thread], __ATOMIC_ACQUIRE) == sent);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);
    return NULL;
}

static void test_locks(void)
{
    gex_HSL_t l;

    gex_HSL_Init(&l);
    CHECK(gex_HSL_Trylock(&l) == GASNET_OK && gex_HSL_Trylock(&l) == GASNET_ERR_NOT_READY);
    gex_HSL_Unlock(&l);
    CHECK(gex_HSL_Trylock(&l) == GASNET_OK);
    gex_HSL_Unlock(&l);
    gex_HSL_Destroy(&l);
}

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void round_of_threads(void)
{
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)(intptr_t)i) == 0);

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_ADD, (gex_AM_Fn_t)add, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, NULL, "add" },
        { H_ADDED, (gex_AM_Fn_t)was_added, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL,
          "added" },
        { H_LONG, (gex_AM_Fn_t)long_one, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "long" },
    };

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_THREADS", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(gex_System_QueryMaxThreads() > THREADS);
    CHECK(gex_EP_RegisterHandlers(ep, table, 3) == GASNET_OK);

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (uintptr_t)size * THREADS * PART;

    CHECK(gex_Segment_Attach(&seg, tm, (bytes + page - 1) / page * page) == GASNET_OK);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    barrier();
    test_locks();
    round_of_threads();
    barrier();
    memset(added, 0, sizeof added);
    barrier();
    round_of_threads();
    barrier();

    /* Every message of the job has been added to some sum; together they are what was sent. */
    *(uint64_t *)(void *)bases[me] = sum;
    barrier();

    uint64_t total = 0;
    uint64_t part;

    for (gex_Rank_t i = 0; i < size; i++) {
        CHECK(gex_RMA_GetBlocking(tm, &part, i, bases[i], sizeof part, 0) == 0);
        total += part;
    }

    CHECK(total == (uint64_t)2 * size * THREADS * (3 * STEPS + 5 * (STEPS / 5)));
    barrier();
    gasnet_exit(0);
}
