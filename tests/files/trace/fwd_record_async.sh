#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Requests that a call only starts, POSIX AIO's and libaio's, have records with their file, offset and length; forwarded ones, which Amphora
# carries out by calls that are recorded, have no second ones.  Requests of liburing are recorded, those to rings of a program's own system calls not,
# and summary says so.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
program=$mp_dir/async
file=$mp_dir/file
unset AMPHORA_JOB IOFWD_PREFIX
XDG_RUNTIME_DIR=$mp_dir/none # no servers
export XDG_RUNTIME_DIR
mkdir "$mp_dir/none" "$mp_dir/kept"

# sql QUERY: the answer's rows in one line, without the names of its columns
sql() {
    "$trace" sql "$mp_dir/r" "$1" -csv 2>>"$mp_dir/out" | tail -n +2 | tr -d '"\r' | tr '\n' ' '
}
# recorded WHAT
recorded() {
    rm -rf "$mp_dir/r" "$file"
    "$run" -record "$mp_dir/r" "$program" "$file" "$1" >"$mp_dir/out" 2>&1
    code=$?
    echo "exit code $code" >>"$mp_dir/out"
}
# is NAME WANTED QUERY
is() {
    got=$(sql "$3")
    { echo "$got, not $2" && "$trace" sql "$mp_dir/r" "SELECT name, class, path, offset, length, result, errno FROM calls LIMIT 60"; } >>"$mp_dir/out" 2>&1
    test "$got" = "$2 "
    mp_report $? "$1" "$mp_dir/out"
}

if [ ! -x "$trace" ]; then
    for number in $(seq 20); do mp_skip "case $number of asynchronous requests" "iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"; done
    mp_done
    exit
fi
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -pthread -o "$program" "$srcdir/tests/files/trace/fwd_record_async.c" -lrt || exit 99

requests="SELECT name || ':' || class || ':' || coalesce(offset, '-') || ':' || bytes FROM calls WHERE path = '$file' AND name LIKE 'async%' ORDER BY name, offset"
recorded aio
is "POSIX AIO: file, offset and bytes of each request" "async_read:read:0:32768 async_read:read:65536:32768 async_read:read:131072:32768 async_read:read:196608:32768\
 async_sync:sync:-:0 async_write:write:0:65536 async_write:write:65536:65536 async_write:write:131072:65536 async_write:write:196608:65536" "$requests"
is "POSIX AIO: what cannot be read has no bytes" 393216 "SELECT sum(bytes) FROM calls WHERE class IN ('read', 'write') AND (path IS NULL OR path = '$file')"
"$trace" files "$mp_dir/r" >>"$mp_dir/out"
grep -Eq " 4 +131072 +4 +262144 .* $file\$" "$mp_dir/out"
mp_report $? "POSIX AIO: iofwd-trace files counts reads, writes and bytes" "$mp_dir/out"
is "POSIX AIO: the calls that start the requests are there" 1,2,5 "SELECT sum(name LIKE 'lio_listio%') || ',' || sum(name LIKE 'aio_write%')
    || ',' || sum(name LIKE 'aio_read%') AS n FROM calls"

is "POSIX AIO: each request has an end, after its call" 9,0 "SELECT sum(r.returned AND r.ns > c.ns) || ',' || sum(r.failed) FROM calls r
    JOIN calls c ON c.id = (SELECT max(id) FROM calls d WHERE d.start_ns < r.start_ns AND d.name NOT LIKE 'async%') WHERE r.path = '$file' AND r.async"
recorded ends
is "POSIX AIO: errno, and bytes that were moved" "async_write:EBADF:0:10 async_read:0:100:500 async_read:0:1000:1000" "SELECT name || ':' || coalesce(errno_name(nullif(errno, 0)), 0)
    || ':' || bytes || ':' || length AS x FROM calls WHERE async ORDER BY start_ns"
is "POSIX AIO: awaited by another thread: its end, and the thread that has started it" 1,1 "SELECT (ns > 25000000) || ',' || (tid = pid) FROM calls
    WHERE async AND bytes = 1000"
for command in summary "export -format chrome" timeline; do
    "$trace" ${command%% *} "$mp_dir/r" $(echo "$command" | cut -s -d ' ' -f 2-) >"$mp_dir/out.$command" 2>&1
