/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on udp whose wire loses one datagram in ten. */
#include <stdlib.h>

#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "udp with loss", "udp", false, .lossy = true };

    setenv("AMPHORA_UDP_LOSS", "10", 1);
    return conduit_suite_main(argc, argv, &target, NULL);
}
