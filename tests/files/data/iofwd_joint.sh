#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Joint reads and writes of several processes; see iofwd_joint.c.  JOINT_ROUNDS: how many.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"
rounds=${JOINT_ROUNDS:-8}
collective() {
    mp_run tests/files/data/iofwd_joint -t 20 "$@" -o "-servers 2 -iofwd /fwd=$mp_dir/kept" -- "$mp_seed" "$rounds"
}
collective -n 4 -c smp
collective -n 2 -c udp
AMPHORA_TEST_SWAP=1 collective -n 3 -c tcp
AMPHORA_RMA=emulate collective -n 2 -c tcp
IOFWD_PIECE=4096 IOFWD_DIRECT=1 collective -n 3 -c smp
mp_done
