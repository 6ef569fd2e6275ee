/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory barriers, atomic integers, the hint for spin loops.  GASNet tools spec, "Memory barriers",
 * "Atomic operations", "gasnett_spinloop_hint".  Needs no library (64-bit atomics of a 32-bit
 * machine may need libatomic).
 *
 * Three families, each weak (a plain operation in a client of one thread) and strong (always
 * atomic):
 *   gasnett_atomic_*    gasnett_strongatomic_*      32 bits, the quickest
 *   gasnett_atomic32_*  gasnett_strongatomic32_*    uint32_t
 *   gasnett_atomic64_*  gasnett_strongatomic64_*    uint64_t
 * Every operation takes fence flags, of which it gives at least what is asked for.  For speed the
 * flags should be constants.
 *
 * How fences are made: the operation itself is at least a release (any _PRE) or an acquire (any
 * _POST), which is also what a race detector sees.  A write or full fence must besides hold back
 * later loads until earlier stores are seen by all: on x86 every locked instruction does that, so
 * only loads and stores need more; elsewhere a full fence precedes or follows.
 */
#ifndef AMPHORA_TOOLS_ATOMIC_H
#define AMPHORA_TOOLS_ATOMIC_H

#include <stdint.h>

#include "amphora/tools/annotate.h"

/* ---- barriers ---- */

/* Only the compiler is held back. */
#define gasnett_compiler_fence() __asm__ __volatile__("" : : : "memory")

/* Everything before it is done before anything after it begins. */
#if defined(PLATFORM_ARCH_X86_64)
#define gasnett_local_mb() __asm__ __volatile__("lock; orl $0, (%%rsp)" : : : "memory", "cc")
#elif defined(PLATFORM_ARCH_X86)
#define gasnett_local_mb() __asm__ __volatile__("lock; orl $0, (%%esp)" : : : "memory", "cc")
#else
#define gasnett_local_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
/* Earlier stores are seen by all before later loads and stores begin. */
#define gasnett_local_wmb() gasnett_local_mb()
/* Later loads see what was stored, and seen by all, before. */
#if defined(PLATFORM_ARCH_X86_64) || defined(PLATFORM_ARCH_X86)
#define gasnett_local_rmb() gasnett_compiler_fence() /* loads are not reordered with loads */
#else
#define gasnett_local_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif

/* The same; nothing in a client of one thread. */
#if AMPHORA_TOOLS_SAFE
#define gasnett_weak_mb() gasnett_local_mb()
#define gasnett_weak_wmb() gasnett_local_wmb()
#define gasnett_weak_rmb() gasnett_local_rmb()
#else
#define gasnett_weak_mb() ((void)0)
#define gasnett_weak_wmb() ((void)0)
#define gasnett_weak_rmb() ((void)0)
#endif

/* For the inside of a loop that waits for another thread's store. */
#if defined(PLATFORM_ARCH_X86_64) || defined(PLATFORM_ARCH_X86)
#define gasnett_spinloop_hint() __builtin_ia32_pause()
#elif defined(PLATFORM_ARCH_AARCH64)
#define gasnett_spinloop_hint() __asm__ __volatile__("yield" : : : "memory")
#elif defined(PLATFORM_ARCH_POWERPC)
#define gasnett_spinloop_hint() __asm__ __volatile__("or 27,27,27" : : : "memory")
#else
#define gasnett_spinloop_hint() gasnett_compiler_fence()
#endif

