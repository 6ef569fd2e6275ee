/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads (PAR) that mix the calls of both APIs at random, each with data of its own: puts and gets
 * in all forms of completion, values, memset, access regions, events in arrays, messages with
 * replies; every result is checked.  Usage: gex_mix_threads [SEED [STEPS]]. Meant for
 * ThreadSanitizer too.
 */
#include <pthread.h>

#include "gasnet_tools.h"
#include "gasnet.h"

#include "tests/gex/gex_common.h"

enum {
    THREADS = 4,
    SLOTS = 16,
    SLOT = 4096,
    H_ECHO = 200,
    H_BACK
};
#define PART (SLOTS * SLOT)

static gex_TM_t tm;
static gex_Rank_t me, size;
static gasnet_seginfo_t *segment;
static unsigned long seed = 1;
static unsigned long steps = 150;
static gasnett_atomic_t answers[THREADS];

struct worker {
    unsigned number;
    uint64_t state;
    unsigned char *mine[SLOTS]; /* what the slots of my part at `to` hold */
    gex_Rank_t to;
    unsigned char local[2 * SLOT];
};

static uint32_t draw(struct worker *w, uint32_t below)
{
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->state >> 33) % below;
}

/* My part of the segment of the process that I write to: nobody else touches it. */
static unsigned char *part(const struct worker *w, unsigned slot)
{
    return (unsigned char *)segment[w->to].addr + ((size_t)me * THREADS + w->number) * PART +
           (size_t)slot * SLOT;
}

static void echo(gex_Token_t token, gex_AM_Arg_t thread)
{
    CHECK(gex_AM_ReplyShort1(token, H_BACK, 0, thread) == 0);
}

static void back(gex_Token_t token, gex_AM_Arg_t thread)
{
    (void)token;
    gasnett_atomic_increment(&answers[thread], GASNETT_ATOMIC_REL);
}

/* ---- writing one slot, by one of several ways; complete upon return ---- */

static void put_nb_leaf(struct worker *w, unsigned slot, size_t len)
{
    gex_Event_t local;
    gex_Event_t all = gex_RMA_PutNB(tm, w->to, part(w, slot), w->mine[slot], len, &local, 0);

    gex_Event_Wait(local);
    gex_Event_Wait(all);
}

static void put_blocking(struct worker *w, unsigned slot, size_t len)
{
    CHECK(gex_RMA_PutBlocking(tm, w->to, part(w, slot), w->mine[slot], len, 0) == 0);
}

