/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For translated*.c: upcx_<name> is upc_<name> of upc_bridge.h, as a function that
 * upc-bridge/include declares in UPC.
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
