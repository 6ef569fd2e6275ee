/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays whose initialisers give their sizes. */
#include <upc_relaxed.h>
#include "check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct point {
    int x, y[2];
};

shared int values[] = { 1, 2, 3 };
shared[] char text[] = "a\x41\101\n\\"
                       "bc";
shared[] char in_braces[] = { "hello" };
shared[2] int designated[] = { [4] = 7, 8, [1] = 3 };
shared[] int rows[][3] = { { 1 }, { 2, 3 }, 4, 5, 6, 7 };
shared[*] int spread[] = { 1, 2, 3, 4, 5, 6, 7 };
shared[] struct point points[] = { 1, 2, 3, { 4 }, { .y = { 1 } }, 5, 6, 7 };
static shared int *table[] = { &values[0], &values[2] };
int private[] = {
    1,
    2,
    3,
};
shared[sizeof private] int blocks[16 * THREADS];

int main(void)
{
    static shared[] int inside[] = { 5, 6 };
    static shared int *inside_table[] = { &values[0], &values[2], values };

    CHECK(COUNT(values) == 3 && values[2] == 3);
    CHECK(COUNT(text) == 8 && text[3] == 10 && text[6] == 99 && text[7] == 0);
    CHECK(COUNT(in_braces) == 6 && in_braces[4] == 'o');
    CHECK(COUNT(designated) == 6 && designated[5] == 8 && designated[1] == 3);
    CHECK(COUNT(rows) == 4 && rows[3][0] == 7 && rows[2][2] == 6);
    CHECK(COUNT(spread) == 7 && spread[6] == 7);
    CHECK(upc_blocksizeof(spread) == (size_t)((7 + THREADS - 1) / THREADS));
    CHECK(COUNT(points) == 4 && points[3].y[1] == 7 && points[2].y[0] == 1);
    CHECK(COUNT(table) == 2 && *table[1] == 3);
    CHECK(COUNT(private) == 3 && upc_blocksizeof(blocks) == 3 * sizeof(int));
    CHECK(COUNT(inside) == 2 && inside[1] == 6);
    CHECK(COUNT(inside_table) == 3 && *inside_table[2] == 1);
    return 0;
}
