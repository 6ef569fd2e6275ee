/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, of GASNet-EX and of GASNet-1, under the name by which clients include them. */
#ifndef GASNET_COLL_H
#define GASNET_COLL_H

#include "gasnetex.h"

#include "amphora/coll1.h"

#endif
