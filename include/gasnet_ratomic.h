/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote atomics, under the name by which clients include them. */
#ifndef GASNET_RATOMIC_H
#define GASNET_RATOMIC_H

#include "gasnetex.h"

#include "amphora/ad.h"

#endif
