/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client in the same static program, and the C library's functions by the names that ld --wrap gives them.
 * Layer: iofwd (preload).  Thread rule: see core.h and real.h.
 */
#include "iofwd/preload/catch.h"
#include "iofwd/preload/core.h"
#include "iofwd/preload/names.h"

bool fwd_core_bind(const char **what_p, const char **why_p)
{
#define FWD_CORE_BIND(name) fwd_core.name = amph_fwd_##name;
    FWD_CORE_CALLS(FWD_CORE_BIND) FWD_CORE_EXTRAS(FWD_CORE_BIND)
#undef FWD_CORE_BIND
    return true;
}

static long missing(void)
{
    errno = ENOSYS;
    return -1;
}

void *fwd_real_find(int name)
{
    return (void *)missing;
}

void fwd_real_find_all(void)
{
}
