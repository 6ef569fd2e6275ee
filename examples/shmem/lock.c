/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue locks.  A lock's home PE stores the last entry of the queue.  Each PE's own copy of the lock
 * stores the next entry and whether the PE still waits.  So each PE waits on its own memory, and PEs
 * get the lock in the order of their requests.
 */
#include "inside.h"

struct lock {
    uint32_t last; /* at the home: PE + 1; 0: free */
    uint32_t node; /* (PE + 1) * 2 of the next entry, + 1 while this PE waits */
};

/* Different locks have different homes. */
static int home_of(const char *call, const long *lock)
{
    _Static_assert(sizeof(struct lock) <= sizeof(long), "a lock fits in a long");
    return (int)(shmemi_place(call, lock, sizeof *lock).offset / sizeof *lock %
                 (uint64_t)shmemi.npes);
}

static uint32_t change(const uint32_t *word, enum amo op, uint32_t a, uint32_t b, int pe)
{
    return (uint32_t)shmemi_amo("lock", op, word, sizeof *word, a, b, pe, 1);
}

void shmem_set_lock(long *lock)
{
    shmemi_check_pe("shmem_set_lock", 0);

    struct lock *l = (struct lock *)lock;
    uint32_t self = (uint32_t)shmemi.pe + 1;

    __atomic_store_n(&l->node, 1, __ATOMIC_SEQ_CST);

    uint32_t before = change(&l->last, AMO_SET, self, 0, home_of("shmem_set_lock", lock));
    if (!before)
        return;

    change(&l->node, AMO_OR, self * 2, 0, (int)before - 1);
    SHMEMI_WAIT(!(__atomic_load_n(&l->node, __ATOMIC_ACQUIRE) & 1));
}

int shmem_test_lock(long *lock)
{
    shmemi_check_pe("shmem_test_lock", 0);

    struct lock *l = (struct lock *)lock;
    int home = home_of("shmem_test_lock", lock);

    if (change(&l->last, AMO_GET, 0, 0, home))
        return 1;

    __atomic_store_n(&l->node, 1, __ATOMIC_SEQ_CST);
    return change(&l->last, AMO_CSWAP, 0, (uint32_t)shmemi.pe + 1, home) != 0;
}

void shmem_clear_lock(long *lock)
{
    shmemi_check_pe("shmem_clear_lock", 0);

    struct lock *l = (struct lock *)lock;

    shmem_quiet(); /* what was written under the lock is there before the next one looks */
    if (__atomic_load_n(&l->node, __ATOMIC_ACQUIRE) <= 1 &&
        change(&l->last, AMO_CSWAP, (uint32_t)shmemi.pe + 1, 0,
               home_of("shmem_clear_lock", lock)) == (uint32_t)shmemi.pe + 1)
        return;

    SHMEMI_WAIT(__atomic_load_n(&l->node, __ATOMIC_ACQUIRE) > 1);

    uint32_t next = __atomic_load_n(&l->node, __ATOMIC_ACQUIRE) / 2;

    change(&l->node, AMO_AND, ~1u, 0, (int)next - 1);
}
