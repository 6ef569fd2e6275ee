/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists from which the calls with 0 to 16 handler arguments are made: AMPHORA_EACH_M(DEFINE)
 * defines one call for each number, and AMPHORA_NUMBERED picks the right one by counting what it is
 * given.
 */
#ifndef AMPHORA_ARGS_H
#define AMPHORA_ARGS_H

/* AMPHORA_PARAMS_<M>: parameters, to follow others; AMPHORA_VALUES_<M>: their values, as an
 * initialiser; AMPHORA_NAMES_<M>: their values, to follow others. */
#define AMPHORA_PARAMS_0
#define AMPHORA_PARAMS_1 AMPHORA_PARAMS_0, gex_AM_Arg_t a0
#define AMPHORA_PARAMS_2 AMPHORA_PARAMS_1, gex_AM_Arg_t a1
#define AMPHORA_PARAMS_3 AMPHORA_PARAMS_2, gex_AM_Arg_t a2
#define AMPHORA_PARAMS_4 AMPHORA_PARAMS_3, gex_AM_Arg_t a3
#define AMPHORA_PARAMS_5 AMPHORA_PARAMS_4, gex_AM_Arg_t a4
#define AMPHORA_PARAMS_6 AMPHORA_PARAMS_5, gex_AM_Arg_t a5
#define AMPHORA_PARAMS_7 AMPHORA_PARAMS_6, gex_AM_Arg_t a6
#define AMPHORA_PARAMS_8 AMPHORA_PARAMS_7, gex_AM_Arg_t a7
#define AMPHORA_PARAMS_9 AMPHORA_PARAMS_8, gex_AM_Arg_t a8
#define AMPHORA_PARAMS_10 AMPHORA_PARAMS_9, gex_AM_Arg_t a9
#define AMPHORA_PARAMS_11 AMPHORA_PARAMS_10, gex_AM_Arg_t a10
#define AMPHORA_PARAMS_12 AMPHORA_PARAMS_11, gex_AM_Arg_t a11
#define AMPHORA_PARAMS_13 AMPHORA_PARAMS_12, gex_AM_Arg_t a12
#define AMPHORA_PARAMS_14 AMPHORA_PARAMS_13, gex_AM_Arg_t a13
#define AMPHORA_PARAMS_15 AMPHORA_PARAMS_14, gex_AM_Arg_t a14
#define AMPHORA_PARAMS_16 AMPHORA_PARAMS_15, gex_AM_Arg_t a15

#define AMPHORA_VALUES_0 0
#define AMPHORA_VALUES_1 a0
#define AMPHORA_VALUES_2 AMPHORA_VALUES_1, a1
#define AMPHORA_VALUES_3 AMPHORA_VALUES_2, a2
#define AMPHORA_VALUES_4 AMPHORA_VALUES_3, a3
#define AMPHORA_VALUES_5 AMPHORA_VALUES_4, a4
#define AMPHORA_VALUES_6 AMPHORA_VALUES_5, a5
#define AMPHORA_VALUES_7 AMPHORA_VALUES_6, a6
#define AMPHORA_VALUES_8 AMPHORA_VALUES_7, a7
#define AMPHORA_VALUES_9 AMPHORA_VALUES_8, a8
#define AMPHORA_VALUES_10 AMPHORA_VALUES_9, a9
#define AMPHORA_VALUES_11 AMPHORA_VALUES_10, a10
#define AMPHORA_VALUES_12 AMPHORA_VALUES_11, a11
#define AMPHORA_VALUES_13 AMPHORA_VALUES_12, a12
#define AMPHORA_VALUES_14 AMPHORA_VALUES_13, a13
#define AMPHORA_VALUES_15 AMPHORA_VALUES_14, a14
#define AMPHORA_VALUES_16 AMPHORA_VALUES_15, a15

