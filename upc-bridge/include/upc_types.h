/* SPDX-License-Identifier: BSD-3-Clause */
/* Flags, operations and types of the UPC library.  RL 7.3. */
#ifndef UPC_TYPES_H
#define UPC_TYPES_H
#include "amphora/upc/types.h"
#endif
