#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of file call by programs of our own: results, errno and files are those of a local run.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

fwd_both "calls" "$builddir/tests/mp/fwd_calls"
fwd_both "streams" "$builddir/tests/mp/fwd_stdio"
fwd_both "processes" "$builddir/tests/mp/fwd_proc"
fwd_both "children by clone" "$builddir/tests/mp/fwd_proc" cloned

# What the servers have open when programs have ended is what they had before.  The first round opens what stays: directories of exports,
# agents.
cat >"$mp_dir/rounds" <<'END'
fds_of_servers() {
    for pid in $(pgrep -P "$PPID" iofwd-server); do
        find "/proc/$pid/fd" -mindepth 1
    done | wc -l
}
for round in first second; do
    before=$(fds_of_servers) # of the second one at last
    for program in "$builddir/tests/mp/fwd_calls" "$builddir/tests/mp/fwd_proc"; do
        find /fwd "$1" -mindepth 1 -delete
        "$program" /fwd "$1" >/dev/null 2>&1
    done
done
tries=0
while after=$(fds_of_servers) && [ "$after" -gt "$before" ] && [ $tries -lt 100 ]; do
    sleep 0.05 # the end of a process reaches them a moment later
    tries=$((tries + 1))
done
echo "$before before, $after after"
[ "$before" -gt 10 ] && [ "$after" -le "$before" ]
END
mkdir "$mp_dir/kept" "$mp_dir/scratch"
(cd / && timeout -k 5 100 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 90 sh "$mp_dir/rounds" "$mp_dir/scratch") \
    >"$mp_dir/out" 2>&1 </dev/null
mp_report $? "servers keep no descriptors of programs that have ended" "$mp_dir/out"
mp_done
