/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Annotations of declarations and code, and the feature macros that switch them.  GASNet tools
 * spec, "Compiler annotations" and "Feature control".  Needs no library.
 *
 * Each GASNETT_USE_* may be defined to 0 or 1 before the first header; else GCC and compilers that
 * follow it get 1, others 0. Annotations precede a declaration or definition; the forms ending
 * in P (GASNETT_PUREP(fn)) exist for compilers that want a pragma after the declaration, and are
 * empty here.
 */
#ifndef AMPHORA_TOOLS_ANNOTATE_H
#define AMPHORA_TOOLS_ANNOTATE_H

#include "amphora/tools/base.h"

#ifdef __GNUC__
#define AMPHORA_USE_GNU 1
#else
#define AMPHORA_USE_GNU 0
#endif

/* ---- feature control ---- */
#ifndef GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE
#define GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_NOINLINE
#define GASNETT_USE_GCC_ATTRIBUTE_NOINLINE AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_MALLOC
#define GASNETT_USE_GCC_ATTRIBUTE_MALLOC AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT
#define GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_USED
#define GASNETT_USE_GCC_ATTRIBUTE_USED AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_UNUSED
#define GASNETT_USE_GCC_ATTRIBUTE_UNUSED AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS
#define GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_NORETURN
#define GASNETT_USE_GCC_ATTRIBUTE_NORETURN AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_PURE
#define GASNETT_USE_GCC_ATTRIBUTE_PURE AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_CONST
#define GASNETT_USE_GCC_ATTRIBUTE_CONST AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_HOT
#define GASNETT_USE_GCC_ATTRIBUTE_HOT AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_COLD
#define GASNETT_USE_GCC_ATTRIBUTE_COLD AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED
#define GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR_ARG
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR_ARG AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_BUILTIN_CONSTANT_P
#define GASNETT_USE_BUILTIN_CONSTANT_P AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_BUILTIN_PREFETCH
#define GASNETT_USE_BUILTIN_PREFETCH AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_BUILTIN_EXPECT
#define GASNETT_USE_BUILTIN_EXPECT AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_BUILTIN_UNREACHABLE
#define GASNETT_USE_BUILTIN_UNREACHABLE AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_BUILTIN_ASSUME
#if defined(__clang__)
#define GASNETT_USE_BUILTIN_ASSUME 1
#else
#define GASNETT_USE_BUILTIN_ASSUME 0
#endif
#endif
#ifndef GASNETT_USE_ASSUME
#define GASNETT_USE_ASSUME 1
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH
#if defined(__clang__) ? __clang_major__ >= 10 : AMPHORA_USE_GNU && __GNUC__ >= 7
#define GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH 1
#else
#define GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH 0
#endif
#endif
#if defined(__cplusplus)
#define AMPHORA_USE_CXX17 (__cplusplus >= 201703L)
#else
#define AMPHORA_USE_CXX17 0
#endif
#ifndef GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH
#define GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH AMPHORA_USE_CXX17
#endif
#ifndef GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH
#if defined(__clang__) && defined(__cplusplus) && !AMPHORA_USE_CXX17 && __cplusplus >= 201103L
#define GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH 1
#else
#define GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH 0
#endif
#endif
#ifndef GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC
#define GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC AMPHORA_USE_GNU
#endif
#if defined(GASNETT_USE_RESTRICT_ON_TYPEDEFS) && !defined(GASNETT_USE_RESTRICT)
#error "GASNETT_USE_RESTRICT_ON_TYPEDEFS needs GASNETT_USE_RESTRICT"
#endif
#ifndef GASNETT_USE_RESTRICT
#if AMPHORA_USE_GNU
#define GASNETT_USE_RESTRICT __restrict__
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define GASNETT_USE_RESTRICT restrict
#else
#define GASNETT_USE_RESTRICT
#endif
#endif
#ifndef GASNETT_USE_RESTRICT_ON_TYPEDEFS
#define GASNETT_USE_RESTRICT_ON_TYPEDEFS AMPHORA_USE_GNU
#endif
#ifndef GASNETT_USE_CTYPE_WRAPPERS
#define GASNETT_USE_CTYPE_WRAPPERS 0
#endif
#ifndef GASNETT_USE_TRUE_MUTEXES
#define GASNETT_USE_TRUE_MUTEXES 0
#endif

/* ---- functions ---- */

/* GASNETT_INLINE(fn) int fn(int a) { ... }: inlined, or an error where that cannot be.  Brings
 * `static`. */
#if GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE
#define GASNETT_INLINE(fnname) static __inline__ __attribute__((__always_inline__, __unused__))
#elif AMPHORA_USE_GNU
#define GASNETT_INLINE(fnname) static __inline__ __attribute__((__unused__))
#else
#define GASNETT_INLINE(fnname) static inline
#endif

