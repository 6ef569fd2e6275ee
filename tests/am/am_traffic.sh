#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/am/am_traffic -n "1 2 3 4 7"
AMPHORA_TEST_SWAP=1 mp_run tests/am/am_traffic -n 2
AMPHORA_RMA=emulate mp_run tests/am/am_traffic -n 3 -c tcp
AMPHORA_WAIT=block mp_run tests/am/am_traffic -n 2
mp_run tests/am/am_traffic -n "1 2 7" -c "udp udp-smp"
AMPHORA_TEST_SWAP=1 mp_run tests/am/am_traffic -n 2 -c udp
AMPHORA_WAIT=block mp_run tests/am/am_traffic -n 2 -c udp
mp_done