static void put_nbi(struct worker *w, unsigned slot, size_t len)
{
    CHECK(gex_RMA_PutNBI(tm, w->to, part(w, slot), w->mine[slot], len, GEX_EVENT_DEFER, 0) == 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void put_in_region(struct worker *w, unsigned slot, size_t len)
{
    size_t half = len / 2;

    gasnet_begin_nbi_accessregion();
    gasnet_put_nbi_bulk(w->to, part(w, slot), w->mine[slot], half);
    gasnet_put_nbi(w->to, part(w, slot) + half, w->mine[slot] + half, len - half);
    gasnet_wait_syncnb(gasnet_end_nbi_accessregion());
}

static void put_values(struct worker *w, unsigned slot, size_t len)
{
    gasnet_handle_t h[SLOT / 8];
    size_t n = len / 8;

    for (size_t i = 0; i < n; i++) {
        gasnet_register_value_t v = amphora_load_val(w->mine[slot] + 8 * i, 8);
        h[i] = gasnet_put_nb_val(w->to, part(w, slot) + 8 * i, v, 8);
    }

    gasnet_wait_syncnb_all(h, n);
    CHECK(gex_RMA_PutBlocking(tm, w->to, part(w, slot) + 8 * n, w->mine[slot] + 8 * n, len - 8 * n,
                              0) == 0);
}

static void set_memory(struct worker *w, unsigned slot, size_t len)
{
    int byte = (int)draw(w, 256);

    memset(w->mine[slot], byte, len);
    if (draw(w, 2)) {
        gasnet_memset(w->to, part(w, slot), byte, len);
    } else {
        gasnet_handle_t h = gasnet_memset_nb(w->to, part(w, slot), byte, len);
        while (gasnet_try_syncnb(h) == GASNET_ERR_NOT_READY)
            gasnett_sched_yield();
    }
}

static void write_slot(struct worker *w)
{
    static void (*const ways[])(struct worker *, unsigned, size_t) = { put_nb_leaf, put_blocking,
                                                                       put_nbi,     put_in_region,
                                                                       put_values,  set_memory };

    unsigned slot = draw(w, SLOTS);
    size_t len = 1 + draw(w, SLOT);

    for (size_t i = 0; i < len; i++)
        w->mine[slot][i] = (unsigned char)draw(w, 256);

    ways[draw(w, sizeof ways / sizeof ways[0])](w, slot, len);
}

/* ---- reading slots ---- */

static void read_one(struct worker *w)
{
    unsigned slot = draw(w, SLOTS);
    size_t start = draw(w, SLOT);
    size_t len = 1 + draw(w, (uint32_t)(SLOT - start));
    unsigned char *to = w->local + draw(w, 8);

    switch (draw(w, 4)) {
    case 0:
        CHECK(gex_RMA_GetBlocking(tm, to, w->to, part(w, slot) + start, len, 0) == 0);
        break;
    case 1:
        gex_Event_Wait(gex_RMA_GetNB(tm, to, w->to, part(w, slot) + start, len, 0));
        break;
    case 2:
        gasnet_get_nbi_bulk(to, w->to, part(w, slot) + start, len);
        gasnet_wait_syncnbi_gets();
        break;
    default:
        len = len < 8 ? len : 8;
        amphora_store_val(
            to, gasnet_wait_syncnb_valget(gasnet_get_nb_val(w->to, part(w, slot) + start, len)),
            len);
        break;
    }
    CHECK(memcmp(to, w->mine[slot] + start, len) == 0);
}

/* Eight gets at once, taken as they come. */
static void read_some(struct worker *w)
{
    gex_Event_t event[8];
    unsigned slot[8];
    size_t left = 8;

    for (unsigned i = 0; i < 8; i++) {
        slot[i] = draw(w, SLOTS);
        event[i] = gex_RMA_GetNB(tm, w->local + 512 * i, w->to, part(w, slot[i]), 512, 0);
    }

    while (left) {
        int rc = draw(w, 2) ? (gex_Event_WaitSome(event, 8, 0), 0)
                            : gex_Event_TestSome(event, 8, 0);

        if (rc)
            gasnet_AMPoll();

        left = 0;
        for (unsigned i = 0; i < 8; i++)
            left += event[i] != GEX_EVENT_INVALID;
    }

    for (unsigned i = 0; i < 8; i++)
        CHECK(memcmp(w->local + 512 * i, w->mine[slot[i]], 512) == 0);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    gasnett_atomic_val_t asked = 0;

    for (unsigned long i = 0; i < steps; i++) {
        write_slot(w);
        read_one(w);
        if (i % 4 == 0)
            read_some(w);

        CHECK(gex_AM_RequestShort1(tm, draw(w, size), H_ECHO, 0, (gex_AM_Arg_t)w->number) == 0);
        asked++;
    }

    GASNET_BLOCKUNTIL(gasnett_atomic_read(&answers[w->number], GASNETT_ATOMIC_ACQ) == asked);
    return NULL;
}

/* Sets a thread's own view of its slots to what the segment holds at the start: zeros. */
static struct worker *make_worker(unsigned number)
{
    struct worker *w = calloc(1, sizeof *w);

    CHECK(w != NULL);
    w->number = number;
    w->state = seed * 1000003 + me * 101 + number;
    w->to = (gex_Rank_t)((me + number) % size);
    for (unsigned i = 0; i < SLOTS; i++)
        CHECK((w->mine[i] = calloc(1, SLOT)) != NULL);

    return w;
}

static void free_worker(struct worker *w)
{
    for (unsigned i = 0; i < SLOTS; i++)
        free(w->mine[i]);

    free(w);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = { { H_ECHO, (gex_AM_Fn_t)echo },
                                      { H_BACK, (gex_AM_Fn_t)back } };
    struct worker *w[THREADS];
    pthread_t thread[THREADS];

    if (gasnet_init(&argc, &argv) != GASNET_OK)
        return 3;

    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : seed;
    steps = argc > 2 ? strtoul(argv[2], NULL, 10) : steps;
    me = gasnet_mynode();
    size = gasnet_nodes();
    CHECK(gasnet_attach(table, 2,
                        ((uintptr_t)size * THREADS * PART + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE *
                            GASNET_PAGESIZE,
                        0) == 0);
    CHECK((segment = calloc(size, sizeof *segment)) != NULL);
    CHECK(gasnet_getSegmentInfo(segment, (int)size) == 0);
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    memset(segment[me].addr, 0, (size_t)size * THREADS * PART);
    if (me == 0)
        printf("seed %lu\n", seed);

    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = make_worker(i);
        CHECK(pthread_create(&thread[i], NULL, work, w[i]) == 0);
    }

    /* the main thread is in a barrier meanwhile */
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    while (gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_ERR_NOT_READY)
        gasnett_sched_yield();

    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        free_worker(w[i]);
    }

    free(segment);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);

    return 0;
}
