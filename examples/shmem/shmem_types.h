/* SPDX-License-Identifier: BSD-3-Clause */
/* The types that the calls of OpenSHMEM come in: X(name in the call, type in C).  From the tables
 * of OpenSHMEM 1.4. */
#ifndef SHMEM_TYPES_H
#define SHMEM_TYPES_H

#include <complex.h>
#include <stddef.h>
#include <stdint.h>

/* Types that differ from each other, for the calls without a type in their names. */
/* clang-format off */
#define SHMEM_PLAIN_TYPES(X) \
    X(float, float) X(double, double) X(longdouble, long double) X(char, char) X(schar, signed char) X(short, short) X(int, int) \
    X(long, long) X(longlong, long long) X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int) \
    X(ulong, unsigned long) X(ulonglong, unsigned long long)
/* clang-format on */
/* put, get, p, g and their like */
/* clang-format off */
#define SHMEM_RMA_TYPES(X) \
    SHMEM_PLAIN_TYPES(X) \
    X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t) X(uint8, uint8_t) X(uint16, uint16_t) X(uint32, uint32_t) \
    X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)
/* clang-format on */
/* atomics: arithmetic; bits; fetch, set and swap also on the floating ones */
/* clang-format off */
#define SHMEM_AMO_PLAIN(X) \
    X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)
/* clang-format on */
/* clang-format off */
#define SHMEM_AMO_TYPES(X) \
    SHMEM_AMO_PLAIN(X) \
    X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)
/* clang-format on */
#define SHMEM_AMO_FLOATS(X) X(float, float) X(double, double)
#define SHMEM_BITWISE_PLAIN(X) \
    X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)
/* clang-format off */
#define SHMEM_BITWISE_TYPES(X) \
    SHMEM_BITWISE_PLAIN(X) X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)
/* clang-format on */
/* waiting and testing */
#define SHMEM_SYNC_PLAIN(X) X(short, short) SHMEM_AMO_PLAIN(X) X(ushort, unsigned short)
#define SHMEM_SYNC_TYPES(X) X(short, short) X(ushort, unsigned short) SHMEM_AMO_TYPES(X)
/* reductions: bits on whole numbers, least and greatest on real ones, sums and products on all */
#define SHMEM_TO_ALL_WHOLE(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
#define SHMEM_TO_ALL_REAL(X) \
    SHMEM_TO_ALL_WHOLE(X) X(float, float) X(double, double) X(longdouble, long double)
#define SHMEM_TO_ALL_TYPES(X) \
    SHMEM_TO_ALL_REAL(X) X(complexf, float _Complex) X(complexd, double _Complex)
/* sizes in bits */
#define SHMEM_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)

#endif
