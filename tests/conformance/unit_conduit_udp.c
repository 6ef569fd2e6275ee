/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on udp over a kernel socket. */
#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "udp", "udp", false, false };
    return conduit_suite_main(argc, argv, &target, NULL);
}
