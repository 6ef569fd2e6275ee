/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libpsm2.so.2 on a machine without such a device (conduits/psm_absent.c loads
 * it).  Layer: conduits; a module of its own that uses nothing else.  Thread rule: any thread.
 */
#include <stdint.h>

#include "conduits/psm/psm.h"

#define ERROR(name) \
    int psm2_##name(void); \
    int psm2_##name(void) \
    { \
        return PSM_EP_NO_DEVICE; \
    }

#define NOTHING(name) \
    uint64_t psm2_##name(void); \
    uint64_t psm2_##name(void) \
    { \
        return 0; \
    }

PSM_COMMON(ERROR, NOTHING)
PSM2_ONLY(ERROR, NOTHING)

const char *psm2_error_get_string(int error);
const char *psm2_error_get_string(int error)
{
    return "this machine has no PSM2 device";
}