/* ---- fence flags ---- */
#define GASNETT_ATOMIC_NONE 0
#define GASNETT_ATOMIC_RMB_PRE 1
#define GASNETT_ATOMIC_WMB_PRE 2
#define GASNETT_ATOMIC_MB_PRE (GASNETT_ATOMIC_RMB_PRE | GASNETT_ATOMIC_WMB_PRE)
#define GASNETT_ATOMIC_RMB_POST 4
#define GASNETT_ATOMIC_WMB_POST 8
#define GASNETT_ATOMIC_MB_POST (GASNETT_ATOMIC_RMB_POST | GASNETT_ATOMIC_WMB_POST)
/* After compare_and_swap and decrement_and_test that give true, or false. */
#define GASNETT_ATOMIC_RMB_POST_IF_TRUE 16
#define GASNETT_ATOMIC_RMB_POST_IF_FALSE 32
#define GASNETT_ATOMIC_REL GASNETT_ATOMIC_WMB_PRE
#define GASNETT_ATOMIC_ACQ GASNETT_ATOMIC_RMB_POST
#define GASNETT_ATOMIC_ACQ_IF_TRUE GASNETT_ATOMIC_RMB_POST_IF_TRUE
#define GASNETT_ATOMIC_ACQ_IF_FALSE GASNETT_ATOMIC_RMB_POST_IF_FALSE

#define AMPHORA_ATOMIC_ANY_PRE GASNETT_ATOMIC_MB_PRE
#define AMPHORA_ATOMIC_ANY_POST \
    (GASNETT_ATOMIC_MB_POST | GASNETT_ATOMIC_RMB_POST_IF_TRUE | GASNETT_ATOMIC_RMB_POST_IF_FALSE)

/* Is a read-modify-write a full fence? */
#if defined(PLATFORM_ARCH_X86_64) || defined(PLATFORM_ARCH_X86)
#define AMPHORA_RMW_IS_FENCE 1
#else
#define AMPHORA_RMW_IS_FENCE 0
#endif

/* What an operation's own order leaves to do: is_fence says that the operation is a full fence by
 * itself. */
AMPHORA_INLINE void amphora_fence_before(int flags, int is_fence)
{
    if ((flags & GASNETT_ATOMIC_WMB_PRE) && !is_fence)
        gasnett_local_mb();
    else if ((flags & GASNETT_ATOMIC_RMB_PRE) && !is_fence)
        gasnett_local_rmb();
}

AMPHORA_INLINE void amphora_fence_after(int flags, int is_fence)
{
    if ((flags & GASNETT_ATOMIC_WMB_POST) && !is_fence)
        gasnett_local_mb();
}

/* ---- the operations, on plain integers of each width ---- */

#define AMPHORA_ATOMIC_OPERATIONS(W, T) \
    typedef T GASNETT_MAYALIAS amphora_word##W##_t; \
    AMPHORA_INLINE void amphora_atomic##W##_set(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        amphora_fence_before(flags, 0); \
        if (flags & AMPHORA_ATOMIC_ANY_PRE) \
            __atomic_store_n(p, v, __ATOMIC_RELEASE); \
        else \
            __atomic_store_n(p, v, __ATOMIC_RELAXED); \
        if (flags & GASNETT_ATOMIC_RMB_POST) \
            gasnett_local_rmb(); \
        amphora_fence_after(flags, 0); \
    } \
    AMPHORA_INLINE T amphora_atomic##W##_read(volatile amphora_word##W##_t *p, int flags) \
    { \
        T v; \
        amphora_fence_before(flags, 0); \
        if (flags & AMPHORA_ATOMIC_ANY_POST) \
            v = __atomic_load_n(p, __ATOMIC_ACQUIRE); \
        else \
            v = __atomic_load_n(p, __ATOMIC_RELAXED); \
        amphora_fence_after(flags, 0); \
        return v; \
    } \
    AMPHORA_INLINE T amphora_atomic##W##_add(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        T sum; \
        amphora_fence_before(flags, AMPHORA_RMW_IS_FENCE); \
        if (flags) \
            sum = __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL); \
        else \
            sum = __atomic_add_fetch(p, v, __ATOMIC_RELAXED); \
        amphora_fence_after(flags, AMPHORA_RMW_IS_FENCE); \
        return sum; \
    } \
    AMPHORA_INLINE T amphora_atomic##W##_swap(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        T old; \
        amphora_fence_before(flags, AMPHORA_RMW_IS_FENCE); \
        if (flags) \
            old = __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); \
        else \
            old = __atomic_exchange_n(p, v, __ATOMIC_RELAXED); \
        amphora_fence_after(flags, AMPHORA_RMW_IS_FENCE); \
        return old; \
    } \
    AMPHORA_INLINE int amphora_atomic##W##_cas(volatile amphora_word##W##_t *p, T oldval, \
                                               T newval, int flags) \
    { \
        int done; \
        amphora_fence_before(flags, AMPHORA_RMW_IS_FENCE); \
        if (flags) \
            done = __atomic_compare_exchange_n(p, &oldval, newval, 0, __ATOMIC_ACQ_REL, \
                                               __ATOMIC_ACQUIRE); \
        else \
            done = __atomic_compare_exchange_n(p, &oldval, newval, 0, __ATOMIC_RELAXED, \
                                               __ATOMIC_RELAXED); \
        amphora_fence_after(flags, AMPHORA_RMW_IS_FENCE); \
        return done; \
    } \
    AMPHORA_INLINE T amphora_plain##W##_read(volatile amphora_word##W##_t *p, int flags) \
    { \
        (void)flags; \
        return *p; \
    } \
    AMPHORA_INLINE void amphora_plain##W##_set(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        (void)flags; \
        *p = v; \
    } \
    AMPHORA_INLINE T amphora_plain##W##_add(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        (void)flags; \
        v = (T)(*p + v); \
        *p = v; \
        return v; \
    } \
    AMPHORA_INLINE T amphora_plain##W##_swap(volatile amphora_word##W##_t *p, T v, int flags) \
    { \
        T old = *p; \
        (void)flags; \
        *p = v; \
        return old; \
    } \
    AMPHORA_INLINE int amphora_plain##W##_cas(volatile amphora_word##W##_t *p, T oldval, T newval, \
                                              int flags) \
    { \
        (void)flags; \
        if (*p != oldval) \
            return 0; \
        *p = newval; \
        return 1; \
    }

