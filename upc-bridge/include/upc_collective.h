/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives.  RL 7.4. */
#ifndef UPC_COLLECTIVE_H
#define UPC_COLLECTIVE_H
#include <stddef.h>
#include <upc_types.h>

#define UPCX_MOVE(name) \
    void upc_all_##name(shared void *restrict dst, shared const void *restrict src, size_t nbytes, \
                        upc_flag_t flags) __asm__("upcx_all_" #name);
/* clang-format off */
UPCX_MOVE(broadcast)
UPCX_MOVE(scatter)
UPCX_MOVE(gather)
UPCX_MOVE(gather_all)
UPCX_MOVE(exchange)
/* clang-format on */
#undef UPCX_MOVE
void upc_all_permute(shared void *restrict dst, shared const void *restrict src,
                     shared const int *restrict perm, size_t nbytes,
                     upc_flag_t flags) __asm__("upcx_all_permute");

#define UPCX_REDUCE(name, type) \
    void upc_all_reduce##name(shared void *restrict dst, shared const void *restrict src, \
                              upc_op_t op, size_t nelems, size_t blk_size, \
                              type (*func)(type, type), \
                              upc_flag_t flags) __asm__("upcx_all_reduce" #name); \
    void upc_all_prefix_reduce##name(shared void *restrict dst, shared const void *restrict src, \
                                     upc_op_t op, size_t nelems, size_t blk_size, \
                                     type (*func)(type, type), \
                                     upc_flag_t flags) __asm__("upcx_all_prefix_reduce" #name);
/* clang-format off */
UPCX_REDUCE(C, signed char)
UPCX_REDUCE(UC, unsigned char)
UPCX_REDUCE(S, signed short)
UPCX_REDUCE(US, unsigned short)
UPCX_REDUCE(I, signed int)
UPCX_REDUCE(UI, unsigned int)
UPCX_REDUCE(L, signed long)
UPCX_REDUCE(UL, unsigned long)
UPCX_REDUCE(F, float)
UPCX_REDUCE(D, double)
UPCX_REDUCE(LD, long double)
/* clang-format on */
#undef UPCX_REDUCE

void upc_all_sort(shared void *A, size_t elem_size, size_t nelems, size_t blk_size,
                  int (*func)(shared void *, shared void *),
                  upc_flag_t flags) __asm__("upcx_all_sort");

#endif
