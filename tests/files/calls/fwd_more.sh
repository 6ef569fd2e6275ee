#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Record locks between processes, asynchronous calls, calls by number, walks, written maps, wide reading, libraries: as on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

fwd_both "more calls" "$builddir/tests/files/calls/fwd_more"
mp_done
