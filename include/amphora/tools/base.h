/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of gasnet_tools.h share: the thread mode, checking, linkage.  GASNet tools spec,
 * "General usage".
 *
 * Thread mode: GASNETT_THREAD_SAFE=1 (several threads) or GASNETT_THREAD_SINGLE=1 (one; the
 * default).  A client of gasnetex.h or gasnet.h need not say: GASNET_PAR and GASNET_PARSYNC mean
 * the one, GASNET_SEQ the other. GASNET_DEBUG: locks check how they are used.  GASNETT_LITE_MODE:
 * only what needs no library.
 */
#ifndef AMPHORA_TOOLS_BASE_H
#define AMPHORA_TOOLS_BASE_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "amphora/compiler.h"
#include "amphora/version.h"
#include "gasnet_portable_platform.h"

/* ---- thread mode ---- */
#if defined(GASNETT_THREAD_SAFE) && defined(GASNETT_THREAD_SINGLE)
#error "define only one of GASNETT_THREAD_SAFE and GASNETT_THREAD_SINGLE"
#endif
#if defined(GASNETT_THREAD_SAFE)
#define AMPHORA_TOOLS_SAFE 1
#elif defined(GASNETT_THREAD_SINGLE) || defined(GASNET_SEQ)
#define AMPHORA_TOOLS_SAFE 0
#elif defined(GASNET_PAR) || defined(GASNET_PARSYNC)
#define AMPHORA_TOOLS_SAFE 1
#else
#define AMPHORA_TOOLS_SAFE 0
#endif
#undef GASNETT_THREAD_SAFE
#undef GASNETT_THREAD_SINGLE
#if AMPHORA_TOOLS_SAFE
#define GASNETT_THREAD_SAFE 1
#define GASNETT_MAX_THREADS 65536
#else
#define GASNETT_THREAD_SINGLE 1
#define GASNETT_MAX_THREADS 1
#endif
#ifndef GASNETI_MAX_THREADS
#define GASNETI_MAX_THREADS GASNETT_MAX_THREADS
#endif

/* ---- checking ---- */
#if !defined(GASNET_DEBUG) && !defined(GASNET_NDEBUG)
#define GASNET_NDEBUG 1
#endif
#ifdef GASNET_DEBUG
#define AMPHORA_TOOLS_CHECK 1
#else
#define AMPHORA_TOOLS_CHECK 0
#endif

/* Settings that two objects which use the tools must agree on, in words. */
#if AMPHORA_TOOLS_SAFE
#define AMPHORA_TOOLS_MODE "PAR"
#else
#define AMPHORA_TOOLS_MODE "SEQ"
#endif
/* clang-format off */
#define GASNETT_CONFIG_STRING \
    "RELEASE=" AMPHORA_TEXT(GASNETT_RELEASE_VERSION_MAJOR) "." \
    AMPHORA_TEXT(GASNETT_RELEASE_VERSION_MINOR) "." AMPHORA_TEXT(GASNETT_RELEASE_VERSION_PATCH) \
    ",SPEC=" AMPHORA_TEXT(GASNETT_SPEC_VERSION_MAJOR) "." AMPHORA_TEXT(GASNETT_SPEC_VERSION_MINOR) \
    ",THREADMODEL=" AMPHORA_TOOLS_MODE ",PTR=" AMPHORA_TEXT(AMPHORA_POINTER_BITS) "bit"
/* clang-format on */

/* ---- linkage ---- */
#define GASNETT_BEGIN_EXTERNC AMPHORA_BEGIN_C
#define GASNETT_END_EXTERNC AMPHORA_END_C
#ifdef __cplusplus
#define GASNETT_EXTERNC extern "C"
#else
#define GASNETT_EXTERNC extern
#endif

#endif
