#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client that starts while its server is at work for longer than an answer usually takes gets its answer; one whose server is
# asleep for that time gets an error.  See slow_mkdir.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
export IOFWD_NEAR=0
if mp_sanitized asan tsan; then
    mp_skip "a server that is at work" "a sanitizer's library must be the first one"
    mp_skip "a server that is asleep" "a sanitizer's library must be the first one"
    mp_done
    exit
fi
${CC:-gcc} -std=gnu11 -shared -fPIC -O1 -o "$mp_dir/slow_mkdir.so" "$srcdir/tests/files/limits/slow_mkdir.c" || exit 1

# beside NAME: a client has the server make the directory, and another one starts meanwhile and asks for a file; prints its exit code and
# how long it took
beside() {
    mkdir "$mp_dir/$1"
    echo text >"$mp_dir/$1/file"
    LD_PRELOAD=$mp_dir/slow_mkdir.so "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/$1" -address-file "$mp_dir/$1.address" \
        -pid-file "$mp_dir/$1.pid" >"$mp_dir/$1.log" 2>&1 </dev/null || return
    timeout 100 "$builddir/iofwd-run" -servers "$mp_dir/$1.address" mkdir "/fwd/$1" >"$mp_dir/$1.log" 2>&1 </dev/null &
    first=$!
    mp_until 20 test -e "$mp_dir/$1/.$1" || { echo "the server has not begun"; return 1; }
    begun=$(mp_now_ms)
    timeout 90 "$builddir/iofwd-run" -servers "$mp_dir/$1.address" cat /fwd/file </dev/null 2>&1
    echo "exit code $?, $((($(mp_now_ms) - begun) / 1000)) s"
    watch=$(cat "$mp_dir/$1.pid")
    if [ "$1" = asleep ]; then
        kill $first
        kill -9 "$watch" "$(awk '$1 == "server" { print $3 }' "$mp_dir/$1.address")"
    else
        kill "$watch"
    fi
    wait $first
    timeout 20 tail -s 0.02 -f --pid="$watch" /dev/null
}

beside busy >"$mp_dir/busy.out" 2>&1 &
beside asleep >"$mp_dir/asleep.out" 2>&1
wait

grep -qx text "$mp_dir/busy.out" && [ "$(sed -n 's/^exit code 0, \([0-9]*\) s$/\1/p' "$mp_dir/busy.out")" -ge 10 ]
mp_report $? "a server that is at work" "$mp_dir/busy.out"
! grep -qx text "$mp_dir/asleep.out" && grep -q "Input/output error" "$mp_dir/asleep.out" && grep -q '^exit code 1, ' "$mp_dir/asleep.out"
mp_report $? "a server that is asleep" "$mp_dir/asleep.out"
mp_done
