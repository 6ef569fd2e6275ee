/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory kinds of GASNet-EX, under the name by which clients include them. */
#ifndef GASNET_MK_H
#define GASNET_MK_H

#include "gasnetex.h"

#include "amphora/mk.h"

#endif
