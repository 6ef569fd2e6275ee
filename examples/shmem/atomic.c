/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics.  GASNet-1 has none, so the operation is made by the processor: from here where the word
 * is mapped, else in a handler at the target.  Both are the same instructions, so they go together
 * on one word.
 */
#include <string.h>

#include "inside.h"

#define APPLY(T) \
    static uint64_t apply_##T(enum amo op, void *at, uint64_t a, uint64_t b) \
    { \
        T *word = (T *)at, expected = (T)a; \
        switch (op) { \
        case AMO_GET: \
            return __atomic_load_n(word, __ATOMIC_SEQ_CST); \
        case AMO_SET: \
            return __atomic_exchange_n(word, (T)a, __ATOMIC_SEQ_CST); \
        case AMO_ADD: \
            return __atomic_fetch_add(word, (T)a, __ATOMIC_SEQ_CST); \
        case AMO_AND: \
            return __atomic_fetch_and(word, (T)a, __ATOMIC_SEQ_CST); \
        case AMO_OR: \
            return __atomic_fetch_or(word, (T)a, __ATOMIC_SEQ_CST); \
        case AMO_XOR: \
            return __atomic_fetch_xor(word, (T)a, __ATOMIC_SEQ_CST); \
        default: \
            __atomic_compare_exchange_n(word, &expected, (T)b, 0, __ATOMIC_SEQ_CST, \
                                        __ATOMIC_SEQ_CST); \
            return expected; \
        } \
    }
APPLY(uint32_t)
APPLY(uint64_t)

static uint64_t apply(enum amo op, void *at, int bytes, uint64_t a, uint64_t b)
{
    return bytes == 4 ? apply_uint32_t(op, at, a, b) : apply_uint64_t(op, at, a, b);
}

/* What a fetching request waits for. */
struct fetched {
    volatile int here;
    uint64_t value;
};

uint64_t shmemi_amo(const char *call, enum amo op, const void *dest, int bytes, uint64_t a,
                    uint64_t b, int pe, int fetch)
{
    shmemi_check_pe(call, pe);

    struct place place = shmemi_place(call, dest, (uint64_t)bytes);
    void *here = shmemi_mapped(place, pe);

    if (here) {
        if (fetch) /* who spins on it still answers others */
            gasnet_AMPoll();

        return apply(op, here, bytes, a, b);
    }

    struct fetched fetched = { 0, 0 };
    uint64_t at = shmemi_packed(place);
    uint64_t to = fetch ? (uintptr_t)&fetched : 0;

    shmemi.asked += !fetch;
    gasnet_AMRequestShort9((gasnet_node_t)pe, H_AMO, (gasnet_handlerarg_t)((int)op * 16 + bytes),
                           ARG_HIGH(at), ARG_LOW(at), ARG_HIGH(a), ARG_LOW(a), ARG_HIGH(b),
                           ARG_LOW(b), ARG_HIGH(to), ARG_LOW(to));
    if (fetch)
        GASNET_BLOCKUNTIL(fetched.here);

    return fetched.value;
}

void shmemi_amo_asked(gasnet_token_t token, gasnet_handlerarg_t how, gasnet_handlerarg_t at1,
                      gasnet_handlerarg_t at0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a0,
                      gasnet_handlerarg_t b1, gasnet_handlerarg_t b0, gasnet_handlerarg_t to1,
                      gasnet_handlerarg_t to0)
{
    int op = how / 16;
    int bytes = how % 16;
    void *at = shmemi_here(shmemi_unpacked(shmemi_joined(at1, at0)), (uint64_t)bytes);

    if (!at || op < 0 || op >= AMO_COUNT || (bytes != 4 && bytes != 8) ||
        ((uintptr_t)at & (uintptr_t)(bytes - 1)))
        shmemi_fail("atomic", "another PE asks for what is no operation on a symmetric word");

    uint64_t old = apply((enum amo)op, at, bytes, shmemi_joined(a1, a0), shmemi_joined(b1, b0));

    gasnet_AMReplyShort4(token, H_AMO_DONE, ARG_HIGH(old), ARG_LOW(old), to1, to0);
}

