/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives.  RL 7.4 (upc_collective.h).
 *
 * All threads make the same calls in the same order with the same arguments, but not between
 * upc_notify and upc_wait.  Each thread's data is moved by itself or by those that want it, as
 * flags (RL 7.3.3) allow.  Where dst and src overlap the result is undefined.
 */
#ifndef AMPHORA_UPC_COLLECTIVE_H
#define AMPHORA_UPC_COLLECTIVE_H

#include "amphora/upc/memory.h"
#include "amphora/upc/types.h"

/* ---- moving (7.4.2.1 to 7.4.2.6): dst or src given as shared [] char[n] is one block, else it has
 * a block in each thread; phases count as 0 ---- */

void amphora_upc_all_broadcast(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                               upc_flag_t flags);
void amphora_upc_all_scatter(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                             upc_flag_t flags);
void amphora_upc_all_gather(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                            upc_flag_t flags);
void amphora_upc_all_gather_all(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                                upc_flag_t flags);
void amphora_upc_all_exchange(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                              upc_flag_t flags);
void amphora_upc_all_permute(struct upc_wide dst, struct upc_wide src, struct upc_wide perm,
                             size_t nbytes, upc_flag_t flags);

/* dst: shared [nbytes] char[nbytes * THREADS], src: shared [] char[nbytes]: each block of dst
 * becomes src. */
AMPHORA_INLINE void upc_all_broadcast(upc_pts_t dst, upc_pts_t src, size_t nbytes, upc_flag_t flags)
{
    amphora_upc_all_broadcast(upc_pts_wide(dst), upc_pts_wide(src), nbytes, flags);
}

/* dst: shared [nbytes] char[nbytes * THREADS], src: shared [] char[nbytes * THREADS]: block t of
 * dst becomes block t of src. */
AMPHORA_INLINE void upc_all_scatter(upc_pts_t dst, upc_pts_t src, size_t nbytes, upc_flag_t flags)
{
    amphora_upc_all_scatter(upc_pts_wide(dst), upc_pts_wide(src), nbytes, flags);
}

/* The reverse: dst: shared [] char[nbytes * THREADS], src: shared [nbytes] char[nbytes *
 * THREADS]. */
AMPHORA_INLINE void upc_all_gather(upc_pts_t dst, upc_pts_t src, size_t nbytes, upc_flag_t flags)
{
    amphora_upc_all_gather(upc_pts_wide(dst), upc_pts_wide(src), nbytes, flags);
}

/* dst: shared [nbytes * THREADS] char[nbytes * THREADS * THREADS]: each block becomes src, shared
 * [nbytes] char[nbytes * THREADS]. */
AMPHORA_INLINE void upc_all_gather_all(upc_pts_t dst, upc_pts_t src, size_t nbytes,
                                       upc_flag_t flags)
{
    amphora_upc_all_gather_all(upc_pts_wide(dst), upc_pts_wide(src), nbytes, flags);
}

/* dst, src: shared [nbytes * THREADS] char[nbytes * THREADS * THREADS]: part i of thread t's block
 * becomes part t of thread i's. */
AMPHORA_INLINE void upc_all_exchange(upc_pts_t dst, upc_pts_t src, size_t nbytes, upc_flag_t flags)
{
    amphora_upc_all_exchange(upc_pts_wide(dst), upc_pts_wide(src), nbytes, flags);
}

/* dst, src: shared [nbytes] char[nbytes * THREADS], perm: shared int[THREADS]: block perm[t] of dst
 * becomes block t of src. */
AMPHORA_INLINE void upc_all_permute(upc_pts_t dst, upc_pts_t src, upc_pts_t perm, size_t nbytes,
                                    upc_flag_t flags)
{
    amphora_upc_all_permute(upc_pts_wide(dst), upc_pts_wide(src), upc_pts_wide(perm), nbytes,
                            flags);
}

/* ---- computing (7.4.3.1, 7.4.3.2) ---- */

/*
 * upc_all_reduceT: *dst = src[0] op src[1] op ... op src[nelems - 1]; src: shared [blk_size]
 * T[nelems] (0: indefinite), which may begin in any thread and at any phase, as &a[i] does.
 * upc_all_prefix_reduceT: dst[i] = src[0] op ... op src[i]; dst: laid out as src, of the same
 * thread and phase. op: UPC_ADD, MULT, MIN, MAX, LOGAND, LOGOR; for integers AND, OR, XOR; UPC_FUNC
 * (associative and commutative func), UPC_NONCOMM_FUNC (associative func).  func is ignored for
 * others.  T: C S I L signed and UC US UI UL unsigned integers, F D LD floating point.
 */
/* clang-format off */
#define UPC_EACH_REDUCED(M) \
    M(C, signed char) M(UC, unsigned char) \
    M(S, short)       M(US, unsigned short) \
    M(I, int)         M(UI, unsigned int) \
    M(L, long)        M(UL, unsigned long) \
    M(F, float)       M(D, double)          M(LD, long double)
/* clang-format on */

#define UPC_DEFINE_REDUCE(NAME, T) \
    void amphora_upc_reduce##NAME(struct upc_wide dst, struct upc_wide src, upc_op_t op, \
                                  size_t nelems, size_t blk_size, T (*func)(T, T), \
                                  upc_flag_t flags); \
    void amphora_upc_prefix##NAME(struct upc_wide dst, struct upc_wide src, upc_op_t op, \
                                  size_t nelems, size_t blk_size, T (*func)(T, T), \
                                  upc_flag_t flags); \
    AMPHORA_INLINE void upc_all_reduce##NAME(upc_pts_t dst, upc_pts_t src, upc_op_t op, \
                                             size_t nelems, size_t blk_size, T (*func)(T, T), \
                                             upc_flag_t flags) \
    { \
        amphora_upc_reduce##NAME(upc_pts_wide(dst), upc_pts_wide(src), op, nelems, blk_size, func, \
                                 flags); \
    } \
    AMPHORA_INLINE void upc_all_prefix_reduce##NAME(upc_pts_t dst, upc_pts_t src, upc_op_t op, \
                                                    size_t nelems, size_t blk_size, \
                                                    T (*func)(T, T), upc_flag_t flags) \
    { \
        amphora_upc_prefix##NAME(upc_pts_wide(dst), upc_pts_wide(src), op, nelems, blk_size, func, \
                                 flags); \
    }
UPC_EACH_REDUCED(UPC_DEFINE_REDUCE)

/* ---- sorting (7.4.3.3) ---- */

/* A: shared [blk_size] of nelems elements of elem_size bytes (its phase counts elements), sorted so
 * that func(p, q) <= 0 for neighbours; equal elements in any order.  func compares the elements at
 * two pointers-to-shared, of which both lie in the calling thread's memory. */
typedef int (*upc_compare_fn_t)(upc_pts_t, upc_pts_t);
void amphora_upc_all_sort(struct upc_wide A, size_t elem_size, size_t nelems, size_t blk_size,
                          void (*func)(void), int form, upc_flag_t flags);
AMPHORA_INLINE void upc_all_sort(upc_pts_t A, size_t elem_size, size_t nelems, size_t blk_size,
                                 upc_compare_fn_t func, upc_flag_t flags)
{
    amphora_upc_all_sort(upc_pts_wide(A), elem_size, nelems, blk_size, (void (*)(void))func,
                         UPC_PTS_FORM, flags);
}

#endif
