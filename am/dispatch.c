/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of clients' handlers, fn(token, [buf, nbytes,] arg0, ...): one row for each number of
 * arguments.
 * Layer: am.  Thread rule: none, pure functions.
 */
#include <stddef.h>
#include <stdint.h>

#include "am/ep.h"
#include "conduits/conduit.h"

/* P<n>: n parameter types; V<n>: the first n values of a[]. */
#define P0
#define P1 , int32_t
#define P2 P1, int32_t
#define P3 P2, int32_t
#define P4 P3, int32_t
#define P5 P4, int32_t
#define P6 P5, int32_t
#define P7 P6, int32_t
#define P8 P7, int32_t
#define P9 P8, int32_t
#define P10 P9, int32_t
#define P11 P10, int32_t
#define P12 P11, int32_t
#define P13 P12, int32_t
#define P14 P13, int32_t
#define P15 P14, int32_t
#define P16 P15, int32_t
#define V0
#define V1 , a[0]
#define V2 V1, a[1]
#define V3 V2, a[2]
#define V4 V3, a[3]
#define V5 V4, a[4]
#define V6 V5, a[5]
#define V7 V6, a[6]
#define V8 V7, a[7]
#define V9 V8, a[8]
#define V10 V9, a[9]
#define V11 V10, a[10]
#define V12 V11, a[11]
#define V13 V12, a[12]
#define V14 V13, a[13]
#define V15 V14, a[14]
#define V16 V15, a[15]

#define EACH_COUNT(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

#define CALLS(n) \
    static void call_short_##n(void *fn, struct amph_token *token, const int32_t *a) \
    { \
        ((void (*)(struct amph_token * P##n)) fn)(token V##n); \
    } \
    static void call_data_##n(void *fn, struct amph_token *token, void *buf, size_t nbytes, \
                              const int32_t *a) \
    { \
        ((void (*)(struct amph_token *, void *, size_t P##n))fn)(token, buf, nbytes V##n); \
    }
EACH_COUNT(CALLS)

#define ROW_SHORT(n) call_short_##n,
#define ROW_DATA(n) call_data_##n,
const amph_call_short_fn amph_am_call_short[AMPH_AM_MAX_ARGS + 1] = { EACH_COUNT(ROW_SHORT) };
const amph_call_data_fn amph_am_call_data[AMPH_AM_MAX_ARGS + 1] = { EACH_COUNT(ROW_DATA) };
