#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Record locks between processes, asynchronous calls, calls by number, walks, written maps, wide reading, libraries: as on a local run.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "more calls" "$builddir/tests/mp/fwd_more"
mp_done
