/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What differs between compilers and machines; the only home of #if beside configuration.  Layer: base.
 */
#ifndef AMPH_BASE_PLATFORM_H
#define AMPH_BASE_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define AMPH_LIKELY(x) __builtin_expect(!!(x), 1)
#define AMPH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AMPH_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define AMPH_NORETURN __attribute__((noreturn))
#define AMPH_HIDDEN __attribute__((visibility("hidden")))
#define AMPH_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define AMPH_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Bytes that one core takes from another at a time; false sharing is measured in these. */
#define AMPH_CACHE_LINE 64
#define AMPH_ALIGN_LINE __attribute__((aligned(AMPH_CACHE_LINE)))

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AMPH_BIG_ENDIAN 1
#else
#define AMPH_BIG_ENDIAN 0
#endif

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

/* Copies len bytes past the caches, where the machine can, for a reader on another core: fetching lines that lie modified in a far
 * core's cache is several times slower than fetching them from memory.  What follows is seen after the bytes. */
static inline void amph_copy_stream(void *to, const void *from, size_t len)
{
#if defined(__SSE2__)
    char *d = to;
    const char *s = from;
    size_t head = -(uintptr_t)d & 15;
    head = head < len ? head : len;
    memcpy(d, s, head);
    for (d += head, s += head, len -= head; len >= 64; d += 64, s += 64, len -= 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)s), b = _mm_loadu_si128((const __m128i *)(s + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(s + 32)), e = _mm_loadu_si128((const __m128i *)(s + 48));
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

/* Rounds n up to a multiple of align, a power of two. */
static inline uint64_t amph_align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

#endif
