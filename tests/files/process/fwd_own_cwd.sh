#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads with a working directory of their own (unshare, clone): a change of directory by one does not concern the others.  Then
# a program that enters another root directory.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in unshare clone many keys; do
    fwd_both "own working directories: $section" "$builddir/tests/files/process/fwd_own_cwd" "$section"
done
if [ "$(id -u)" = 0 ]; then
    fwd_both "another root directory" "$builddir/tests/files/process/fwd_own_cwd" root
    FWD_STANDING=1 fwd_both "another root directory, near" "$builddir/tests/files/process/fwd_own_cwd" root
else
    for name in "another root directory" "another root directory, near"; do
        for case in "same output" "same files" "passed through the servers"; do
            mp_skip "$name: $case" "needs root"
        done
    done
fi
mp_done
