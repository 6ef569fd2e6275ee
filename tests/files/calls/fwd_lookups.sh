#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names that clients look up themselves, below directories that a server has passed to them: the same answers as locally, whatever is on
# the way and whoever changes it.  See fwd_lookups.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/calls/fwd_lookups

# with NAME LEAST SECTION SETTING...: compares, and looks whether names were looked up by the client (LEAST times at least; 0: none)
with() {
    with_name=$1 with_least=$2 with_section=$3
    shift 3
    fwd_both_counted "$with_name" "$with_least" "calls by passed descriptors" env "$@" "$program" "$with_section"
}

with "names of all kinds" 1000 names A=1
with "names of all kinds, nothing held" 1000 names IOFWD_CACHE_AGE=0
with "names of all kinds, switched off" 0 names IOFWD_PASSTHROUGH=0
with "changes by others" 500 changes A=1
with "sizes" 400 sizes A=1
with "who gives the attributes" 30 attributes A=1
with "directories that are closed" 500 directories A=1
with "descriptors that are closed by the kernel's own call" 100 taken A=1
with "threads" 3000 threads A=1
with "child processes" 150 processes A=1

# ---- what leads out of the export ----

# Links that lead up and out mean this host's tree, as on a mount, and never that of the server.  When a program that moves no versions
# exchanges a directory for such a link, that is noticed.
mkdir -p "$mp_dir/kept/dir/sub" "$mp_dir/kept/way" "$mp_dir/out.of"
echo text | tee "$mp_dir/kept/dir/sub/file" "$mp_dir/kept/way/file" >"$mp_dir/out.of/file"
ln -s ../../out.of "$mp_dir/kept/dir/up"
ln -s ../out.of "$mp_dir/kept/link"
# shellcheck disable=SC2016 # for the shell inside
AMPHORA_STATS=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 bash -c '
    for i in {1..20}; do
        test -e /fwd/dir/sub/file && test -e /fwd/way/file || echo "not there"
        test -e /fwd/dir/up/file && echo "led out"
    done
    "$1" foreign /fwd - &
    (unset LD_PRELOAD && mv "$2/kept/way" "$2/kept/away" && mv -T "$2/kept/link" "$2/kept/way")
    wait $!' bash "$program" "$mp_dir" >"$mp_dir/out" 2>&1 </dev/null
grep -qx "then ENOENT" "$mp_dir/out" && ! grep -q "led out\|not there" "$mp_dir/out"
mp_report $? "links that lead out mean this host's tree" "$mp_dir/out"
mp_done
