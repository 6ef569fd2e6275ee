#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The small examples run and say what they should.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run examples/hello_am -n "1 4" -c "smp tcp-smp"
mp_run examples/ring -n "1 3" -c "smp tcp"
mp_run examples/put_get -n "2 3" -c "smp tcp"
mp_done
