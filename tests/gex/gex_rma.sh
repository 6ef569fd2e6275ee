#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_rma
mp_run tests/gex/gex_rma -n "2 7" -c "udp udp-smp"
mp_run tests/gex/gex_rma_parsync -n 3 -c "smp tcp"
export AMPHORA_RMA=emulate
mp_run tests/gex/gex_rma -n 3 -c "smp tcp" -- 7
mp_done
