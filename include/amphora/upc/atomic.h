/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations.  OL 7.5 (upc_atomic.h).
 */
#ifndef AMPHORA_UPC_ATOMIC_H
#define AMPHORA_UPC_ATOMIC_H

#include "amphora/upc/memory.h"
#include "amphora/upc/types.h"

typedef int upc_atomichint_t;
#define UPC_ATOMIC_HINT_DEFAULT 0
#define UPC_ATOMIC_HINT_LATENCY 1
#define UPC_ATOMIC_HINT_THROUGHPUT 2

/* Opaque; the same pointer in all threads. */
typedef struct upc_atomicdomain upc_atomicdomain_t;

/* Collective.  type: UPC_INT, UINT, LONG, ULONG, INT32, UINT32, INT64, UINT64, FLOAT, DOUBLE or
 * UPC_PTS; ops: operations that the type has (integers all but LOGAND, LOGOR and the functions;
 * floating point no AND, OR, XOR; UPC_PTS: GET, SET, CSWAP), joined by |. */
upc_atomicdomain_t *amphora_upc_atomicdomain_alloc(upc_type_t type, upc_op_t ops, int form);
AMPHORA_INLINE upc_atomicdomain_t *upc_all_atomicdomain_alloc(upc_type_t type, upc_op_t ops,
                                                              upc_atomichint_t hints)
{
    (void)hints;
    return amphora_upc_atomicdomain_alloc(type, ops, UPC_PTS_FORM);
}

/* Collective; NULL: nothing. */
void upc_all_atomicdomain_free(upc_atomicdomain_t *domain);

/* *target = *target op *operand1 (CSWAP: *operand2 where *target equals *operand1); fetch unless
 * NULL gets what was there before.  Operands that the operation does not have are NULL.  Atomic
 * against operations of the same domain.  Pointers-to-shared compare without phase. */
void amphora_upc_atomic(upc_atomicdomain_t *domain, void *fetch, upc_op_t op,
                        struct upc_wide target, const void *operand1, const void *operand2);
AMPHORA_INLINE void upc_atomic_relaxed(upc_atomicdomain_t *domain, void *fetch, upc_op_t op,
                                       upc_pts_t target, const void *operand1, const void *operand2)
{
    amphora_upc_atomic(domain, fetch, op, upc_pts_wide(target), operand1, operand2);
}

AMPHORA_INLINE void upc_atomic_strict(upc_atomicdomain_t *domain, void *fetch, upc_op_t op,
                                      upc_pts_t target, const void *operand1, const void *operand2)
{
    upc_fence();
    amphora_upc_atomic(domain, fetch, op, upc_pts_wide(target), operand1, operand2);
    upc_fence();
}

/* Non-zero: such an operation there is made by the processor, from here. */
int amphora_upc_atomic_isfast(upc_type_t type, upc_op_t ops, struct upc_wide addr);
AMPHORA_INLINE int upc_atomic_isfast(upc_type_t type, upc_op_t ops, upc_pts_t addr)
{
    return amphora_upc_atomic_isfast(type, ops, upc_pts_wide(addr));
}

#endif
