#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/api/gex_names -c "smp tcp" -n "1 2 3"
mp_run tests/gex/api/gex_names -c "tcp-smp udp" -n 3
timeout 30 "$AMPHORA_RUN" -n 1 -timeout 20 "$builddir/tests/gex/api/gex_names" somebody >"$mp_dir/out" 2>&1 </dev/null
[ $? -ne 0 ] && grep -q 'the end of somebody' "$mp_dir/out"
mp_report $? "a fatal error says its sentence" "$mp_dir/out"

# Variables that change nothing that a program could see here: they are read, and the program runs.
export GASNET_FS_SYNC=1 GASNET_BACKTRACE_MT=0 GASNET_TSC_RATE=measure GASNET_EXITTIMEOUT_MIN=3s
"$builddir/amphora-info" -c >"$mp_dir/out"
[ "$(grep -cE '^GASNET_(FS_SYNC=1|BACKTRACE_MT=0|TSC_RATE=measure|EXITTIMEOUT_MIN=3s)  \(environment' "$mp_dir/out")" = 4 ]
mp_report $? "variables that are read" "$mp_dir/out"
mp_run tests/gex/api/gex_names -c smp -n 2
mp_done
