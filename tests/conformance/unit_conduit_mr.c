/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on tcp under the rules of cards: registered memory, keys of the provider's,
 * absolute addresses. */
#include <stdlib.h>

#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "tcp under AMPHORA_MR_DEBUG", "tcp", false, false };

    setenv("AMPHORA_MR_DEBUG", "1", 1);
    return conduit_suite_main(argc, argv, &target, NULL);
}
