#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/am/gex_am
mp_run tests/gex/am/gex_am -n "1 3" -c "udp udp-smp"
export AMPHORA_TEST_SWAP=1
mp_run tests/gex/am/gex_am -n 3 -c "smp tcp-smp"
mp_done
