/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads of a PAR client at once: messages of fixed and negotiated payload, put and get
 * with events, leaves, implicit operations and access regions; each thread checks its own data.
 * argv: seed, threads, steps. */
#include <pthread.h>

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    H_ECHO = 128,
    H_BACK,
    H_LONG,
    H_LONG_BACK,
    THREADS_MAX = 16
};
#define SLOT (64 * 1024) /* of a thread at each process: one half for puts, one for longs */

static gex_TM_t tm;
static gex_Rank_t me, size;
static char *base;
static char **bases;
static unsigned nthreads = 4;
static unsigned nsteps = 300;
static uint64_t seed = 1;

/* What a thread waits for: replies carry its number. */
static struct thread {
    pthread_t id;
    unsigned number;
    unsigned replies; /* atomic */
    uint64_t random;
    char *out, *in;
} threads[THREADS_MAX];

static char *slot(gex_Rank_t at, gex_Rank_t of, unsigned thread)
{
    return bases[at] + ((size_t)of * nthreads + thread) * SLOT;
}

/* ---- handlers ---- */

static void echo(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t thread,
                 gex_AM_Arg_t step)
{
    gex_AM_SrcDesc_t sd;

    if (step % 3 == 0) {
        CHECK(gex_AM_ReplyMedium2(token, H_BACK, buf, nbytes, GEX_EVENT_NOW, 0, thread, step) == 0);
        return;
    }

    sd = gex_AM_PrepareReplyMedium(token, NULL, nbytes, nbytes, NULL, 0, 2);
    CHECK(sd && gex_AM_SrcDescSize(sd) == nbytes);
    memcpy(gex_AM_SrcDescAddr(sd), buf, nbytes);
    gex_AM_CommitReplyMedium2(sd, H_BACK, nbytes, thread, step);
}

static void back(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t thread,
                 gex_AM_Arg_t step)
{
    (void)token;
    CHECK((unsigned)thread < nthreads &&
          right(buf, nbytes, me + (uint32_t)thread, (uint32_t)step) == nbytes);
    __atomic_add_fetch(&threads[thread].replies, 1, __ATOMIC_RELEASE);
}

static void long_in(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t thread,
                    gex_AM_Arg_t step)
{
    gex_Token_Info_t info;

    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECK((char *)buf == slot(me, info.gex_srcrank, (unsigned)thread) + SLOT / 2);
    CHECK(right(buf, nbytes, info.gex_srcrank + (uint32_t)thread, (uint32_t)step) == nbytes);
    CHECK(gex_AM_ReplyShort2(token, H_LONG_BACK, 0, thread, step) == 0);
}

static void long_back(gex_Token_t token, gex_AM_Arg_t thread, gex_AM_Arg_t step)
{
    (void)token, (void)step;
    CHECK((unsigned)thread < nthreads);
    __atomic_add_fetch(&threads[thread].replies, 1, __ATOMIC_RELEASE);
}

/* ---- what a thread does ---- */

static void await(struct thread *t, unsigned wanted)
{
    GASNET_BLOCKUNTIL(__atomic_load_n(&t->replies, __ATOMIC_ACQUIRE) == wanted);
}

static void medium(struct thread *t, gex_Rank_t to, gex_AM_Arg_t step, size_t n)
{
    gex_Event_t lc = GEX_EVENT_INVALID;
    gex_AM_Arg_t number = (gex_AM_Arg_t)t->number;

    fill(t->out, n, me + t->number, (uint32_t)step);
    if (step % 4 == 0) {
        CHECK(gex_AM_RequestMedium2(tm, to, H_ECHO, t->out, n, step % 8 ? GEX_EVENT_GROUP : &lc, 0,
                                    number, step) == 0);
    } else {
        const void *client = step % 4 == 1 ? t->out : NULL;
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, to, client, n, n + 500,
                                                          client ? GEX_EVENT_NOW : NULL, 0, 2);

        CHECK(sd && gex_AM_SrcDescSize(sd) >= n);
        if (step % 4 == 3) { /* given up, and once more */
            memset(gex_AM_SrcDescAddr(sd), 0xff, gex_AM_SrcDescSize(sd));
            CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
            sd = gex_AM_PrepareRequestMedium(tm, to, NULL, n, n, NULL, 0, 2);
        }

        if (!client)
            memcpy(gex_AM_SrcDescAddr(sd), t->out, n);

        gex_AM_CommitRequestMedium2(sd, H_ECHO, n, number, step);
    }

    gex_Event_Wait(lc);
    gex_NBI_Wait(GEX_EC_AM, 0);
}

static void longs(struct thread *t, gex_Rank_t to, gex_AM_Arg_t step, size_t n)
{
    gex_Event_t lc = GEX_EVENT_INVALID;
    gex_AM_Arg_t number = (gex_AM_Arg_t)t->number;
    char *dest = slot(to, me, t->number) + SLOT / 2;

    fill(t->out, n, me + t->number, (uint32_t)step);
    if (step % 2) {
        CHECK(gex_AM_RequestLong2(tm, to, H_LONG, t->out, n, dest, &lc, 0, number, step) == 0);
    } else {
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, to, NULL, n, n, dest, NULL, 0, 2);

        memcpy(gex_AM_SrcDescAddr(sd), t->out, n);
        gex_AM_CommitRequestLong2(sd, H_LONG, n, dest, number, step);
    }

    gex_Event_Wait(lc);
}

