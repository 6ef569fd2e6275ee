/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on the code for cards.  Without a card it runs over a stand-in, under
 * the strict rules. */
#include <stdlib.h>

#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "verbs", "verbs", false, false };

    setenv("AMPHORA_CONDUIT", "verbs", 1);
    setenv("AMPHORA_MR_DEBUG", "1", 1);
    return conduit_suite_main(argc, argv, &target, NULL);
}