AMPHORA_ATOMIC_OPERATIONS(32, uint32_t)
AMPHORA_ATOMIC_OPERATIONS(64, uint64_t)

/* ---- types ---- */

typedef uint32_t gasnett_atomic_val_t;
typedef int32_t gasnett_atomic_sval_t;
typedef gasnett_atomic_val_t gasnett_strongatomic_val_t;
typedef gasnett_atomic_sval_t gasnett_strongatomic_sval_t;

typedef struct {
    volatile amphora_word32_t amphora_value;
} gasnett_atomic_t;

/* Exactly the storage and the alignment of the integer: a pointer to any 4- or 8-byte scalar may be
 * cast to these. */
typedef struct {
    volatile amphora_word32_t amphora_value;
} gasnett_atomic32_t;

typedef struct {
    volatile amphora_word64_t amphora_value;
} gasnett_atomic64_t;

typedef gasnett_atomic_t gasnett_strongatomic_t;
typedef gasnett_atomic32_t gasnett_strongatomic32_t;
typedef gasnett_atomic64_t gasnett_strongatomic64_t;

/* Static initialisers. */
#define gasnett_atomic_init(v) \
    { \
        (gasnett_atomic_val_t)(v) \
    }
#define gasnett_atomic32_init(v) \
    { \
        (uint32_t)(v) \
    }
#define gasnett_atomic64_init(v) \
    { \
        (uint64_t)(v) \
    }
#define gasnett_strongatomic_init(v) gasnett_atomic_init(v)
#define gasnett_strongatomic32_init(v) gasnett_atomic32_init(v)
#define gasnett_strongatomic64_init(v) gasnett_atomic64_init(v)

