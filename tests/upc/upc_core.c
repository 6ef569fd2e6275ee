/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC's core against a sequential model: pointers-to-shared of random layouts, static objects,
 * allocation, accesses of each type, copies, upc_forall, barriers, locks.  Argument: seed.
 */
#include "tests/upc/upc_common.h"

#define CYCLIC 7

struct triple {
    char a[3];
};

UPC_SHARED(, scalar, int, 1, 1);
UPC_SHARED_INITIAL(scalar)
{
    UPC_STORE(int, scalar, 41);
}

UPC_SHARED(static, cyclic, double, 1, CYCLIC *THREADS);
UPC_SHARED(static, blocked, short, 5, 23);
UPC_SHARED(, star, struct triple, UPC_BLOCK_STAR(37), 37);
UPC_SHARED(static, indefinite, int, 0, 100);
UPC_SHARED_INITIAL(indefinite)
{
    for (int i = 0; i < 100; i++)
        UPC_STORE(int, upc_pts_add(indefinite, sizeof(int), 0, i), i *i);
}

static uint64_t common, own; /* states of random numbers: the same in all threads, and not */

/* ---- pointers ---- */

static void check_spot(upc_pts_t base, upc_pts_t p, uint64_t i, size_t elem, uint64_t block)
{
    struct spot s = model_spot(i, block);

    CHECK(upc_threadof(p) == s.thread);
    CHECK(upc_phaseof(p) == (block == 1 ? 0 : s.phase));
    CHECK(upc_pts_addr(p) == upc_pts_addr(base) + s.offset * elem);
}

static void pointers(void)
{
    for (int round = 0; round < 200; round++) {
        const uint64_t blocks[] = { 0, 1, 2, 3, 1 + below(&own, 50), 1 + below(&own, 100000) };
        uint64_t block = blocks[below(&own, 6)];
        uint64_t n = 1 + below(&own, 1000000);
        size_t elem = 1 + below(&own, 40);
        upc_pts_t base = upc_pts_make(0, 0, 4096);
        upc_pts_t p = base;
        upc_pts_t q;
        uint64_t at = 0;

        for (int step = 0; step < 20; step++) {
            uint64_t to = below(&own, (uint32_t)n);

            q = upc_pts_add(p, elem, block, (ptrdiff_t)to - (ptrdiff_t)at);
            check_spot(base, q, to, elem, block);
            CHECK(upc_pts_sub(q, p, elem, block) == (ptrdiff_t)to - (ptrdiff_t)at);
            CHECK(upc_pts_sub(base, q, elem, block) == -(ptrdiff_t)to);
            CHECK(upc_pts_eq(p, q) == (to == at));
            check_spot(base, upc_pts_next(q, elem, block), to + 1, elem, block);
            check_spot(base, upc_pts_add(q, elem, block, 1), to + 1, elem, block);

            if (to) {
                check_spot(base, upc_pts_previous(q, elem, block), to - 1, elem, block);
                check_spot(base, upc_pts_add(q, elem, block, -1), to - 1, elem, block);
            }

            CHECK(upc_pts_cmp(q, p, elem, block) == (to > at) - (to < at));
            CHECK(upc_phaseof(upc_resetphase(q)) == 0 && upc_pts_eq(q, upc_resetphase(q)));
            CHECK(upc_addrfield(q) - upc_addrfield(upc_pts_make(upc_pts_thread(q), 0, 64)) ==
                  upc_pts_addr(q) - 64);
            p = q;
            at = to;
        }
    }

    upc_pts_t null = UPC_NULL;

    CHECK(upc_pts_is_null(null) && upc_addrfield(null) == 0 && !upc_pts_local(null) &&
          !upc_cast(null));
    CHECK(!upc_pts_is_null(scalar) && upc_pts_eq(null, UPC_NULL));
}

static void affinity_sizes(void)
{
    for (int round = 0; round < 300; round++) {
        size_t total = below(&own, 500);
        size_t block = below(&own, 40);
        size_t sum = 0;

        for (int t = 0; t < THREADS; t++) {
            size_t here = 0;

            for (size_t i = 0; i < total; i++)
                here += model_spot(i, block).thread == (uint32_t)t;

            CHECK(upc_affinitysize(total, block, (size_t)t) == here);
            sum += here;
        }

        CHECK(sum == total);
    }
}

/* ---- static objects ---- */

