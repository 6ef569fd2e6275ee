/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations.  OL 7.5. */
#ifndef UPC_ATOMIC_H
#define UPC_ATOMIC_H
#include <stddef.h>
#include <upc_types.h>

typedef int upc_atomichint_t;
#define UPC_ATOMIC_HINT_DEFAULT 0
#define UPC_ATOMIC_HINT_LATENCY 1
#define UPC_ATOMIC_HINT_THROUGHPUT 2
typedef struct upc_atomicdomain upc_atomicdomain_t;

upc_atomicdomain_t *upc_all_atomicdomain_alloc(
    upc_type_t type, upc_op_t ops, upc_atomichint_t hints) __asm__("upcx_all_atomicdomain_alloc");
void upc_all_atomicdomain_free(upc_atomicdomain_t *domain);
void upc_atomic_strict(upc_atomicdomain_t *domain, void *restrict fetch_ptr, upc_op_t op,
                       shared void *restrict target, const void *restrict operand1,
                       const void *restrict operand2) __asm__("upcx_atomic_strict");
void upc_atomic_relaxed(upc_atomicdomain_t *domain, void *restrict fetch_ptr, upc_op_t op,
                        shared void *restrict target, const void *restrict operand1,
                        const void *restrict operand2) __asm__("upcx_atomic_relaxed");
int upc_atomic_isfast(upc_type_t type, upc_op_t ops,
                      shared void *addr) __asm__("upcx_atomic_isfast");

#endif
