#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The clocks of hosts whose processes another launcher than amphora-run has started: each client of standing servers measures its host's
# against the first server's.  The second host is this machine with a monotonic clock that is ahead by 5000 s (a time name space) and a real
# clock by which its records say an hour more.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
names="each host's clock is measured, by one of its processes
its times are the servers' host's, with their bound
the order of calls of both hosts is that of the run, though their real times differ by an hour
processes that make no forwarded call have their host's clock, too
without the measurements the order is another one
without a server nothing is measured"
if [ ! -x "$trace" ] || ! unshare -u -T --monotonic 5000 --fork true 2>/dev/null || ! python3 -c '' 2>/dev/null; then
    echo "$names" >"$mp_dir/names"
    while read -r name; do mp_skip "$name" "iofwd-trace is not built, time name spaces are not allowed here, or no python3"; done <"$mp_dir/names"
    mp_done
    exit
fi

# Both programs of the second host are in one time name space: a new one counts as another host, but for its number, which is free again
# as a rule.
mkdir "$mp_dir/kept" "$mp_dir/r"
mkfifo "$mp_dir/end"
unshare -u -T --monotonic 5000 --fork sh -c 'hostname far-host && echo $$ >"$1/far" && exec cat "$1/end"' sh "$mp_dir" >/dev/null &
exec 9>"$mp_dir/end" # it ends with this shell
far=$(cat "$mp_dir/far")
"$builddir/iofwd-server" -daemon -servers 2 -conduit tcp -interface 127.0.0.1 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/address" >"$mp_dir/out" 2>&1 || exit 99
export IOFWD_TRACE_PACK=0
# here, ahead FILE: a recorded program on one of the hosts reads FILE
here() {
    timeout 30 "$run" -record "$mp_dir/r" -servers "$mp_dir/address" sh -c 'cat "$1"; cat /etc/passwd >/dev/null' sh "$1" >>"$mp_dir/out" 2>&1
}
ahead() {
    timeout 30 nsenter -t "$far" -u -T "$run" -record "$mp_dir/r" -servers "$mp_dir/address" sh -c 'cat "$1"; cat /etc/passwd >/dev/null' sh "$1" \
        >>"$mp_dir/out" 2>&1
}
sql() {
    "$trace" sql "$mp_dir/r" "$1" -csv 2>>"$mp_dir/out" | tail -n +2 | tr -d '"\r' | tr '\n' ' '
}
for i in 1 2 3 4; do echo "$i" >"$mp_dir/kept/$i"; done
here /fwd/1 && ahead /fwd/2 && here /fwd/3 && ahead /fwd/4
mp_status=$?
cat "$mp_dir/r/"*.clocks >>"$mp_dir/out"
test $mp_status = 0 && cat "$mp_dir/r/"*.clocks | awk '$1 != "AMPHCLK1" { n++; if ($3 == 0 && $4 == 0) own++; if ($3 < -4999e9 && $3 > -5001e9 && $4 > 0 && $4 < 1e9) shifted++ }
    END { exit !(n == 2 && own == 1 && shifted == 1) }'
mp_report $? "each host's clock is measured, by one of its processes" "$mp_dir/out"

test "$(sql "SELECT count(*) FROM processes WHERE host = 'far-host' AND clock_error_ns BETWEEN 1 AND 1000000000 AND start_ns BETWEEN 0 AND 90000000000")" = \
    "$(sql "SELECT count(*) FROM processes WHERE host = 'far-host'")" && test "$(sql "SELECT min(clock_error_ns) || ' ' || max(clock_error_ns) FROM processes WHERE host <> 'far-host'")" = "0 0 "
mp_report $? "its times are the servers' host's, with their bound" "$mp_dir/out"

for file in "$mp_dir/r/"*.trace; do
    python3 - "$file" <<'END' || exit 99
import struct, sys
with open(sys.argv[1], 'r+b') as f:
    head = f.read(4096)
    monotonic, real = struct.unpack_from('=QQ', head, 24)
    if head[144:153] == b'far-host\0':
        f.seek(32)
        f.write(struct.pack('=Q', real + 3600 * 10**9))
END
done
order="SELECT substr(path, 6) FROM calls WHERE name LIKE 'open%' AND path GLOB '/fwd/*' ORDER BY start_ns"
test "$(sql "$order")" = "1 2 3 4 "
mp_report $? "the order of calls of both hosts is that of the run, though their real times differ by an hour" "$mp_dir/out"

test "$(sql "SELECT count(*) FROM processes WHERE exe LIKE '%/cat' AND clock_error_ns IS NOT NULL")" = "8 "
mp_report $? "processes that make no forwarded call have their host's clock, too" "$mp_dir/out"

mkdir "$mp_dir/aside"
mv "$mp_dir/r/"*.clocks "$mp_dir/aside"
test "$(sql "$order")" = "1 3 2 4 "
mp_report $? "without the measurements the order is another one" "$mp_dir/out"

rm -rf "$mp_dir/r"
timeout 30 "$run" -record "$mp_dir/r" cat /etc/passwd >"$mp_dir/out" 2>&1
timeout 30 unshare -T --monotonic 5000 --fork "$run" -record "$mp_dir/r" cat /etc/passwd >>"$mp_dir/out" 2>&1
test "$(find "$mp_dir/r" -name '*.clocks' | wc -l)" = 0 && test "$(sql "SELECT count(*) FROM processes WHERE clock_error_ns IS NULL")" = "2 "
mp_report $? "without a server nothing is measured" "$mp_dir/out"
"$builddir/iofwd-ctl" stop -servers "$mp_dir/address" >/dev/null 2>&1
mp_done
