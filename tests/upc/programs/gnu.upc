/* SPDX-License-Identifier: BSD-3-Clause */
/* Extensions of GNU C, and C of other years, around shared data. */
#include <upc_relaxed.h>
#include "check.h"

/* clang-format off */
struct old { int a, b; int v[4]; };
static struct old old = { a: 1, b: 2, v: { [0 ... 1] 5, [3] 6 } };
shared [] struct old shared_old = { b: 3 };

typedef float vector __attribute__((vector_size(16)));
typedef int integers __attribute__((vector_size(16)));
static _Decimal64 decimal = 1.5DD;
static caf\u00e9 = 4; /* no type: int */
static const unsigned_by_name = 1'000 / 10;

struct [[gnu::packed]] packed { char c; int i; };
struct inner { int x; };
struct outer { struct inner; int y; };

[[gnu::noinline]] static int attributes([[maybe_unused]] int x)
{
    [[maybe_unused]] int y = 1;

    switch (x) {
    case 1:
        x++;
        [[fallthrough]];
    case 2 ... 3:
        x++;
        __attribute__((fallthrough));
    default:
        return x;
    }
}
/* clang-format on */

static int classic(p, n)
shared [] int *p;
{
    register i, sum = 0;

    for (i = 0; i < n; i++)
        sum += p[i];

    return sum;
}

shared[] int numbers[4] = { 1, 2, 3, 4 };

int main(void)
{
    CHECK(old.a == 1 && old.b == 2 && old.v[1] == 5 && old.v[3] == 6);
    CHECK(shared_old.a == 0 && shared_old.b == 3);
    CHECK(decimal > 1 && caf\u00e9 == 4 && unsigned_by_name == 100);
    CHECK(sizeof(struct packed) == 5);
    CHECK(attributes(numbers[0]) == 3);
    CHECK(classic(numbers, 4) == 10);

    vector v = { numbers[0], numbers[1] };
    integers i = __builtin_convertvector(v, integers);

    CHECK(i[0] == 1 && i[1] == 2);
    CHECK(__builtin_has_attribute(v, aligned) <= 1);

    struct outer o = { { numbers[2] }, 5 };

    CHECK(o.x == 3 && o.y == 5);
    return 0;
}
