#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Arguments: seed (1: with a test of idle waiting), batches, most bytes.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/coll/gex_coll -- 1
mp_run tests/gex/coll/gex_coll -n "5 6 12" -c "smp tcp-smp" -- "$mp_seed" 5 200000
mp_run tests/gex/coll/gex_coll -n "3 7" -c "udp udp-smp" -- 2 6 300000
AMPHORA_TEST_SWAP=1 # reductions of words that travel in another order than they lie in memory
export AMPHORA_TEST_SWAP
mp_run tests/gex/coll/gex_coll -n 7 -c "tcp-smp udp" -- 3 6 300000
mp_done
