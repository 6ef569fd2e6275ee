/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Macros for translated*.c.  They define upcx_<name> as an external function that calls the inline
 * function upc_<name> of upc_bridge.h; upc-bridge/include declares it in UPC.
 *
 * Layer: upc-bridge.
 */
#ifndef UPC_TRANSLATED_H
#define UPC_TRANSLATED_H

#include "upc_bridge.h"

#define UPCX_VALUE(type, name, params, args) \
    type upcx_##name params; \
    type upcx_##name params \
    { \
        return upc_##name args; \
    }
#define UPCX_VOID(name, params, args) \
    void upcx_##name params; \
    void upcx_##name params \
    { \
        upc_##name args; \
    }

#endif
