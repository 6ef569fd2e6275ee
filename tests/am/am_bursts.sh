#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/am/am_bursts -n 2 -c "smp tcp"
# only the library sends what the kernel keeps back
mp_run tests/am/am_bursts -n 2 -c tcp -- -keep
# the thread of udp stays while peers are connected
mp_run tests/am/am_bursts -n 2 -c udp -- -stays
mp_done
