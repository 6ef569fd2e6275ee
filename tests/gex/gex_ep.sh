#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_ep
mp_run tests/gex/gex_ep -n 3 -c "smp tcp" -- 1000
mp_run tests/gex/gex_ep -n "1 4" -- bind
AMPHORA_PROGRESS_THREAD=1
export AMPHORA_PROGRESS_THREAD
mp_run tests/gex/gex_ep_par -n "2 4" -c "smp tcp"
unset AMPHORA_PROGRESS_THREAD
mp_run tests/gex/gex_ep_everything -n 3
export AMPHORA_RMA=emulate
mp_run tests/gex/gex_ep -n 3
mp_run tests/gex/gex_ep_par -n 3 -c smp
mp_run tests/gex/gex_ep -n 3 -c smp -- bind
mp_done
