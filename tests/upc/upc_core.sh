#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Argument: seed.  Both forms of pointers-to-shared; with I/O servers beside.
. "${srcdir:-.}/tests/lib/lib.sh"
AMPHORA_UPC_HEAP=64M
export AMPHORA_UPC_HEAP
mp_run tests/upc/upc_core -n "1 2 7" -- "$mp_seed"
mp_run tests/upc/upc_core -n "3 7" -c "udp udp-smp" -- 2
mp_run tests/upc/upc_core_struct -n "1 3" -c "smp tcp-smp" -- 3
mp_run tests/upc/upc_core -n "3" -c "smp tcp" -o "-servers 2" -- 4
mp_done
