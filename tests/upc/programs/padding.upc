/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures go to shared memory and come back with all their bytes, those between the members
 * included: programs compare and hash them. */
#include <upc_relaxed.h>
#include <string.h>
#include "check.h"

typedef struct {
    char first;
    long second;
    short third;
} holes;

struct nested {
    holes inner[2];
    long double wide;
};

union either {
    char narrow;
    holes wide;
};

struct bits {
    unsigned a : 3;
    long b;
};

struct spread {
    char c __attribute__((aligned(16)));
};

typedef int apart __attribute__((aligned(16)));

struct by_name {
    apart a, b;
};

typedef struct {
    double re, im;
} whole;

shared[] holes one[4];
shared[] struct nested two[2];
shared[] union either three[2];
shared[] struct bits four[2];
shared[] struct spread five[2];
shared[] whole six[2];
shared[] struct by_name eight[2];
strict shared[] holes seven[2];

static __attribute__((noinline)) int same(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

static __attribute__((noinline)) int same_argument(holes h, const holes *like)
{
    return memcmp(&h, like, sizeof h) == 0;
}

static __attribute__((noinline)) holes returned(int i)
{
    return one[i];
}

static void reads(void)
{
    holes *like = (holes *)&one[0];
    holes initialised = one[0];
    holes assigned;
    holes array[2] = { one[0], one[0] };

    CHECK(memcmp(&initialised, like, sizeof initialised) == 0);
    CHECK(same(&initialised, like, sizeof initialised));

    memset(&assigned, 0, sizeof assigned);
    assigned = one[0];
    CHECK(same(&assigned, like, sizeof assigned));
    CHECK(same(&array[1], like, sizeof *like));
    CHECK(same_argument(one[0], like));

    assigned = returned(0);
    CHECK(same(&assigned, like, sizeof assigned));

    holes chosen = array[0].first ? one[0] : one[1];

    CHECK(same(&chosen, like, sizeof chosen));
    chosen = (like++, one[0]);
    CHECK(same(&chosen, like - 1, sizeof chosen));
}

static void writes(void)
{
    holes *like = (holes *)&one[0];
    holes mine;
    holes *pointer = &mine;

    one[1] = one[0];
    CHECK(same(like + 1, like, sizeof *like));

    memset(&mine, 0x5a, sizeof mine);
    mine.first = 5;
    one[2] = mine;
    CHECK(same(like + 2, &mine, sizeof mine));

    one[3] = *pointer;
    CHECK(same(like + 3, &mine, sizeof mine));

    holes both = (one[2] = one[0]);

    CHECK(same(&both, like, sizeof both));
    CHECK(same(like + 2, like, sizeof *like));
}

/* One object of each kind to another place and to private memory. */
#define KIND(type, array) \
    do { \
        type *at = (type *)&array[0]; \
        memset(at, 0x33, sizeof *at); \
        type mine = array[0]; \
        CHECK(same(&mine, at, sizeof mine)); \
        array[1] = mine; \
        CHECK(same(at + 1, at, sizeof *at)); \
        memset(at, 0x44, sizeof *at); \
        array[1] = array[0]; \
        CHECK(same(at + 1, at, sizeof *at)); \
    } while (0)

int main(void)
{
    if (MYTHREAD == 0) {
        holes *like = (holes *)&one[0];

        memset(like, 0xa5, 4 * sizeof *like);
        like->first = 1;
        like->second = 2;
        like->third = 3;
        reads();
        writes();

        KIND(struct nested, two);
        KIND(union either, three);
        KIND(struct bits, four);
        KIND(struct spread, five);
        KIND(whole, six);
        KIND(holes, seven);
        KIND(struct by_name, eight);
    }

    upc_barrier;

    /* Thread 0's bytes, from wherever this thread is. */
    if (MYTHREAD == THREADS - 1) {
        holes here = one[0];
        unsigned char bytes[sizeof here];

        upc_memget(bytes, &one[0], sizeof bytes);
        CHECK(same(&here, bytes, sizeof bytes));
    }

    return 0;
}
