/* SPDX-License-Identifier: BSD-3-Clause */
/* Order and completion, waiting for values, and barriers of all PEs. */
#include "inside.h"

void shmem_quiet(void)
{
    shmemi_check_pe("shmem_quiet", 0);
    gasnet_wait_syncnbi_all();
    GASNET_BLOCKUNTIL(shmemi.answered == shmemi.asked);
}

/* Puts travel by several ways, between which there is no order; completing them is one. */
void shmem_fence(void)
{
    shmem_quiet();
}

void shmem_sync_all(void)
{
    shmemi_check_pe("shmem_sync_all", 0);
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK)
        shmemi_fail("shmem_sync_all", "gasnet_barrier_wait fails");
}

void shmem_barrier_all(void)
{
    shmem_quiet();
    shmem_sync_all();
}

#define DEFINE_SYNC(NAME, T) \
    static int holds_##NAME(const T *ivar, int cmp, T value) \
    { \
        T now = __atomic_load_n(ivar, __ATOMIC_ACQUIRE); \
        switch (cmp) { \
        case SHMEM_CMP_EQ: \
            return now == value; \
        case SHMEM_CMP_NE: \
            return now != value; \
        case SHMEM_CMP_GT: \
            return now > value; \
        case SHMEM_CMP_LE: \
            return now <= value; \
        case SHMEM_CMP_LT: \
            return now < value; \
        case SHMEM_CMP_GE: \
            return now >= value; \
        default: \
            shmemi_fail("shmem_" #NAME "_wait_until", "%d is no comparison", cmp); \
        } \
    } \
    void shmem_##NAME##_wait_until(T *ivar, int cmp, T value) \
    { \
        SHMEMI_WAIT(holds_##NAME(ivar, cmp, value)); \
    } \
    int shmem_##NAME##_test(T *ivar, int cmp, T value) \
    { \
        gasnet_AMPoll(); \
        return holds_##NAME(ivar, cmp, value); \
    } \
    void shmem_##NAME##_wait_until_all(T *ivars, size_t nelems, const int *status, int cmp, \
                                       T value) \
    { \
        for (size_t i = 0; i < nelems; i++) \
            if (!status || !status[i]) \
                shmem_##NAME##_wait_until(&ivars[i], cmp, value); \
    } \
    static size_t any_##NAME(const T *ivars, size_t nelems, const int *status, int cmp, T value, \
                             size_t *left) \
    { \
        *left = 0; \
        for (size_t i = 0; i < nelems; i++) { \
            if (status && status[i]) \
                continue; \
            ++*left; \
            if (holds_##NAME(&ivars[i], cmp, value)) \
                return i; \
        } \
        return SIZE_MAX; \
    } \
    size_t shmem_##NAME##_wait_until_any(T *ivars, size_t nelems, const int *status, int cmp, \
                                         T value) \
    { \
        size_t left, found; \
        SHMEMI_WAIT((found = any_##NAME(ivars, nelems, status, cmp, value, &left)) != SIZE_MAX || \
                    !left); \
        return found; \
    }
SHMEM_SYNC_TYPES(DEFINE_SYNC)
