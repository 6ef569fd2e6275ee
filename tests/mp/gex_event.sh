#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gex_event
mp_done
