#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Requests that a call only starts, POSIX AIO's and libaio's, have records with their file, offset and length; forwarded ones, which Amphora
# carries out by calls that are recorded, have no second ones.  Operations of io_uring are not recorded, and summary says so.
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
    for number in $(seq 8); do mp_skip "case $number of asynchronous requests" "iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"; done
    mp_done
    exit
fi
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -o "$program" "$srcdir/tests/files/trace/fwd_record_async.c" -lrt || exit 99

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

recorded libaio
if [ $code = 77 ]; then
    mp_skip "libaio: file, offset and bytes of each request" "the kernel has no io_setup"
else
    is "libaio: file, offset and bytes of each request" "async_read:read:100:32768 async_write:write:0:65536 async_write:write:65536:2000" "$requests"
fi

rm -rf "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 -record "$mp_dir/r" "$program" /fwd/file aio >"$mp_dir/out" 2>&1
is "forwarded: each request once" 393216,8 "SELECT sum(bytes) || ',' || count(*) FROM calls WHERE class IN ('read', 'write') AND path = '/fwd/file'"

recorded ring
if [ $code = 77 ]; then
    mp_skip "io_uring: summary says that its operations are not recorded" "the kernel refuses io_uring"
else
    "$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
    grep -q '^1 rings of io_uring were made: their operations are not recorded' "$mp_dir/out"
    mp_report $? "io_uring: summary says that its operations are not recorded" "$mp_dir/out"
fi
recorded aio
"$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
! grep -q 'io_uring' "$mp_dir/out"
mp_report $? "io_uring: not without a ring" "$mp_dir/out"
mp_done
