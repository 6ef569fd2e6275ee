/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC's collectives and atomic operations against sequential models: random sizes, layouts, first
 * threads and flags.  Arguments: seed, rounds.
 */
#include "tests/upc/upc_common.h"

static uint64_t common;

static upc_flag_t random_flags(void)
{
    static const upc_flag_t in[] = { 0, UPC_IN_ALLSYNC, UPC_IN_MYSYNC };
    static const upc_flag_t out[] = { 0, UPC_OUT_ALLSYNC };
    return in[below(&common, 3)] | out[below(&common, 2)];
}

/* Byte i of array `tag` as the round has it. */
static unsigned char byte(uint64_t tag, uint64_t i)
{
    return (unsigned char)((i * 2654435761u + tag * 40503u) >> 7);
}

/* Every thread fills its part of an array of `each` bytes a thread. */
static upc_pts_t filled(size_t each, uint64_t tag)
{
    upc_pts_t p = upc_all_alloc((size_t)THREADS, each);

    CHECK(!upc_pts_is_null(p));

    unsigned char *mine = upc_pts_local(upc_pts_add(p, each, 1, MYTHREAD));

    for (size_t i = 0; i < each; i++)
        mine[i] = byte(tag + (uint64_t)MYTHREAD * 977, i);

    return p;
}

/* Byte i of thread t's part. */
static unsigned char source(uint64_t tag, int t, uint64_t i)
{
    return byte(tag + (uint64_t)t * 977, i);
}

/* ---- moving ---- */

static void moving(void)
{
    const size_t T = (size_t)THREADS;
    const size_t sizes[] = { 1, 8, 1 + below(&common, 300), 1 + below(&common, 40000) };
    size_t n = sizes[below(&common, 4)];
    uint64_t tag = next_random(&common);
    int root = (int)below(&common, (uint32_t)THREADS);
    upc_flag_t flags = random_flags();
    upc_pts_t src = filled(n * T, tag);
    upc_pts_t dst = filled(n * T, 1);
    upc_pts_t perm = upc_all_alloc(T, sizeof(int));
    unsigned char *mine = upc_pts_local(upc_pts_add(dst, n * T, 1, MYTHREAD));
    upc_pts_t at_root = upc_pts_add(src, n * T, 1, root);
    upc_pts_t dst_at_root = upc_pts_add(dst, n * T, 1, root);
    int shift = (int)below(&common, (uint32_t)THREADS);

    upc_all_broadcast(dst, at_root, n, flags);
    for (size_t i = 0; i < n; i++)
        CHECK(mine[i] == source(tag, root, i));

    upc_all_scatter(dst, at_root, n, flags);
    for (size_t i = 0; i < n; i++)
        CHECK(mine[i] == source(tag, root, (size_t)MYTHREAD * n + i));

    upc_all_gather(dst_at_root, src, n, flags);
    for (size_t i = 0; MYTHREAD == root && i < n * T; i++)
        CHECK(mine[i] == source(tag, (int)(i / n), i % n));

    upc_all_gather_all(dst, src, n, flags);
    for (size_t i = 0; i < n * T; i++)
        CHECK(mine[i] == source(tag, (int)(i / n), i % n));

    upc_all_exchange(dst, src, n, flags);
    for (size_t i = 0; i < n * T; i++)
        CHECK(mine[i] == source(tag, (int)(i / n), (size_t)MYTHREAD * n + i % n));

    upc_put_int(upc_pts_add(perm, sizeof(int), 1, MYTHREAD), (MYTHREAD + shift) % THREADS);
    upc_all_permute(dst, src, perm, n, flags);
    for (size_t i = 0; i < n; i++)
        CHECK(mine[i] == source(tag, (MYTHREAD - shift + THREADS) % THREADS, i));

    upc_all_free(src);
    upc_all_free(dst);
    upc_all_free(perm);
}

/* ---- reducing ---- */

