/* SPDX-License-Identifier: BSD-3-Clause */
/* UPC 1.3, 6.7.1: from here on accesses that say nothing else are relaxed. */
#include <upc.h>
#pragma upc relaxed
