#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/am/gex_np
export AMPHORA_RMA=emulate
mp_run tests/gex/am/gex_np -n 3 -c "tcp tcp-smp"
mp_done
