#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One clock for a recorded job: two hosts, reached by a stand-in for ssh that runs the line on this machine, one of them with a monotonic
# clock that is ahead by 5000 s (a time namespace).  The merged records put answers behind their requests, also where real times disagree.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
program=$mp_dir/messages
unset AMPHORA_JOB IOFWD_PREFIX
names="the launcher measures each host's clock
a host's times are the job's, with their bound
answers follow their requests
answers follow their requests, though the hosts' real times differ by an hour
without the measured clocks they would not
a program that a process starts has its host's clock
a damaged file of clocks is left out, with a sentence"
# sql QUERY: the answer's rows, without the names of its columns
sql() {
    "$trace" sql "$mp_dir/r" "$1" -csv 2>>"$mp_dir/out" | tail -n +2 | tr -d '"\r'
}

libs=$(cd "$builddir" && pwd)/.libs
if [ ! -x "$trace" ] || [ ! -e "$libs/libiofwd_messages.so" ] || ! unshare -T --monotonic 5000 --fork true 2>/dev/null; then
    echo "$names" >"$mp_dir/names"
    while read -r name; do mp_skip "$name" "iofwd-trace is not built, or time namespaces are not allowed here"; done <"$mp_dir/names"
    mp_done
    exit
fi

cat >"$mp_dir/ssh" <<'EOF'
#!/bin/sh
while [ $# -gt 2 ]; do
    case $1 in -o | -F) shift 2 ;; *) shift ;; esac
done
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
cd /
case $1 in
ahead) exec unshare -T --monotonic 5000 --fork sh -c "$2" ;;
esac
exec sh -c "$2"
EOF
chmod +x "$mp_dir/ssh"
printf 'near:1\nahead:1\n' >"$mp_dir/hosts"
${CC:-cc} -O1 -DGASNET_PAR "-I$srcdir/include" -o "$program" "$srcdir/tests/files/trace/fwd_messages.c" "-L$libs" -lamphora "-Wl,-rpath,$libs" || exit 99
printf '#!/bin/sh\n"$@"\nexec cat /dev/null\n' >"$mp_dir/both"
chmod +x "$mp_dir/both"

IOFWD_RECORD=am timeout -k 5 60 "$AMPHORA_RUN" -ssh "$mp_dir/ssh -q" -hosts "$mp_dir/hosts" -n 2 -conduit tcp -timeout 50 -record "$mp_dir/r" \
    "$mp_dir/both" "$program" >"$mp_dir/out" 2>&1 </dev/null
mp_status=$?
cat "$mp_dir/r/"*.clocks >>"$mp_dir/out"
# the second host's offset is -5000 s but for a second
test $mp_status = 0 && awk 'NR == 1 { ok = $1 == "AMPHCLK1" } NR > 1 { n[$1]++; off[$1] = $3; if ($4 <= 0 || $4 > 1e9) ok = 0 }
    END { for (c in n) { hosts++; if (off[c] < -4999e9 && off[c] > -5001e9) shifted++ } exit !(ok && hosts == 2 && shifted == 1) }' "$mp_dir/r/"*.clocks
mp_report $? "the launcher measures each host's clock" "$mp_dir/out"

test "$(sql "SELECT count(*) FROM processes WHERE rank IS NOT NULL AND clock_error_ns BETWEEN 1 AND 1000000000 AND start_ns BETWEEN 0 AND 60000000000")" = \
    "$(sql "SELECT count(*) FROM processes")"
mp_report $? "a host's times are the job's, with their bound" "$mp_dir/out"

# The answers of one process to the other, and the requests that they answer, by their order.
ordered="SELECT count(*), min(a.start_ns + e.error > r.start_ns) FROM
    (SELECT start_ns, rank, peer, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS n FROM calls WHERE name = 'am_reply_short') a
    JOIN (SELECT start_ns, rank, peer, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS n FROM calls
        WHERE name IN ('am_request_medium', 'am_commit')) r ON a.peer = r.rank AND a.rank = r.peer AND a.n = r.n,
    (SELECT coalesce(sum(error), 0) AS error FROM (SELECT rank, max(clock_error_ns) AS error FROM processes GROUP BY rank)) e"
test "$(sql "$ordered")" = 22,1
mp_report $? "answers follow their requests" "$mp_dir/out"

# The real time in the headers of the second host's files: an hour more.
for file in "$mp_dir/r/"*.trace; do
    python3 - "$file" <<'EOF' || mp_python=no
import struct, sys
with open(sys.argv[1], 'r+b') as f:
    head = f.read(4096)
    monotonic, real = struct.unpack_from('=QQ', head, 24)
    rank, = struct.unpack_from('=i', head, 68)
    if rank == 1:
        f.seek(32)
        f.write(struct.pack('=Q', real + 3600 * 10**9))
EOF
done
if [ "${mp_python:-yes}" = yes ]; then
    test "$(sql "$ordered")" = 22,1
    mp_report $? "answers follow their requests, though the hosts' real times differ by an hour" "$mp_dir/out"
    mkdir "$mp_dir/aside"
    mv "$mp_dir/r/"*.clocks "$mp_dir/aside"
    test "$(sql "$ordered")" = 22,0
    mp_report $? "without the measured clocks they would not" "$mp_dir/out"
    mv "$mp_dir/aside/"* "$mp_dir/r"
else
    mp_skip "answers follow their requests, though the hosts' real times differ by an hour" "no python3 here"
    mp_skip "without the measured clocks they would not" "no python3 here"
fi

test "$(sql "SELECT count(*) FROM processes WHERE exe LIKE '%/cat' AND clock_error_ns > 0")" = 2
mp_report $? "a program that a process starts has its host's clock" "$mp_dir/out"

for file in "$mp_dir/r/"*.clocks; do
    echo "1 2 three 4" >>"$file"
done
"$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1
test $? = 0 && grep -q 'clocks: it is damaged: a line is no measurement; it is left out' "$mp_dir/out"
mp_report $? "a damaged file of clocks is left out, with a sentence" "$mp_dir/out"
mp_done