/* x -> m * x + c modulo 65521, first a then b: associative, and the order matters. */
static unsigned long compose(unsigned long a, unsigned long b)
{
    unsigned long m = (a >> 32) * (b >> 32) % 65521;
    unsigned long c = ((a & 0xffffffff) * (b >> 32) + (b & 0xffffffff)) % 65521;

    return m << 32 | c;
}

static long gcd_like(long a, long b)
{
    return a ^ (b * 0);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static struct {
    /* skip: elements of the allocation before the array, which so begins inside a block */
    size_t n, block, skip;
    int first;
} shape;

/* Element i of an array of the shape, in an allocation that begins in thread shape.first at
 * base. */
static upc_pts_t element(upc_pts_t base, size_t size, size_t i)
{
    return upc_pts_add(base, size, shape.block, (ptrdiff_t)(shape.skip + i));
}

/* The parts of all threads of an array of `room` bytes a thread, fetched at once: element by
 * element would be a message each. */
static struct {
    unsigned char *bytes;
    size_t room;
    uint64_t addr;
} mirror;

static void fetch(upc_pts_t base, size_t room)
{
    mirror.bytes = realloc(mirror.bytes, room * (size_t)THREADS);
    mirror.room = room;
    mirror.addr = upc_pts_addr(base);
    CHECK(mirror.bytes);

    for (int t = 0; t < THREADS; t++)
        upc_memget_nbi(mirror.bytes + (size_t)t * room, upc_pts_make((uint32_t)t, 0, mirror.addr),
                       room);

    upc_synci();
}

static void *fetched(upc_pts_t p)
{
    size_t at = upc_pts_addr(p) - mirror.addr;

    CHECK(at < mirror.room);
    return mirror.bytes + upc_threadof(p) * mirror.room + at;
}

#define TRY_REDUCE(NAME, T, OP, EXPR, FUNC) \
    { \
        T acc = 0, got; \
        for (size_t i = 0; i < shape.n; i++) \
            if (upc_threadof(element(src, sizeof(T), i)) == (size_t)MYTHREAD) \
                UPC_STORE(T, element(src, sizeof(T), i), (T)VALUE(i)); \
        upc_flag_t flags = random_flags(); \
        upc_barrier(); \
        upc_all_reduce##NAME(dst, element(src, sizeof(T), 0), OP, shape.n, shape.block, FUNC, \
                             flags); \
        upc_all_prefix_reduce##NAME(element(all, sizeof(T), 0), element(src, sizeof(T), 0), OP, \
                                    shape.n, shape.block, FUNC, flags); \
        fetch(all, room); \
        for (size_t i = 0; i < shape.n; i++) { \
            T a = acc, b = (T)VALUE(i); \
            acc = i == 0 ? b : (T)(EXPR); \
            memcpy(&got, fetched(element(all, sizeof(T), i)), sizeof got); \
            CHECK(got == acc); \
        } \
        CHECK(UPC_LOAD(T, dst) == acc); \
        upc_barrier(); \
    }
#define VALUE(i) (((i)*37 + salt) % 11 - 3)

