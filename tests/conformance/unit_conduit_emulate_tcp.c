/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on put and get over messages, laid over tcp. */
#include "tests/conformance/conduit_suite.h"

int main(int argc, char **argv)
{
    static const struct suite_target target = { "emulate-tcp", "tcp", true, false };
    return conduit_suite_main(argc, argv, &target, NULL);
}
