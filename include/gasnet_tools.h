/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GASNet tools API (specification 1.20): clocks, atomics, locks, environment, backtraces and
 * the like.  Beside gasnetex.h or gasnet.h (in any order), or alone, linked with -lgasnet_tools-par
 * (define GASNETT_THREAD_SAFE=1) or -lgasnet_tools-seq (GASNETT_THREAD_SINGLE, the default); a
 * program that links libamphora has the tools already.
 *
 * With GASNETT_LITE_MODE only what needs no library: the platform's names, annotations, linkage,
 * barriers and atomics.
 */
#ifndef GASNET_TOOLS_H
#define GASNET_TOOLS_H

#include "amphora/tools/base.h"
#include "amphora/tools/annotate.h"
#include "amphora/tools/atomic.h"
#include "amphora/tools/client_names.h"
#ifndef GASNETT_LITE_MODE
#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "amphora/tools/lock.h"
#include "amphora/tools/system.h"
#include "amphora/tools/threadkey.h"
#include "amphora/tools/timer.h"
#endif

#endif
