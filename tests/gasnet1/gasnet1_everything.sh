#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gasnet1/gasnet1_everything -c smp
mp_run tests/gasnet1/gasnet1_everything -c "tcp tcp-smp" -n "2 3 4"
mp_run tests/gasnet1/gasnet1_everything -c udp -n 2
mp_run tests/gasnet1/gasnet1_everything_par -n 3
# Neighbours by messages, too.
AMPHORA_RMA=emulate
export AMPHORA_RMA
mp_run tests/gasnet1/gasnet1_everything -c smp -n "2 4"
mp_done
