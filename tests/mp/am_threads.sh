#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/am_threads -n "1 2 4"
mp_done
