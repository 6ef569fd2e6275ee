#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Calls that succeed leave errno as it was, wherever they do so on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in maps data names lists waits streams processes; do
    fwd_both "errno after success: $section" "$builddir/tests/files/calls/fwd_errno" "$section"
done
mp_done
