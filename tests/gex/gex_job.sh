#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_job
mp_run tests/gex/gex_job -n "1 3" -c "smp tcp-smp" -o "-servers 2"
export GASNET_MAX_SEGSIZE=1M
mp_run tests/gex/gex_job -n 2 -c smp
export GASNET_MAX_SEGSIZE=2M/H
mp_run tests/gex/gex_job -n 2 -c smp
mp_done
