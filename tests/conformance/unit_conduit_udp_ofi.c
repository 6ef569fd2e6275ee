/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on udp over libfabric's udp provider. */
#include <stdlib.h>

#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "udp over libfabric", "udp", false, false };

    setenv("AMPHORA_UDP_PORT", "ofi", 1);
    return conduit_suite_main(argc, argv, &target, NULL);
}
