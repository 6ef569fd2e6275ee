#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients that take all workers, memory and collective buffers that a server lets them take do not stop another client's calls.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"

# greedy PROCESSES CONDUITS WHAT
greedy() {
    mp_run tests/files/calls/fwd_greedy -n "$1" -c "$2" -t 40 -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- "$3" "$mp_dir/kept"
}

greedy 6 "smp tcp" threads
IOFWD_CLIENT_MEMORY=1M IOFWD_PIECE=1M
export IOFWD_CLIENT_MEMORY IOFWD_PIECE
greedy 2 tcp memory
greedy 2 "smp tcp" collective
mp_done
