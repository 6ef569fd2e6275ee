#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/am/am_seldom -n 2 -c "smp tcp udp"
mp_done
