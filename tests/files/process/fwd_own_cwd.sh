#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads with a working directory of their own (unshare, clone): a change of directory by one does not concern the others.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in unshare clone many keys; do
    fwd_both "own working directories: $section" "$builddir/tests/files/process/fwd_own_cwd" "$section"
done
mp_done
