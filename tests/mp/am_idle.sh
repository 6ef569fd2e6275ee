#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/am_idle -n 2 -c "smp tcp"
mp_done
