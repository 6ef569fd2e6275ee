/* SPDX-License-Identifier: BSD-3-Clause */
/* For unit tests that compare bytes: they hold for the usual byte order of the wire, also when the suite runs
 * with AMPHORA_TEST_SWAP=1. */
#ifndef AMPH_TESTS_NATIVE_ORDER_H
#define AMPH_TESTS_NATIVE_ORDER_H

#include <stdlib.h>

#include "base/wire.h"

static void __attribute__((constructor)) native_order(void)
{
    unsetenv("AMPHORA_TEST_SWAP");
    amph_wire_swapped = false;
}

#endif
