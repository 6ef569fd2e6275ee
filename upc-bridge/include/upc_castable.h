/* SPDX-License-Identifier: BSD-3-Clause */
/* Castability.  OL 7.6. */
#ifndef UPC_CASTABLE_H
#define UPC_CASTABLE_H
#include <stddef.h>

#define UPC_CASTABLE_ALL_ALLOC 1
#define UPC_CASTABLE_GLOBAL_ALLOC 2
#define UPC_CASTABLE_ALLOC 4
#define UPC_CASTABLE_STATIC 8
#define UPC_CASTABLE_ALL 15

typedef struct {
    int guaranteedCastable;
    int probablyCastable;
} upc_thread_info_t;

void *upc_cast(const shared void *ptr) __asm__("upcx_cast");
upc_thread_info_t upc_thread_info(size_t threadId);

#endif
