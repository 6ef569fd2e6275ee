/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of other compilers and of C: pragmas, __func__, 128-bit integers, incomplete structures. */
#include <upc_relaxed.h>
#include <assert.h>
#include <string.h>
#include "check.h"

#pragma upc c_code
static int shared = 1, strict = 2, MYTHREAD = 3, upc_wait = 4;

static int names(void)
{
    return shared + strict + MYTHREAD + upc_wait;
}
#pragma upc upc_code
#pragma upc lazy
#pragma pupc off

struct opaque;
struct known {
    int value;
};

shared struct known known[4 * THREADS];
shared struct opaque *hidden;
shared[4] struct opaque *hidden_blocks;

__uint128_t huge;
unsigned __int128 *to_huge = &huge;
shared __uint128_t shared_huge[THREADS];

static __uint128_t next(shared __uint128_t *p)
{
    return *p + 1;
}

static const char *own_name(void)
{
    return __func__;
}

int main()
{
#pragma upc c_code
    int relaxed = 3;
    int sum = relaxed + names();
#pragma upc upc_code
    CHECK(sum == 13);

    known[3].value = 5;
    hidden = (shared struct opaque *)&known[3];
    hidden_blocks = (shared[4] struct opaque *)&known[3];
    CHECK(((shared struct known *)hidden)->value == 5);
    CHECK(((shared[4] struct known *)hidden_blocks)->value == 5);
    CHECK(hidden == (shared void *)hidden_blocks);

    shared_huge[MYTHREAD] = (__uint128_t)1 << 100;
    CHECK(next(&shared_huge[MYTHREAD]) >> 98 == 4 && *to_huge == 0);

    CHECK(strcmp(__func__, "main") == 0 && sizeof __func__ == 5);
    CHECK(strcmp(__FUNCTION__, "main") == 0 && strcmp(__PRETTY_FUNCTION__, "main") == 0);
    CHECK(strcmp(own_name(), "own_name") == 0);
#ifdef FALSE
    assert(MYTHREAD == THREADS);
#endif
    return 0;
}
