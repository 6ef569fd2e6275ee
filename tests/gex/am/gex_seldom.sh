#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/am/gex_seldom -n "2 3" -c "smp tcp udp"
mp_done
