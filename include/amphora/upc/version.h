/* SPDX-License-Identifier: BSD-3-Clause */
/* The macros that say which UPC this is.  For upc_bridge.h and for translated programs. */
#ifndef AMPHORA_UPC_VERSION_H
#define AMPHORA_UPC_VERSION_H

#define __UPC__ 1
#define __UPC_VERSION__ 201311L
#define __UPC_COLLECTIVE__ 1
#define __UPC_TICK__ 1
#define __UPC_CASTABLE__ 1
#define __UPC_NB__ 1
#define __UPC_ATOMIC__ 1
#define __UPC_IO__ 1
#ifdef UPC_STATIC_THREADS
#define __UPC_STATIC_THREADS__ 1
#else
#define __UPC_DYNAMIC_THREADS__ 1
#endif

#endif
