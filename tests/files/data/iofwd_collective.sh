#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collective reads and writes of several processes; see iofwd_collective.c.  COLLECTIVE_ROUNDS: how many.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"
rounds=${COLLECTIVE_ROUNDS:-8}
collective() {
    mp_run tests/files/data/iofwd_collective -t 60 "$@" -o "-servers 2 -iofwd /fwd=$mp_dir/kept" -- "$mp_seed" "$rounds"
}
collective -n 4 -c smp

# One process closes its file, and the others' calls are EIO (iofwd_collective.c): each of them says why, once.
if mp_wanted "a collective call that lacks a process says so"; then
    cp "$mp_dir/out" "$mp_dir/said"
    told='fails with EIO: a process that takes part in the collective call has ended or does not have the file open; each'
    grep -q "$told" "$mp_dir/said" && ! grep EIO "$mp_dir/said" | grep -v "$told" &&
        [ -z "$(sed -n 's/^amphora: \(compute [0-9]*\) .*EIO.*/\1/p' "$mp_dir/said" | sort | uniq -d)" ]
    mp_report $? "a collective call that lacks a process says so" "$mp_dir/said"
fi
collective -n 2 -c udp
AMPHORA_TEST_SWAP=1 collective -n 3 -c tcp
AMPHORA_RMA=emulate collective -n 2 -c tcp
IOFWD_PIECE=4096 IOFWD_DIRECT=1 collective -n 3 -c smp
mp_done
