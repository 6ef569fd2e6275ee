/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types and constants of the GASNet-EX API without its calls, for headers that only pass them
 * on.  Needs no thread mode; gasnetex.h may follow.
 */
#ifndef GASNET_FWD_H
#define GASNET_FWD_H

#include "amphora/operators.h"
#include "amphora/types.h"

#endif
