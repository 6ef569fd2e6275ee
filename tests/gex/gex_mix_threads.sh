#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads that mix both APIs at random, with data checks.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_mix_threads -n "1 3" -c "smp tcp tcp-smp" -- 1 60
mp_run tests/gex/gex_mix_threads -n "2" -c "smp tcp" -- $$ 60
mp_done
