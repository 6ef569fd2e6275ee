/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data types and operations of remote atomics and reductions.  GASNet-EX spec, "Data types" and
 * "Operation codes".  Each constant is a bit of its own, so sets of them can be made with |.  Some
 * clients know the values of GEX_DT_U64 and GEX_OP_ADD.  All are constants also for #if.
 */
#ifndef AMPHORA_OPERATORS_H
#define AMPHORA_OPERATORS_H

#include <stdint.h>

typedef uint32_t gex_DT_t;
typedef uint32_t gex_OP_t;

#define GEX_DT_I32 (1u << 0)  /* int32_t */
#define GEX_DT_U32 (1u << 1)  /* uint32_t */
#define GEX_DT_I64 (1u << 2)  /* int64_t */
#define GEX_DT_U64 (1u << 3)  /* uint64_t */
#define GEX_DT_FLT (1u << 4)  /* float */
#define GEX_DT_DBL (1u << 5)  /* double */
#define GEX_DT_USER (1u << 6) /* reductions only: elements of a size that the client states */

/* Atomics and reductions; the last three for integers only. */
#define GEX_OP_ADD (1u << 3)
#define GEX_OP_MULT (1u << 1)
#define GEX_OP_MIN (1u << 2)
#define GEX_OP_MAX (1u << 0)
#define GEX_OP_AND (1u << 4)
#define GEX_OP_OR (1u << 5)
#define GEX_OP_XOR (1u << 6)
/* Atomics only. */
#define GEX_OP_SUB (1u << 7)
#define GEX_OP_INC (1u << 8)
#define GEX_OP_DEC (1u << 9)
#define GEX_OP_SET (1u << 10)
#define GEX_OP_CAS (1u << 11)
#define GEX_OP_GET (1u << 12)
/* Reductions only: the client's function; NC: not commutative. */
#define GEX_OP_USER (1u << 13)
#define GEX_OP_USER_NC (1u << 14)
/* Atomics that fetch what was there: the bit of the plain one, 16 higher. */
#define GEX_OP_FADD (1u << 19)
#define GEX_OP_FMULT (1u << 17)
#define GEX_OP_FMIN (1u << 18)
#define GEX_OP_FMAX (1u << 16)
#define GEX_OP_FAND (1u << 20)
#define GEX_OP_FOR (1u << 21)
#define GEX_OP_FXOR (1u << 22)
#define GEX_OP_FSUB (1u << 23)
#define GEX_OP_FINC (1u << 24)
#define GEX_OP_FDEC (1u << 25)
#define GEX_OP_SWAP (1u << 26)
#define GEX_OP_FCAS (1u << 27)
#define GEX_OP_CSWAP GEX_OP_FCAS /* an older name */

/* The fetching form of an operation, and back; not for GEX_OP_GET, USER and USER_NC. */
#define GEX_OP_TO_FETCHING(op) ((op) << 16)
#define GEX_OP_TO_NONFETCHING(op) ((op) >> 16)

#endif
