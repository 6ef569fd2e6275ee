#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gex_barrier
mp_run tests/mp/gex_barrier -n "2 7" -c "udp udp-smp"
mp_done
