#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
export AMPHORA_UDP_TIMEOUT=1s
mp_run tests/am/am_away -n 3 -c udp
mp_done
