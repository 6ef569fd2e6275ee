/* SPDX-License-Identifier: BSD-3-Clause */
#include <upc_relaxed.h>
#include "several.h"

shared [3] int table[N * THREADS];
shared int counter = 7;
shared [3] int *cursor = &table[5];
double private_value = 2.5;
static shared int mine = 5;

int other_mine(void)
{
    return mine;
}

shared struct item *make(double weight, shared struct item *next)
{
    shared struct item *i = upc_alloc(sizeof(struct item));
    i->weight = weight;
    i->next = next;
    return i;
}
