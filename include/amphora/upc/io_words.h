/* SPDX-License-Identifier: BSD-3-Clause */
/* The types and constants of UPC-IO that need no pointer-to-shared (UPC 1.3, optional libraries, 7.4).
 * amphora/upc/io.h and the upc_io.h of translated programs both take them from here. */
#ifndef AMPHORA_UPC_IO_WORDS_H
#define AMPHORA_UPC_IO_WORDS_H

#include <stdint.h>

typedef int64_t upc_off_t;
/* Opaque; the same pointer in all threads. */
typedef struct upc_file upc_file_t;

struct upc_hint {
    const char *key;
    const char *value;
};

typedef struct upc_hint upc_hint_t;

#define UPC_RDONLY 1
#define UPC_WRONLY 2
#define UPC_RDWR 4
#define UPC_INDIVIDUAL_FP 8
#define UPC_COMMON_FP 16
#define UPC_APPEND 32
#define UPC_CREATE 64
#define UPC_EXCL 128
#define UPC_STRONG_CA 256
#define UPC_TRUNC 512
#define UPC_DELETE_ON_CLOSE 1024

#define UPC_SEEK_SET 0
#define UPC_SEEK_CUR 1
#define UPC_SEEK_END 2

#define UPC_GET_CA_SEMANTICS 1
#define UPC_SET_WEAK_CA_SEMANTICS 2
#define UPC_SET_STRONG_CA_SEMANTICS 3
#define UPC_GET_FP 4
#define UPC_SET_COMMON_FP 5
#define UPC_SET_INDIVIDUAL_FP 6
#define UPC_GET_FL 7
#define UPC_GET_FN 8
#define UPC_GET_HINTS 9
#define UPC_SET_HINT 10
#define UPC_ASYNC_OUTSTANDING 11

#endif
