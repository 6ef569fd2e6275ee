#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Large writes whose data clients without shared memory put into receive areas of the servers: the same files, answers and
# errors as locally; see fwd_splice.c, which makes the writes.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_splice
AMPHORA_SMP=0
AMPHORA_CONDUIT=tcp
export AMPHORA_SMP AMPHORA_CONDUIT

# with NAME LEAST SECTION: compares, and looks whether receive areas have been used (LEAST bytes at least; 0: none)
with() {
    fwd_both_counted "$1" "$2" "bytes that came by receive areas" "$program" "$3"
}

with "sizes, files and processes of all kinds" 50000000 data
with "memory that ends in the midst of a write" 1000000 holes
AMPHORA_MR_DEBUG=1
export AMPHORA_MR_DEBUG
with "from registered memory, by a copy" 50000000 data
unset AMPHORA_MR_DEBUG
IOFWD_STRIPE=2:256K
export IOFWD_STRIPE
with "striped in small units" 10000000 data
unset IOFWD_STRIPE
AMPHORA_CONDUIT=udp
with "over udp" 50000000 data
AMPHORA_CONDUIT=tcp

# copies NAME LEAST: programs one after the other write 24 MiB each
copies() {
    # shellcheck disable=SC2016 # for the shell inside
    fwd_both_counted "$1" "$2" "bytes that came by receive areas" sh -c '
        dd if=/dev/urandom of="$2/data" bs=1M count=24 status=none
        for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
            dd if="$2/data" of="$1/copy" bs=1M status=none && cmp "$2/data" "$1/copy" && rm "$1/copy" || echo "not the same"
        done' sh
}

# A server with little memory makes no receive areas.
IOFWD_SERVER_MEMORY=1M
export IOFWD_SERVER_MEMORY
fwd_nservers=1
copies "a server with little memory" 0

# Memory for two receive areas at a time: those of clients that have ended are given back, if late on a busy machine.
IOFWD_SERVER_MEMORY=5M
copies "clients one after the other" $((8 * 20 << 20))
unset IOFWD_SERVER_MEMORY

fwd_kill_clients "$program"
fwd_kill_server "$program"
mp_done
