/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libpsm_infinipath.so.1 on a machine without such a device (conduits/psm_absent.c loads
 * it).  Layer: conduits; a module of its own that uses nothing else.  Thread rule: any thread.
 */
#include <stdint.h>

#include "conduits/psm/psm.h"

#define ERROR(name) \
    int psm_##name(void); \
    int psm_##name(void) \
    { \
        return PSM_EP_NO_DEVICE; \
    }

#define NOTHING(name) \
    uint64_t psm_##name(void); \
    uint64_t psm_##name(void) \
    { \
        return 0; \
    }

PSM_COMMON(ERROR, NOTHING)

const char *psm_error_get_string(int error);
const char *psm_error_get_string(int error)
{
    return "this machine has no PSM device";
}
