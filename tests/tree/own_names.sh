#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client may define any name that no manual mentions; see own_names.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
source=$srcdir/tests/tree/own_names.c
CC=${CC:-cc}

# built NAME FLAGS...: compiles the program, with one TAP line
built() {
    program=$mp_dir/$1
    shift
    # shellcheck disable=SC2086
    $CC "-I$srcdir/include" -o "$program" "$source" "$@" >"$mp_dir/out" 2>&1
    status=$?
    mp_report $status "a client with names of its own links: ${program##*/}" "$mp_dir/out"
    return $status
}

# forwarded NAME: runs the program of that name on a forwarded file
forwarded() {
    mkdir -p "$mp_dir/kept.$1"
    fwd_time=30
    fwd_servers "$mp_dir/kept.$1" "$mp_dir/$1" /fwd >"$mp_dir/out"
    status=$?
    printf "the client's own names\n" >"$mp_dir/expected"
    [ $status -eq 0 ] && cmp "$mp_dir/expected" "$mp_dir/kept.$1/own_names" >>"$mp_dir/out" 2>&1
    mp_report $? "its files are forwarded: $1" "$mp_dir/out"
}

if [ -e "$builddir/.libs/libiofwd.so" ]; then
    built plain -rdynamic && forwarded plain
    built with_libiofwd -rdynamic -DWITH_IOFWD "-L$builddir/.libs" -liofwd -lamphora "-Wl,-rpath,$builddir/.libs" &&
        forwarded with_libiofwd
else
    mp_skip "a client with names of its own: plain, with libiofwd" "built without shared libraries"
fi

if [ ! -e "$builddir/.libs/libamphora.a" ]; then
    mp_skip "a client with names of its own: static" "built without static libraries"
elif echo 'int main(void) { return 0; }' >"$mp_dir/empty.c" && ! $CC -static -o "$mp_dir/empty" "$mp_dir/empty.c" -lnettle >"$mp_dir/out" 2>&1; then
    mp_skip "a client with names of its own: static" "no static Nettle or C library"
elif built static -static -DWITH_JOB "$builddir/.libs/libamphora.a" -lnettle -ldl -lpthread -lrt; then
    for processes in 1 2; do
        timeout -k 5 40 env "$AMPHORA_RUN" -n $processes -conduit smp -timeout 30 "$mp_dir/static" >"$mp_dir/out" 2>&1 </dev/null
        mp_report $? "its messages arrive: static, $processes processes" "$mp_dir/out"
    done
fi
mp_done
