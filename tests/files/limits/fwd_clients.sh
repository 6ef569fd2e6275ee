#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many clients of one server at a time, and more than IOFWD_CLIENTS allows.
#   FWD_CLIENTS=5000 scripts/t fwd_clients     as many; `ulimit -Hn` must allow three descriptors for each
. "${srcdir:-.}/tests/files/fwd_lib.sh"
many=${FWD_CLIENTS:-200}
prog=$builddir/tests/files/limits/fwd_clients
mkdir "$mp_dir/kept"

# job CLIENTS COMMAND...: a job of one process and one server that takes that many clients; what it says is in $mp_dir/said
job() {
    allowed=$1
    shift
    rm -f "$mp_dir/kept/lines"
    IOFWD_CLIENTS=$allowed timeout -k 5 310 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 300 "$@" >"$mp_dir/said" 2>&1 </dev/null
}

lines() {
    sort -u "$mp_dir/kept/lines" | wc -l
}

all_write() {
    [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -gt $((many * 3)) ] || { echo "ulimit -Hn is $(ulimit -Hn)"; return 77; }
    ulimit -n "$(ulimit -Hn)"
    code=0
    job "$many" "$prog" "$many" /fwd/lines || code=$?
    tail -n 20 "$mp_dir/said"
    echo "exit code $code, $(lines) lines"
    [ $code = 0 ] && grep -qFx "$many wrote, 0 refused, 0 failed" "$mp_dir/said" && [ "$(lines)" = "$many" ]
}

# One child gets the place of the compute process, which calls nothing itself: nine find room.  The server has seen the end of the first program's children at the
# latest when a second program is taken.
too_many() {
    job 8 sh -c '"$1" 20 /fwd/lines; for k in $(seq 100); do "$1" 4 /fwd/lines 2>&1 | grep "^4 wrote" && exit; done; exit 1' sh "$prog" ||
        { cat "$mp_dir/said"; return 1; }
    cat "$mp_dir/said"
    grep -qx '9 wrote, 11 refused, 0 failed' "$mp_dir/said" && grep -q IOFWD_CLIENTS "$mp_dir/said" &&
        ! grep -q 'no connection' "$mp_dir/said"
}

# check NAME FUNCTION
check() {
    mp_wanted "$1" || return 0
    "$2" >"$mp_dir/out" 2>&1
    mp_report $? "$1" "$mp_dir/out"
}

check "$many clients of one server" all_write
check "more clients than IOFWD_CLIENTS" too_many
mp_done