#define gasnett_atomic_signed(v) ((gasnett_atomic_sval_t)(v))
#define gasnett_strongatomic_signed(v) gasnett_atomic_signed(v)
#define gasnett_atomic32_signed(v) ((int32_t)(v))
#define gasnett_atomic64_signed(v) ((int64_t)(v))
#define gasnett_strongatomic32_signed(v) gasnett_atomic32_signed(v)
#define gasnett_strongatomic64_signed(v) gasnett_atomic64_signed(v)
#define GASNETT_ATOMIC_MAX ((gasnett_atomic_val_t)0xffffffffu)
#define GASNETT_ATOMIC_SIGNED_MIN ((gasnett_atomic_sval_t)(-0x7fffffff - 1))
#define GASNETT_ATOMIC_SIGNED_MAX ((gasnett_atomic_sval_t)0x7fffffff)
#define GASNETT_STRONGATOMIC_MAX GASNETT_ATOMIC_MAX
#define GASNETT_STRONGATOMIC_SIGNED_MIN GASNETT_ATOMIC_SIGNED_MIN
#define GASNETT_STRONGATOMIC_SIGNED_MAX GASNETT_ATOMIC_SIGNED_MAX
#define GASNETT_HAVE_ATOMIC_ADD_SUB 1
#define GASNETT_HAVE_ATOMIC_CAS 1
#define GASNETT_HAVE_STRONGATOMIC_ADD_SUB 1
#define GASNETT_HAVE_STRONGATOMIC_CAS 1

/* Defined to 1 only where the machine has no atomic of the width and a lock takes its place. */
#if defined(__GCC_ATOMIC_INT_LOCK_FREE) && __GCC_ATOMIC_INT_LOCK_FREE < 2
#define GASNETT_STRONGATOMIC_NOT_SIGNALSAFE 1
#define GASNETT_STRONGATOMIC32_NOT_SIGNALSAFE 1
#endif
#if defined(__GCC_ATOMIC_LLONG_LOCK_FREE) && __GCC_ATOMIC_LLONG_LOCK_FREE < 2
#define GASNETT_STRONGATOMIC64_NOT_SIGNALSAFE 1
#endif

/* ---- strong forms ---- */

#define gasnett_strongatomic_set(p, v, flags) \
    amphora_atomic32_set(&(p)->amphora_value, (gasnett_atomic_val_t)(v), flags)
#define gasnett_strongatomic_read(p, flags) amphora_atomic32_read(&(p)->amphora_value, flags)
#define gasnett_strongatomic_increment(p, flags) \
    ((void)amphora_atomic32_add(&(p)->amphora_value, 1, flags))
#define gasnett_strongatomic_decrement(p, flags) \
    ((void)amphora_atomic32_add(&(p)->amphora_value, 0xffffffffu, flags))
#define gasnett_strongatomic_decrement_and_test(p, flags) \
    (amphora_atomic32_add(&(p)->amphora_value, 0xffffffffu, flags) == 0)
#define gasnett_strongatomic_add(p, op, flags) \
    amphora_atomic32_add(&(p)->amphora_value, (gasnett_atomic_val_t)(op), flags)
#define gasnett_strongatomic_subtract(p, op, flags) \
    amphora_atomic32_add(&(p)->amphora_value, \
                         (gasnett_atomic_val_t)0 - (gasnett_atomic_val_t)(op), flags)
#define gasnett_strongatomic_compare_and_swap(p, oldval, newval, flags) \
    amphora_atomic32_cas(&(p)->amphora_value, (gasnett_atomic_val_t)(oldval), \
                         (gasnett_atomic_val_t)(newval), flags)
#define gasnett_strongatomic_swap(p, v, flags) \
    amphora_atomic32_swap(&(p)->amphora_value, (gasnett_atomic_val_t)(v), flags)

#define gasnett_strongatomic32_set(p, v, flags) gasnett_strongatomic_set(p, v, flags)
#define gasnett_strongatomic32_read(p, flags) gasnett_strongatomic_read(p, flags)
#define gasnett_strongatomic32_increment(p, flags) gasnett_strongatomic_increment(p, flags)
#define gasnett_strongatomic32_decrement(p, flags) gasnett_strongatomic_decrement(p, flags)
#define gasnett_strongatomic32_decrement_and_test(p, flags) \
    gasnett_strongatomic_decrement_and_test(p, flags)
