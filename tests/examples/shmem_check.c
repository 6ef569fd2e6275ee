/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenSHMEM-like example library: each call with data that is looked at, in the heap and in
 * variables of the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/shmem/shmem.h"

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: PE %d: %s does not hold\n", __FILE__, __LINE__, shmem_my_pe(), \
                    #cond); \
            shmem_global_exit(1); \
        } \
    } while (0)

static int me, n;
static long psync[2][SHMEM_SYNC_SIZE]; /* used in turn */
static int turn;
static long *next_sync(void)
{
    return psync[turn++ & 1];
}

/* ---- heap and queries ---- */

static void heap(void)
{
    char *a = shmem_malloc(1000);
    char *b = shmem_align(4096, 100);
    char *c = shmem_calloc(100, 8);

    CHECK(a && b && c && a != b && (uintptr_t)b % 4096 == 0);
    for (int i = 0; i < 800; i++)
        CHECK(c[i] == 0);

    long where[3] = { a - c, b - c, 0 };
    static long seen[3];

    shmem_barrier_all();
    if (me == 0)
        for (int pe = 0; pe < n; pe++)
            shmem_putmem(seen, where, sizeof where, pe);

    shmem_barrier_all();
    CHECK(memcmp(seen, where, sizeof where) == 0); /* the same places everywhere */
    memset(a, me + 1, 1000);
    a = shmem_realloc(a, 100000);
    CHECK(a && a[999] == me + 1);
    a = shmem_realloc(a, 10);
    CHECK(a && a[9] == me + 1);
    shmem_free(b);
    shmem_free(c);
    shmem_free(a);
    shmem_free(NULL);
    CHECK(shmem_malloc(0) == NULL && shmem_malloc(SIZE_MAX) == NULL &&
          shmem_malloc((size_t)1 << 40) == NULL && shmem_align(48, 8) == NULL);

    char *all = shmem_malloc((size_t)63 << 20); /* nothing is lost */

    CHECK(all);
    shmem_free(all);

    int major, minor, provided;
    char name[SHMEM_MAX_NAME_LEN];

    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    shmem_query_thread(&provided);
    CHECK(major == 1 && minor == 4 && strlen(name) > 0 && provided == SHMEM_THREAD_FUNNELED);
    CHECK(shmem_pe_accessible(n - 1) && !shmem_pe_accessible(n) && !shmem_pe_accessible(-1));
    CHECK(shmem_addr_accessible(seen, 0) && !shmem_addr_accessible(where, 0) &&
          shmem_ptr(seen, me) == seen);
}

/* ---- transfers ---- */

#define BLOCK 300000
static char variable[BLOCK];

static void blocks(char *to, size_t size, int nbi)
{
    int right = (me + 1) % n;
    int left = (me + n - 1) % n;
    char *from = malloc(size);
    char *back = malloc(size);

    CHECK(from && back);
    for (size_t i = 0; i < size; i++)
        from[i] = (char)(i * 7 + (size_t)me);

    memset(to, 0, size);
    shmem_barrier_all();

    if (nbi)
        shmem_putmem_nbi(to, from, size, right);
    else {
        shmem_putmem(to, from, size, right);
        memset(from, 0, size); /* free again on return */
    }

    shmem_barrier_all();
    for (size_t i = 0; i < size; i++)
        CHECK(to[i] == (char)(i * 7 + (size_t)left));

    memset(back, 0, size);
    if (nbi) {
        shmem_getmem_nbi(back, to, size, right);
        shmem_quiet();
    } else
        shmem_getmem(back, to, size, right);

    for (size_t i = 0; i < size; i++)
        CHECK(back[i] == (char)(i * 7 + (size_t)me));

    shmem_barrier_all();
    free(from);
    free(back);
}

