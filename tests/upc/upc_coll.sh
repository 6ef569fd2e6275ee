#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Arguments of the program: seed, rounds.  UPC_ROUNDS: how many (scripts/check-nightly has more).
. "${srcdir:-.}/tests/lib/lib.sh"
AMPHORA_UPC_HEAP=64M
export AMPHORA_UPC_HEAP
mp_run tests/upc/upc_coll -n "1 2 3 7" -c "smp tcp-smp" -- "$mp_seed" "${UPC_ROUNDS:-2}"
mp_run tests/upc/upc_coll -n "2 5" -c "tcp udp" -- 2 "${UPC_ROUNDS:-2}"
mp_run tests/upc/upc_coll_struct -n "1 3" -c "smp tcp-smp" -- 3 "${UPC_ROUNDS:-2}"
mp_done
