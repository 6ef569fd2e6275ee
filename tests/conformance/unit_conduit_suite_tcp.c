/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on tcp over libfabric. */
#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "tcp", "tcp", false, false };
    return conduit_suite_main(argc, argv, &target, NULL);
}