/* The same as a hint. */
#if defined(GASNETT_USE_PLEASE_INLINE) && !AMPHORA_TOOLS_CHECK
#define GASNETT_PLEASE_INLINE(fnname) GASNETT_USE_PLEASE_INLINE(fnname)
#elif AMPHORA_USE_GNU
#define GASNETT_PLEASE_INLINE(fnname) static __inline__ __attribute__((__unused__))
#else
#define GASNETT_PLEASE_INLINE(fnname) static inline
#endif

/* GASNETT_NEVER_INLINE(fn, static int fn(int a)) { ... } */
#if GASNETT_USE_GCC_ATTRIBUTE_NOINLINE
#define GASNETT_NEVER_INLINE(fnname, ...) __attribute__((__noinline__)) __VA_ARGS__
#else
#define GASNETT_NEVER_INLINE(fnname, ...) __VA_ARGS__
#endif

#define GASNETT_RESTRICT GASNETT_USE_RESTRICT

/* fmtarg, firstvararg: numbers of the format and of the first value, counted from 1. */
#if GASNETT_USE_GCC_ATTRIBUTE_FORMAT
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, ...) \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) __VA_ARGS__
#else
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, ...) __VA_ARGS__
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, ...) \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) __VA_ARGS__
#else
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, ...) __VA_ARGS__
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR_ARG
#define GASNETT_FORMAT_PRINTF_FUNCPTR_ARG(fnname, fmtarg, firstvararg, ...) \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) __VA_ARGS__
#else
#define GASNETT_FORMAT_PRINTF_FUNCPTR_ARG(fnname, fmtarg, firstvararg, ...) __VA_ARGS__
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_NORETURN
#define GASNETT_NORETURN __attribute__((__noreturn__))
#else
#define GASNETT_NORETURN
#endif
#define GASNETT_NORETURNP(fnname)
#if GASNETT_USE_GCC_ATTRIBUTE_MALLOC
#define GASNETT_MALLOC __attribute__((__malloc__))
#else
#define GASNETT_MALLOC
#endif
#define GASNETT_MALLOCP(fnname)
#if GASNETT_USE_GCC_ATTRIBUTE_PURE
#define GASNETT_PURE __attribute__((__pure__))
#else
#define GASNETT_PURE
#endif
#define GASNETT_PUREP(fnname)
#if GASNETT_USE_GCC_ATTRIBUTE_CONST
#define GASNETT_CONST __attribute__((__const__))
#else
#define GASNETT_CONST
#endif
#define GASNETT_CONSTP(fnname)
#if GASNETT_USE_GCC_ATTRIBUTE_HOT
#define GASNETT_HOT __attribute__((__hot__))
#else
#define GASNETT_HOT
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_COLD
#define GASNETT_COLD __attribute__((__cold__))
#else
#define GASNETT_COLD
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED
#define GASNETT_DEPRECATED __attribute__((__deprecated__))
#else
#define GASNETT_DEPRECATED
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT
#define GASNETT_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#else
#define GASNETT_WARN_UNUSED_RESULT
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_USED
#define GASNETT_USED __attribute__((__used__))
#else
#define GASNETT_USED
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_UNUSED
#define GASNETT_UNUSED __attribute__((__unused__))
#else
#define GASNETT_UNUSED
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS
#define GASNETT_MAYALIAS __attribute__((__may_alias__))
#else
#define GASNETT_MAYALIAS
#endif

/* ---- expressions ---- */

/* The value of expr, with a guess at whether it is zero. */
#if GASNETT_USE_BUILTIN_EXPECT
#define GASNETT_PREDICT_TRUE(expr) __builtin_expect(!!(expr), 1)
#define GASNETT_PREDICT_FALSE(expr) __builtin_expect(!!(expr), 0)
#else
#define GASNETT_PREDICT_TRUE(expr) (expr)
#define GASNETT_PREDICT_FALSE(expr) (expr)
#endif
/* `if` with the guess. */
#ifndef if_pf
#define if_pf(cond) if (GASNETT_PREDICT_FALSE(cond))
#endif
#ifndef if_pt
#define if_pt(cond) if (GASNETT_PREDICT_TRUE(cond))
#endif

/* Non-zero where the compiler knows the value of expr. */
#if GASNETT_USE_BUILTIN_CONSTANT_P
#define gasnett_constant_p(expr) __builtin_constant_p(expr)
#else
#define gasnett_constant_p(expr) 0
#endif

#if GASNETT_USE_BUILTIN_PREFETCH
#define GASNETT_PREFETCH_READ_HINT(p) __builtin_prefetch((p), 0)
#define GASNETT_PREFETCH_WRITE_HINT(p) __builtin_prefetch((p), 1)
#else
#define GASNETT_PREFETCH_READ_HINT(p) ((void)0)
#define GASNETT_PREFETCH_WRITE_HINT(p) ((void)0)
#endif

