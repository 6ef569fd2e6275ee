#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# libiofwd and libiofwd_preload of different builds: the interposer compares version, size and names of the interface before it calls
# anything through it, prints one sentence that says what differs, and forwarded calls fail with EIO.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK
mkdir "$mp_dir/lib"
cp "$(realpath "$builddir/.libs/libiofwd_preload.so")" "$mp_dir/lib/libiofwd_preload.so"

# refused NAME WORDS: the libiofwd in $mp_dir/lib is refused in a message that has these words
refused() {
    IOFWD_PREFIX=/fwd=/none LC_ALL=C LD_PRELOAD="$mp_dir/lib/libiofwd_preload.so" timeout 20 cat /fwd/a /fwd/b >"$mp_dir/out" 2>&1
    test "$(grep -c '^amphora: ' "$mp_dir/out")" = 1 && grep -q "^amphora: .*$2.*; forwarded file calls fail with EIO" "$mp_dir/out" &&
        test "$(grep -c 'Input/output error' "$mp_dir/out")" = 2
    mp_report $? "$1" "$mp_dir/out"
}

# other SOURCE: makes a libiofwd of it
other() {
    echo "$1" >"$mp_dir/other.c"
    "${CC:-cc}" -shared -fPIC -Wl,-soname,libiofwd.so.0 -o "$mp_dir/lib/libiofwd.so.0" "$mp_dir/other.c"
}

# The version that this build needs, and the size and the names in its own libiofwd, come from messages about libraries without them.
needed() {
    sed -n "s/.*needs $1\([0-9]*\).*/\1/p" "$mp_dir/out"
}

if ! command -v "${CC:-cc}" >/dev/null; then
    mp_skip "libraries of different builds" "there is no C compiler"
    mp_done
    exit
fi

other 'int unrelated;'
refused "a libiofwd without the interface is refused" "lacks amph_fwd_interface"
other 'const struct { unsigned version, size; const char *names; } amph_fwd_interface = { 999, 24, "" };'
refused "another version is refused" "version 999"
version=$(needed "version ")
other "const struct { unsigned version, size; const char *names; } amph_fwd_interface = { $version, 24, \"\" };"
refused "another size is refused" "24 bytes"
size=$(needed "")
other "const struct { unsigned version, size; const char *names; void *fn[1000]; } amph_fwd_interface = { $version, $size, \"a b \" };"
refused "other functions are refused" "other functions"

cp "$(realpath "$builddir/.libs/libiofwd.so.0")" "$mp_dir/lib/libiofwd.so.0"
IOFWD_PREFIX=/fwd=/none LD_LIBRARY_PATH="$builddir/.libs" LD_PRELOAD="$mp_dir/lib/libiofwd_preload.so" timeout 20 cat /fwd/a >"$mp_dir/out" 2>&1
grep -q 'belongs to no job' "$mp_dir/out"
mp_report $? "the libiofwd of the same build is accepted" "$mp_dir/out"
mp_done
