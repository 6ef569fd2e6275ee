/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client with threads (PAR): they make, use and destroy different teams at once, also by several
 * members in one process; and the progress thread.  Argument "thread": one is asked for
 * (AMPHORA_PROGRESS_THREAD); "defer": the client starts it.
 */
#include <pthread.h>
#include <unistd.h>

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    THREADS = 4,
    STEPS = 40,
    H_ADD = 200,
    H_ADDED
};

static gex_Client_t client;
static gex_TM_t world, base[THREADS];
static gex_EP_t ep;
static gex_Rank_t me, size;
static uint32_t added[THREADS], asked;
static pthread_t client_thread;
static int on_client_thread; /* handlers that ran in the thread that initialised */

static void add(gex_Token_t token, gex_AM_Arg_t thread)
{
    if (pthread_equal(pthread_self(), client_thread))
        __atomic_fetch_add(&on_client_thread, 1, __ATOMIC_RELAXED);

    __atomic_fetch_add(&asked, 1, __ATOMIC_RELEASE);
    CHECK(gex_AM_ReplyShort1(token, H_ADDED, 0, thread) == 0);
}

static void was_added(gex_Token_t token, gex_AM_Arg_t thread)
{
    (void)token;
    __atomic_fetch_add(&added[thread], 1, __ATOMIC_RELEASE);
}

static void *work(void *arg)
{
    int thread = (int)(intptr_t)arg;
    uint32_t sent = __atomic_load_n(&added[thread], __ATOMIC_ACQUIRE);

    for (uint32_t step = 0; step < STEPS; step++) {
        gex_TM_t part = GEX_TM_INVALID;
        uint32_t modulus = 1 + (step + (uint32_t)thread) % 3;

        gex_TM_Split(&part, base[thread], (int)(me % modulus), (int)me, NULL, 0,
                     GEX_FLAG_TM_NO_SCRATCH);

        gex_Rank_t n = gex_TM_QuerySize(part);

        CHECK(n == (size - me % modulus + modulus - 1) / modulus &&
              gex_TM_QueryRank(part) == me / modulus);
        for (gex_Rank_t i = 0; i < n; i++) {
            CHECK(gex_TM_TranslateRankToJobrank(part, i) == me % modulus + i * modulus);
            CHECK(gex_AM_RequestShort1(part, i, H_ADD, 0, thread) == 0);
            sent++;
        }

        GASNET_BLOCKUNTIL(__atomic_load_n(&added[thread], __ATOMIC_ACQUIRE) == sent);
        gex_Event_Wait(gex_Coll_BarrierNB(part, 0));
        CHECK(gex_TM_Destroy(part, NULL, step % 2 ? GEX_FLAG_GLOBALLY_QUIESCED : 0) == 0);
    }

    return NULL;
}

static void at_once(void)
{
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        gex_TM_Split(&base[i], world, 0, i % 2 ? -(int)me : (int)me, NULL, 0,
                     GEX_FLAG_TM_NO_SCRATCH);

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)(intptr_t)i) == 0);

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);

    for (int i = 0; i < THREADS; i++)
        CHECK(gex_TM_Destroy(base[i], NULL, 0) == 0);
}

/* Two endpoints of each process in one team: a thread for each member calls the collectives. */
static void *member(void *arg)
{
    gex_TM_t tm = (gex_TM_t)arg;
    gex_TM_t part = GEX_TM_INVALID;

    for (int i = 0; i < 10; i++) {
        gex_TM_Split(&part, tm, (int)(gex_TM_QueryRank(tm) % 2), 0, NULL, 0,
                     GEX_FLAG_TM_NO_SCRATCH);
        CHECK(gex_TM_QuerySize(part) == size && gex_TM_QueryRank(part) == me);
        gex_Event_Wait(gex_Coll_BarrierNB(part, 0));
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        CHECK(gex_TM_Destroy(part, NULL, 0) == 0);
    }

    CHECK(gex_TM_Destroy(tm, NULL, 0) == 0);
    return NULL;
}

