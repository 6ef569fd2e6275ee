#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Remote atomics; see gex_ad.c.
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/gex_ad
mp_done
