/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of a job whose hosts may differ in byte order: every kind, with block lengths at which the algorithms
 * change.  Numbers are compared as numbers; the operators of the client's work on bytes, which travel as they are.
 * mixed_coll [most bytes of a block]
 */
#include "gasnet.h"
#include "gasnet_coll.h"
#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    FN_SUM,
    FN_FIRST,
    FN_COUNT,
    ELEMENT = 8,
    EACH_ROOT_BYTES = 131080, /* longer blocks with one root, which takes an emulator seconds */
    SYNC = GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL
};

static gex_Rank_t me, size;
static unsigned char *in, *out; /* [size * most bytes] */

#define COLL_CHECK(cond, what, bytes, root) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "process %u: %s of %zu bytes, root %u: %s does not hold\n", \
                    (unsigned)me, what, (size_t)(bytes), (unsigned)(root), #cond); \
            gasnet_exit(1); \
        } \
    } while (0)

/* ---- bytes ---- */

/* Block `to` of what process `from` brings. */
static void fill_blocks(size_t bytes, gex_Rank_t count)
{
    for (gex_Rank_t to = 0; to < count; to++)
        fill(in + to * bytes, bytes, me, to);

    memset(out, 0xee, size * bytes);
}

static bool has_block(gex_Rank_t place, size_t bytes, gex_Rank_t from, gex_Rank_t to)
{
    return right(out + place * bytes, bytes, from, to) == bytes;
}

static void test_rooted(size_t bytes, gex_Rank_t root)
{
    fill_blocks(bytes, size);
    gasnet_coll_broadcast(GASNET_TEAM_ALL, out, root, in, bytes, SYNC);
    COLL_CHECK(has_block(0, bytes, root, 0), "broadcast", bytes, root);

    fill_blocks(bytes, size);
    gasnet_coll_scatter(GASNET_TEAM_ALL, out, root, in, bytes, SYNC);
    COLL_CHECK(has_block(0, bytes, root, me), "scatter", bytes, root);

    fill_blocks(bytes, 1);
    gasnet_coll_gather(GASNET_TEAM_ALL, root, out, in, bytes, SYNC);
    for (gex_Rank_t i = 0; me == root && i < size; i++)
        COLL_CHECK(has_block(i, bytes, i, 0), "gather", bytes, root);
}

static void test_all(size_t bytes)
{
    fill_blocks(bytes, 1);
    gasnet_coll_gather_all(GASNET_TEAM_ALL, out, in, bytes, SYNC);
    for (gex_Rank_t i = 0; i < size; i++)
        COLL_CHECK(has_block(i, bytes, i, 0), "gather to all", bytes, 0);

    fill_blocks(bytes, size);
    gasnet_coll_exchange(GASNET_TEAM_ALL, out, in, bytes, SYNC);
    for (gex_Rank_t i = 0; i < size; i++)
        COLL_CHECK(has_block(i, bytes, i, me), "exchange", bytes, 0);
}

/* ---- operators of the client's ---- */

static void sum(void *results, size_t count, const void *left, size_t left_count, const void *other,
                size_t elem, int flags, int arg)
{
    const unsigned char *x = left;
    const unsigned char *y = other;

    (void)left_count;
    (void)flags;
    (void)arg;
    for (size_t i = 0; i < count * elem; i++)
        ((unsigned char *)results)[i] = (unsigned char)(x[i] + y[i]);
}

/* The value of the first process; it does not commute. */
static void first(void *results, size_t count, const void *left, size_t left_count,
                  const void *other, size_t elem, int flags, int arg)
{
    (void)left_count;
    (void)other;
    (void)flags;
    (void)arg;
    memmove(results, left, count * elem);
}

/* Is out the result over processes 0..last? */
static bool has_result(size_t bytes, int fn, gex_Rank_t last)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char want = pattern(0, 0, i);

        for (gex_Rank_t r = 1; fn == FN_SUM && r <= last; r++)
            want = (unsigned char)(want + pattern(r, 0, i));

        if (out[i] != want)
            return false;
    }

    return true;
}

static void test_client_operators(size_t bytes, gex_Rank_t root)
{
    for (int fn = 0; fn < FN_COUNT; fn++) {
        fill_blocks(bytes, 1);
        gasnet_coll_reduce(GASNET_TEAM_ALL, root, out, in, 0, 0, ELEMENT, bytes / ELEMENT, fn, 0,
                           SYNC);
        COLL_CHECK(me != root || has_result(bytes, fn, size - 1), "client's reduction", bytes,
                   root);

        fill_blocks(bytes, 1);
        gasnet_coll_scan(GASNET_TEAM_ALL, out, 0, 0, in, 0, 0, ELEMENT, bytes / ELEMENT, fn, 0,
                         SYNC);
        COLL_CHECK(has_result(bytes, fn, me), "scan", bytes, root);
    }
}

