/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation of a conduit's test, which counts how often it has ended: once is right.  Layer: tests.
 * Thread rule: any thread may complete the operation; the status is written before the count.
 */
#ifndef TESTS_CONFORMANCE_COUNTED_H
#define TESTS_CONFORMANCE_COUNTED_H

#include "base/platform.h"
#include "conduits/conduit.h"

struct counted {
    struct amph_op op;
    unsigned done;
    enum amph_status st; /* of the last end */
};

#define COUNTED \
    { \
        { count_done }, 0, AMPH_OK \
    }

static inline void count_done(struct amph_op *op, enum amph_status st)
{
    struct counted *c = AMPH_CONTAINER_OF(op, struct counted, op);

    c->st = st;
    __atomic_fetch_add(&c->done, 1, __ATOMIC_RELEASE);
}

/* Whether each of n operations has ended once, with this status. */
static inline bool counted_all(const struct counted *op, size_t n, enum amph_status st)
{
    for (size_t i = 0; i < n; i++)
        if (op[i].done != 1 || op[i].st != st)
            return false;

    return true;
}

#endif
