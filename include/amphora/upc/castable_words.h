/* SPDX-License-Identifier: BSD-3-Clause */
/* What castability needs beside its functions.  OL 7.6.  For amphora/upc/core.h and for translated
 * programs' upc_castable.h. */
#ifndef AMPHORA_UPC_CASTABLE_WORDS_H
#define AMPHORA_UPC_CASTABLE_WORDS_H

#define UPC_CASTABLE_ALL_ALLOC 1
#define UPC_CASTABLE_GLOBAL_ALLOC 2
#define UPC_CASTABLE_ALLOC 4
#define UPC_CASTABLE_STATIC 8
#define UPC_CASTABLE_ALL 15

typedef struct {
    int guaranteedCastable;
    int probablyCastable;
} upc_thread_info_t;

#endif
