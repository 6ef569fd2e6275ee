#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signal handlers that fork in the midst of calls on streams, on sets of epoll, and of changes that a process near its servers makes by
# itself (IOFWD_NEAR=1); and forks beside asynchronous I/O; see fwd_fork_handlers.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/process/fwd_fork_handlers
export fwd_time=60

# run NAME SECTION: every call succeeds, on this host (but for those that hang in the C library) and forwarded
run() {
    mp_wanted "$1" || return 0
    mp_remove "$mp_dir/local" "$mp_dir/kept"
    mkdir "$mp_dir/local" "$mp_dir/kept"
    { [ "$2" = asynchronous ] || timeout -s KILL 60 "$program" "$2" "$mp_dir/local" "$mp_dir" >"$mp_dir/out" 2>&1; } &&
        FWD_STANDING=1 && fwd_servers "$mp_dir/kept" "$program" "$2" /fwd "$mp_dir" >"$mp_dir/out"
    run_code=$?
    cat "$mp_dir/stats" >>"$mp_dir/out"
    [ $run_code = 0 ] && grep -q ' forks$' "$mp_dir/out"
    mp_report $? "$1 ($(sed -n 's/ forks$//p' "$mp_dir/out") forks)" "$mp_dir/out"
}

for near in 0 1; do
    export IOFWD_NEAR=$near
    for section in streams sets changes asynchronous; do
        run "$section, IOFWD_NEAR=$near" "$section"
    done
done
mp_done
