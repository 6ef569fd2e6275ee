#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gasnet1/gasnet1_more
mp_run tests/gasnet1/gasnet1_more -c "udp udp-smp" -n "2 3"
mp_run tests/gasnet1/gasnet1_more_par -n 3
mp_done
