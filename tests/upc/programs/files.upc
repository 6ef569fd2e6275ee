/* SPDX-License-Identifier: BSD-3-Clause */
/* UPC-IO in UPC's words: a blocked array is written with the common file pointer and read back in another layout; lists; async. */
#include <upc_relaxed.h>
#include <upc_io.h>
#include "check.h"
#define N (40 * THREADS)
#define SYNC (UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC)

shared [7] int from[40 * THREADS];
shared [3] int to[40 * THREADS];

int main(int argc, char **argv)
{
    int i;
    CHECK(argc == 2);
    upc_forall (i = 0; i < N; i++; &from[i])
        from[i] = 3 * i;
    upc_file_t *f = upc_all_fopen(argv[1], UPC_CREATE | UPC_TRUNC | UPC_RDWR | UPC_COMMON_FP, 0, NULL);
    CHECK(f != NULL);
    CHECK(upc_all_fwrite_shared(f, from, upc_blocksizeof(from), sizeof(int), N, SYNC) == (upc_off_t)sizeof(from));
    CHECK(upc_all_fseek(f, 0, UPC_SEEK_SET) == 0);
    upc_all_fread_shared_async(f, to, upc_blocksizeof(to), sizeof(int), N, SYNC);
    CHECK(upc_all_fwait_async(f) == (upc_off_t)(N * sizeof(int)));
    upc_barrier;
    for (i = 0; i < N; i++)
        CHECK(to[i] == 3 * i);
    CHECK(upc_all_fcntl(f, UPC_SET_INDIVIDUAL_FP, NULL) == 0);
    /* Each thread reads one element into its own part, by a list. */
    shared [] int *mine = upc_alloc(sizeof(int));
    struct upc_shared_memvec memory = { mine, 0, sizeof(int) };
    struct upc_filevec place = { (upc_off_t)(5 + MYTHREAD) * (upc_off_t)sizeof(int), sizeof(int) };
    CHECK(upc_all_fread_list_shared(f, 1, &memory, 1, &place, SYNC) == sizeof(int));
    CHECK(*mine == 3 * (5 + MYTHREAD));
    CHECK(upc_all_fget_size(f) == (upc_off_t)sizeof from);
    CHECK(upc_all_fclose(f) == 0);
    upc_free(mine);
    return 0;
}
