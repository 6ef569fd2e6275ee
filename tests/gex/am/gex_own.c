/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a process to itself are handled although the process then makes transfers to neighbours
 * only, which the headers carry out by loads and stores.  PAR: also while no thread makes any call. */
#include <pthread.h>
#include <time.h>

#include "gasnetex.h"
#include "gasnet_ratomic.h"
#include "gasnet_vis.h"

#include "tests/gex/gex_common.h"

enum {
    H_ASK = 200,
    H_ANSWER,
    LIMIT_S = 10
};

static gex_TM_t tm;
static gex_AD_t ad;
static gex_Rank_t me, size;
static uint64_t *word[2]; /* in the segments of this process and of its neighbour */
static gex_Rank_t rank[2];
static bool answered;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void ask(gex_Token_t token)
{
    CHECK(gex_AM_ReplyShort0(token, H_ANSWER, 0) == 0);
}

static void answer(gex_Token_t token)
{
    (void)token;
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&answered, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static time_t now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* ---- transfers, each a way in which a process may spend its time ---- */

static void put(int at)
{
    uint64_t value = 1;
    CHECK(gex_RMA_PutBlocking(tm, rank[at], word[at], &value, sizeof value, 0) == 0);
}

static void put_nb(int at)
{
    uint64_t value = 1;
    gex_Event_Wait(gex_RMA_PutNB(tm, rank[at], word[at], &value, sizeof value, GEX_EVENT_NOW, 0));
}

static void put_nbi(int at)
{
    uint64_t value = 1;
    CHECK(gex_RMA_PutNBI(tm, rank[at], word[at], &value, sizeof value, GEX_EVENT_NOW, 0) == 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void put_val_nbi(int at)
{
    CHECK(gex_RMA_PutNBIVal(tm, rank[at], word[at], 1, sizeof *word[at], 0) == 0);
    while (gex_NBI_Test(GEX_EC_PUT, 0) != GASNET_OK)
        gasnet_AMPoll();
}

static void put_region(int at)
{
    uint64_t value = 1;

    gex_NBI_BeginAccessRegion(0);
    CHECK(gex_RMA_PutNBI(tm, rank[at], word[at], &value, sizeof value, GEX_EVENT_NOW, 0) == 0);

    gex_Event_t event = gex_NBI_EndAccessRegion(0);

    if (event != GEX_EVENT_INVALID)
        gex_Event_Wait(event);
}

static void put_val(int at)
{
    CHECK(gex_RMA_PutBlockingVal(tm, rank[at], word[at], 1, sizeof *word[at], 0) == 0);
}

static void get(int at)
{
    uint64_t value;
    CHECK(gex_RMA_GetBlocking(tm, &value, rank[at], word[at], sizeof value, 0) == 0);
}

static void get_nb(int at)
{
    uint64_t value;
    gex_Event_Wait(gex_RMA_GetNB(tm, &value, rank[at], word[at], sizeof value, 0));
}

static void get_nbi(int at)
{
    uint64_t value;
    CHECK(gex_RMA_GetNBI(tm, &value, rank[at], word[at], sizeof value, 0) == 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
}

static void get_val(int at)
{
    (void)gex_RMA_GetBlockingVal(tm, rank[at], word[at], sizeof *word[at], 0);
}

static void get_nothing(int at)
{
    uint64_t value;
    CHECK(gex_RMA_GetBlocking(tm, &value, rank[at], word[at], 0, 0) == 0);
}

static void put_pair(int at)
{
    gex_TM_t pair = gex_TM_Pair(gex_TM_QueryEP(tm), 0);
    uint64_t value = 1;

    CHECK(gex_RMA_PutBlocking(pair, rank[at], word[at], &value, sizeof value, 0) == 0);
}

static void atomic(int at)
{
    uint64_t value;

    gex_Event_Wait(gex_AD_OpNB_U64(ad, &value, rank[at], word[at], GEX_OP_FADD, 1, 0, 0));
}

static void indexed(int at)
{
    uint64_t value = 1;
    void *const dst[] = { word[at] };
    void *const src[] = { &value };

    CHECK(gex_VIS_IndexedPutBlocking(tm, rank[at], 1, dst, sizeof value, 1, src, sizeof value, 0) ==
          0);
}

static const struct {
    const char *name;
    void (*run)(int at);
} transfers[] = {
    { "gex_RMA_PutBlocking", put },
    { "gex_RMA_PutNB", put_nb },
    { "gex_RMA_PutNBI and gex_NBI_Wait", put_nbi },
    { "gex_RMA_PutNBIVal and gex_NBI_Test", put_val_nbi },
    { "gex_RMA_PutNBI in an access region", put_region },
    { "gex_RMA_PutBlockingVal", put_val },
    { "gex_RMA_GetBlocking", get },
    { "gex_RMA_GetNB", get_nb },
    { "gex_RMA_GetNBI and gex_NBI_Wait", get_nbi },
    { "gex_RMA_GetBlockingVal", get_val },
    { "an empty gex_RMA_GetBlocking", get_nothing },
    { "gex_RMA_PutBlocking of a pair", put_pair },
    { "gex_AD_OpNB_U64", atomic },
    { "gex_VIS_IndexedPutBlocking", indexed },
};

/* ---- a thread that asks, and waits outside the library ---- */

#ifdef GASNET_PAR
static void *ask_and_sleep(void *arg)
{
    CHECK(gex_AM_RequestShort0(tm, me, H_ASK, 0) == 0);
    pthread_mutex_lock(&mutex);
    while (!answered)
        pthread_cond_wait(&changed, &mutex);

    pthread_mutex_unlock(&mutex);
    return arg;
}
#endif

static void run_transfers(unsigned i, int at)
{
    time_t end = now_s() + LIMIT_S;

    while (!__atomic_load_n(&answered, __ATOMIC_ACQUIRE)) {
        transfers[i].run(at);
        if (now_s() > end) {
            fprintf(stderr, "%s alone lets no own message in\n", transfers[i].name);
            gasnet_exit(1);
        }
    }
}

static void test_transfer(unsigned i, int at)
{
    answered = false;
#ifdef GASNET_PAR
    pthread_t t;

    CHECK(pthread_create(&t, NULL, ask_and_sleep, NULL) == 0);
    run_transfers(i, at);
    CHECK(pthread_join(t, NULL) == 0);
#else
    CHECK(gex_AM_RequestShort0(tm, me, H_ASK, 0) == 0);
    run_transfers(i, at);
#endif
    gex_NBI_Wait(GEX_EC_ALL, 0);
}

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "ask" },
        { H_ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "answer" },
    };

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_OWN", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    CHECK(gex_EP_RegisterHandlers(ep, table, 2) == GASNET_OK);
    CHECK(gex_Segment_Attach(&seg, tm, GASNET_PAGESIZE) == GASNET_OK);
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);

    rank[0] = me;
    rank[1] = (me + 1) % size;
    for (int at = 0; at < 2; at++)
        CHECK(gex_Segment_QueryBound(tm, rank[at], (void **)&word[at], NULL, NULL) == 0);

    barrier();
    for (unsigned i = 0; i < sizeof transfers / sizeof *transfers; i++)
        for (int at = 0; at < 2; at++)
            test_transfer(i, at);

    barrier();
#ifdef GASNET_PAR
    /* Nobody makes a call: the request itself has let the message in, where no network is needed. */
    if (argc > 1 && strcmp(argv[1], "smp") == 0)
        for (unsigned i = 0; i < 1000; i++) {
            answered = false;
            ask_and_sleep(NULL);
        }

    barrier();
#endif
    gex_AD_Destroy(ad);
    gasnet_exit(0);
}
