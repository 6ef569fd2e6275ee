/* SPDX-License-Identifier: BSD-3-Clause */
/* Castability.  OL 7.6. */
#ifndef UPC_CASTABLE_H
#define UPC_CASTABLE_H
#include <stddef.h>
#include "amphora/upc/castable_words.h"

void *upc_cast(const shared void *ptr) __asm__("upcx_cast");
upc_thread_info_t upc_thread_info(size_t threadId);

#endif