static void statics(void)
{
    CHECK(UPC_LOAD(int, scalar) == 41 && upc_threadof(scalar) == 0);
    for (int i = 0; i < 100; i++)
        CHECK(upc_get_int(upc_pts_add(indefinite, sizeof(int), 0, i)) == i * i);

    for (int i = 0; i < CYCLIC * THREADS; i++)
        CHECK(UPC_LOAD(double, upc_pts_add(cyclic, sizeof(double), 1, i)) == 0);

    upc_barrier();
    upc_forall(int i = 0, i < CYCLIC * THREADS, i++, UPC_MINE_INT(i))
    {
        upc_pts_t p = upc_pts_add(cyclic, sizeof(double), 1, i);

        CHECK(UPC_MINE_PTS(p));
        *(double *)upc_pts_local(p) = i + 0.5;
    }
    upc_forall(int i = 0, i < 23, ++i, UPC_MINE_PTS(upc_pts_add(blocked, sizeof(short), 5, i)))
        UPC_STORE(short, upc_pts_add(blocked, sizeof(short), 5, i), (short)(i * 3));

    if (MYTHREAD == THREADS - 1)
        for (int i = 0; i < 37; i++) {
            struct triple t = { { (char)i, (char)(i + 1), (char)(i + 2) } };
            UPC_STORE(struct triple, upc_pts_add(star, sizeof t, UPC_BLOCK_STAR(37), i), t);
        }

    upc_barrier();
    for (int i = 0; i < CYCLIC * THREADS; i++)
        CHECK(UPC_LOAD(double, upc_pts_add(cyclic, sizeof(double), 1, i)) == i + 0.5);

    for (int i = 0; i < 23; i++)
        CHECK(upc_get_short(upc_pts_add(blocked, sizeof(short), 5, i)) == i * 3);

    for (int i = 0; i < 37; i++) {
        upc_pts_t p = upc_pts_add(star, sizeof(struct triple), UPC_BLOCK_STAR(37), i);
        struct triple t = UPC_LOAD(struct triple, p);

        CHECK(t.a[0] == i && t.a[2] == i + 2);
        CHECK(UPC_LOAD(char, upc_pts_offset(p, 1)) == i + 1);
    }

    upc_barrier();
}

/* ---- upc_forall ---- */

static int inner_count(void)
{
    int count = 0;

    upc_forall(int j = 0, j < 10, j++, UPC_MINE_INT(j)) count++;
    return count;
}

static int find_first(int wanted)
{
    upc_forall(int i = 0, i < 1000, i++, UPC_MINE_INT(i)) if (i >= wanted) return i;
    return -1;
}

static void loops(void)
{
    int mine = 0;
    int inner = 0;

    upc_forall(int i = -20, i < 20, i++, UPC_MINE_INT(i))
    {
        CHECK(((i % THREADS) + THREADS) % THREADS == MYTHREAD);
        if (i == 3)
            continue;

        mine++;
        inner += inner_count();
    }
    CHECK(inner == mine * 10);
    CHECK(find_first(500) % THREADS == MYTHREAD && upc_self.forall == 0);
    CHECK(inner_count() <= 10 / THREADS + 1);
}

/* ---- accesses ---- */

