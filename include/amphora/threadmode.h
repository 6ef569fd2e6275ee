/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the client uses threads.  A client defines exactly one of
 *   GASNET_SEQ      one thread makes all calls,
 *   GASNET_PARSYNC  several threads, but only one at a time makes calls,
 *   GASNET_PAR      any thread, any time,
 * the same one in all its files, before it includes gasnetex.h or gasnet.h.  The library is the
 * same for all three: the mode is passed to it at initialisation.
 *
 * And what of a process's memory the others can reach (GASNet-1 spec, 3.1), also the same in all
 * files:
 *   GASNET_SEGMENT_FAST        the segment that it attaches (the default),
 *   GASNET_SEGMENT_LARGE       the same here: a segment may be as large as memory in both,
 *   GASNET_SEGMENT_EVERYTHING  all of it: any address that is good in its owner.
 *
 * Each object file carries the absolute symbols amphora_client_threadmode and
 * amphora_client_segment.  A linker accepts an absolute symbol twice with one value and refuses it
 * with two, so files of different modes do not link ("multiple definition of ...").
 */
#ifndef AMPHORA_THREADMODE_H
#define AMPHORA_THREADMODE_H

#include "amphora/compiler.h"

#if defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR) != 1
#error \
    "define exactly one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR before this header (for example -DGASNET_SEQ)"
#endif

#ifdef GASNET_SEQ
#undef GASNET_SEQ
#define GASNET_SEQ 1
#define AMPHORA_THREADMODE 1
#define AMPHORA_THREADMODE_NAME "SEQ"
#endif
#ifdef GASNET_PARSYNC
#undef GASNET_PARSYNC
#define GASNET_PARSYNC 1
#define AMPHORA_THREADMODE 2
#define AMPHORA_THREADMODE_NAME "PARSYNC"
#endif
#ifdef GASNET_PAR
#undef GASNET_PAR
#define GASNET_PAR 1
#define AMPHORA_THREADMODE 3
#define AMPHORA_THREADMODE_NAME "PAR"
#endif

/* How many threads of a process may make calls. */
#ifndef GASNETI_MAX_THREADS
#ifdef GASNET_SEQ
#define GASNETI_MAX_THREADS 1
#else
#define GASNETI_MAX_THREADS 65536
#endif
#endif

#if defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) + \
        defined(GASNET_SEGMENT_EVERYTHING) > \
    1
#error \
    "define at most one of GASNET_SEGMENT_FAST, GASNET_SEGMENT_LARGE and GASNET_SEGMENT_EVERYTHING"
#endif
#if defined(GASNET_SEGMENT_EVERYTHING)
#undef GASNET_SEGMENT_EVERYTHING
#define GASNET_SEGMENT_EVERYTHING 1
#define AMPHORA_SEGMENT 3
#define AMPHORA_SEGMENT_NAME "EVERYTHING"
#elif defined(GASNET_SEGMENT_LARGE)
#undef GASNET_SEGMENT_LARGE
#define GASNET_SEGMENT_LARGE 1
#define AMPHORA_SEGMENT 2
#define AMPHORA_SEGMENT_NAME "LARGE"
#else
#undef GASNET_SEGMENT_FAST
#define GASNET_SEGMENT_FAST 1
#define AMPHORA_SEGMENT 1
#define AMPHORA_SEGMENT_NAME "FAST"
#endif

__asm__(".globl amphora_client_threadmode\n\t"
        ".hidden amphora_client_threadmode\n\t"
        ".set amphora_client_threadmode, " AMPHORA_TEXT(
            AMPHORA_THREADMODE) "\n\t"
                                ".globl amphora_client_segment\n\t"
                                ".hidden amphora_client_segment\n\t"
                                ".set amphora_client_segment, " AMPHORA_TEXT(AMPHORA_SEGMENT));

#endif
