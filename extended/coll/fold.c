/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The built-in operators of reductions, one function for each type and operation.  GASNet-EX spec,
 * "Operation codes".
 * Layer: extended.  Thread rule: none.
 */
#include <string.h>

#include "amphora/operators.h"
#include "base/platform.h"
#include "base/wire.h"
#include "extended/coll/coll.h"

#define ADD(x, y) ((x) + (y))
#define MULT(x, y) ((x) * (y))
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define AND(x, y) ((x) & (y))
#define OR(x, y) ((x) | (y))
#define XOR(x, y) ((x) ^ (y))

/* Signed sums and products wrap around: they are computed in the unsigned type `calc`. */
#define DEFINE(dt, op, type, calc) \
    static AMPH_VECTORIZE void fold_##dt##_##op(const void *left, void *right, size_t count, \
                                                const void *cdata) \
    { \
        const type *x = left; \
        type *y = right; \
        for (size_t i = 0; i < count; i++) \
            y[i] = (type)op((calc)x[i], (calc)y[i]); \
    }
#define EACH_OP(DO, dt, type, wraps) \
    DO(dt, ADD, type, wraps) \
    DO(dt, MULT, type, wraps) \
    DO(dt, MIN, type, type) \
    DO(dt, MAX, type, type)
#define EACH_BIT_OP(DO, dt, type) \
    DO(dt, AND, type, type) \
    DO(dt, OR, type, type) \
    DO(dt, XOR, type, type)
#define EACH(DO) \
    EACH_OP(DO, I32, int32_t, uint32_t) \
    EACH_BIT_OP(DO, I32, int32_t) \
    EACH_OP(DO, U32, uint32_t, uint32_t) \
    EACH_BIT_OP(DO, U32, uint32_t) \
    EACH_OP(DO, I64, int64_t, uint64_t) \
    EACH_BIT_OP(DO, I64, int64_t) \
    EACH_OP(DO, U64, uint64_t, uint64_t) \
    EACH_BIT_OP(DO, U64, uint64_t) \
    EACH_OP(DO, FLT, float, float) \
    EACH_OP(DO, DBL, double, double)

EACH(DEFINE)

enum {
    TYPES = 6,
    OPS = 7
};

/* Constants of types and operations are single bits: tables have the number of the bit. */
#define BIT(constant) __builtin_ctz(constant)

#define ENTRY(dt, op, type, calc) [BIT(GEX_DT_##dt)][BIT(GEX_OP_##op)] = fold_##dt##_##op,
static const amph_fold_fn folds[TYPES][OPS] = { EACH(ENTRY) };

static const size_t type_bytes[TYPES] = {
    [BIT(GEX_DT_I32)] = sizeof(int32_t), [BIT(GEX_DT_U32)] = sizeof(uint32_t),
    [BIT(GEX_DT_I64)] = sizeof(int64_t), [BIT(GEX_DT_U64)] = sizeof(uint64_t),
    [BIT(GEX_DT_FLT)] = sizeof(float),   [BIT(GEX_DT_DBL)] = sizeof(double),
};

/* Is the constant one of the first count single bits? */
static bool is_bit(uint32_t constant, unsigned count)
{
    return constant && !(constant & (constant - 1)) && constant < UINT32_C(1) << count;
}

amph_fold_fn amph_coll_fold_builtin(uint32_t dt, uint32_t op, size_t *bytes_p)
{
    *bytes_p = is_bit(dt, TYPES) ? type_bytes[BIT(dt)] : 0;

    return *bytes_p && is_bit(op, OPS) ? folds[BIT(dt)][BIT(op)] : NULL;
}

/* ---- hosts of either byte order ---- */

bool amph_coll_fold_swaps(const struct amph_fold *f)
{
    return f->typed && amph_wire_swaps();
}

void amph_coll_fold_swap(const struct amph_fold *f, void *dst, const void *src, size_t len_bytes)
{
    for (size_t at = 0; at < len_bytes; at += f->elem_bytes) {
        uint64_t v8;
        uint32_t v4;

        if (f->elem_bytes == sizeof v8) {
            memcpy(&v8, (const uint8_t *)src + at, sizeof v8);
            v8 = amph_le64(v8);
            memcpy((uint8_t *)dst + at, &v8, sizeof v8);
        } else {
            memcpy(&v4, (const uint8_t *)src + at, sizeof v4);
            v4 = amph_le32(v4);
            memcpy((uint8_t *)dst + at, &v4, sizeof v4);
        }
    }
}

void amph_coll_fold_wire(const struct amph_fold *f, const void *left, void *right, size_t len_bytes)
{
    _Alignas(16) uint8_t own[1024]; /* left is not changed: it may be in flight to others */
    if (!amph_coll_fold_swaps(f)) {
        amph_fold(f, left, right, len_bytes);
        return;
    }

    for (size_t at = 0; at < len_bytes; at += sizeof own) {
        size_t n = len_bytes - at < sizeof own ? len_bytes - at : sizeof own;
        uint8_t *r = (uint8_t *)right + at;

        amph_coll_fold_swap(f, own, (const uint8_t *)left + at, n);
        amph_coll_fold_swap(f, r, r, n);
        amph_fold(f, own, r, n);
        amph_coll_fold_swap(f, r, r, n);
    }
}
