#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-run -mount -record, and iofwd-mount with IOFWD_TRACE_DIR: the process that serves the mount records the calls that it forwards.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_run_or_skip "iofwd-run -mount -record"
run() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -mount "$@"
}
way=mount
. "$srcdir/tests/files/trace/record_ways_lib.sh"

"$trace" summary "$records" >"$mp_dir/out" 2>&1
grep -q 'calls on the mount that the kernel answers by itself, from what it remembers or because it refuses them, are not here' "$mp_dir/out"
mp_report $? "summary: what the kernel answers is not seen" "$mp_dir/out"

# ---- the end of the serving process ----

rm -rf "$records"
mkfifo "$mp_dir/in"
run -record "$records" "$mp_dir/ways" /fwd many 3000 wait <"$mp_dir/in" >"$mp_dir/said" 2>&1 &
background=$!
exec 9>"$mp_dir/in"
mp_until 30 grep -q waits "$mp_dir/said"
kill -9 "$(sql "SELECT pid FROM processes WHERE exe LIKE '%/iofwd-mount'")"
exec 9>&-
wait "$background"
is "SIGKILL of iofwd-mount: all calls are there" 3000 "$many"

# ---- a namespace for each folder ----

rm -rf "$mp_dir/first" "$records"
run -record "$mp_dir/first" busybox sh -c 'echo ready; read -r x' <"$mp_dir/in" >"$mp_dir/said" 2>&1 &
background=$!
exec 9>"$mp_dir/in"
mp_until 30 grep -q ready "$mp_dir/said"
recorded "$mp_dir/ways" /fwd many 10
exec 9>&-
wait "$background"
is "beside a run that records elsewhere" 10 "$many"

# ---- without iofwd-run ----

rm -rf "$records"
mkdir "$records"
(cd "$mp_dir" && IOFWD_TRACE_DIR=records && export IOFWD_TRACE_DIR && mount_on "$mp_dir/m") >"$mp_dir/said" 2>&1
"$mp_dir/ways" "$mp_dir/m" many 10 >>"$mp_dir/said" 2>&1
mount_off "$mp_dir/m"
is "iofwd-mount with IOFWD_TRACE_DIR" 10 "$many"
mp_done
