/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of two UPC files and one of C. */
#include <upc_strict.h>
#include "check.h"
#include "several.h"

static shared int mine = 4; /* the other file has one, too */
int other_mine(void);

int main()
{
    int i;
    upc_forall (i = 0; i < N * THREADS; i++; &table[i])
        table[i] = plain_c(i);
    upc_barrier;
    for (i = 0; i < N * THREADS; i++)
        CHECK(table[i] == 2 * i + 1);
    CHECK(cursor == &table[5] && *cursor == 11 && cursor[1] == 13);
    CHECK(counter == 7 && mine == 4 && other_mine() == 5 && private_value == 2.5);
    shared struct item *l = make(1, make(2, NULL));
    CHECK(l->weight == 1 && l->next->weight == 2 && !l->next->next);
    return 0;
}
