#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/coll/gex_team_threads -n "1 2 3 4"
export AMPHORA_PROGRESS_THREAD=1
mp_run tests/gex/coll/gex_team_threads -n 3 -- thread
mp_run tests/gex/coll/gex_team_threads -n "1 3" -- defer
unset AMPHORA_PROGRESS_THREAD
export GASNET_RCV_THREAD=1
mp_run tests/gex/coll/gex_team_threads -n 2 -c smp -- thread
mp_done
