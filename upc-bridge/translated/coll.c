/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives and atomics for translated programs: see translated.c.
 *
 * Layer: upc-bridge.  Thread rule: any thread.
 */
#include <stddef.h>

#include "upc-bridge/translated/translated.h"

#define UPCX_MOVE(name) \
    UPCX_VOID(all_##name, (upc_pts_t dst, upc_pts_t src, size_t n, upc_flag_t flags), \
              (dst, src, n, flags))
/* clang-format off */
UPCX_MOVE(broadcast)
UPCX_MOVE(scatter)
UPCX_MOVE(gather)
UPCX_MOVE(gather_all)
UPCX_MOVE(exchange)
UPCX_VOID(all_permute, (upc_pts_t dst, upc_pts_t src, upc_pts_t perm, size_t n, upc_flag_t flags), (dst, src, perm, n, flags))
/* clang-format on */

#define UPCX_REDUCE(NAME, T) \
    UPCX_VOID(all_reduce##NAME, \
              (upc_pts_t dst, upc_pts_t src, upc_op_t op, size_t n, size_t blk, T(*f)(T, T), \
               upc_flag_t flags), \
              (dst, src, op, n, blk, f, flags)) \
    UPCX_VOID(all_prefix_reduce##NAME, \
              (upc_pts_t dst, upc_pts_t src, upc_op_t op, size_t n, size_t blk, T(*f)(T, T), \
               upc_flag_t flags), \
              (dst, src, op, n, blk, f, flags))
UPC_EACH_REDUCED(UPCX_REDUCE)

UPCX_VOID(all_sort,
          (upc_pts_t a, size_t size, size_t n, size_t blk, upc_compare_fn_t f, upc_flag_t flags),
          (a, size, n, blk, f, flags))

/* clang-format off */
UPCX_VALUE(upc_atomicdomain_t *, all_atomicdomain_alloc, (upc_type_t type, upc_op_t ops, upc_atomichint_t hints), (type, ops, hints))
UPCX_VOID(atomic_relaxed, (upc_atomicdomain_t * d, void *fetch, upc_op_t op, upc_pts_t target, const void *x, const void *y),
          (d, fetch, op, target, x, y))
UPCX_VOID(atomic_strict, (upc_atomicdomain_t * d, void *fetch, upc_op_t op, upc_pts_t target, const void *x, const void *y),
          (d, fetch, op, target, x, y))
UPCX_VALUE(int, atomic_isfast, (upc_type_t type, upc_op_t ops, upc_pts_t addr), (type, ops, addr))
/* clang-format on */
