#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/coll/gex_barrier
mp_run tests/gex/coll/gex_barrier -n "2 7" -c "udp udp-smp"
mp_done
