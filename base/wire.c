/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte order of this job's wire format (AMPHORA_TEST_SWAP); see wire.h.
 *
 * Layer: base.  Thread rule: set before threads start.
 */
#include "base/wire.h"

#include "base/settings/env.h"

bool amph_wire_swapped = false;

/* Runs before main, so that nothing is encoded in one order and decoded in the other. */
__attribute__((constructor)) void amph_wire_setup(void)
{
    const char *value = amph_env_foreign("AMPHORA_TEST_SWAP");
    amph_wire_swapped = value && value[0] == '1';
}
