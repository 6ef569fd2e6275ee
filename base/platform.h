/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Differences between compilers and machines.  This is the only file with #if, besides
 * configuration.
 *
 * Layer: base.  Thread rule: pure functions.
 */
#ifndef AMPH_BASE_PLATFORM_H
#define AMPH_BASE_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#define AMPH_LIKELY(x) __builtin_expect(!!(x), 1)
#define AMPH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AMPH_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define AMPH_NORETURN __attribute__((noreturn))
#define AMPH_COLD __attribute__((cold, noinline))
#define AMPH_NOINLINE __attribute__((noinline))
/* Of a function whose loops handle several elements at a time; clang makes such loops by itself. */
#ifdef __clang__
#define AMPH_VECTORIZE
#else
#define AMPH_VECTORIZE __attribute__((optimize("tree-vectorize", "vect-cost-model=dynamic")))
#endif
#define AMPH_HIDDEN __attribute__((visibility("hidden")))
#define AMPH_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define AMPH_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Does this build check the client's use of the API (--enable-debug)?  A constant, so that `if
 * (AMPH_CHECKS)` costs nothing in other builds. */
#if defined(AMPH_DEBUG)
#define AMPH_CHECKS 1
#else
#define AMPH_CHECKS 0
#endif

/* Does this build make expensive checks of its own data structures?  A constant, like AMPH_CHECKS. */
#if defined(__has_feature)
#define AMPH_HAS_FEATURE(x) __has_feature(x)
#else
#define AMPH_HAS_FEATURE(x) 0
#endif
#if defined(AMPH_DEBUG) || defined(__SANITIZE_ADDRESS__) || AMPH_HAS_FEATURE(address_sanitizer)
#define AMPH_SELF_CHECKS 1
#else
#define AMPH_SELF_CHECKS 0
#endif

/* Bytes of a cache line: data of different writers is kept on different lines (false sharing). */
#define AMPH_CACHE_LINE 64
#define AMPH_ALIGN_LINE __attribute__((aligned(AMPH_CACHE_LINE)))

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AMPH_BIG_ENDIAN 1
#else
#define AMPH_BIG_ENDIAN 0
#endif

/* The options that make this build slow, one a line (gasnett_performance_warning_str). */
#if defined(AMPH_DEBUG)
#define AMPH_SLOW_DEBUG "    checks of the client's use of the API (--enable-debug)\n"
#else
#define AMPH_SLOW_DEBUG ""
#endif
#if defined(__OPTIMIZE__)
#define AMPH_SLOW_COMPILED ""
#else
#define AMPH_SLOW_COMPILED "    compiled without optimisation\n"
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AMPH_SLOW_SANITIZED "    compiled with a sanitizer\n"
#else
#define AMPH_SLOW_SANITIZED ""
#endif
#define AMPH_BUILD_SLOWNESS AMPH_SLOW_DEBUG AMPH_SLOW_COMPILED AMPH_SLOW_SANITIZED

/* Tells the core that this is a spin loop. */
static inline void amph_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Adds n and gives the old value, atomically as seen by signal handlers of this thread only. */
static inline uint64_t amph_cpu_fetch_add_local(uint64_t *word, uint64_t n)
{
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(n), "+m"(*word) : : "memory", "cc");
    return n;
#else
    return __atomic_fetch_add(word, n, __ATOMIC_RELAXED);
#endif
}

/* The processor's time counter; 0 if a program cannot read one. */
static inline uint64_t amph_cpu_counter(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return 0;
#endif
}

/* Does the processor state that its time counter runs at a constant rate? */
static inline int amph_cpu_counter_invariant(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

/* The time counter's rate in Hz if the processor states it exactly; else 0. */
static inline uint64_t amph_cpu_counter_hz(void)
{
#if defined(__aarch64__)
    uint64_t hz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz;
#else
    return 0;
#endif
}

/* Copies len bytes with stores that bypass the caches, if the machine has them.  For a reader on
 * another core: fetching modified lines from a distant core's cache is several times slower than
 * fetching them from memory.  Stores after this call become visible after the bytes. */
static inline void amph_copy_stream(void *to, const void *from, size_t len)
{
#if defined(__SSE2__)
    char *d = to;
    const char *s = from;
    size_t head = -(uintptr_t)d & 15;
    head = head < len ? head : len;
    memcpy(d, s, head);
    for (d += head, s += head, len -= head; len >= 64; d += 64, s += 64, len -= 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)s);
        __m128i b = _mm_loadu_si128((const __m128i *)(s + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(s + 32));
        __m128i e = _mm_loadu_si128((const __m128i *)(s + 48));
        _mm_stream_si128((__m128i *)d, a);
        _mm_stream_si128((__m128i *)(d + 16), b);
        _mm_stream_si128((__m128i *)(d + 32), c);
        _mm_stream_si128((__m128i *)(d + 48), e);
    }
    memcpy(d, s, len);
    _mm_sfence();
#else
    memcpy(to, from, len);
#endif
}

/* Adds the 128-bit product a * b to the 128-bit number in sum (low half first). */
static inline void amph_add_product(uint64_t sum[2], uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 wide;
    wide s = ((wide)sum[1] << 64 | sum[0]) + (wide)a * b;
    sum[0] = (uint64_t)s;
    sum[1] = (uint64_t)(s >> 64);
#else
    uint64_t al = (uint32_t)a;
    uint64_t ah = a >> 32;
    uint64_t bl = (uint32_t)b;
    uint64_t bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32);
    uint64_t mid2 = al * bh + (uint32_t)mid;
    uint64_t low = a * b;
    uint64_t high = ah * bh + (mid >> 32) + (mid2 >> 32);
    sum[0] += low;
    sum[1] += high + (sum[0] < low);
#endif
}

/* Rounds n up to a multiple of align, a power of two. */
static inline uint64_t amph_align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

#endif
