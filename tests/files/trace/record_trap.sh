#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-run -trap -record: the supervisor records the calls that it forwards.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap -record"
way=trap
. "$srcdir/tests/files/trace/record_ways_lib.sh"

recorded "$mp_dir/ways" /fwd many 3000 parent
is "SIGKILL of the supervisor: all calls are there" 3000 "$many"

recorded "$mp_dir/ways" /fwd many 10 parent
for file in "$records/"*.trace; do
    echo "$(du -k "$file" | cut -f 1) KiB for $(sql "$many") calls"
done >"$mp_dir/out"
test "$(du -k "$records/"*.trace | sort -n | tail -n 1 | cut -f 1)" -le 16
mp_report $? "SIGKILL of the supervisor: few calls take few blocks" "$mp_dir/out"

is_numbered="SELECT count(*) > 0 AND min(fd) = max(fd) AND min(fd) > 2 FROM calls WHERE name = 'pwrite'"
recorded "$mp_dir/ways" /fwd many 10
is "a call has its descriptor" 1 "$is_numbered"

recorded "$mp_dir/ways" /fwd children 5
is "a close belongs to the process, with its descriptor" 5,5,1 "SELECT count(DISTINCT c.pid) || ',' || count(*) || ',' || min(c.fd = o.result)
    FROM calls c JOIN calls o ON c.pid = o.pid AND c.path = o.path WHERE c.name = 'close' AND o.name = 'open' AND c.pid <> (SELECT ppid FROM processes
    WHERE pid = c.pid)"
recorded busybox sh -c 'busybox cat </fwd/many >/dev/null'
is "a close at the end of a process is the supervisor's" 1 "SELECT count(*) > 0 FROM calls JOIN processes USING(process, pid) WHERE name = 'close' AND exe LIKE '%iofwd-trap'"

# shellcheck disable=SC2016
recorded busybox sh -c 'ulimit -f 256; exec "$1" /fwd many 4000' sh "$mp_dir/ways"
is "the program's limit of file sizes is not the supervisor's" 4000 "$many"
rm -rf "$records"
# shellcheck disable=SC2016
(ulimit -f 256 && run -record "$records" "$mp_dir/ways" /fwd many 4000) >"$mp_dir/said" 2>&1
echo "exit code $?" >>"$mp_dir/said"
grep -q 'exit code 0' "$mp_dir/said" && test "$(grep -c 'a file cannot grow' "$mp_dir/said")" = 1 && test "$(sql "$many")" -gt 500
mp_report $? "the supervisor's limit ends the records, with a sentence, not the program" "$mp_dir/said"

# the clock of a job, also in a file of version 3
IOFWD_PRIVATE_CLOCK=77 AMPHORA_RANK=5
export IOFWD_PRIVATE_CLOCK AMPHORA_RANK
recorded busybox env AMPHORA_RANK=5 "$mp_dir/ways" /fwd many 10
unset IOFWD_PRIVATE_CLOCK AMPHORA_RANK
printf 'AMPHCLK1 1 1000 1000\n77 1000 0 321\n' >"$records/1.clocks"
clock="SELECT rank || ',' || clock_error_ns FROM processes WHERE exe LIKE '%/ways'"
is "rank and clock" 5,321 "$clock"
for file in "$records/"*.trace; do
    printf '\3' | dd of="$file" bs=1 seek=12 conv=notrunc 2>/dev/null
done
is "rank and clock, version 3" 5,321 "$clock"

# by itself, where the preload library does not reach
rm -rf "$records"
timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -v -record "$records" "$mp_dir/ways" /fwd many 10 >"$mp_dir/said" 2>&1
is "without an option: the way that suits the program" 10 "$many"
mp_done
