/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the public headers need of the compiler; works as C99, C11 and C++11.  GCC or Clang.
 */
#ifndef AMPHORA_COMPILER_H
#define AMPHORA_COMPILER_H

#ifdef __cplusplus
#define AMPHORA_BEGIN_C extern "C" {
#define AMPHORA_END_C }
#else
#define AMPHORA_BEGIN_C
#define AMPHORA_END_C
#endif

/* A client that is compiled with GASNET_DEBUG is checked; it wants a library that was configured
 * with --enable-debug. */
#ifdef GASNET_DEBUG
#undef GASNET_DEBUG
#define GASNET_DEBUG 1
#else
#undef GASNET_NDEBUG
#define GASNET_NDEBUG 1
#endif

#define AMPHORA_INLINE static __inline__ __attribute__((__unused__))
#define AMPHORA_LIKELY(x) __builtin_expect(!!(x), 1)
#define AMPHORA_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define AMPHORA_NORETURN __attribute__((__noreturn__))

/* Orders a transfer by load and store against what is before and after it; costs nothing on
 * x86. */
#define AMPHORA_FENCE() __atomic_thread_fence(__ATOMIC_ACQ_REL)

/* A pointer to a handler, whose parameters depend on the message: in C any function fits without a
 * cast. */
#ifndef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
typedef void (*amphora_any_fn_t)();
#ifndef __cplusplus
#pragma GCC diagnostic pop
#endif

#if __SIZEOF_POINTER__ == 8
#define AMPHORA_POINTER_BITS 64
#else
#define AMPHORA_POINTER_BITS 32
#endif

#define AMPHORA_CAT(a, b) AMPHORA_CAT_(a, b)
#define AMPHORA_CAT_(a, b) a##b
#define AMPHORA_TEXT(a) AMPHORA_TEXT_(a)
#define AMPHORA_TEXT_(a) #a

#endif
