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
    test "$(fwd_counted "bytes written")" -eq 33
mp_report $? "a static program's files are forwarded, also what it writes after main" "$mp_dir/out"

# Its FILE objects become forwarded streams as those of dynamic programs do (fwd_streams.sh).
# shellcheck disable=SC2086
${CC:-cc} -static -D_GNU_SOURCE -o "$mp_dir/streams" "$srcdir/tests/files/stdio/fwd_streams.c" "@$builddir/iofwd/calls/iofwd-wrap.args" \
    $libs -lnettle -ldl -lpthread >"$mp_dir/out" 2>&1
mp_report $? "a static program of streams is linked" "$mp_dir/out"
for mode in out buffered lines in foreign reopened wide mixed messages aborted; do
    fwd_both "static streams and dup2: $mode" "$mp_dir/streams" $mode
done

# What a static program starts is forwarded by the preload library.  Where that is not installed, one sentence says so.
cat >"$mp_dir/starts.c" <<'X'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    FILE *f = fopen("/fwd/starts", "w");
    if (argc < 2 || !f || fputs("started\n", f) < 0 || fclose(f) != 0)
        return 9;
    if (argv[1][0] == 's')
        return system("cat /fwd/starts || cat /fwd/starts") != 0;
    execlp("cat", "cat", "/fwd/starts", (char *)0);
    return 8;
}
X
# shellcheck disable=SC2086
${CC:-cc} -static -o "$mp_dir/starts" "$mp_dir/starts.c" "@$builddir/iofwd/calls/iofwd-wrap.args" $libs -lnettle -ldl -lpthread \
    >"$mp_dir/out" 2>&1
mp_report $? "a static program that starts others is linked" "$mp_dir/out"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
    -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1
mp_report $? "standing servers start" "$mp_dir/out"
starts() {
    env -u LD_PRELOAD AMPHORA_JOB="$mp_dir/addresses" IOFWD_PREFIX=/fwd timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1
}
lost() {
    [ "$(grep -c "^amphora: .*the preload library is not at .*LD_PRELOAD" "$mp_dir/out")" = 1 ]
}
installed=$(grep -a -o -m 1 '/[ -~]*/libiofwd_preload\.so' "$mp_dir/starts" | head -n 1)
for way in exec system; do
    name="$way of a static program without the preload library is reported once"
    if [ -e "$installed" ]; then
        mp_skip "$name" "the library is installed: $installed"
        mp_skip "IOFWD_STRICT=1 refuses it: $way" "the library is installed: $installed"
    else
        ! starts "$mp_dir/starts" $way && lost && grep -q "No such file" "$mp_dir/out"
        mp_report $? "$name" "$mp_dir/out"
        ! starts env IOFWD_STRICT=1 "$mp_dir/starts" $way && lost && ! grep -q "No such file" "$mp_dir/out"
        mp_report $? "IOFWD_STRICT=1 refuses it: $way" "$mp_dir/out"
    fi
    starts env LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" "$mp_dir/starts" $way && [ "$(cat "$mp_dir/out")" = started ]
    mp_report $? "LD_PRELOAD names the library: $way" "$mp_dir/out"
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
