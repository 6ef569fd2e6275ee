/* SPDX-License-Identifier: BSD-3-Clause */
/* A histogram with a lock for each bin; the locks' pointers lie in shared memory. */
#include <upc_relaxed.h>
#include <stdlib.h>
#include "check.h"
#define BINS 16
#define EACH 300

shared unsigned histogram[BINS];
upc_lock_t *shared locks[BINS];
shared [EACH] unsigned char picture[EACH * THREADS];

int main()
{
    int i;
    unsigned alone[BINS] = { 0 };
    upc_forall (i = 0; i < BINS; i++; i)
        locks[i] = upc_global_lock_alloc();
    upc_forall (i = 0; i < EACH * THREADS; i++; &picture[i])
        picture[i] = (unsigned char)(i * 7919u >> 3);
    upc_barrier;
    upc_forall (i = 0; i < EACH * THREADS; i++; &picture[i]) {
        int bin = picture[i] % BINS;
        upc_lock(locks[bin]);
        histogram[bin]++;
        upc_unlock(locks[bin]);
    }
    upc_barrier;
    for (i = 0; i < EACH * THREADS; i++)
        alone[picture[i] % BINS]++;
    for (i = 0; i < BINS; i++)
        CHECK(histogram[i] == alone[i]);
    upc_barrier;
    upc_forall (i = 0; i < BINS; i++; i)
        upc_lock_free(locks[i]);
    return 0;
}
