/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine, its limits and streams; small tools on memory; what traces and statistics would
 * take.  GASNet tools spec, "System properties", "Miscellaneous tools", "Trace/Stats support".
 */
#ifndef AMPHORA_TOOLS_SYSTEM_H
#define AMPHORA_TOOLS_SYSTEM_H

#include <stdint.h>

#include "amphora/tools/annotate.h"

AMPHORA_BEGIN_C

/* ---- compile-time properties ---- */

#if defined(PLATFORM_ARCH_X86_64)
#define AMPHORA_ARCH_TEXT "x86_64"
#elif defined(PLATFORM_ARCH_X86)
#define AMPHORA_ARCH_TEXT "i686"
#elif defined(PLATFORM_ARCH_AARCH64)
#define AMPHORA_ARCH_TEXT "aarch64"
#elif defined(PLATFORM_ARCH_ARM)
#define AMPHORA_ARCH_TEXT "arm"
#elif defined(PLATFORM_ARCH_POWERPC) && defined(PLATFORM_ARCH_64) && \
    defined(PLATFORM_ARCH_LITTLE_ENDIAN)
#define AMPHORA_ARCH_TEXT "powerpc64le"
#elif defined(PLATFORM_ARCH_POWERPC) && defined(PLATFORM_ARCH_64)
#define AMPHORA_ARCH_TEXT "powerpc64"
#elif defined(PLATFORM_ARCH_S390)
#define AMPHORA_ARCH_TEXT "s390x"
#elif defined(PLATFORM_ARCH_RISCV) && defined(PLATFORM_ARCH_64)
#define AMPHORA_ARCH_TEXT "riscv64"
#else
#define AMPHORA_ARCH_TEXT PLATFORM_TEXT(PLATFORM_ARCH_FAMILYNAME)
#endif
/* What the program was compiled for, in words. */
#define GASNETT_SYSTEM_TUPLE AMPHORA_ARCH_TEXT "-unknown-linux-gnu"

/* Bytes that cores take from each other at a time. */
#if defined(PLATFORM_ARCH_S390)
#define GASNETT_CACHE_LINE_BYTES 256
#elif defined(PLATFORM_ARCH_POWERPC)
#define GASNETT_CACHE_LINE_BYTES 128
#else
#define GASNETT_CACHE_LINE_BYTES 64
#endif

/* The largest page size that hosts of this kind have: for layout.  (GASNET_PAGESIZE is the
 * job's.) */
#if defined(PLATFORM_ARCH_AARCH64) || defined(PLATFORM_ARCH_POWERPC)
#define GASNETT_PAGESHIFT 16
#else
#define GASNETT_PAGESHIFT 12
#endif
#define GASNETT_PAGESIZE (1 << GASNETT_PAGESHIFT)

/* ---- run-time properties ---- */

/* The name of this host; constant. */
const char *gasneti_gethostname(void);
#define gasnett_gethostname() gasneti_gethostname()
/* Processors of this host that are in use, 0 if unknown. */
int gasnett_cpu_count(void);
/* Bytes of memory; unknown: 0, or fatal. */
uint64_t gasnett_getPhysMemSz(int failureIsFatal);
#if defined(PLATFORM_ARCH_LITTLE_ENDIAN)
#define gasnett_isLittleEndian() 1
#else
#define gasnett_isLittleEndian() 0
#endif
/* What makes this library slower than it could be, one item a line; "" if nothing does. */
const char *gasnett_performance_warning_str(void);
/* The GASNet release that the library (not the header) corresponds to: "2025.8.0", and 10000 *
 * major + 100 * minor + patch. */
const char *gasnett_release_version_str(void);
uint64_t gasnett_release_version(void);

/* Binds the calling thread to processor rank modulo their number.  0, or non-zero: the system
 * refuses. */
int gasnett_set_affinity(int rank);
#define GASNETT_SET_AFFINITY_SUPPORT 1
void gasnett_sched_yield(void);

/* Flushes, or closes, the standard streams; errors are ignored. */
void gasnett_flush_streams(void);
void gasnett_close_streams(void);

/* Raises a limit (RLIMIT_*; lim_desc: its name) as far as it goes; GASNET_MAXIMIZE_<lim_desc>=0
 * leaves it.  Non-zero: done. */
int gasnett_maximize_rlimit(int res, const char *lim_desc);
/* Those of processor time and memory. */
int gasnett_maximize_rlimits(void);

/* ---- memory ---- */

/* A checksum that finds accidents, not forgery; the same on all hosts of one byte order. */
uint64_t gasnett_checksum(const void *p, int numbytes);
/* How many bytes are 0. */
int gasnett_count0s_uint32_t(uint32_t x);
int gasnett_count0s_uint64_t(uint64_t x);
int gasnett_count0s_uintptr_t(uintptr_t x);
size_t gasnett_count0s(const void *p, size_t numbytes);
size_t gasnett_count0s_copy(void *GASNETT_RESTRICT dst, const void *GASNETT_RESTRICT src,
                            size_t numbytes);

/* ---- trace and statistics: not part of this library, so, as in any build without them, these do
 * and evaluate nothing ---- */

#define GASNETT_TRACE_ENABLED 0
#define GASNETT_TRACE_GETMASK() ""
#define GASNETT_STATS_GETMASK() ""
#define GASNETT_TRACE_SETMASK(mask) ((void)0)
#define GASNETT_STATS_SETMASK(mask) ((void)0)
#define GASNETT_TRACE_PRINTF(...) ((void)0)
#define GASNETT_TRACE_PRINTF_FORCE(...) ((void)0)
#define GASNETT_STATS_PRINTF(...) ((void)0)
#define GASNETT_STATS_PRINTF_FORCE(...) ((void)0)
#define GASNETT_STATS_DUMP(reset) ((void)0)
/* The line of the client's source to which a trace would attribute what follows.  GETSOURCELINE sets
 * its outputs (const char **, unsigned int *) to NULL and 0. */
#define GASNETT_TRACE_SETSOURCELINE(filename, linenum) ((void)0)
#define GASNETT_TRACE_GETSOURCELINE(filename_p, linenum_p) \
    ((void)(*(filename_p) = 0, *(linenum_p) = 0))
#define GASNETT_TRACE_FREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_UNFREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_GET_TRACELOCAL() 0
#define GASNETT_TRACE_SET_TRACELOCAL(newval) ((void)0)

AMPHORA_END_C

#endif