/* Each typed call once: to in the heap and in a variable. */
#define TYPED(NAME, T) \
    static T var_##NAME[40]; \
    static void typed_##NAME(T *to) \
    { \
        int right = (me + 1) % n, left = (me + n - 1) % n; \
        T from[20], got[20]; \
        for (int i = 0; i < 20; i++) \
            from[i] = (T)(me * 5 + i); \
        shmem_##NAME##_put(to, from, 10, right); \
        shmem_##NAME##_put_nbi(to + 10, from + 10, 5, right); \
        for (int i = 15; i < 20; i++) \
            shmem_##NAME##_p(to + i, from[i], right); \
        shmem_##NAME##_iput(to + 20, from, 2, 3, 7, right); \
        shmem_barrier_all(); \
        for (int i = 0; i < 20; i++) \
            CHECK(to[i] == (T)(left * 5 + i)); \
        for (int i = 0; i < 7; i++) \
            CHECK(to[20 + i * 2] == (T)(left * 5 + i * 3)); \
        shmem_##NAME##_get(got, to, 5, right); \
        shmem_##NAME##_get_nbi(got + 5, to + 5, 5, right); \
        shmem_quiet(); \
        shmem_##NAME##_iget(got + 10, to, 1, 2, 9, right); \
        got[19] = shmem_##NAME##_g(to + 19, right); \
        for (int i = 0; i < 20; i++) \
            CHECK(got[i] == (T)(me * 5 + (i < 10 || i == 19 ? i : (i - 10) * 2))); \
        shmem_barrier_all(); \
        memset(to, 0, 40 * sizeof(T)); \
        shmem_barrier_all(); \
    }
SHMEM_RMA_TYPES(TYPED)

static void transfers(void)
{
    char *room = shmem_malloc(BLOCK);
    char *typed = shmem_calloc(40, 16);
    char *sized = shmem_calloc(64, 16);

    CHECK(room && typed && sized);

    static const size_t sizes[] = { 1, 8, 100, 4096, 70000, BLOCK };

    for (int nbi = 0; nbi < 2; nbi++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            blocks(room, sizes[i], nbi);
            blocks(variable, sizes[i], nbi);
        }
#define RUN(NAME, T) \
    typed_##NAME((T *)typed); \
    typed_##NAME(var_##NAME);
    SHMEM_RMA_TYPES(RUN)

    int right = (me + 1) % n;
    int left = (me + n - 1) % n;
    char from[64 * 16], got[64 * 16];

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 3 + (size_t)me);
#define SIZED(BITS, BYTES) \
    shmem_put##BITS(sized, from, 16, right); \
    shmem_put##BITS##_nbi(sized + 16 * BYTES, from + 16 * BYTES, 16, right); \
    shmem_iput##BITS(sized + 32 * BYTES, from + 32 * BYTES, 1, 2, 16, right); \
    shmem_barrier_all(); \
    for (size_t i = 0; i < 32 * BYTES; i++) \
        CHECK(sized[i] == (char)(i * 3 + (size_t)left)); \
    for (size_t i = 0; i < 16 * BYTES; i++) \
        CHECK(sized[32 * BYTES + i] == \
              (char)((32 * BYTES + i / BYTES * 2 * BYTES + i % BYTES) * 3 + (size_t)left)); \
    shmem_get##BITS(got, sized, 16, right); \
    shmem_get##BITS##_nbi(got + 16 * BYTES, sized + 16 * BYTES, 16, right); \
    shmem_quiet(); \
    CHECK(memcmp(got, from, 32 * BYTES) == 0); \
    shmem_iget##BITS(got, sized, 2, 1, 16, right); \
    for (size_t i = 0; i < 16; i++) \
        CHECK(memcmp(got + 2 * i * BYTES, from + i * BYTES, BYTES) == 0); \
    shmem_barrier_all();
    SHMEM_SIZES(SIZED)
    shmem_put((long *)room, (const long *)from, 8, right);
    shmem_quiet();
    shmem_get((long *)got, (long *)room, 8, right);
    CHECK(memcmp(got, from, 8 * sizeof(long)) == 0);
    shmem_barrier_all();
    shmem_p((double *)room, me + 0.5, right);
    shmem_barrier_all();
    CHECK(shmem_g((double *)room, right) == me + 0.5);
    shmem_barrier_all();
    shmem_free(sized);
    shmem_free(typed);
    shmem_free(room);
}

