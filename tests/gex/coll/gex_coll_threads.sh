#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Arguments: seed, rounds.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/coll/gex_coll_threads -n "1 2 3 4" -- "$mp_seed"
mp_run tests/gex/coll/gex_coll_threads -n "7" -c "smp tcp-smp" -- 1 4
mp_done
