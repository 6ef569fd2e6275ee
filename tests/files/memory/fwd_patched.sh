#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program that overwrites functions of the C library, or those of the preload library, and makes the calls by syscall() itself, as UCX
# and Open MPI do: it runs as it does without forwarding, and its hooks see as many calls.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for where in libc entry both; do
    fwd_both "overwritten: $where" "$builddir/tests/files/memory/fwd_patched" "$where"
done

# near its servers the program makes calls on directories by itself
export FWD_STANDING=1 IOFWD_NEAR=1
fwd_both "overwritten: libc, near its servers" "$builddir/tests/files/memory/fwd_patched" libc
mp_done
