#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Nodes that leave at once take nothing away from those that are still attaching; the last node's error is the job's.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gasnet1/gasnet1_leave -c "smp smp tcp" -n 5 -- attach
mp_run tests/gasnet1/gasnet1_leave -c "tcp-smp udp" -n 4 -- attach
timeout 30 "$AMPHORA_RUN" -n 4 -timeout 20 "$builddir/tests/gasnet1/gasnet1_leave" last >"$mp_dir/out" 2>&1 </dev/null
leave_code=$?
[ $leave_code -eq 1 ] && grep -q 'node 4\|rank 4\|process 4' "$mp_dir/out"
mp_report $? "the last one's error is the job's exit code ($leave_code)" "$mp_dir/out"
mp_done
