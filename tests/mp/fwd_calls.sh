#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of file call by programs of our own: results, errno and files are those of a local run.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "calls" "$builddir/tests/mp/fwd_calls"
fwd_both "streams" "$builddir/tests/mp/fwd_stdio"
fwd_both "processes" "$builddir/tests/mp/fwd_proc"
fwd_both "children by clone" "$builddir/tests/mp/fwd_proc" cloned
mp_done