#define gasnett_strongatomic32_add(p, op, flags) gasnett_strongatomic_add(p, op, flags)
#define gasnett_strongatomic32_subtract(p, op, flags) gasnett_strongatomic_subtract(p, op, flags)
#define gasnett_strongatomic32_compare_and_swap(p, oldval, newval, flags) \
    gasnett_strongatomic_compare_and_swap(p, oldval, newval, flags)
#define gasnett_strongatomic32_swap(p, v, flags) gasnett_strongatomic_swap(p, v, flags)

#define gasnett_strongatomic64_set(p, v, flags) \
    amphora_atomic64_set(&(p)->amphora_value, (uint64_t)(v), flags)
#define gasnett_strongatomic64_read(p, flags) amphora_atomic64_read(&(p)->amphora_value, flags)
#define gasnett_strongatomic64_increment(p, flags) \
    ((void)amphora_atomic64_add(&(p)->amphora_value, 1, flags))
#define gasnett_strongatomic64_decrement(p, flags) \
    ((void)amphora_atomic64_add(&(p)->amphora_value, (uint64_t)0 - 1, flags))
#define gasnett_strongatomic64_decrement_and_test(p, flags) \
    (amphora_atomic64_add(&(p)->amphora_value, (uint64_t)0 - 1, flags) == 0)
#define gasnett_strongatomic64_add(p, op, flags) \
    amphora_atomic64_add(&(p)->amphora_value, (uint64_t)(op), flags)
#define gasnett_strongatomic64_subtract(p, op, flags) \
    amphora_atomic64_add(&(p)->amphora_value, (uint64_t)0 - (uint64_t)(op), flags)
#define gasnett_strongatomic64_compare_and_swap(p, oldval, newval, flags) \
    amphora_atomic64_cas(&(p)->amphora_value, (uint64_t)(oldval), (uint64_t)(newval), flags)
#define gasnett_strongatomic64_swap(p, v, flags) \
    amphora_atomic64_swap(&(p)->amphora_value, (uint64_t)(v), flags)

/* ---- default forms ---- */

#if AMPHORA_TOOLS_SAFE

#define gasnett_atomic_set(p, v, flags) gasnett_strongatomic_set(p, v, flags)
#define gasnett_atomic_read(p, flags) gasnett_strongatomic_read(p, flags)
#define gasnett_atomic_increment(p, flags) gasnett_strongatomic_increment(p, flags)
#define gasnett_atomic_decrement(p, flags) gasnett_strongatomic_decrement(p, flags)
#define gasnett_atomic_decrement_and_test(p, flags) \
    gasnett_strongatomic_decrement_and_test(p, flags)
#define gasnett_atomic_add(p, op, flags) gasnett_strongatomic_add(p, op, flags)
#define gasnett_atomic_subtract(p, op, flags) gasnett_strongatomic_subtract(p, op, flags)
#define gasnett_atomic_compare_and_swap(p, oldval, newval, flags) \
    gasnett_strongatomic_compare_and_swap(p, oldval, newval, flags)
#define gasnett_atomic_swap(p, v, flags) gasnett_strongatomic_swap(p, v, flags)

#define gasnett_atomic64_set(p, v, flags) gasnett_strongatomic64_set(p, v, flags)
#define gasnett_atomic64_read(p, flags) gasnett_strongatomic64_read(p, flags)
#define gasnett_atomic64_increment(p, flags) gasnett_strongatomic64_increment(p, flags)
#define gasnett_atomic64_decrement(p, flags) gasnett_strongatomic64_decrement(p, flags)
#define gasnett_atomic64_decrement_and_test(p, flags) \
    gasnett_strongatomic64_decrement_and_test(p, flags)
#define gasnett_atomic64_add(p, op, flags) gasnett_strongatomic64_add(p, op, flags)
#define gasnett_atomic64_subtract(p, op, flags) gasnett_strongatomic64_subtract(p, op, flags)
#define gasnett_atomic64_compare_and_swap(p, oldval, newval, flags) \
    gasnett_strongatomic64_compare_and_swap(p, oldval, newval, flags)
#define gasnett_atomic64_swap(p, v, flags) gasnett_strongatomic64_swap(p, v, flags)