static void reducing(void)
{
    const size_t blocks[] = { 0, 1, 2 + below(&common, 5), 1 + below(&common, 400) };
    size_t salt = next_random(&common) % 1000;
    size_t room;

    shape.block = blocks[below(&common, 4)];
    shape.n = 1 + below(&common, 3000);
    shape.first = (int)below(&common, (uint32_t)THREADS);
    shape.skip = below(&common, 2) && shape.block ? below(&common, 3 * (uint32_t)shape.block) : 0;
    room = (shape.block
                ? ((shape.skip + shape.n) / (shape.block * (size_t)THREADS) + 2) * shape.block
                : shape.n) *
           16;

    upc_pts_t src = upc_pts_add(upc_all_alloc((size_t)THREADS, room), room, 1, shape.first);
    upc_pts_t all = upc_pts_add(upc_all_alloc((size_t)THREADS, room), room, 1, shape.first);
    upc_pts_t dst = upc_pts_add(upc_all_alloc((size_t)THREADS, 16), 16, 1,
                                (int)below(&common, (uint32_t)THREADS));

    TRY_REDUCE(I, int, UPC_ADD, a + b, NULL)
    TRY_REDUCE(L, long, UPC_MAX, a > b ? a : b, NULL)
    TRY_REDUCE(C, signed char, UPC_MIN, a < b ? a : b, NULL)
    TRY_REDUCE(UC, unsigned char, UPC_XOR, a ^ b, NULL)
    TRY_REDUCE(S, short, UPC_AND, a &b, NULL)
    TRY_REDUCE(US, unsigned short, UPC_OR, a | b, NULL)
    TRY_REDUCE(UI, unsigned, UPC_MULT, a *b, NULL)
    TRY_REDUCE(F, float, UPC_LOGOR, a || b, NULL)
    TRY_REDUCE(D, double, UPC_ADD, a + b, NULL)
    TRY_REDUCE(D, double, UPC_FUNC, larger(a, b), larger)
    TRY_REDUCE(LD, long double, UPC_LOGAND, a &&b, NULL)
    TRY_REDUCE(L, long, UPC_NONCOMM_FUNC, gcd_like(a, b), gcd_like)
#undef VALUE
#define VALUE(i) ((((i)*7 + salt) % 5 + 1) << 32 | ((i)*13 % 101))
    TRY_REDUCE(UL, unsigned long, UPC_NONCOMM_FUNC, compose(a, b), compose)
    upc_all_free(upc_pts_make(0, 0, upc_pts_addr(src)));
    upc_all_free(upc_pts_make(0, 0, upc_pts_addr(all)));
    upc_all_free(upc_pts_make(0, 0, upc_pts_addr(dst)));
}

/* ---- sorting ---- */

struct record {
    int key;
    int check[2];
};

static int by_key(upc_pts_t p, upc_pts_t q)
{
    int a = UPC_LOAD(int, p);
    int b = UPC_LOAD(int, q);

    return (a > b) - (a < b);
}

static void sorting(void)
{
    const size_t blocks[] = { 0, 1, 2 + below(&common, 5), 1 + below(&common, 400) };
    size_t block = blocks[below(&common, 4)];
    size_t n = 1 + below(&common, 4000);
    size_t size = sizeof(struct record);
    int spread = 1 << below(&common, 24);
    size_t skip = block && below(&common, 2) ? below(&common, 3 * (uint32_t)block) : 0;
    size_t room = (block ? ((skip + n) / (block * (size_t)THREADS) + 2) * block : n) * size;
    upc_pts_t all = upc_all_alloc((size_t)THREADS, room);
    upc_pts_t a = upc_pts_add(all, size, block, (ptrdiff_t)skip);
    int64_t sum = 0;
    int64_t after = 0;

    for (size_t i = 0; i < n; i++) {
        int key = (int)(next_random(&common) % (unsigned)spread) - spread / 2;
        struct record r = { key, { key * 3, ~key } };

        sum += (int64_t)key * key + key;

        upc_pts_t p = upc_pts_add(a, size, block, (ptrdiff_t)i);

        if (upc_threadof(p) == (size_t)MYTHREAD)
            UPC_STORE(struct record, p, r);
    }

    upc_all_sort(a, size, n, block, by_key, random_flags());

    int last = -0x7fffffff;

    fetch(all, room);
    for (size_t i = 0; i < n; i++) {
        struct record r;

        memcpy(&r, fetched(upc_pts_add(a, size, block, (ptrdiff_t)i)), sizeof r);
        CHECK(r.key >= last && r.check[0] == r.key * 3 && r.check[1] == ~r.key);
        last = r.key;
        after += (int64_t)r.key * r.key + r.key;
    }

    CHECK(after == sum);
    upc_barrier();
    upc_all_free(all);
}

