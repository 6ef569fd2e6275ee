/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of collectives share: operands that each process can compute for any rank, and the
 * sequential result. */
#ifndef GEX_COLL_COMMON_H
#define GEX_COLL_COMMON_H

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

static uint64_t coll_seed;

#define COLL_CHECK(cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: process %u, seed %llu: %s does not hold: ", __FILE__, \
                    __LINE__, (unsigned)gex_System_QueryJobRank(), (unsigned long long)coll_seed, \
                    #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            gasnet_exit(1); \
        } \
    } while (0)

static inline uint64_t coll_hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                 (c + 1) * UINT64_C(0x165667b19e3779f9);

    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

/* ---- one reduction: its types and operators ---- */

/* A user's type: functions x -> a * x + b modulo 2^32, in arrays of `words` / 2; their composition
 * does not commute. */
struct coll_type {
    gex_DT_t dt;
    size_t size;
};

/* Operands are small, so that sums and products of floating-point numbers are exact. */
static inline void coll_fill_element(gex_DT_t dt, size_t size, gex_OP_t op, uint64_t serial,
                                     uint32_t rank, size_t i, void *at)
{
    uint64_t h = coll_hash(serial, rank, i);
    double small = op == GEX_OP_MULT ? (double)(1 + h % 2) : (double)(h % 1000) - 500;
    uint32_t word;

    switch (dt) {
    case GEX_DT_I32:
        *(int32_t *)at = (int32_t)h;
        break;
    case GEX_DT_U32:
        *(uint32_t *)at = (uint32_t)h;
        break;
    case GEX_DT_I64:
        *(int64_t *)at = (int64_t)h;
        break;
    case GEX_DT_U64:
        *(uint64_t *)at = h;
        break;
    case GEX_DT_FLT:
        *(float *)at = (float)small;
        break;
    case GEX_DT_DBL:
        *(double *)at = small;
        break;
    default:
        for (size_t k = 0; k < size / 4; k++) {
            word = (uint32_t)coll_hash(h, k, 7);
            memcpy((char *)at + 4 * k, &word, 4);
        }
    }
}

/* The result of an operation on two values; calc: the type in which sums and products are formed. */
#define COLL_DEFINE_ARITHMETIC(name, type, calc) \
    static inline type coll_arithmetic_##name(gex_OP_t op, type x, type y) \
    { \
        switch (op) { \
        case GEX_OP_ADD: \
            return (type)((calc)x + (calc)y); \
        case GEX_OP_MULT: \
            return (type)((calc)x * (calc)y); \
        case GEX_OP_MIN: \
            return x < y ? x : y; \
        default: \
            return x > y ? x : y; \
        } \
    }
#define COLL_DEFINE_INTEGER(name, type, calc) \
    COLL_DEFINE_ARITHMETIC(name, type, calc) \
    static inline type coll_integer_##name(gex_OP_t op, type x, type y) \
    { \
        switch (op) { \
        case GEX_OP_AND: \
            return x & y; \
        case GEX_OP_OR: \
            return x | y; \
        case GEX_OP_XOR: \
            return x ^ y; \
        default: \
            return coll_arithmetic_##name(op, x, y); \
        } \
    }

/* clang-format off */
COLL_DEFINE_INTEGER(i32, int32_t, uint32_t)
COLL_DEFINE_INTEGER(u32, uint32_t, uint32_t)
COLL_DEFINE_INTEGER(i64, int64_t, uint64_t)
COLL_DEFINE_INTEGER(u64, uint64_t, uint64_t)
COLL_DEFINE_ARITHMETIC(flt, float, float)
COLL_DEFINE_ARITHMETIC(dbl, double, double)
/* clang-format on */

/* The user's operators, on arrays of 32-bit words: sums (commute), or compositions of pairs (do
 * not). */
static inline void coll_user_element(bool commutes, size_t size, const uint32_t *left,
                                     uint32_t *right)
{
    for (size_t k = 0; commutes && k < size / 4; k++)
        right[k] += left[k];

    for (size_t k = 0; !commutes && k + 1 < size / 4; k += 2) {
        uint32_t a = left[k] * right[k];
        uint32_t b = right[k] * left[k + 1] + right[k + 1];

        right[k] = a;
        right[k + 1] = b;
    }

    if (!commutes && size / 4 % 2) /* the first of them all */
        right[size / 4 - 1] = left[size / 4 - 1];
}

static inline void coll_combine(gex_DT_t dt, size_t size, gex_OP_t op, const void *left,
                                void *right)
{
    switch (dt) {
    case GEX_DT_I32: {
        int32_t x = *(const int32_t *)left;
        int32_t *y = right;

        *y = coll_integer_i32(op, x, *y);
        break;
    }
    case GEX_DT_U32: {
        uint32_t x = *(const uint32_t *)left;
        uint32_t *y = right;

        *y = coll_integer_u32(op, x, *y);
        break;
    }
    case GEX_DT_I64: {
        int64_t x = *(const int64_t *)left;
        int64_t *y = right;

        *y = coll_integer_i64(op, x, *y);
        break;
    }
    case GEX_DT_U64: {
        uint64_t x = *(const uint64_t *)left;
        uint64_t *y = right;

        *y = coll_integer_u64(op, x, *y);
        break;
    }
    case GEX_DT_FLT: {
        float x = *(const float *)left;
        float *y = right;

        *y = coll_arithmetic_flt(op, x, *y);
        break;
    }
    case GEX_DT_DBL: {
        double x = *(const double *)left;
        double *y = right;

        *y = coll_arithmetic_dbl(op, x, *y);
        break;
    }
    default:
        coll_user_element(op == GEX_OP_USER, size, left, right);
    }
}

/* What a user operator is told by its cdata. */
struct coll_user {
    gex_DT_t dt;
    gex_OP_t op;
    size_t size;
};

static inline void coll_user_op(const void *arg1, void *arg2_and_out, size_t count,
                                const void *cdata)
{
    const struct coll_user *u = cdata;

    COLL_CHECK(count > 0, "an operator was called for no elements");
    for (size_t i = 0; i < count; i++) {
        const char *left = (const char *)arg1 + i * u->size;
        char *right = (char *)arg2_and_out + i * u->size;

        if (u->dt == GEX_DT_USER)
            coll_user_element(u->op == GEX_OP_USER, u->size, (const uint32_t *)(const void *)left,
                              (uint32_t *)(void *)right);
        else
            coll_combine(u->dt, u->size, GEX_OP_ADD, left, right);
    }
}

/* Is at the reduction of element i over ranks 0..last? */
static inline bool coll_right(gex_DT_t dt, size_t size, gex_OP_t op, uint64_t serial, uint32_t last,
                              size_t i, const void *at)
{
    _Alignas(16) char small[2][64];

    char *acc = size <= 64 ? small[0] : malloc(size);
    char *left = size <= 64 ? small[1] : malloc(size);
    gex_OP_t rule = dt != GEX_DT_USER && (op & (GEX_OP_USER | GEX_OP_USER_NC)) ? GEX_OP_ADD : op;

    coll_fill_element(dt, size, rule, serial, last, i, acc);
    for (uint32_t r = last; r-- > 0;) {
        coll_fill_element(dt, size, rule, serial, r, i, left);
        coll_combine(dt, size, rule, left, acc);
    }

    bool same = memcmp(acc, at, size) == 0;

    if (size > 64) {
        free(acc);
        free(left);
    }

    return same;
}

#endif