/* ---- numbers ---- */

/* Operands, sums and maxima of element i: exact in each type. */
static uint32_t operand(size_t i, gex_Rank_t rank)
{
    return (uint32_t)(i % 1000 * 3 + i / 1000 % 50 * 4096 + rank + 1);
}

static uint32_t result(size_t i, bool add)
{
    return add ? (operand(i, 0) - 1) * size + size * (size + 1) / 2 : operand(i, size - 1);
}

#define DEFINE_NUMBERS(NAME, T) \
    static bool has_numbers_##NAME(size_t count, bool add) \
    { \
        const T *got = (const T *)(const void *)out; \
\
        for (size_t i = 0; i < count; i++) \
            if (got[i] != (T)result(i, add)) \
                return false; \
\
        return true; \
    } \
    static void test_##NAME(size_t bytes, gex_Rank_t root, bool add) \
    { \
        const size_t count = bytes / sizeof(T); \
        const gex_OP_t op = add ? GEX_OP_ADD : GEX_OP_MAX; \
        T *mine = (T *)(void *)in; \
\
        for (size_t i = 0; i < count; i++) \
            mine[i] = (T)operand(i, me); \
\
        memset(out, 0xee, bytes); \
        gex_Event_Wait(gex_Coll_ReduceToOneNB(GASNET_TEAM_ALL, root, out, in, GEX_DT_##NAME, \
                                              sizeof(T), count, op, NULL, NULL, 0)); \
        COLL_CHECK(me != root || has_numbers_##NAME(count, add), "reduction to one, " #NAME, \
                   bytes, root); \
        memset(out, 0xee, bytes); \
        gex_Event_Wait(gex_Coll_ReduceToAllNB(GASNET_TEAM_ALL, out, in, GEX_DT_##NAME, sizeof(T), \
                                              count, op, NULL, NULL, 0)); \
        COLL_CHECK(has_numbers_##NAME(count, add), "reduction to all, " #NAME, bytes, root); \
    }
/* clang-format off */
DEFINE_NUMBERS(I32, int32_t)
DEFINE_NUMBERS(U32, uint32_t)
DEFINE_NUMBERS(I64, int64_t)
DEFINE_NUMBERS(U64, uint64_t)
DEFINE_NUMBERS(FLT, float)
DEFINE_NUMBERS(DBL, double)
/* clang-format on */

/* Two of the types for each root, so that each type meets each algorithm. */
static void test_numbers(size_t bytes, gex_Rank_t root, unsigned turn)
{
    static void (*const test[])(size_t, gex_Rank_t, bool) = { test_I32, test_DBL, test_U64,
                                                              test_FLT, test_I64, test_U32 };
    enum {
        TYPES = sizeof test / sizeof test[0]
    };

    test[(turn + 2 * root) % TYPES](bytes, root, true);
    test[(turn + 2 * root + 1) % TYPES](bytes, root, false);
}

int main(int argc, char **argv)
{
    static const size_t lengths[] = { 8,      512,      8192,           8200,    16384,
                                      32768,  40000,    64u << 10,      65544,   131080,
                                      300000, 1u << 20, (1u << 20) + 8, 3000000, 4u << 20 };
    gasnet_coll_fn_entry_t table[] = {
        [FN_SUM] = { sum, 0 }, [FN_FIRST] = { first, GASNET_COLL_NONCOMM }
    };

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) == GASNET_OK);
    gasnet_coll_init(NULL, 0, table, FN_COUNT, 0);
    me = gasnet_mynode();
    size = gasnet_nodes();

    const size_t most_bytes = argc > 1 ? strtoul(argv[1], NULL, 0) : 131080;
    unsigned turn = 0;

    in = malloc(size * most_bytes);
    out = malloc(size * most_bytes);
    CHECK(in && out);

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && lengths[i] <= most_bytes; i++) {
        const gex_Rank_t roots = lengths[i] <= EACH_ROOT_BYTES ? size : 1;

        for (gex_Rank_t k = 0; k < roots; k++) {
            const gex_Rank_t root = (turn + k) % size;

            test_rooted(lengths[i], root);
            test_client_operators(lengths[i], root);
            test_numbers(lengths[i], root, turn);
        }

        test_all(lengths[i]);
        turn++;
    }

    if (me == 0)
        printf("%u lengths of up to %zu bytes\n", turn, most_bytes);

    CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    gasnet_exit(0);
}
