#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A static program's plain calls are forwarded where it is linked with libiofwd_wrap and the flags that come with it.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
libs="$builddir/.libs/libiofwd_wrap.a $builddir/.libs/libiofwd.a $builddir/.libs/libamphora.a"
for lib in $libs; do
    if [ ! -r "$lib" ]; then
        echo "1..0 # SKIP built without static libraries"
        exit 0
    fi
done
# shellcheck disable=SC2086
if ! ${CC:-cc} -static -o "$mp_dir/program" "$srcdir/tests/files/build/fwd_static.c" "@$builddir/iofwd/calls/iofwd-wrap.args" $libs \
    -lnettle -ldl -lpthread \
    >"$mp_dir/out" 2>&1; then
    if grep -q 'cannot find -l' "$mp_dir/out"; then
        echo "1..0 # SKIP $(grep -m 1 'cannot find -l' "$mp_dir/out")"
        exit 0
    fi
    mp_report 1 "a static program is linked" "$mp_dir/out"
    mp_done
    exit
fi
mkdir -p "$mp_dir/kept"
fwd_servers "$mp_dir/kept" "$mp_dir/program" /fwd >"$mp_dir/out"
r=$?
printf 'from a static program\nlast words\n' >"$mp_dir/expected"
cat "$mp_dir/stats" >>"$mp_dir/out"
test $r -eq 0 && grep -q '^22 bytes$' "$mp_dir/out" && cmp "$mp_dir/expected" "$mp_dir/kept/static" >>"$mp_dir/out" 2>&1 &&
    test "$(fwd_counted written)" -eq 33
mp_report $? "a static program's files are forwarded, also what it writes after main" "$mp_dir/out"

# Its FILE objects become forwarded streams as those of dynamic programs do (fwd_streams.sh).
# shellcheck disable=SC2086
${CC:-cc} -static -D_GNU_SOURCE -o "$mp_dir/streams" "$srcdir/tests/files/stdio/fwd_streams.c" "@$builddir/iofwd/calls/iofwd-wrap.args" \
    $libs -lnettle -ldl -lpthread >"$mp_dir/out" 2>&1
mp_report $? "a static program of streams is linked" "$mp_dir/out"
for mode in out buffered lines in foreign reopened wide mixed messages aborted; do
    fwd_both "static streams and dup2: $mode" "$mp_dir/streams" $mode
done

# A program whose own objects make no file call, and programs whose calls are in the libraries of their language.
printf 'int main(void) { return 0; }\n' >"$mp_dir/nothing.c"
# shellcheck disable=SC2086
${CC:-cc} -static -o "$mp_dir/nothing" "$mp_dir/nothing.c" "@$builddir/iofwd/calls/iofwd-wrap.args" $libs -lnettle -ldl -lpthread \
    >"$mp_dir/out" 2>&1 && "$mp_dir/nothing" >>"$mp_dir/out" 2>&1
mp_report $? "a static program without a file call of its own is linked" "$mp_dir/out"

# language NAME COMPILER SOURCE
language() {
    if ! command -v "$2" >/dev/null; then
        mp_skip "a static program in $1 is linked" "there is no $2 here"
        fwd_skip "static $1" "there is no $2 here"
        return
    fi
    # shellcheck disable=SC2086
    "$2" -static -o "$mp_dir/$1" "$srcdir/tests/files/build/$3" "@$builddir/iofwd/calls/iofwd-wrap.args" $libs -lnettle -ldl -lpthread \
        >"$mp_dir/out" 2>&1
    language_linked=$?
    mp_report $language_linked "a static program in $1 is linked" "$mp_dir/out"
    test $language_linked -eq 0 && fwd_both "static $1" "$mp_dir/$1"
}
language C++ g++ fwd_static.cc
language Fortran gfortran fwd_static.f90
mp_done