/* ---- atomics ---- */

static void atomics(void)
{
    enum {
        TURNS = 200
    };

    upc_pts_t word = upc_pts_add(upc_all_alloc((size_t)THREADS, 64), 64, 1,
                                 (int)below(&common, (uint32_t)THREADS));
    upc_atomicdomain_t *longs = upc_all_atomicdomain_alloc(
        UPC_LONG, UPC_ADD | UPC_INC | UPC_GET | UPC_SET | UPC_CSWAP | UPC_MAX, 0);
    upc_atomicdomain_t *doubles = upc_all_atomicdomain_alloc(
        UPC_DOUBLE, UPC_ADD | UPC_MULT | UPC_GET, UPC_ATOMIC_HINT_LATENCY);
    upc_atomicdomain_t *pointers = upc_all_atomicdomain_alloc(UPC_PTS,
                                                              UPC_GET | UPC_SET | UPC_CSWAP, 0);
    upc_pts_t number = upc_pts_offset(word, 16);
    upc_pts_t real = upc_pts_offset(word, 8);

    if (upc_threadof(word) == (size_t)MYTHREAD)
        upc_memset(word, 0, 64);

    CHECK(longs && doubles && pointers && longs != doubles);
    upc_barrier();

    long seen = 0;
    long before;
    long two = 2;
    double half = 0.5;
    double value;

    for (int i = 0; i < TURNS; i++) {
        upc_atomic_relaxed(longs, &before, UPC_ADD, word, &two, NULL);
        CHECK(before >= seen);
        seen = before + 1;
        upc_atomic_strict(longs, NULL, UPC_INC, word, NULL, NULL);
        upc_atomic_relaxed(doubles, NULL, UPC_ADD, real, &half, NULL);

        do { /* an addition by CSWAP */
            upc_atomic_relaxed(longs, &before, UPC_GET, number, NULL, NULL);
            long more = before + 1;
            long old;
            upc_atomic_relaxed(longs, &old, UPC_CSWAP, number, &before, &more);
            if (old == before)
                break;
        } while (1);
    }

    upc_barrier();
    upc_atomic_relaxed(longs, &before, UPC_GET, word, NULL, NULL);
    upc_atomic_relaxed(doubles, &value, UPC_GET, real, NULL, NULL);
    CHECK(before == 3L * TURNS * THREADS && value == 0.5 * TURNS * THREADS);
    CHECK(UPC_LOAD(long, number) == (long)TURNS * THREADS);
    upc_barrier();

    upc_pts_t held = upc_pts_offset(word, 32);
    upc_pts_t mine = upc_pts_make((uint32_t)MYTHREAD, 3, 640);
    upc_pts_t null = UPC_NULL;
    upc_pts_t old;
    upc_pts_t same = upc_pts_make((uint32_t)MYTHREAD, 1, 640);

    if (MYTHREAD == 0)
        upc_put_pts(held, null);

    upc_barrier();
    for (int i = 0; i < 20; i++) { /* who finds it empty has it */
        do {
            upc_atomic_strict(pointers, &old, UPC_CSWAP, held, &null, &mine);
        } while (!upc_pts_is_null(old));
        /* equal but for the phase */
        upc_atomic_strict(pointers, &old, UPC_CSWAP, held, &same, &null);
        CHECK(upc_pts_eq(old, mine) && upc_phaseof(old) == 3);
    }

    upc_barrier();
    upc_all_atomicdomain_free(pointers);
    upc_all_atomicdomain_free(doubles);
    upc_all_atomicdomain_free(longs);
    upc_all_free(upc_pts_make(0, 0, upc_pts_addr(word)));
}

static int test_main(int argc, char **argv)
{
    common = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    for (int round = argc > 2 ? atoi(argv[2]) : 5; round > 0; round--) {
        moving();
        reducing();
        sorting();
        atomics();
    }

    return 0;
}

UPC_MAIN(test_main)
