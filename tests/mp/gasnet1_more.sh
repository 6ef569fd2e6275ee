#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gasnet1_more
mp_done
