/* SPDX-License-Identifier: BSD-3-Clause */
/* upc_types.h: flags, operations, types.  RL 7.3. */
#ifndef AMPHORA_UPC_TYPES_H
#define AMPHORA_UPC_TYPES_H

/* When a collective may touch data: before it may begin, all threads have entered it (ALL), the
 * thread that the data has affinity to has (MY), or none need (NO); and likewise when a thread may
 * leave.  None named: ALL.  RL 7.3.3. */
typedef int upc_flag_t;
#define UPC_IN_ALLSYNC 1
#define UPC_IN_MYSYNC 2
#define UPC_IN_NOSYNC 4
#define UPC_OUT_ALLSYNC 8
#define UPC_OUT_MYSYNC 16
#define UPC_OUT_NOSYNC 32

/* RL 7.3.1; the last six: atomics only (OL 7.5). */
typedef unsigned long upc_op_t;
#define UPC_ADD 1ul
#define UPC_MULT 2ul
#define UPC_AND 4ul
#define UPC_OR 8ul
#define UPC_XOR 16ul
#define UPC_LOGAND 32ul
#define UPC_LOGOR 64ul
#define UPC_MIN 128ul
#define UPC_MAX 256ul
#define UPC_FUNC 512ul
#define UPC_NONCOMM_FUNC 1024ul
#define UPC_GET 2048ul
#define UPC_SET 4096ul
#define UPC_CSWAP 8192ul
#define UPC_SUB 16384ul
#define UPC_INC 32768ul
#define UPC_DEC 65536ul

/* RL 7.3.2 */
typedef int upc_type_t;
#define UPC_CHAR 1
#define UPC_UCHAR 2
#define UPC_SHORT 3
#define UPC_USHORT 4
#define UPC_INT 5
#define UPC_UINT 6
#define UPC_LONG 7
#define UPC_ULONG 8
#define UPC_LLONG 9
#define UPC_ULLONG 10
#define UPC_INT8 11
#define UPC_UINT8 12
#define UPC_INT16 13
#define UPC_UINT16 14
#define UPC_INT32 15
#define UPC_UINT32 16
#define UPC_INT64 17
#define UPC_UINT64 18
#define UPC_FLOAT 19
#define UPC_DOUBLE 20
#define UPC_LDOUBLE 21
#define UPC_PTS 22

#endif