/* Control never comes here; undefined behaviour if it does. */
#if GASNETT_USE_BUILTIN_UNREACHABLE
#define gasnett_unreachable() __builtin_unreachable()
#else
#define gasnett_unreachable() ((void)0)
#endif

/* The compiler may take expr for true.  expr should have no side effects: whether it is evaluated
 * is not said. */
#if GASNETT_USE_ASSUME && GASNETT_USE_BUILTIN_ASSUME
#define gasnett_assume(expr) __builtin_assume(expr)
#elif GASNETT_USE_ASSUME && GASNETT_USE_BUILTIN_UNREACHABLE
#define gasnett_assume(expr) ((expr) ? (void)0 : __builtin_unreachable())
#else
#define gasnett_assume(expr) ((void)0)
#endif

/* To be written, with or without a semicolon, at the end of a case that runs on into the next one on
 * purpose. */
#if GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH
#define GASNETT_FALLTHROUGH [[fallthrough]];
#elif GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH
#define GASNETT_FALLTHROUGH [[clang::fallthrough]];
#elif GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH
#define GASNETT_FALLTHROUGH __attribute__((__fallthrough__));
#else
#define GASNETT_FALLTHROUGH
#endif

/* Evaluates its arguments and throws their values away: for macros that use none of them. */
#define GASNETT_UNUSED_ARGS1(a) ((void)(a))
#define GASNETT_UNUSED_ARGS2(a, b) ((void)(a), (void)(b))
#define GASNETT_UNUSED_ARGS3(a, b, c) (GASNETT_UNUSED_ARGS2(a, b), (void)(c))
#define GASNETT_UNUSED_ARGS4(a, b, c, d) (GASNETT_UNUSED_ARGS3(a, b, c), (void)(d))
#define GASNETT_UNUSED_ARGS5(a, b, c, d, e) (GASNETT_UNUSED_ARGS4(a, b, c, d), (void)(e))
#define GASNETT_UNUSED_ARGS6(a, b, c, d, e, f) (GASNETT_UNUSED_ARGS5(a, b, c, d, e), (void)(f))
#define GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g) \
    (GASNETT_UNUSED_ARGS6(a, b, c, d, e, f), (void)(g))
#define GASNETT_UNUSED_ARGS8(a, b, c, d, e, f, g, h) \
    (GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g), (void)(h))

#define GASNETT_CURRENT_FUNCTION __func__

/* GASNETT_IDENT(a_unique_name, "$Text: to be found in the program $"); at file scope. */
#define GASNETT_IDENT(identName, identText) \
    GASNETT_EXTERNC_DECL char const identName[]; \
    GASNETT_USED char const identName[] = identText
#ifdef __cplusplus
#define GASNETT_EXTERNC_DECL extern "C"
#else
#define GASNETT_EXTERNC_DECL extern
#endif

/* ---- <ctype.h> for arguments of type char (GASNETT_USE_CTYPE_WRAPPERS; C only) ---- */
#if GASNETT_USE_CTYPE_WRAPPERS && !defined(__cplusplus)
#include <ctype.h>
#define AMPHORA_CTYPE(fn) \
    AMPHORA_INLINE int amphora_##fn(int c) \
    { \
        return fn((unsigned char)c); \
    }
/* clang-format off */
AMPHORA_CTYPE(isalnum) AMPHORA_CTYPE(isalpha) AMPHORA_CTYPE(iscntrl) AMPHORA_CTYPE(isdigit) AMPHORA_CTYPE(isgraph)
AMPHORA_CTYPE(islower) AMPHORA_CTYPE(isprint) AMPHORA_CTYPE(ispunct) AMPHORA_CTYPE(isspace) AMPHORA_CTYPE(isupper)
AMPHORA_CTYPE(isxdigit) AMPHORA_CTYPE(tolower) AMPHORA_CTYPE(toupper)
/* clang-format on */
#undef isalnum
#undef isalpha
#undef iscntrl
#undef isdigit
#undef isgraph
#undef islower
#undef isprint
#undef ispunct
#undef isspace
#undef isupper
#undef isxdigit
#undef tolower
#undef toupper
#define isalnum(c) amphora_isalnum(c)
#define isalpha(c) amphora_isalpha(c)
#define iscntrl(c) amphora_iscntrl(c)
#define isdigit(c) amphora_isdigit(c)
#define isgraph(c) amphora_isgraph(c)
#define islower(c) amphora_islower(c)
#define isprint(c) amphora_isprint(c)
#define ispunct(c) amphora_ispunct(c)
#define isspace(c) amphora_isspace(c)
#define isupper(c) amphora_isupper(c)
#define isxdigit(c) amphora_isxdigit(c)
#define tolower(c) amphora_tolower(c)
#define toupper(c) amphora_toupper(c)
#endif

#endif
