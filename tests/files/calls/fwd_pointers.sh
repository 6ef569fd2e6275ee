#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Pointers that lead nowhere, in every argument of every call: the kernel's errno, never a crash.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in names reads writes; do
    fwd_both "bad pointers: $section" "$builddir/tests/files/calls/fwd_pointers" "$section"
done
mp_done
