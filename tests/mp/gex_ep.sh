#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gex_ep
mp_run tests/mp/gex_ep -n 3 -c "smp tcp" -- 1000
mp_run tests/mp/gex_ep_everything -n 3
export AMPHORA_RMA=emulate
mp_run tests/mp/gex_ep -n 3 -c "tcp tcp-smp"
mp_done
