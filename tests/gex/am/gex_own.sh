#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/am/gex_own -n "1 2" -c smp -- smp
mp_run tests/gex/am/gex_own -n "1 2" -c "tcp udp"
mp_run tests/gex/am/gex_own_seq -n "1 2"
mp_done
