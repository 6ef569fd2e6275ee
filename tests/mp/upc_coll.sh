#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Arguments: seed, rounds.
. "${srcdir:-.}/tests/mp/lib.sh"
AMPHORA_UPC_HEAP=64M
export AMPHORA_UPC_HEAP
mp_run tests/mp/upc_coll -n "1 2 3 7" -c "smp tcp-smp" -- "$(date +%s)"
mp_run tests/mp/upc_coll -n "2 5" -c "tcp udp" -- 2 2
mp_run tests/mp/upc_coll_struct -n "1 3" -c "smp tcp-smp" -- 3 3
mp_done
