/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conduit that a program is built for.  One library serves them all and the network is chosen
 * when the job starts; this choice only says what a program takes when nobody chooses:
 * AMPHORA_CONDUIT and amphora-run -conduit come first.
 *
 * The make fragments <conduit>-<threads>.mak and the pkg-config files gasnet-<conduit>-<threads>
 * define one GASNET_CONDUIT_<NAME>; without any a program is built for none of them, and the
 * network is chosen automatically.
 */
#ifndef AMPHORA_CONDUIT_H
#define AMPHORA_CONDUIT_H

#include "amphora/compiler.h"

#if defined(GASNET_CONDUIT_SMP) + defined(GASNET_CONDUIT_TCP) + defined(GASNET_CONDUIT_UDP) + \
        defined(GASNET_CONDUIT_OFI) + defined(GASNET_CONDUIT_IBV) > \
    1
#error "define at most one of GASNET_CONDUIT_SMP, _TCP, _UDP, _OFI and _IBV"
#endif

/* AMPHORA_CONDUIT: the word that AMPHORA_CONDUIT in the environment would hold, or NULL. */
#if defined(GASNET_CONDUIT_SMP)
#undef GASNET_CONDUIT_SMP
#define GASNET_CONDUIT_SMP 1
#define GASNET_CORE_NAME SMP
#define AMPHORA_CONDUIT "smp"
#elif defined(GASNET_CONDUIT_TCP)
#undef GASNET_CONDUIT_TCP
#define GASNET_CONDUIT_TCP 1
#define GASNET_CORE_NAME TCP
#define AMPHORA_CONDUIT "tcp"
#elif defined(GASNET_CONDUIT_UDP)
#undef GASNET_CONDUIT_UDP
#define GASNET_CONDUIT_UDP 1
#define GASNET_CORE_NAME UDP
#define AMPHORA_CONDUIT "udp"
#elif defined(GASNET_CONDUIT_OFI)
#undef GASNET_CONDUIT_OFI
#define GASNET_CONDUIT_OFI 1
#define GASNET_CORE_NAME OFI
#define AMPHORA_CONDUIT "tcp"
#elif defined(GASNET_CONDUIT_IBV)
#undef GASNET_CONDUIT_IBV
#define GASNET_CONDUIT_IBV 1
#define GASNET_CORE_NAME IBV
#define AMPHORA_CONDUIT "verbs"
#else
#define GASNET_CORE_NAME AMPHORA
#define AMPHORA_CONDUIT ((const char *)0)
#endif

#define GASNET_CORE_NAME_STR AMPHORA_TEXT(GASNET_CORE_NAME)
#define GASNET_CORE_VERSION 0.1
#define GASNET_CORE_VERSION_STR AMPHORA_TEXT(GASNET_CORE_VERSION)
#define GASNET_EXTENDED_NAME AMPHORA
#define GASNET_EXTENDED_NAME_STR AMPHORA_TEXT(GASNET_EXTENDED_NAME)
#define GASNET_EXTENDED_VERSION 0.1
#define GASNET_EXTENDED_VERSION_STR AMPHORA_TEXT(GASNET_EXTENDED_VERSION)
#define GASNET_CONDUIT_NAME GASNET_CORE_NAME
#define GASNET_CONDUIT_NAME_STR GASNET_CORE_NAME_STR

/* A client compiled with -DGASNET_DEBUG says so; the library is the same (configure --enable-debug
 * makes one that checks). */
#if defined(GASNET_DEBUG) && defined(GASNET_NDEBUG)
#error "define at most one of GASNET_DEBUG and GASNET_NDEBUG"
#elif defined(GASNET_DEBUG)
#undef GASNET_DEBUG
#define GASNET_DEBUG 1
#else
#undef GASNET_NDEBUG
#define GASNET_NDEBUG 1
#endif

/* Settings that two objects must agree on to be linked together, in words; each program that starts
 * a job holds it. */
/* clang-format off */
#define GASNET_CONFIG_STRING \
    "RELEASE=" AMPHORA_TEXT(GASNET_RELEASE_VERSION_MAJOR) "." \
    AMPHORA_TEXT(GASNET_RELEASE_VERSION_MINOR) "." AMPHORA_TEXT(GASNET_RELEASE_VERSION_PATCH) \
    ",SPEC=" AMPHORA_TEXT(GEX_SPEC_VERSION_MAJOR) "." AMPHORA_TEXT(GEX_SPEC_VERSION_MINOR) \
    ",CONDUIT=" GASNET_CORE_NAME_STR "(" GASNET_CORE_NAME_STR "-" GASNET_CORE_VERSION_STR "/" \
    GASNET_EXTENDED_NAME_STR "-" GASNET_EXTENDED_VERSION_STR ")" \
    ",THREADMODEL=" AMPHORA_THREADMODE_NAME ",SEGMENT=" AMPHORA_SEGMENT_NAME \
    ",PTR=" AMPHORA_TEXT(AMPHORA_POINTER_BITS) "bit,noalign,pshm"
/* clang-format on */

#endif
