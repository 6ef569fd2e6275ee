/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes of shared objects.  UPC 1.3, 5.1.2.3 and appendix B.
 *
 * A relaxed access is one load or store if the object's memory is mapped here (the thread's own or a
 * neighbour's), otherwise a blocking transfer.  So the accesses of a thread complete in order; others may see
 * those of mapped memory in another order, as the processor allows.  A strict access is ordered against all
 * others: a fence precedes it and follows it.
 * Objects of 1, 2, 4 and 8 bytes that are aligned are read and written whole.
 */
#ifndef AMPHORA_UPC_ACCESS_H
#define AMPHORA_UPC_ACCESS_H

#include <stdint.h>

#include "amphora/upc/core.h"

/* In the library: accesses to memory that is not mapped here. */
void upc_read_far(void *dst, struct upc_wide src, size_t nbytes);
void upc_write_far(struct upc_wide dst, const void *src, size_t nbytes);

/* The address of the object here; 0: it is not mapped. */
AMPHORA_INLINE uintptr_t upc_near(upc_pts_t p)
{
    struct upc_wide w = upc_pts_wide(p);
    uintptr_t here = upc_self.place[w.thread].here;

    return AMPHORA_LIKELY(here != 0) ? here + w.addr : 0;
}

/* The value of the object of type T at p.  T has no qualifiers. */
#define UPC_LOAD(T, p) \
    __extension__({ \
        upc_pts_t upc_p_ = (p); \
        T upc_v_; \
        uintptr_t upc_at_ = upc_near(upc_p_); \
        if (AMPHORA_LIKELY(upc_at_ != 0)) \
            upc_v_ = *(volatile T *)upc_at_; \
        else \
            upc_read_far(&upc_v_, upc_pts_wide(upc_p_), sizeof(T)); \
        upc_v_; \
    })

/* Writes value, converted to T, to the object at p; gives what was written. */
#define UPC_STORE(T, p, value) \
    __extension__({ \
        upc_pts_t upc_p_ = (p); \
        T upc_v_ = (value); \
        uintptr_t upc_at_ = upc_near(upc_p_); \
        if (AMPHORA_LIKELY(upc_at_ != 0)) \
            *(volatile T *)upc_at_ = upc_v_; \
        else \
            upc_write_far(upc_pts_wide(upc_p_), &upc_v_, sizeof(T)); \
        upc_v_; \
    })

#define UPC_LOAD_STRICT(T, p) \
    __extension__({ \
        upc_pts_t upc_ps_ = (p); \
        upc_fence(); \
        T upc_vs_ = UPC_LOAD(T, upc_ps_); \
        __atomic_thread_fence(__ATOMIC_ACQUIRE); \
        upc_vs_; \
    })

#define UPC_STORE_STRICT(T, p, value) \
    __extension__({ \
        upc_pts_t upc_ps_ = (p); \
        T upc_vs_ = (value); \
        __atomic_thread_fence(__ATOMIC_RELEASE); \
        (void)UPC_STORE(T, upc_ps_, upc_vs_); \
        upc_fence(); \
        upc_vs_; \
    })

/* The same as functions for each arithmetic type: upc_get_int(p), upc_put_int(p, v),
 * upc_get_strict_int(p), upc_put_strict_int(p, v). */
/* clang-format off */
#define UPC_EACH_TYPE(M) \
    M(char, char)       M(schar, signed char)   M(uchar, unsigned char) \
    M(short, short)     M(ushort, unsigned short) \
    M(int, int)         M(uint, unsigned int) \
    M(long, long)       M(ulong, unsigned long) \
    M(llong, long long) M(ullong, unsigned long long) \
    M(float, float)     M(double, double)       M(ldouble, long double) \
    M(bool, _Bool)      M(ptr, upc_any_t)       M(pts, upc_pts_t)
/* clang-format on */
typedef void *upc_any_t;

#define UPC_DEFINE_ACCESS(NAME, T) \
    AMPHORA_INLINE T upc_get_##NAME(upc_pts_t p) \
    { \
        return UPC_LOAD(T, p); \
    } \
    AMPHORA_INLINE T upc_put_##NAME(upc_pts_t p, T value) \
    { \
        return UPC_STORE(T, p, value); \
    } \
    AMPHORA_INLINE T upc_get_strict_##NAME(upc_pts_t p) \
    { \
        return UPC_LOAD_STRICT(T, p); \
    } \
    AMPHORA_INLINE T upc_put_strict_##NAME(upc_pts_t p, T value) \
    { \
        return UPC_STORE_STRICT(T, p, value); \
    }
UPC_EACH_TYPE(UPC_DEFINE_ACCESS)

#endif
