#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The corners of POSIX and Linux: as on a local run.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "corners" "$builddir/tests/mp/fwd_truth"
mp_done
