#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Flags that nobody knows, descriptors of O_PATH, arguments in the corners: as on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in flags path-only corners; do
    fwd_both "refused as by the kernel: $section" "$builddir/tests/files/calls/fwd_flags" "$section"
done
mp_done
