#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gex_job
mp_run tests/mp/gex_job -n "1 3" -c "smp tcp-smp" -o "-servers 2"
mp_done