void shmemi_amo_done(gasnet_token_t token, gasnet_handlerarg_t v1, gasnet_handlerarg_t v0,
                     gasnet_handlerarg_t to1, gasnet_handlerarg_t to0)
{
    struct fetched *fetched = (struct fetched *)POINTER_OF(to1, to0);

    if (!fetched) {
        shmemi_answered(token);
        return;
    }

    fetched->value = shmemi_joined(v1, v0);
    fetched->here = 1;
}

/* ---- the calls of all types; values travel as their bits ---- */

#define DEFINE_AMO_ANY(NAME, T) \
    static uint64_t bits_##NAME(T value) \
    { \
        uint64_t bits = 0; \
        memcpy(&bits, &value, sizeof value); \
        return bits; \
    } \
    static T value_##NAME(uint64_t bits) \
    { \
        T value; \
        memcpy(&value, &bits, sizeof value); \
        return value; \
    } \
    static T amo_##NAME(const char *call, enum amo op, const T *dest, T a, T b, int pe, int fetch) \
    { \
        return value_##NAME(shmemi_amo(call, op, dest, (int)sizeof(T), bits_##NAME(a), \
                                       bits_##NAME(b), pe, fetch)); \
    } \
    T shmem_##NAME##_atomic_fetch(const T *source, int pe) \
    { \
        return amo_##NAME("shmem_" #NAME "_atomic_fetch", AMO_GET, source, 0, 0, pe, 1); \
    } \
    void shmem_##NAME##_atomic_set(T *dest, T value, int pe) \
    { \
        amo_##NAME("shmem_" #NAME "_atomic_set", AMO_SET, dest, value, 0, pe, 0); \
    } \
    T shmem_##NAME##_atomic_swap(T *dest, T value, int pe) \
    { \
        return amo_##NAME("shmem_" #NAME "_atomic_swap", AMO_SET, dest, value, 0, pe, 1); \
    }
#define DEFINE_PAIR(NAME, T, CALL, OP) \
    T shmem_##NAME##_atomic_fetch_##CALL(T *dest, T value, int pe) \
    { \
        return amo_##NAME("shmem_" #NAME "_atomic_fetch_" #CALL, OP, dest, value, 0, pe, 1); \
    } \
    void shmem_##NAME##_atomic_##CALL(T *dest, T value, int pe) \
    { \
        amo_##NAME("shmem_" #NAME "_atomic_" #CALL, OP, dest, value, 0, pe, 0); \
    }
#define DEFINE_AMO(NAME, T) \
    DEFINE_AMO_ANY(NAME, T) \
    DEFINE_PAIR(NAME, T, add, AMO_ADD) \
    T shmem_##NAME##_atomic_compare_swap(T *dest, T cond, T value, int pe) \
    { \
        return amo_##NAME("shmem_" #NAME "_atomic_compare_swap", AMO_CSWAP, dest, cond, value, pe, \
                          1); \
    } \
    T shmem_##NAME##_atomic_fetch_inc(T *dest, int pe) \
    { \
        return shmem_##NAME##_atomic_fetch_add(dest, 1, pe); \
    } \
    void shmem_##NAME##_atomic_inc(T *dest, int pe) \
    { \
        shmem_##NAME##_atomic_add(dest, 1, pe); \
    }
#define DEFINE_BITWISE(NAME, T) \
    DEFINE_PAIR(NAME, T, and, AMO_AND) \
    DEFINE_PAIR(NAME, T, or, AMO_OR) DEFINE_PAIR(NAME, T, xor, AMO_XOR)
/* clang-format off */
SHMEM_AMO_FLOATS(DEFINE_AMO_ANY)
SHMEM_AMO_TYPES(DEFINE_AMO)
SHMEM_BITWISE_TYPES(DEFINE_BITWISE)
/* clang-format on */