#define TRY_TYPE(NAME, T) \
    { \
        T value = (T)TYPE_VALUE(NAME); \
        upc_pts_t p = upc_pts_add(area, 64, 1, (MYTHREAD + 1) % THREADS); \
        upc_put_##NAME(p, value); \
        CHECK(memcmp(&(T){ upc_get_##NAME(p) }, &value, SIZE_##NAME(T)) == 0); \
        upc_barrier(); \
        CHECK(upc_get_strict_##NAME(upc_pts_add(area, 64, 1, MYTHREAD)) == (T)TYPE_VALUE(NAME)); \
        upc_barrier(); \
        upc_put_strict_##NAME(p, (T)0); \
        upc_barrier(); \
        CHECK(upc_get_##NAME(upc_pts_add(area, 64, 1, MYTHREAD)) == (T)0); \
        upc_barrier(); \
    }
#define TYPE_VALUE(NAME) 77
#define SIZE_(T) sizeof(T)
#define SIZE_char SIZE_
#define SIZE_schar SIZE_
#define SIZE_uchar SIZE_
#define SIZE_short SIZE_
#define SIZE_ushort SIZE_
#define SIZE_int SIZE_
#define SIZE_uint SIZE_
#define SIZE_long SIZE_
#define SIZE_ulong SIZE_
#define SIZE_llong SIZE_
#define SIZE_ullong SIZE_
#define SIZE_bool SIZE_
#define SIZE_float SIZE_
#define SIZE_double SIZE_
#define SIZE_ldouble(T) 10

static void accesses(void)
{
    upc_pts_t area = upc_all_alloc((size_t)THREADS, 64);
    upc_pts_t held;

    /* clang-format off */
    TRY_TYPE(char, char)       TRY_TYPE(schar, signed char)   TRY_TYPE(uchar, unsigned char)
    TRY_TYPE(short, short)     TRY_TYPE(ushort, unsigned short)
    TRY_TYPE(int, int)         TRY_TYPE(uint, unsigned)
    TRY_TYPE(long, long)       TRY_TYPE(ulong, unsigned long)
    TRY_TYPE(llong, long long) TRY_TYPE(ullong, unsigned long long)
    TRY_TYPE(float, float)     TRY_TYPE(double, double)       TRY_TYPE(ldouble, long double)
    TRY_TYPE(bool, _Bool)
        /* clang-format on */

        held = upc_pts_add(area, 64, 1, MYTHREAD);
    upc_put_pts(held, upc_pts_make(0, 3, 128));
    CHECK(upc_phaseof(upc_get_pts(held)) == 3);
    upc_all_free(area);
}

/* ---- allocation ---- */

static void allocation(void)
{
    enum {
        N = 40
    };

    upc_pts_t p[N];
    size_t size[N];

    for (int i = 0; i < N; i++) {
        size[i] = 1 + below(&own, 3000);
        p[i] = i % 2 ? upc_alloc(size[i]) : upc_global_alloc((size_t)THREADS, size[i]);
        CHECK(!upc_pts_is_null(p[i]) && upc_phaseof(p[i]) == 0);
        CHECK(i % 2 ? upc_threadof(p[i]) == (size_t)MYTHREAD : upc_threadof(p[i]) == 0);
        upc_memset(i % 2 ? p[i] : upc_pts_add(p[i], size[i], 1, MYTHREAD), i + MYTHREAD, size[i]);
    }

    for (int i = 0; i < N; i++) {
        unsigned char *got = malloc(size[i]);

        upc_memget(got, i % 2 ? p[i] : upc_pts_add(p[i], size[i], 1, MYTHREAD), size[i]);
        for (size_t k = 0; k < size[i]; k++)
            CHECK(got[k] == (unsigned char)(i + MYTHREAD));

        free(got);
        if (i % 3)
            upc_free(p[i]);
    }

    for (int i = 0; i < N; i += 3)
        upc_free(p[i]);

    CHECK(upc_pts_is_null(upc_alloc(0)) && upc_pts_is_null(upc_global_alloc(0, 5)) &&
          upc_pts_is_null(upc_all_alloc(5, 0)));
    CHECK(upc_pts_is_null(upc_alloc((size_t)-100)) &&
          upc_pts_is_null(upc_global_alloc((size_t)1 << 40, (size_t)1 << 40)));
    upc_free(UPC_NULL);
    upc_all_free(UPC_NULL);

    /* each frees what its neighbour allocated */
    upc_pts_t others = upc_all_alloc((size_t)THREADS, sizeof(upc_pts_t));

    upc_put_pts(upc_pts_add(others, sizeof(upc_pts_t), 1, MYTHREAD), upc_alloc(100));
    upc_barrier();
    upc_free(upc_get_pts(upc_pts_add(others, sizeof(upc_pts_t), 1, (MYTHREAD + 1) % THREADS)));
    upc_all_free(others);
    upc_barrier();

    for (int i = 0; i < 200; i++) { /* all of the heap, again and again */
        upc_pts_t big = upc_alloc(upc_self.size / 8 * 3);
        CHECK(!upc_pts_is_null(big));
        upc_free(big);
    }

    upc_barrier();
}

/* ---- copies ---- */

static void copies(void)
{
    enum {
        PART = 200000
    };

    upc_pts_t a = upc_all_alloc((size_t)THREADS, PART);
    unsigned char *model = malloc(PART);
    unsigned char *buf = malloc(PART);

    for (int round = 0; round < 30; round++) {
        int t = (int)below(&common, (uint32_t)THREADS);
        int u = (int)below(&common, (uint32_t)THREADS);
        size_t n = below(&common, PART / 2);
        size_t at = below(&common, 1000);
        size_t way = below(&common, 3);
        unsigned char first = (unsigned char)next_random(&common);
        upc_pts_t src = upc_pts_offset(upc_pts_add(a, PART, 1, t), at);
        upc_pts_t dst = upc_pts_offset(upc_pts_add(a, PART, 1, u), PART / 2 + at);

        for (size_t i = 0; i < n; i++)
            model[i] = (unsigned char)(first + i * 7);

        if (MYTHREAD == round % THREADS) {
            upc_handle_t h = way == 1 ? upc_memput_nb(src, model, n) : UPC_COMPLETE_HANDLE;

            if (way == 0)
                upc_memput(src, model, n);
            else if (way == 1)
                while (!upc_sync_attempt(h))
                    ;
            else
                upc_memput_nbi(src, model, n), upc_synci();

            if (way == 0)
                upc_memcpy(dst, src, n);
            else if (way == 1)
                upc_sync(upc_memcpy_nb(dst, src, n));
            else {
                upc_memcpy_nbi(dst, src, n);
                while (!upc_synci_attempt())
                    ;
            }
        }

        upc_barrier();
        memset(buf, 0, n);

        if (way == 0)
            upc_memget(buf, dst, n);
        else if (way == 1)
            upc_sync(upc_memget_nb(buf, dst, n));
        else
            upc_memget_nbi(buf, dst, n), upc_synci();

        CHECK(memcmp(buf, model, n) == 0);
        upc_barrier();

        if (MYTHREAD == t && way == 1)
            upc_sync(upc_memset_nb(dst, 9, n));
        else if (MYTHREAD == t)
            upc_memset_nbi(dst, 9, n), upc_synci();

        upc_barrier();
        upc_memget(buf, dst, n);
        for (size_t i = 0; i < n; i++)
            CHECK(buf[i] == 9);

        upc_barrier();
    }

    free(model);
    free(buf);
    upc_all_free(a);
}

/* ---- barriers and locks ---- */

static void barriers(void)
{
    for (int i = 0; i < 50; i++) {
        switch (i % 5) {
        case 0:
            upc_barrier();
            break;
        case 1:
            upc_barrier_value(i);
            break;
        case 2:
            upc_notify(), upc_wait();
            break;
        case 3:
            upc_notify_value(i), upc_wait_value(i);
            break;
        default:
            if (MYTHREAD % 2)
                upc_barrier();
            else
                upc_barrier_value(i);
        }
        UPC_STORE(int, upc_pts_add(indefinite, sizeof(int), 0, MYTHREAD), i);
        upc_notify();
        upc_wait();
        for (int t = 0; t < THREADS; t++)
            CHECK(UPC_LOAD(int, upc_pts_add(indefinite, sizeof(int), 0, t)) == i);

        upc_barrier();
    }
}

static void locks(void)
{
    enum {
        TURNS = 50
    };

    upc_lock_t *lock = upc_all_lock_alloc();
    upc_lock_t *other = upc_all_lock_alloc();
    upc_lock_t *own_lock = upc_global_lock_alloc();

    CHECK(lock && other && own_lock && lock != other);
    if (MYTHREAD == 0)
        UPC_STORE(int, scalar, 0);

    upc_barrier();
    for (int i = 0; i < TURNS; i++) {
        upc_lock(lock);

        int before = UPC_LOAD(int, scalar);

        if (i % 7 == 0) { /* a second lock inside */
            upc_lock(other);
            upc_unlock(other);
        }

        CHECK(!upc_lock_attempt(own_lock) == 0);
        upc_unlock(own_lock);
        UPC_STORE(int, scalar, before + 1);
        upc_unlock(lock);
    }

    for (int got = 0; got < TURNS;)
        if (upc_lock_attempt(lock)) {
            UPC_STORE(int, scalar, UPC_LOAD(int, scalar) + 1);
            upc_unlock(lock);
            got++;
        }

    upc_barrier();
    CHECK(UPC_LOAD(int, scalar) == 2 * TURNS * THREADS);
    upc_lock_free(own_lock);
    upc_all_lock_free(other);
    upc_barrier();
    if (MYTHREAD == THREADS - 1)
        upc_lock_free(lock);

    upc_barrier();
}

static int test_main(int argc, char **argv)
{
    common = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    own = common + 1000 * (uint64_t)MYTHREAD;
    pointers();
    affinity_sizes();
    statics();
    loops();
    accesses();
    allocation();
    copies();
    barriers();
    locks();
    CHECK(upc_ticks_to_ns(upc_ticks_now()) > 0);
    CHECK((upc_cast(upc_pts_make(0, 0, 64)) != NULL) ==
          (upc_thread_info(0).guaranteedCastable == UPC_CASTABLE_ALL));

    return 0;
}

UPC_MAIN(test_main)
