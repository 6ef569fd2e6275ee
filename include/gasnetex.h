/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GASNet-EX API (specification 0.19) of Amphora: the runtime's own API.  gasnet.h holds the
 * GASNet-1 API on top of it.  It includes the tools (gasnet_tools.h), stdio.h, stdlib.h and unistd.h,
 * on which clients rely.
 *
 * Define exactly one of GASNET_SEQ, GASNET_PARSYNC, GASNET_PAR first; see amphora/threadmode.h.
 */
#ifndef GASNETEX_H
#define GASNETEX_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "amphora/threadmode.h"
#include "amphora/conduit.h"
#include "amphora/types.h"
#include "amphora/operators.h"
#include "amphora/team.h"
#include "amphora/lock.h"
#include "amphora/job.h"
#include "amphora/endpoint.h"
#include "amphora/event.h"
#include "amphora/barrier.h"
#include "amphora/coll.h"
#include "amphora/message.h"
#include "amphora/client_calls.h"
#include "amphora/prepare.h"
#include "amphora/rma.h"
#include "gasnet_tools.h"

#endif
