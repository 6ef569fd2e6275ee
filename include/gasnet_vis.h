/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector, indexed and strided transfers, under the name by which clients include them. */
#ifndef GASNET_VIS_H
#define GASNET_VIS_H

#include "gasnetex.h"

#include "amphora/vis.h"
#include "amphora/vis1.h"

#endif
