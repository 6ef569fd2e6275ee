/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data types and operations of remote atomics and reductions.  GASNet-EX spec, "Data types" and
 * "Operation codes".  Each constant is a bit of its own, so sets of them can be made with |.  Some
 * clients know the values of GEX_DT_U64 and GEX_OP_ADD.
 */
#ifndef AMPHORA_OPERATORS_H
#define AMPHORA_OPERATORS_H

#include <stdint.h>

typedef uint32_t gex_DT_t;
typedef uint32_t gex_OP_t;

#define GEX_DT_I32 ((gex_DT_t)1u << 0) /* int32_t */
#define GEX_DT_U32 ((gex_DT_t)1u << 1) /* uint32_t */
#define GEX_DT_I64 ((gex_DT_t)1u << 2) /* int64_t */
#define GEX_DT_U64 ((gex_DT_t)1u << 3) /* uint64_t */
#define GEX_DT_FLT ((gex_DT_t)1u << 4) /* float */
#define GEX_DT_DBL ((gex_DT_t)1u << 5) /* double */
#define GEX_DT_USER \
    ((gex_DT_t)1u << 6) /* reductions only: elements of a size that the client states */

/* Atomics and reductions; the last three for integers only. */
#define GEX_OP_ADD ((gex_OP_t)1u << 3)
#define GEX_OP_MULT ((gex_OP_t)1u << 1)
#define GEX_OP_MIN ((gex_OP_t)1u << 2)
#define GEX_OP_MAX ((gex_OP_t)1u << 0)
#define GEX_OP_AND ((gex_OP_t)1u << 4)
#define GEX_OP_OR ((gex_OP_t)1u << 5)
#define GEX_OP_XOR ((gex_OP_t)1u << 6)
/* Atomics only. */
#define GEX_OP_SUB ((gex_OP_t)1u << 7)
#define GEX_OP_INC ((gex_OP_t)1u << 8)
#define GEX_OP_DEC ((gex_OP_t)1u << 9)
#define GEX_OP_SET ((gex_OP_t)1u << 10)
#define GEX_OP_CAS ((gex_OP_t)1u << 11)
#define GEX_OP_GET ((gex_OP_t)1u << 12)
/* Reductions only: the client's function; NC: not commutative. */
#define GEX_OP_USER ((gex_OP_t)1u << 13)
#define GEX_OP_USER_NC ((gex_OP_t)1u << 14)
/* Atomics that fetch what was there: the bit of the plain one, 16 higher. */
#define GEX_OP_FADD ((gex_OP_t)1u << 19)
#define GEX_OP_FMULT ((gex_OP_t)1u << 17)
#define GEX_OP_FMIN ((gex_OP_t)1u << 18)
#define GEX_OP_FMAX ((gex_OP_t)1u << 16)
#define GEX_OP_FAND ((gex_OP_t)1u << 20)
#define GEX_OP_FOR ((gex_OP_t)1u << 21)
#define GEX_OP_FXOR ((gex_OP_t)1u << 22)
#define GEX_OP_FSUB ((gex_OP_t)1u << 23)
#define GEX_OP_FINC ((gex_OP_t)1u << 24)
#define GEX_OP_FDEC ((gex_OP_t)1u << 25)
#define GEX_OP_SWAP ((gex_OP_t)1u << 26)
#define GEX_OP_FCAS ((gex_OP_t)1u << 27)
#define GEX_OP_CSWAP GEX_OP_FCAS /* an older name */

/* The fetching form of an operation, and back; not for GEX_OP_GET, USER and USER_NC. */
#define GEX_OP_TO_FETCHING(op) ((gex_OP_t)((gex_OP_t)(op) << 16))
#define GEX_OP_TO_NONFETCHING(op) ((gex_OP_t)((gex_OP_t)(op) >> 16))

#endif
