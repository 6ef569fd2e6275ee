/* SPDX-License-Identifier: BSD-3-Clause */
/* Carry-less multiplication; see clmul.h.  Layer: base. */
#include "base/clmul.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

/* One product of each half of a 256-bit register an instruction (Ice Lake, Zen 3 and later). */
#define WIDE __attribute__((target("avx2,vpclmulqdq")))
/* One product an instruction (Westmere, Bulldozer and later). */
#define NARROW __attribute__((target("pclmul,sse2")))

#define XCR0_SSE_AVX 6u /* the kernel saves the registers of both */

enum products {
    UNKNOWN,
    NONE,
    NARROW_PRODUCTS,
    WIDE_PRODUCTS
};

static __attribute__((target("xsave"))) bool kernel_saves_avx(void)
{
    return (_xgetbv(0) & XCR0_SSE_AVX) == XCR0_SSE_AVX;
}

static enum products ask_processor(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_PCLMUL))
        return NONE;

    bool avx = (c & bit_OSXSAVE) && kernel_saves_avx();

    if (!avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return NARROW_PRODUCTS;

    return (b & bit_AVX2) && (c & bit_VPCLMULQDQ) ? WIDE_PRODUCTS : NARROW_PRODUCTS;
}

/* Asks the processor at the first call. The compiler's own test (__builtin_cpu_supports) asks when the
 * library is loaded, in every process: CPUID leaves a virtual machine, which takes several
 * microseconds an instruction. */
static enum products best_products(void)
{
    static _Atomic int best = UNKNOWN;
    int known = atomic_load_explicit(&best, memory_order_relaxed);

    if (known == UNKNOWN) {
        known = ask_processor();
        atomic_store_explicit(&best, known, memory_order_relaxed);
    }

    return known;
}

bool amph_clmul_works(void)
{
    return best_products() != NONE;
}

static inline WIDE __m256i wide_product(const uint64_t *key, const uint8_t *at)
{
    __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)at),
                                 _mm256_loadu_si256((const __m256i *)(const void *)key));

    return _mm256_clmulepi64_epi128(x, x, 0x01);
}

static WIDE void wide_sum(const uint64_t *key, const uint8_t *at, size_t groups, uint64_t sum[2])
{
    __m256i even = _mm256_setzero_si256();
    __m256i odd = even;

    for (; groups >= 2; groups -= 2, key += 8, at += 2 * AMPH_CLMUL_GROUP) {
        even = _mm256_xor_si256(even, wide_product(key, at));
        odd = _mm256_xor_si256(odd, wide_product(key + 4, at + AMPH_CLMUL_GROUP));
    }

    if (groups)
        even = _mm256_xor_si256(even, wide_product(key, at));

    even = _mm256_xor_si256(even, odd);

    __m128i half = _mm_xor_si128(_mm256_castsi256_si128(even), _mm256_extracti128_si256(even, 1));

    _mm_storeu_si128((__m128i *)(void *)sum, half);
}

static inline NARROW __m128i narrow_product(const uint64_t *key, const uint8_t *at)
{
    __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)at),
                              _mm_loadu_si128((const __m128i *)(const void *)key));

    return _mm_clmulepi64_si128(x, x, 0x01);
}

static NARROW void narrow_sum(const uint64_t *key, const uint8_t *at, size_t groups,
                              uint64_t sum[2])
{
    __m128i even = _mm_setzero_si128();
    __m128i odd = even;

    for (; groups > 0; groups--, key += 4, at += AMPH_CLMUL_GROUP) {
        even = _mm_xor_si128(even, narrow_product(key, at));
        odd = _mm_xor_si128(odd, narrow_product(key + 2, at + AMPH_CLMUL_GROUP / 2));
    }

    _mm_storeu_si128((__m128i *)(void *)sum, _mm_xor_si128(even, odd));
}

void amph_clmul_sum(const uint64_t *key, const void *at, size_t groups, uint64_t sum[2])
{
    if (best_products() == WIDE_PRODUCTS)
        wide_sum(key, at, groups, sum);
    else
        narrow_sum(key, at, groups, sum);
}

#else

bool amph_clmul_works(void)
{
    return false;
}

void amph_clmul_sum(const uint64_t *key, const void *at, size_t groups, uint64_t sum[2])
{
    abort(); /* amph_clmul_works() says no */
}

#endif
