/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory model (UPC 1.3, 5.1.2.3 and appendix B): what strict accesses forbid is never seen;
 * what split barriers order is seen. Argument: rounds.  Each word has a line of its own,
 * the threads' roles move round.
 */
#include "tests/upc/upc_common.h"

static upc_pts_t lines; /* 64 bytes in each thread for each of 16 words */
static upc_pts_t seen;  /* shared int [THREADS]: what each thread has read */

static upc_pts_t word(int owner, int i)
{
    return upc_pts_offset(upc_pts_add(lines, 1024, 1, owner % THREADS), (size_t)i * 64);
}

static int role(int round)
{
    return (MYTHREAD + round) % THREADS;
}

static void reset(int round)
{
    upc_barrier();
    memset(upc_pts_local(upc_pts_add(lines, 1024, 1, MYTHREAD)), 0, 1024);
    upc_barrier();
}

static void tell(int value)
{
    UPC_STORE(int, upc_pts_add(seen, sizeof(int), 1, MYTHREAD), value);
}

static int told(int role_wanted, int round)
{
    int t = ((role_wanted - round) % THREADS + THREADS) % THREADS;
    return UPC_LOAD(int, upc_pts_add(seen, sizeof(int), 1, t));
}

/* data is relaxed, flag strict: who sees the flag sees the data. */
static void message(int round)
{
    upc_pts_t data = word(round, 0);
    upc_pts_t flag = word(round + 1, 1);

    reset(round);
    if (role(round) == 0) {
        UPC_STORE(int, data, 7);
        UPC_STORE_STRICT(int, flag, 1);
    } else {
        while (!UPC_LOAD_STRICT(int, flag))
            ;

        CHECK(UPC_LOAD(int, data) == 7);
    }
}

/* x = 1; r = y against y = 1; r = x, all strict: not both read 0. */
static void store_buffers(int round)
{
    upc_pts_t x = word(round, 0);
    upc_pts_t y = word(round + 1, 1);

    reset(round);
    if (role(round) == 0) {
        UPC_STORE_STRICT(int, x, 1);
        tell(UPC_LOAD_STRICT(int, y));
    } else if (role(round) == 1) {
        UPC_STORE_STRICT(int, y, 1);
        tell(UPC_LOAD_STRICT(int, x));
    }

    upc_barrier();
    CHECK(told(0, round) || told(1, round));
}

/* The same with relaxed accesses and a fence between them. */
static void fenced_buffers(int round)
{
    upc_pts_t x = word(round, 0);
    upc_pts_t y = word(round + 1, 1);

    reset(round);
    if (role(round) < 2) {
        UPC_STORE(int, role(round) ? y : x, 1);
        upc_fence();
        tell(UPC_LOAD(int, role(round) ? x : y));
    }

    upc_barrier();
    CHECK(told(0, round) || told(1, round));
}

/* Two write one word each, two read both, in opposite orders, all strict: the readers agree which
 * write came first. */
static void independent_writes(int round)
{
    upc_pts_t x = word(round, 0);
    upc_pts_t y = word(round + 1, 1);

    reset(round);
    if (role(round) == 0)
        UPC_STORE_STRICT(int, x, 1);

    if (role(round) == 1)
        UPC_STORE_STRICT(int, y, 1);

    if (role(round) == 2 || role(round) == 3) {
        int first = UPC_LOAD_STRICT(int, role(round) == 2 ? x : y);
        int second = UPC_LOAD_STRICT(int, role(round) == 2 ? y : x);

        tell(first && !second);
    }

    upc_barrier();
    if (THREADS >= 4)
        CHECK(!(told(2, round) && told(3, round)));
}

/* A third thread that has seen the second strict write, which followed a look at the first, sees
 * the first too. */
static void third_thread(int round)
{
    upc_pts_t x = word(round, 0);
    upc_pts_t y = word(round + 1, 1);

    reset(round);
    if (role(round) == 0)
        UPC_STORE_STRICT(int, x, 1);

    if (role(round) == 1) {
        int saw = UPC_LOAD_STRICT(int, x);
        UPC_STORE_STRICT(int, y, 1 + saw);
    }

    if (role(round) == 2) {
        int later = UPC_LOAD_STRICT(int, y);
        int earlier = UPC_LOAD_STRICT(int, x);

        tell(later == 2 && !earlier);
    }

    upc_barrier();
    if (THREADS >= 3)
        CHECK(!told(2, round));
}

/* Two relaxed writes to one word by one thread are seen in their order by everyone (coherence). */
static void coherence(int round)
{
    upc_pts_t x = word(round, 0);

    reset(round);
    if (role(round) == 0) {
        for (int i = 1; i <= 50; i++)
            UPC_STORE(int, x, i);
    } else {
        int last = 0;

        for (int i = 0; i < 50; i++) {
            int now = UPC_LOAD(int, x);

            CHECK(now >= last);
            last = now;
        }
    }

    upc_barrier();
    CHECK(UPC_LOAD(int, x) == 50);
}

/* What is written before notify is seen after the matching wait, also where the reader did something
 * else between. */
static void split_barrier(int round)
{
    upc_pts_t own = word(MYTHREAD, 2);
    upc_pts_t next = word(MYTHREAD + 1, 2);

    reset(round);
    UPC_STORE(int, own, round + 1);
    upc_notify();
    UPC_STORE(int, word(MYTHREAD, 3), 5);
    upc_wait();
    CHECK(UPC_LOAD(int, next) == round + 1);
    upc_barrier();
}

/* The data of a lock's last holder is there. */
static void locked(int round)
{
    static upc_lock_t *lock;

    if (!lock)
        lock = upc_all_lock_alloc();

    reset(round);
    for (int i = 0; i < 3; i++) {
        upc_lock(lock);

        int a = UPC_LOAD(int, word(round, 4));
        int b = UPC_LOAD(int, word(round + 1, 4));

        CHECK(a == b);
        UPC_STORE(int, word(round, 4), a + 1);
        UPC_STORE(int, word(round + 1, 4), b + (THREADS > 1));
        upc_unlock(lock);
    }

    upc_barrier();
    CHECK(UPC_LOAD(int, word(round, 4)) == 3 * THREADS);
}

static int test_main(int argc, char **argv)
{
    lines = upc_all_alloc((size_t)THREADS, 1024);
    seen = upc_all_alloc((size_t)THREADS, sizeof(int));

    for (int round = 0; round < (argc > 1 ? atoi(argv[1]) : 100); round++) {
        coherence(round);
        split_barrier(round);
        if (THREADS < 2)
            continue;

        message(round);
        store_buffers(round);
        fenced_buffers(round);
        independent_writes(round);
        third_thread(round);
        locked(round);
    }

    return 0;
}

UPC_MAIN(test_main)