static void transfer(struct thread *t, gex_Rank_t to, uint32_t step, size_t n)
{
    char *there = slot(to, me, t->number);
    gex_Event_t lc = GEX_EVENT_INVALID;
    gex_Event_t ev;

    fill(t->out, n, me + t->number, step);
    memset(t->in, 0, n);

    if (step % 3 == 0) {
        ev = gex_RMA_PutNB(tm, to, there, t->out, n, &lc, 0);
        gex_Event_Wait(lc);
        memset(t->out, 0, n);
        gex_Event_Wait(ev);
        ev = gex_RMA_GetNB(tm, t->in, to, there, n, 0);
        while (gex_Event_Test(ev))
            gasnet_AMPoll();
    } else if (step % 3 == 1) {
        CHECK(gex_RMA_PutNBI(tm, to, there, t->out, n, GEX_EVENT_GROUP, 0) == 0);
        gex_NBI_Wait(GEX_EC_LC, 0);
        memset(t->out, 0, n);
        gex_NBI_Wait(GEX_EC_PUT, 0);
        CHECK(gex_RMA_GetNBI(tm, t->in, to, there, n, 0) == 0);
        gex_NBI_Wait(GEX_EC_GET, 0);
    } else {
        gex_NBI_BeginAccessRegion(0);
        for (size_t at = 0; at < n; at += 1000)
            CHECK(gex_RMA_PutNBI(tm, to, there + at, t->out + at, n - at < 1000 ? n - at : 1000,
                                 GEX_EVENT_DEFER, 0) == 0);

        gex_Event_Wait(gex_NBI_EndAccessRegion(0));
        CHECK(gex_RMA_GetBlocking(tm, t->in, to, there, n, 0) == 0);
    }

    CHECK(right(t->in, n, me + t->number, step) == n);
}

static void *run(void *arg)
{
    struct thread *t = arg;
    unsigned expected = 0;

    for (unsigned step = 0; step < nsteps; step++) {
        gex_Rank_t to = next_random(&t->random) % size;
        size_t n = 1 + next_random(&t->random) % (step % 5 ? 500 : SLOT / 2 - 1000);

        switch (next_random(&t->random) % 3) {
        case 0:
            medium(t, to, (gex_AM_Arg_t)step, n), expected++;
            break;
        case 1:
            longs(t, to, (gex_AM_Arg_t)step, n), expected++;
            break;
        default:
            transfer(t, to, step, n);
            break;
        }
        await(t, expected); /* the memory here and there is used again */
    }

    return NULL;
}

int main(int argc, char **argv)
{
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_AM_Entry_t table[] = {
        { H_ECHO, (gex_AM_Fn_t)echo, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 2, NULL, "echo" },
        { H_BACK, (gex_AM_Fn_t)back, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 2, NULL, "back" },
        { H_LONG, (gex_AM_Fn_t)long_in, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL,
          "long_in" },
        { H_LONG_BACK, (gex_AM_Fn_t)long_back, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 2, NULL,
          "long_back" },
    };

    if (gex_Client_Init(NULL, &ep, &tm, "TEST_NP_THREADS", &argc, &argv, 0) != GASNET_OK)
        return 2;

    me = gex_System_QueryJobRank();
    size = gex_System_QueryJobSize();
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    nthreads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 4;
    nsteps = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : 300;
    CHECK(nthreads >= 1 && nthreads <= THREADS_MAX);
    printf("process %u: seed %llu\n", me, (unsigned long long)seed);
    CHECK(gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table) == GASNET_OK);

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (uintptr_t)size * nthreads * SLOT;

    CHECK(gex_Segment_Attach(&seg, tm, (bytes + page - 1) / page * page) == GASNET_OK);
    base = gex_Segment_QueryAddr(seg);
    bases = calloc(size, sizeof *bases);
    for (gex_Rank_t i = 0; i < size; i++)
        CHECK(gex_Segment_QueryBound(tm, i, (void **)&bases[i], NULL, NULL) == 0);

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    for (unsigned i = 0; i < nthreads; i++) {
        threads[i] = (struct thread){ .number = i,
                                      .random = seed * 1000003 + me * 101 + i,
                                      .out = malloc(SLOT),
                                      .in = malloc(SLOT) };
        CHECK(threads[i].out && threads[i].in);
    }

    for (unsigned i = 0; i < nthreads; i++) /* replies to one may be taken by any of them */
        CHECK(pthread_create(&threads[i].id, NULL, run, &threads[i]) == 0);

    for (unsigned i = 0; i < nthreads; i++) {
        CHECK(pthread_join(threads[i].id, NULL) == 0);
        free(threads[i].out);
        free(threads[i].in);
    }

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    free(bases);
    gasnet_exit(0);
}
