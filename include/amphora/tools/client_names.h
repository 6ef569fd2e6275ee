/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that no specification has, and that existing clients take from these headers: Caffeine prints sizes with
 * PRIuSZ and bounds its heap with MIN and MAX, UPC++ looks for gasneti_builtin_unreachable when it is configured,
 * Realm takes the addresses of two functions, lest a compiler says that nobody uses them, benchmarks read the clock of
 * gasnett_ticks_now by GASNet's own name for it.
 *
 * They are not for new programs.  Needs no library.
 */
#ifndef AMPHORA_TOOLS_CLIENT_NAMES_H
#define AMPHORA_TOOLS_CLIENT_NAMES_H

#include "amphora/compiler.h"

/* gasnet_tools.h has been included. */
#define _INCLUDED_GASNET_TOOLS_H 1

/* The text of a macro's value. */
#ifndef _STRINGIFY
#define _STRINGIFY(a) AMPHORA_TEXT(a)
#endif

/* The conversion of a size_t, as those of inttypes.h. */
#ifndef PRIuSZ
#define PRIuSZ "zu"
#endif

/* Written as in glibc's sys/param.h, so that both headers can be included. */
/* clang-format off */
#ifndef MIN
#define MIN(a,b) (((a)<(b))?(a):(b))
#endif
#ifndef MAX
#define MAX(a,b) (((a)>(b))?(a):(b))
#endif
/* clang-format on */

/* Control never comes here; else behaviour is undefined. */
#ifdef __GNUC__
#define gasneti_builtin_unreachable() __builtin_unreachable()
#else
#define gasneti_builtin_unreachable() ((void)0)
#endif

/* The clock of amphora/tools/timer.h. */
#ifndef GASNETT_LITE_MODE
#define gasneti_tick_t gasnett_tick_t
#define gasneti_ticks_now() gasnett_ticks_now()
#define gasneti_ticks_to_ns(ticks) gasnett_ticks_to_ns(ticks)
#endif

/* They do nothing. */
AMPHORA_INLINE void _gasneti_threadkey_init(void)
{
}

AMPHORA_INLINE void _gasnett_trace_printf_noop(void)
{
}

#endif
