#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gasnet1/gasnet1_all
mp_run tests/gasnet1/gasnet1_all -c "udp udp-smp" -n "2 3"
mp_run tests/gasnet1/gasnet1_all_par -n 3
mp_done
