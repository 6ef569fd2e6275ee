#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/coll/gex_team
mp_run tests/gex/coll/gex_team -n "4" -c "smp tcp" -- 42 10 1000
mp_done