static void two_members(void)
{
    gex_EP_Location_t args[64];
    gex_TM_t tm[2];
    gex_EP_t other;
    pthread_t t[2];

    CHECK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_ALL, 0) == GASNET_OK);
    for (gex_Rank_t i = 0; i < 2 * size; i++)
        args[i] = (gex_EP_Location_t){ i / 2, i % 2 ? gex_EP_QueryIndex(other) : 0 };

    gex_TM_Create(tm, 2, world, args, 2 * (size_t)size, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, member, tm[i]) == 0);

    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
}

static void start_progress(bool defer)
{
    const gex_ProgressThreadInfo_t *info = NULL;
    unsigned count = 99;
    pthread_t t;

    gex_System_SetVerboseErrors(0);
    CHECK(gex_System_QueryProgressThreads(client, NULL, &info, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_System_QueryProgressThreads(client, &count, NULL, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_System_QueryProgressThreads(client, &count, &info, 1) == GASNET_ERR_BAD_ARG);

    int err = gex_System_QueryProgressThreads(client, &count, &info, 0);

    CHECK(err == (defer ? GASNET_OK : GASNET_ERR_RESOURCE));
    CHECK(gex_System_QueryProgressThreads(client, &count, &info, 0) == GASNET_ERR_RESOURCE);
    gex_System_SetVerboseErrors(1);
    if (!defer)
        return;

    CHECK(count == (unsigned)gex_System_QueryHiddenAMConcurrencyLevel());
    for (unsigned i = 0; i < count; i++) {
        CHECK(info[i].gex_thread_roles == GEX_THREAD_ROLE_RCV && info[i].gex_device_list &&
              *info[i].gex_device_list);
        CHECK(pthread_create(&t, NULL, info[i].gex_progress_fn, info[i].gex_progress_arg) == 0);
    }
}

/* While this process computes, its progress thread answers: rank 0 asks all others, which make no
 * call until it has been answered. */
static void test_progress(void)
{
    uint32_t before = __atomic_load_n(&added[0], __ATOMIC_ACQUIRE);
    uint32_t mine = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);

    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    if (me == 0) {
        /* the others have made their last call */
        GASNET_BLOCKUNTIL(__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == mine + size - 1);
        for (gex_Rank_t i = 1; i < size; i++)
            CHECK(gex_AM_RequestShort1(world, i, H_ADD, 0, 0) == 0);

        GASNET_BLOCKUNTIL(__atomic_load_n(&added[0], __ATOMIC_ACQUIRE) == before + size - 1);
    } else {
        CHECK(gex_AM_RequestShort1(world, 0, H_ADD, 0, 0) == 0);
        for (int i = 0; i < 20000 && __atomic_load_n(&asked, __ATOMIC_ACQUIRE) == mine; i++)
            usleep(1000); /* 20 s at most */

        CHECK(__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == mine + 1 && on_client_thread == 0);
    }

    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[] = {
        { H_ADD, (gex_AM_Fn_t)add, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "add" },
        { H_ADDED, (gex_AM_Fn_t)was_added, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL,
          "added" },
    };
    bool defer = argc > 1 && strcmp(argv[1], "defer") == 0;
    bool thread = defer || (argc > 1 && strcmp(argv[1], "thread") == 0);
    gex_Flags_t flags = defer ? GEX_FLAG_DEFER_THREADS : 0;

    client_thread = pthread_self();
    if (gex_Client_Init(&client, &ep, &world, "TEST_TEAM_THREADS", &argc, &argv, flags) !=
        GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(gex_Client_QueryFlags(client) == flags);
    CHECK(GASNET_HIDDEN_AM_CONCURRENCY_LEVEL == 1 && GASNET_RCV_THREAD == 1);
    CHECK(gex_System_QueryHiddenAMConcurrencyLevel() == (thread ? 1 : 0));
    CHECK(gex_EP_RegisterHandlers(ep, table, 2) == GASNET_OK);
    start_progress(defer);
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    if (thread)
        test_progress();

    at_once();
    two_members();
    gex_Event_Wait(gex_Coll_BarrierNB(world, 0));
    gasnet_exit(0);
}
