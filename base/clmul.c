/* SPDX-License-Identifier: BSD-3-Clause */
/* Carry-less multiplication; see clmul.h.  Layer: base. */
#include "base/clmul.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

/* One product of each quarter of a 512-bit register an instruction (Ice Lake, Zen 4 and later). */
#define WIDEST __attribute__((target("avx512f,vpclmulqdq")))
/* The same of each half of a 256-bit register (Zen 3, Alder Lake and later). */
#define WIDE __attribute__((target("avx2,vpclmulqdq")))
/* One product an instruction (Westmere, Bulldozer and later). */
#define NARROW __attribute__((target("pclmul,sse2")))

/* The kernel saves the registers of SSE and AVX; and those of AVX-512. */
#define XCR0_AVX 0x06u
#define XCR0_AVX512 0xe6u

enum products {
    UNKNOWN,
    NONE,
    NARROW_PRODUCTS,
    WIDE_PRODUCTS,
    WIDEST_PRODUCTS
};

static __attribute__((target("xsave"))) bool kernel_saves(unsigned registers)
{
    return (_xgetbv(0) & registers) == registers;
}

static enum products ask_processor(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_PCLMUL))
        return NONE;

    bool asks = (c & bit_OSXSAVE) !=
                0; /* there is an instruction that asks what the kernel saves */

    if (!asks || !kernel_saves(XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !(b & bit_AVX2) || !(c & bit_VPCLMULQDQ))
        return NARROW_PRODUCTS;

    return (b & bit_AVX512F) && kernel_saves(XCR0_AVX512) ? WIDEST_PRODUCTS : WIDE_PRODUCTS;
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

/* The sum a and the product of the i-th pair of groups. */
static inline WIDEST __m512i widest_add(__m512i a, const uint64_t *key, const uint8_t *at,
                                        unsigned i)
{
    __m512i x = _mm512_xor_si512(_mm512_loadu_si512(at + 2 * AMPH_CLMUL_GROUP * i),
                                 _mm512_loadu_si512(key + 8 * i));

    return _mm512_xor_si512(a, _mm512_clmulepi64_epi128(x, x, 0x01));
}

/* Returns how many groups it has summed: an even number. */
static WIDEST size_t widest_sum(const uint64_t *key, const uint8_t *at, size_t groups,
                                uint64_t sum[2])
{
    __m512i a = _mm512_setzero_si512();
    __m512i b = a;
    __m512i c = a;
    __m512i d = a;
    size_t left = groups;

    for (; left >= 8; left -= 8, key += 32, at += 8 * AMPH_CLMUL_GROUP) {
        a = widest_add(a, key, at, 0);
        b = widest_add(b, key, at, 1);
        c = widest_add(c, key, at, 2);
        d = widest_add(d, key, at, 3);
    }

    for (; left >= 2; left -= 2, key += 8, at += 2 * AMPH_CLMUL_GROUP)
        a = widest_add(a, key, at, 0);

    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));

    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    __m128i quarter = _mm_xor_si128(_mm256_castsi256_si128(half),
                                    _mm256_extracti128_si256(half, 1));

    _mm_storeu_si128((__m128i *)(void *)sum, quarter);
    return groups - left;
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
    enum products best = best_products();

    if (best == WIDEST_PRODUCTS) {
        size_t done = widest_sum(key, at, groups, sum);
        uint64_t last[2] = { 0, 0 };

        if (done < groups)
            narrow_sum(key + done * 4, (const uint8_t *)at + done * AMPH_CLMUL_GROUP, 1, last);

        sum[0] ^= last[0];
        sum[1] ^= last[1];
    } else if (best == WIDE_PRODUCTS) {
        wide_sum(key, at, groups, sum);
    } else {
        narrow_sum(key, at, groups, sum);
    }
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
