#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Arguments: seed, batches.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gasnet1/gasnet1_coll -- 1
mp_run tests/gasnet1/gasnet1_coll -n "5 12" -c "smp tcp-smp" -- "$mp_seed" 6
mp_run tests/gasnet1/gasnet1_coll -n 3 -c "udp udp-smp" -- 2 6
# More members through one centre than a barrier has rounds.
mp_run tests/gasnet1/gasnet1_coll -n 36 -c "tcp udp" -- 3 2
mp_done