#else

#define gasnett_atomic_set(p, v, flags) \
    amphora_plain32_set(&(p)->amphora_value, (gasnett_atomic_val_t)(v), flags)
#define gasnett_atomic_read(p, flags) amphora_plain32_read(&(p)->amphora_value, flags)
#define gasnett_atomic_increment(p, flags) \
    ((void)amphora_plain32_add(&(p)->amphora_value, 1, flags))
#define gasnett_atomic_decrement(p, flags) \
    ((void)amphora_plain32_add(&(p)->amphora_value, 0xffffffffu, flags))
#define gasnett_atomic_decrement_and_test(p, flags) \
    (amphora_plain32_add(&(p)->amphora_value, 0xffffffffu, flags) == 0)
#define gasnett_atomic_add(p, op, flags) \
    amphora_plain32_add(&(p)->amphora_value, (gasnett_atomic_val_t)(op), flags)
#define gasnett_atomic_subtract(p, op, flags) \
    amphora_plain32_add(&(p)->amphora_value, (gasnett_atomic_val_t)0 - (gasnett_atomic_val_t)(op), \
                        flags)
#define gasnett_atomic_compare_and_swap(p, oldval, newval, flags) \
    amphora_plain32_cas(&(p)->amphora_value, (gasnett_atomic_val_t)(oldval), \
                        (gasnett_atomic_val_t)(newval), flags)
#define gasnett_atomic_swap(p, v, flags) \
    amphora_plain32_swap(&(p)->amphora_value, (gasnett_atomic_val_t)(v), flags)

#define gasnett_atomic64_set(p, v, flags) \
    amphora_plain64_set(&(p)->amphora_value, (uint64_t)(v), flags)
#define gasnett_atomic64_read(p, flags) amphora_plain64_read(&(p)->amphora_value, flags)
#define gasnett_atomic64_increment(p, flags) \
    ((void)amphora_plain64_add(&(p)->amphora_value, 1, flags))
#define gasnett_atomic64_decrement(p, flags) \
    ((void)amphora_plain64_add(&(p)->amphora_value, (uint64_t)0 - 1, flags))
#define gasnett_atomic64_decrement_and_test(p, flags) \
    (amphora_plain64_add(&(p)->amphora_value, (uint64_t)0 - 1, flags) == 0)
#define gasnett_atomic64_add(p, op, flags) \
    amphora_plain64_add(&(p)->amphora_value, (uint64_t)(op), flags)
#define gasnett_atomic64_subtract(p, op, flags) \
    amphora_plain64_add(&(p)->amphora_value, (uint64_t)0 - (uint64_t)(op), flags)
#define gasnett_atomic64_compare_and_swap(p, oldval, newval, flags) \
    amphora_plain64_cas(&(p)->amphora_value, (uint64_t)(oldval), (uint64_t)(newval), flags)
#define gasnett_atomic64_swap(p, v, flags) \
    amphora_plain64_swap(&(p)->amphora_value, (uint64_t)(v), flags)

#endif

#define gasnett_atomic32_set(p, v, flags) gasnett_atomic_set(p, v, flags)
#define gasnett_atomic32_read(p, flags) gasnett_atomic_read(p, flags)
#define gasnett_atomic32_increment(p, flags) gasnett_atomic_increment(p, flags)
#define gasnett_atomic32_decrement(p, flags) gasnett_atomic_decrement(p, flags)
#define gasnett_atomic32_decrement_and_test(p, flags) gasnett_atomic_decrement_and_test(p, flags)
#define gasnett_atomic32_add(p, op, flags) gasnett_atomic_add(p, op, flags)
#define gasnett_atomic32_subtract(p, op, flags) gasnett_atomic_subtract(p, op, flags)
#define gasnett_atomic32_compare_and_swap(p, oldval, newval, flags) \
    gasnett_atomic_compare_and_swap(p, oldval, newval, flags)
#define gasnett_atomic32_swap(p, v, flags) gasnett_atomic_swap(p, v, flags)

#endif
