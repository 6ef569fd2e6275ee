#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Remote atomics; see gex_ad.c.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_ad
mp_done