#define AMPHORA_NAMES_0
#define AMPHORA_NAMES_1 AMPHORA_NAMES_0, a0
#define AMPHORA_NAMES_2 AMPHORA_NAMES_1, a1
#define AMPHORA_NAMES_3 AMPHORA_NAMES_2, a2
#define AMPHORA_NAMES_4 AMPHORA_NAMES_3, a3
#define AMPHORA_NAMES_5 AMPHORA_NAMES_4, a4
#define AMPHORA_NAMES_6 AMPHORA_NAMES_5, a5
#define AMPHORA_NAMES_7 AMPHORA_NAMES_6, a6
#define AMPHORA_NAMES_8 AMPHORA_NAMES_7, a7
#define AMPHORA_NAMES_9 AMPHORA_NAMES_8, a8
#define AMPHORA_NAMES_10 AMPHORA_NAMES_9, a9
#define AMPHORA_NAMES_11 AMPHORA_NAMES_10, a10
#define AMPHORA_NAMES_12 AMPHORA_NAMES_11, a11
#define AMPHORA_NAMES_13 AMPHORA_NAMES_12, a12
#define AMPHORA_NAMES_14 AMPHORA_NAMES_13, a13
#define AMPHORA_NAMES_15 AMPHORA_NAMES_14, a14
#define AMPHORA_NAMES_16 AMPHORA_NAMES_15, a15

/* clang-format off */
#define AMPHORA_EACH_M(DEFINE) \
    DEFINE(0) DEFINE(1) DEFINE(2) DEFINE(3) DEFINE(4) DEFINE(5) DEFINE(6) DEFINE(7) DEFINE(8) \
    DEFINE(9) DEFINE(10) DEFINE(11) DEFINE(12) DEFINE(13) DEFINE(14) DEFINE(15) DEFINE(16)
/* clang-format on */

/* Counting.  AMPHORA_COUNT_<F>(...) is the number of arguments behind the first F ones. */
#define AMPHORA_25TH(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, \
                     p18, p19, p20, p21, p22, p23, p24, n, ...) \
    n
#define AMPHORA_COUNT_2(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, TooManyArguments, TooManyArguments, \
                 TooManyArguments, TooManyArguments, TooManyArguments, 16, 15, 14, 13, 12, 11, 10, \
                 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, TooFewArguments, 0)
#define AMPHORA_COUNT_3(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, TooManyArguments, TooManyArguments, \
                 TooManyArguments, TooManyArguments, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, \
                 3, 2, 1, 0, TooFewArguments, TooFewArguments, 0)
#define AMPHORA_COUNT_4(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, TooManyArguments, TooManyArguments, \
                 TooManyArguments, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, \
                 TooFewArguments, TooFewArguments, TooFewArguments, 0)
#define AMPHORA_COUNT_5(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, TooManyArguments, TooManyArguments, 16, 15, 14, \
                 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, TooFewArguments, TooFewArguments, \
                 TooFewArguments, TooFewArguments, 0)
#define AMPHORA_COUNT_6(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, TooManyArguments, 16, 15, 14, 13, 12, 11, 10, 9, \
                 8, 7, 6, 5, 4, 3, 2, 1, 0, TooFewArguments, TooFewArguments, TooFewArguments, \
                 TooFewArguments, TooFewArguments, 0)
#define AMPHORA_COUNT_7(...) \
    AMPHORA_25TH(__VA_ARGS__, TooManyArguments, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, \
                 2, 1, 0, TooFewArguments, TooFewArguments, TooFewArguments, TooFewArguments, \
                 TooFewArguments, TooFewArguments, 0)
#define AMPHORA_COUNT_8(...) \
    AMPHORA_25TH(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, \
                 TooFewArguments, TooFewArguments, TooFewArguments, TooFewArguments, \
                 TooFewArguments, TooFewArguments, TooFewArguments, 0)
#define AMPHORA_NUMBERED(name, count) AMPHORA_CAT(name, count)

#endif