/* ---- atomics: all PEs on PE 0's words ---- */

#define AMO(NAME, T) \
    static T amo_##NAME; \
    static void amo_of_##NAME(T *heap) \
    { \
        for (int i = 0; i < 2; i++) { \
            T *word = i ? heap : &amo_##NAME; \
            *word = 0; \
            shmem_barrier_all(); \
            for (int j = 0; j < 5; j++) { \
                shmem_##NAME##_atomic_add(word, (T)2, 0); \
                shmem_##NAME##_atomic_inc(word, 0); \
                T before = shmem_##NAME##_atomic_fetch_add(word, (T)3, 0); \
                CHECK(shmem_##NAME##_atomic_fetch_inc(word, 0) >= before + 3); \
            } \
            shmem_barrier_all(); \
            CHECK(shmem_##NAME##_atomic_fetch(word, 0) == (T)(n * 35)); \
            shmem_barrier_all(); \
            T seen = shmem_##NAME##_atomic_compare_swap(word, (T)(n * 35), (T)(me + 1), \
                                                        0); /* one of them */ \
            CHECK((seen == (T)(n * 35)) == (shmem_##NAME##_atomic_fetch(word, 0) == (T)(me + 1))); \
            shmem_barrier_all(); \
            shmem_##NAME##_atomic_set(word, (T)me, me); \
            shmem_quiet(); \
            CHECK(*(volatile T *)word == (T)me && \
                  shmem_##NAME##_atomic_swap(word, 7, me) == (T)me && *(volatile T *)word == 7); \
            shmem_barrier_all(); \
        } \
    }
SHMEM_AMO_TYPES(AMO)

#define BITS(NAME, T) \
    static T bits_##NAME; \
    static void bits_of_##NAME(T *heap) \
    { \
        for (int i = 0; i < 2; i++) { \
            T *word = i ? heap : &bits_##NAME, mine = (T)1 << me; \
            *word = 0; \
            shmem_barrier_all(); \
            shmem_##NAME##_atomic_or(word, mine, 0); \
            CHECK(shmem_##NAME##_atomic_fetch_or(word, mine << 8, 0) & mine); \
            shmem_barrier_all(); \
            CHECK(shmem_##NAME##_atomic_fetch(word, 0) == (T)(((1 << n) - 1) * 257)); \
            shmem_barrier_all(); \
            shmem_##NAME##_atomic_and(word, (T)~mine, 0); \
            CHECK((shmem_##NAME##_atomic_fetch_and(word, (T) ~(mine << 8), 0) & \
                   (mine | mine << 8)) == mine << 8); \
            shmem_##NAME##_atomic_xor(word, mine, 0); \
            CHECK(shmem_##NAME##_atomic_fetch_xor(word, mine, 0) & mine); \
            shmem_barrier_all(); \
            CHECK(shmem_##NAME##_atomic_fetch(word, 0) == 0); \
            shmem_barrier_all(); \
        } \
    }
SHMEM_BITWISE_TYPES(BITS)

#define FLOATS(NAME, T) \
    static T float_##NAME; \
    static void floats_of_##NAME(void) \
    { \
        int right = (me + 1) % n, left = (me + n - 1) % n; \
        shmem_##NAME##_atomic_set(&float_##NAME, (T)(me + 0.5), right); \
        shmem_barrier_all(); \
        CHECK(float_##NAME == (T)(left + 0.5) && \
              shmem_##NAME##_atomic_fetch(&float_##NAME, right) == (T)(me + 0.5)); \
        shmem_barrier_all(); /* the left neighbour's swap comes after this */ \
        CHECK(shmem_##NAME##_atomic_swap(&float_##NAME, (T)-1.25, right) == (T)(me + 0.5)); \
        shmem_barrier_all(); \
        CHECK(float_##NAME == (T)-1.25); \
    }
SHMEM_AMO_FLOATS(FLOATS)

static void atomics(void)
{
    void *word = shmem_malloc(16);

    CHECK(word);
#define RUN_AMO(NAME, T) amo_of_##NAME((T *)word);
#define RUN_BITS(NAME, T) bits_of_##NAME((T *)word);
#define RUN_FLOATS(NAME, T) floats_of_##NAME();
    SHMEM_AMO_TYPES(RUN_AMO)
    SHMEM_BITWISE_TYPES(RUN_BITS)
    SHMEM_AMO_FLOATS(RUN_FLOATS)
    shmem_barrier_all();

    static long generic;

    shmem_atomic_add(&generic, 2L, 0);
    shmem_atomic_inc(&generic, 0);
    shmem_barrier_all();
    CHECK(shmem_long_g(&generic, 0) == 3L * n);
    shmem_barrier_all();
    CHECK(shmem_atomic_fetch_add(&generic, 1L, me) == (me ? 0 : 3L * n) &&
          shmem_atomic_compare_swap(&generic, -1L, 5L, me) == generic);
    shmem_barrier_all();
    shmem_free(word);
}

/* ---- waiting ---- */

#define WAITS(NAME, T) \
    static T wait_##NAME[4]; \
    static void wait_of_##NAME(void) \
    { \
        int right = (me + 1) % n; \
        for (T i = 1; i <= 3; i++) { /* a token goes round */ \
            if (me == 0) \
                shmem_##NAME##_p(wait_##NAME, i, right); \
            shmem_##NAME##_wait_until(wait_##NAME, SHMEM_CMP_GE, i); \
            if (me != 0) \
                shmem_##NAME##_p(wait_##NAME, i, right); \
        } \
        CHECK(shmem_##NAME##_test(wait_##NAME, SHMEM_CMP_EQ, 3) && \
              !shmem_##NAME##_test(wait_##NAME, SHMEM_CMP_LT, 3)); \
        CHECK(shmem_##NAME##_test(wait_##NAME, SHMEM_CMP_NE, 2) && \
              shmem_##NAME##_test(wait_##NAME, SHMEM_CMP_LE, 3)); \
        shmem_##NAME##_p(&wait_##NAME[2], 9, right); \
        int skip[4] = { 1, 0, 0, 1 }; \
        CHECK(shmem_##NAME##_wait_until_any(wait_##NAME, 4, skip, SHMEM_CMP_EQ, 9) == 2); \
        skip[1] = skip[2] = 1; \
        CHECK(shmem_##NAME##_wait_until_any(wait_##NAME, 4, skip, SHMEM_CMP_EQ, 9) == SIZE_MAX); \
        shmem_##NAME##_p(&wait_##NAME[1], 8, right); \
        skip[1] = skip[2] = 0; \
        shmem_##NAME##_wait_until_all(wait_##NAME, 4, skip, SHMEM_CMP_GT, 7); \
        shmem_barrier_all(); \
    }
SHMEM_SYNC_TYPES(WAITS)

static void waiting(void)
{
#define RUN_WAIT(NAME, T) wait_of_##NAME();
    SHMEM_SYNC_TYPES(RUN_WAIT)
    static long flag, data[1000];
    long from[1000]; /* data before its flag */
    int right = (me + 1) % n;
    int left = (me + n - 1) % n;
    for (long round = 1; round <= 20; round++) {
        for (int i = 0; i < 1000; i++)
            from[i] = me * 1000000 + round * 1000 + i;

        shmem_long_put(data, from, 1000, right);
        shmem_fence();
        shmem_p(&flag, round, right);
        shmem_wait_until(&flag, SHMEM_CMP_EQ, round);
        for (int i = 0; i < 1000; i++)
            CHECK(data[i] == left * 1000000 + round * 1000 + i);

        shmem_barrier_all();
    }
}

/* ---- collectives over all PEs and over every other one ---- */

static uint64_t source[8 * 200], dest[8 * 200];

static void data_collectives(int start, int log, int size)
{
    int mine = (me - start) >> log;

    for (int root = 0; root < size; root++) {
        for (int i = 0; i < 100; i++)
            source[i] = (uint64_t)(mine * 1000 + i), dest[i] = 0;

        shmem_barrier(start, log, size, next_sync());
        shmem_broadcast64(dest, source, 100, root, start, log, size, next_sync());
        shmem_barrier(start, log, size, next_sync());
        for (int i = 0; i < 100; i++)
            CHECK(dest[i] == (mine == root ? 0 : (uint64_t)(root * 1000 + i)));
    }

    shmem_barrier(start, log, size, next_sync());
    shmem_fcollect64(dest, source, 100, start, log, size, next_sync());
    for (int i = 0; i < 100 * size; i++)
        CHECK(dest[i] == (uint64_t)(i / 100 * 1000 + i % 100));

    shmem_barrier(start, log, size, next_sync());

    /* 1, 2, 3 ... of them */
    shmem_collect32(dest, source, (size_t)mine + 1, start, log, size, next_sync());
    for (int from = 0, at = 0; from < size; from++)
        for (int i = 0; i <= from; i++, at++)
            CHECK(((uint32_t *)dest)[at] == (i % 2 ? 0 : (uint32_t)(from * 1000 + i / 2)));

    shmem_barrier(start, log, size, next_sync());
    for (int i = 0; i < 100 * size; i++)
        source[i] = (uint64_t)(mine * 1000000 + i);

    shmem_alltoall64(dest, source, 100, start, log, size, next_sync());
    for (int i = 0; i < 100 * size; i++)
        CHECK(dest[i] == (uint64_t)(i / 100 * 1000000 + mine * 100 + i % 100));

    shmem_barrier(start, log, size, next_sync());
    shmem_alltoalls64(dest, source, 2, 1, 100, start, log, size, next_sync());
    for (int i = 0; i < 100 * size; i++)
        CHECK(dest[i * 2] == (uint64_t)(i / 100 * 1000000 + mine * 100 + i % 100));

    shmem_barrier(start, log, size, next_sync());
    shmem_alltoall32(dest, source, 2, start, log, size, next_sync()); /* the two halves of a word */
    for (int i = 0; i < size; i++)
        CHECK(dest[i] == (uint64_t)(i * 1000000 + mine));

    shmem_barrier(start, log, size, next_sync());
}

enum {
    REDUCED = 5000
};
#define TO_ALL(OP, NAME, T, first, expression) \
    static void to_all_##NAME##_##OP(int start, int log, int size) \
    { \
        static T in[REDUCED], out[REDUCED], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE]; \
        int mine = (me - start) >> log; \
        for (int i = 0; i < REDUCED; i++) \
            in[i] = (T)(mine % 3 + i % 5 + 1); \
        shmem_##NAME##_##OP##_to_all(out, in, REDUCED, start, log, size, work, next_sync()); \
        for (int i = 0; i < REDUCED; i += 499) { \
            T a = (T)(i % 5 + 1); \
            for (int from = 1; from < size; from++) { \
                T b = (T)(from % 3 + i % 5 + 1); \
                a = (T)(expression); \
            } \
            CHECK(out[i] == a); \
        } \
        shmem_barrier(start, log, size, next_sync()); \
    }
#define BITS_TO_ALL(NAME, T) \
    TO_ALL(and, NAME, T, 1, a &b) TO_ALL(or, NAME, T, 1, a | b) TO_ALL(xor, NAME, T, 1, a ^ b)
#define MINMAX_TO_ALL(NAME, T) \
    TO_ALL(min, NAME, T, 1, a < b ? a : b) TO_ALL(max, NAME, T, 1, a > b ? a : b)
#define SUMPROD_TO_ALL(NAME, T) TO_ALL(sum, NAME, T, 1, a + b) TO_ALL(prod, NAME, T, 1, a *b)
/* clang-format off */
SHMEM_TO_ALL_WHOLE(BITS_TO_ALL)
SHMEM_TO_ALL_REAL(MINMAX_TO_ALL)
SHMEM_TO_ALL_TYPES(SUMPROD_TO_ALL)
/* clang-format on */

static void reductions(int start, int log, int size)
{
#define RUN_BITS_TO_ALL(NAME, T) \
    to_all_##NAME##_and(start, log, size); \
    to_all_##NAME##_or(start, log, size); \
    to_all_##NAME##_xor(start, log, size);
#define RUN_MINMAX(NAME, T) \
    to_all_##NAME##_min(start, log, size); \
    to_all_##NAME##_max(start, log, size);
#define RUN_SUMPROD(NAME, T) \
    to_all_##NAME##_sum(start, log, size); \
    to_all_##NAME##_prod(start, log, size);
    SHMEM_TO_ALL_WHOLE(RUN_BITS_TO_ALL)
    SHMEM_TO_ALL_REAL(RUN_MINMAX)
    SHMEM_TO_ALL_TYPES(RUN_SUMPROD)
}

static void collectives(void)
{
    data_collectives(0, 0, n);
    reductions(0, 0, n);
    shmem_barrier_all();

    if (me % 2 == 0)
        data_collectives(0, 1, (n + 1) / 2);
    else
        data_collectives(1, 1, n / 2);

    shmem_barrier_all();
    if (me % 2)
        reductions(1, 1, n / 2);

    shmem_sync_all();
}

/* ---- locks ---- */

static void locks(void)
{
    static long lock, other;

    static struct {
        long inside, count;
    } guarded;
    for (int i = 0; i < 10; i++) {
        if (i % 3 == 2)
            while (shmem_test_lock(&lock))
                ;
        else
            shmem_set_lock(&lock);

        CHECK(shmem_long_g(&guarded.inside, 0) == 0);
        shmem_long_p(&guarded.inside, 1, 0);

        long count = shmem_long_g(&guarded.count, 0) + 1;

        shmem_set_lock(&other); /* one inside the other */
        shmem_long_p(&guarded.count, count, 0);
        shmem_clear_lock(&other);
        shmem_quiet();
        CHECK(shmem_long_g(&guarded.inside, 0) == 1);
        shmem_long_p(&guarded.inside, 0, 0);
        shmem_clear_lock(&lock);
    }

    shmem_barrier_all();
    CHECK(shmem_long_g(&guarded.count, 0) == 10L * n);
    shmem_barrier_all();
}

/* Misuse ends the job with a sentence. */
static void misuse(const char *what)
{
    int local = 0;
    int *heap_int = shmem_malloc(sizeof *heap_int);

    if (!strcmp(what, "pe"))
        shmem_int_p(heap_int, 1, n);
    else if (!strcmp(what, "local"))
        shmem_int_p(&local, 1, 0);
    else if (!strcmp(what, "set"))
        shmem_barrier(0, 0, n + 1, psync[0]);
    else if (!strcmp(what, "free"))
        shmem_free(heap_int + 1);
    else if (!strcmp(what, "exit") && me == n - 1)
        shmem_global_exit(7);

    shmem_barrier_all();
    shmem_global_exit(99);
}

int main(int argc, char **argv)
{
    int provided;

    CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) == 0);
    shmem_init(); /* once more does nothing */
    me = shmem_my_pe();
    n = shmem_n_pes();
    if (argc > 1)
        misuse(argv[1]);

    heap();
    transfers();
    atomics();
    waiting();
    collectives();
    locks();
    shmem_finalize();

    return 0;
}
