#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the test suites of other projects have found to differ below a forwarded prefix.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "from other projects' suites" sh "$srcdir/tests/mp/fwd_suites_commands.sh"
mp_done
