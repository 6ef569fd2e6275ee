#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/am/gex_np_threads -n "1 2 4"
mp_run tests/gex/am/gex_np_threads -n 3 -- 42 3 400
mp_done