done
grep -Eq '^read, async +2 +0 +1100 ' "$mp_dir/out.summary" && grep -A5 '^Requests' "$mp_dir/out.summary" | grep -Eq '^async_read +2 +0 +0 +1100 '
mp_report $? "summary: requests, with their time in flight" "$mp_dir/out.summary"
test "$(grep -c '"ph":"b"' "$mp_dir/out.export -format chrome")" = 3 && test "$(grep -c '"ph":"e"' "$mp_dir/out.export -format chrome")" = 3 &&
    ! grep '"ph":"X"' "$mp_dir/out.export -format chrome" | grep async
mp_report $? "export -format chrome: requests have a beginning and an end" "$mp_dir/out.export -format chrome"
awk '/in_flight/ { for (i = 1; i <= NF; i++) if ($i == "in_flight") at = i; next } at && $at > 0.9 { n++ } END { exit n < 10 }' "$mp_dir/out.timeline"
mp_report $? "timeline: how many are in flight" "$mp_dir/out.timeline"
recorded open
if [ $code = 77 ]; then
    mp_skip "a request without an end" "the kernel has no io_setup"
    mp_skip "many requests: each with its end" "the kernel has no io_setup"
else
    is "a request without an end" 1,1 "SELECT sum(returned AND bytes = 100) || ',' || sum(NOT returned AND bytes = 0) FROM calls WHERE async"
    "$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
    grep -q '^1 requests were started whose ends the program has not looked for' "$mp_dir/out"
    mp_report $? "summary: a request without an end" "$mp_dir/out"
    recorded many
    is "many requests: each with its end" 20000,20000,1280000 "SELECT count(*) || ',' || sum(returned) || ',' || sum(bytes) FROM calls WHERE async"
    size=$(du -sb "$mp_dir/r" | cut -f 1)
    "$trace" pack "$mp_dir/r" >"$mp_dir/out" 2>&1
    is "many requests: compressed, $((size / 20000)) bytes each before" 20000,1280000 "SELECT sum(returned) || ',' || sum(bytes) FROM calls WHERE async"
fi

recorded libaio
if [ $code = 77 ]; then
    mp_skip "libaio: file, offset and bytes of each request" "the kernel has no io_setup"
else
    is "libaio: file, offset and bytes of each request" "async_read:read:100:32768 async_write:write:0:65536 async_write:write:65536:2000" "$requests"
fi

rm -rf "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 -record "$mp_dir/r" "$program" /fwd/file aio >"$mp_dir/out" 2>&1
is "forwarded: each request once" 393216,8 "SELECT sum(bytes) || ',' || count(*) FROM calls WHERE class IN ('read', 'write') AND path = '/fwd/file'"

if ! ${CC:-cc} -D_GNU_SOURCE -o "$mp_dir/ring" "$srcdir/tests/files/trace/fwd_record_ring.c" -luring 2>"$mp_dir/why"; then
    mp_skip "liburing: each request with its file, bytes and end" "no liburing-dev here"
    mp_skip "liburing: no sentence" "no liburing-dev here"
else
    rm -rf "$mp_dir/r" "$file"
    "$run" -record "$mp_dir/r" "$mp_dir/ring" "$file" >"$mp_dir/out" 2>&1
    code=$?
    if [ $code = 77 ]; then
        mp_skip "liburing: each request with its file, bytes and end" "the kernel refuses io_uring"
        mp_skip "liburing: no sentence" "the kernel refuses io_uring"
    else
        is "liburing: each request with its file, bytes and end" "async_close:1:0:0:1 async_open:1:0:0:1 async_read:1:0:2768:1 async_read:1:9:0:0 async_sync:1:0:0:1 async_write:8:0:32768:1" \
            "SELECT name || ':' || sum(returned AND ns > 0) || ':' || errno || ':' || sum(bytes) || ':' || coalesce(path = '$file', 0) AS x FROM calls WHERE async GROUP BY name, errno ORDER BY name, errno"
        "$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1 && ! grep -q 'io_uring were made\|whose ends' "$mp_dir/out"
        mp_report $? "liburing: no sentence" "$mp_dir/out"
    fi
fi

recorded ring
if [ $code = 77 ]; then
    mp_skip "io_uring: summary says that its operations are not recorded" "the kernel refuses io_uring"
else
    "$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
    grep -q "^1 rings of io_uring were made by a program's own system calls: what it submits to them is not recorded; use" "$mp_dir/out"
    mp_report $? "io_uring: summary says that its operations are not recorded" "$mp_dir/out"
fi
recorded aio
"$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
! grep -q 'io_uring' "$mp_dir/out"
mp_report $? "io_uring: not without a ring" "$mp_dir/out"
mp_done
