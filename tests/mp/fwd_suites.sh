#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the test suites of other projects have found to differ below a forwarded prefix.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "from other projects' suites" sh "$srcdir/tests/mp/fwd_suites_commands.sh"
if command -v python3 >/dev/null; then
    fwd_both "sockets" python3 "$srcdir/tests/mp/fwd_sockets.py"
fi
mp_done
