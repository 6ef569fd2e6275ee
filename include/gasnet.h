/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GASNet-1 API (specification 1.8), thin over gasnetex.h: the same job, handlers, segments and
 * events; both headers may be used in one program.
 */
#ifndef GASNET_H
#define GASNET_H

#include "gasnetex.h"

#include "amphora/gasnet1.h"
#include "amphora/vis1.h"
#include "gasnet_coll.h"

#endif
