#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of scripts/check-hetero on hosts of one kind, whose words travel in the order they lie in and in the other.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"
for AMPHORA_TEST_SWAP in 0 1; do
    export AMPHORA_TEST_SWAP
    mp_run tests/am/mixed -n 3 -c "smp tcp udp-smp" -o "-servers 2 -iofwd /fwd=$mp_dir/kept" -- /fwd
    mp_run tests/am/mixed_coll -n 3 -c "tcp udp-smp" -- 1048584
done
# A program that was not built for large files, which 32-bit machines give other forms of the calls.
if mp_sanitized asan; then
    mp_skip "fwd_narrow smp n=1 /fwd/narrow" "AddressSanitizer's functions of streams lie between the preload library's and the C library's"
else
    mp_run tests/files/calls/fwd_narrow -n 1 -c smp -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- /fwd/narrow
fi
mp_done
